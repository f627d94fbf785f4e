/* Any bytes as a datagram to the daemon that torch asks. */

#include <stdint.h>

#include "recorder/kineto_daemon.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lw_kineto_message message;

    /* What is believed of it must be in it: 40 bytes of head, then 16 at least. */
    if (lw_kineto_message_parse(&message, bytes, len))
        lw_assert(len >= 56 && message.pid == 0 && message.address_len == 0);
    return 0;
}
