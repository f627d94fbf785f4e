/* Any bytes as a file of the format pprof. */

#include "one_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    return fuzz_reader(&lw_reader_pprof, bytes, len);
}
