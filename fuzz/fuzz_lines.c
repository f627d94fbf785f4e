/* Any bytes as the line table of a code object: the first ones say the format, the first
 * line and where the instruction is. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct question {
    uint32_t format;
    int32_t first_line;
    int32_t byte_offset;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct question asked;
    struct lw_position p;
    bool found;

    if (len < sizeof(asked))
        return 0;
    memcpy(&asked, bytes, sizeof(asked));
    bytes += sizeof(asked);
    len -= sizeof(asked);
    found = lw_lines_find(asked.format % 3, bytes, len, asked.first_line,
                          asked.byte_offset, &p);
    if (found != (p.line >= 0) || p.line < -1 || p.end_line < -1 || p.column < -1 ||
        p.end_column < -1)
        abort();
    return 0;
}
