/* The chunks of a thread's data stack, in which its frames lie: which to read, and how much
 * of each. The newest is in use up to the thread's top, the others are full. */
#ifndef LW_SAMPLER_CHUNKS_H
#define LW_SAMPLER_CHUNKS_H

#include "sampler/snapshot.h"

/* Are the chunks in SNAPSHOT those that the thread's WORDS speak of, as far as they are
 * used? */
bool lw_chunks_hold(const struct lw_snapshot *snapshot,
                    const struct lw_py_layout *layout,
                    const struct lw_thread_words *words) LW_MUST_CHECK;
/* Have the chunks read that are there now; none, if they make no sense. */
void lw_chunks_plan(struct lw_snapshot *snapshot, const struct lw_py_layout *layout,
                    struct lw_memory *memory, const struct lw_thread_words *words);
/* Read less of the newest, if much less of it is used by now. */
void lw_chunks_shrink(struct lw_snapshot *snapshot,
                      const struct lw_thread_words *words);

#endif
