/* The arrows of a recording, by the span that they leave or come to: from an op to the
 * backward op that came of it (model/op_links.h). */
#ifndef LW_WRITERS_OP_FLOWS_H
#define LW_WRITERS_OP_FLOWS_H

#include "base/buf.h"
#include "model/op_links.h"

struct lw_op_flow_end {
    uint32_t span; /* index */
    uint32_t id;   /* not 0; both ends of an arrow have it, and no other */
    bool is_start;
};

struct lw_op_flows {
    struct lw_op_links links;    /* that of arrow N is at N - 1 */
    struct lw_op_flow_end *ends; /* owned; by span */
    size_t count;
};

/* Release in any case. */
bool lw_op_flows_init(struct lw_op_flows *flows, const struct lw_profile *profile,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_op_flows_release(struct lw_op_flows *flows); /* zeroed is fine */

/* The *COUNT ends at SPAN; NULL: there are none. */
const struct lw_op_flow_end *lw_op_flows_of(const struct lw_op_flows *flows,
                                            uint32_t span, size_t *count);

/* Append the line that asked for the op whose arrow END is of, or nothing where it is not
 * known: "/home/me/model.py:12(Net.forward)". */
void lw_op_flows_add_line(const struct lw_op_flows *flows,
                          const struct lw_profile *profile,
                          const struct lw_op_flow_end *end, struct lw_buf *out);

#endif
