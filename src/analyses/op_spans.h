/* Ops that were recorded live, added up: what each kind took itself and in all.
 *
 * A recording has an op as a span, written when it ended: a thread's ops come in the order
 * of their ends, children before what they are in. So one pass is enough, with those that
 * have ended and that nothing later has been found to hold:
 *
 *     aten::linear  [......................................]
 *     aten::t         [..]                                      ended 1st
 *     aten::addmm            [.......................]          ended 2nd
 *     what lies after linear's start when it ends is in it: t, addmm
 *
 * and ten million ops need no more memory than their spans. As in analyses/op_tree.h, an
 * op that is the only child of one of its own name is merged into it, and what the
 * profiler does itself is left out. */
#ifndef LW_ANALYSES_OP_SPANS_H
#define LW_ANALYSES_OP_SPANS_H

#include "model/profile.h"

#define LW_OP_SPANS_COUNTER "ops recorded" /* 1: from here on; 0: no more */

/* Which group the op that SPAN is belongs to besides its name; rows of different groups
 * are apart. */
typedef uint32_t lw_op_group(const void *owner, const struct lw_span *span);

struct lw_op_span_row {
    lw_frame_id frame; /* kind LW_FRAME_OP or LW_FRAME_MARK */
    uint32_t group;
    uint64_t calls;
    uint64_t total_ns; /* an op inside one of its own name counts in both */
    int64_t self_ns;   /* below zero: what is in it overlaps */
    uint64_t longest_ns;
};

struct lw_op_spans {
    struct lw_op_span_row *rows; /* owned; in the order in which each was first met */
    size_t count, capacity;
    uint64_t op_count; /* of all rows that are ops */
    int64_t self_ns;   /* of all rows */
};

/* Those of PROFILE's spans that are ops or ranges, of the threads that have a flag in
 * THREADS (NULL: all), each in the group that GROUP says of OWNER (NULL: in one). Release
 * in any case. */
bool lw_op_spans_init(struct lw_op_spans *ops, const struct lw_profile *profile,
                      const bool *threads, lw_op_group *group, const void *owner,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_op_spans_release(struct lw_op_spans *ops); /* zeroed is fine */

#endif
