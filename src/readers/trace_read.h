/* A stream of trace events into a profile: as spans and calls, as a trace, or both. */
#ifndef LW_READERS_TRACE_READ_H
#define LW_READERS_TRACE_READ_H

#include "base/stream.h"
#include "model/builder.h"

/* Add what STREAM holds to OUT, as one more rank if WANT (enum lw_want) asks for a trace;
 * its times are since its own base (lw_trace_ranks_align() is for the caller). NAME is the
 * file's. What cannot be read is told as a loss; it fails if nothing can. */
bool lw_trace_read(struct lw_stream *stream, const char *name, unsigned want,
                   struct lw_builder *out, struct lw_error *err) LW_MUST_CHECK;

/* As lw_trace_read(), of one trace among several: one that cannot be read at all is told
 * as a loss, and why is in *WHY. *READ grows by one if it was read. Fails only without
 * memory. */
bool lw_trace_read_one(struct lw_stream *stream, const char *name, unsigned want,
                       struct lw_builder *out, uint64_t *read, struct lw_error *why,
                       struct lw_error *err) LW_MUST_CHECK;

#endif
