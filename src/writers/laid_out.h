/* Threads of which only sums are known, drawn as if they were a timeline.
 *
 * A call tree says how long each path took, not when. To be seen in a trace viewer it
 * is laid out: each node as long as its total time, its children in it one behind the
 * other from its start, its own time at the end. All threads begin at 0 of such a track,
 * and whoever writes one says in its name that it is not in the order of time. */
#ifndef LW_WRITERS_LAID_OUT_H
#define LW_WRITERS_LAID_OUT_H

#include "model/calltree.h"

#define LW_LAID_OUT_TITLE "call tree (sums, not in order of time)"

struct lw_laid_out {
    struct lw_calltree tree;
    uint64_t *starts_ns; /* owned: by node, from 0 */
};

/* The tree of THREAD alone. Release in any case. */
bool lw_laid_out_init(struct lw_laid_out *laid, const struct lw_profile *profile,
                      uint32_t thread, struct lw_error *err) LW_MUST_CHECK;
void lw_laid_out_release(struct lw_laid_out *laid); /* zeroed is fine */

/* Is there anything in PROFILE that a trace can show? If not, LW_ERR_UNSUPPORTED. */
bool lw_trace_has_any(const struct lw_profile *profile, struct lw_error *err)
    LW_MUST_CHECK;

#endif
