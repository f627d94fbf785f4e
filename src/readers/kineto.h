/* What torch's profiler (Kineto) says with trace events, as a trace (model/trace.h).
 *
 * Fed event by event; what it is told becomes one rank of the builder's trace. */
#ifndef LW_READERS_KINETO_H
#define LW_READERS_KINETO_H

#include "model/builder.h"
#include "readers/trace_events.h"

struct lw_kineto;

/* NAME is the file's, which may say the rank. WANT is enum lw_want. About BYTES will be read;
 * 0: that is not known. What cannot be taken is counted in LOSSES (borrowed). */
struct lw_kineto *lw_kineto_new(struct lw_builder *out, const char *name, unsigned want,
                                uint64_t bytes, struct lw_trace_losses *losses,
                                struct lw_error *err);
void lw_kineto_free(struct lw_kineto *kineto); /* NULL is fine */

bool lw_kineto_add_event(struct lw_kineto *kineto, const struct lw_trace_event *event,
                         struct lw_error *err) LW_MUST_CHECK;
bool lw_kineto_add_member(struct lw_kineto *kineto, const struct lw_member *member,
                          struct lw_error *err) LW_MUST_CHECK;
/* All was told, of EVENT_COUNT events. */
bool lw_kineto_finish(struct lw_kineto *kineto, uint64_t event_count,
                      struct lw_error *err) LW_MUST_CHECK;

/* Put the rank that "distributedInfo" says in *RANK; else it is as it was. */
void lw_kineto_rank_of_job(const struct lw_value *info, int64_t *rank);

/* The rank that a file's name says ("rank-3.json.gz", "worker3.17.pt.trace.json",
 * "trace_3.json"); -1: none. */
int64_t lw_kineto_rank_of_name(const char *name);

#endif
