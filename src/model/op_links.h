/* Which op of a forward pass each node of a backward pass came of, in a recording.
 *
 * torch gives the node the sequence number that the thread of the forward op stood at. Ops
 * that make no node leave that number to the next one, and what an op calls may have it
 * too:
 *
 *     aten::linear 7 [.................................]      7 is TBackward0's,
 *     aten::t      7    [..]                                  so t made it; and
 *     aten::addmm  8          [.....................]         8 is AddmmBackward0's
 *
 * Of those with a node's number the one that began last made it, since by making it the
 * number was used up. (torch's own tables take the first: pytorch 2.13,
 * EventList._set_backward_stacktraces.) */
#ifndef LW_MODEL_OP_LINKS_H
#define LW_MODEL_OP_LINKS_H

#include "model/profile.h"

struct lw_op_link {
    uint32_t forward, backward; /* spans */
    lw_frame_id function;       /* whose line asked for the forward op; 0: not known */
    uint32_t line;              /* 0: not known */
};

struct lw_op_links {
    struct lw_op_link *list; /* owned; by `backward`, which comes once */
    size_t count;
    uint64_t lone_count; /* nodes whose forward op is not in the recording */
    uint64_t lone_ns;
};

/* Of the spans and origins of PROFILE. Release in any case. */
bool lw_op_links_init(struct lw_op_links *links, const struct lw_profile *profile,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_op_links_release(struct lw_op_links *links); /* zeroed is fine */

#endif
