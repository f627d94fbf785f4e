/* Giving a region to the recorder: one message on its socket. */
#ifndef LW_AGENT_HANDOVER_H
#define LW_AGENT_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/layout.h"

/* What LAPWING_AGENT says. Text is borrowed from the variable's copy. */
struct lw_agent_config {
    char socket[108]; /* path; empty: no recorder */
    bool calls;
    bool c_calls;
    bool timeline;
    bool sample; /* the recorder samples: give it our memory to read */
    bool steps;  /* of a training with torch */
    uint64_t min_span_ns;
    enum lw_agent_ops ops; /* of torch's */
};

/* False: the text is not ours or is broken; CONFIG is then zeroed. */
bool lw_agent_config_parse(struct lw_agent_config *config, const char *text);

/* Send a hello of KIND with TEXT and those of FDS (LW_HELLO_FDS of them, agent/layout.h;
 * NULL: none) that are not -1: a region must be there if anything is. Never waits: false,
 * with errno set, where nobody listens, or too many have come before us. Only system
 * calls: safe after fork.
 *
 * Nothing is sent unless the listener, and the folder its socket lies in, are this user's or
 * root's. Where that is not so, or nobody listens, the recorder of SOCKET_PATH has ended: a
 * recorder never comes back, but anybody may make a folder of that name again, so neither
 * this process nor any that is forked around it tries the address again. */
bool lw_handover_send(const char *socket_path, enum lw_hello_kind kind, const int *fds,
                      const char *text, size_t text_len, uint32_t argument_count);

#endif
