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

#endif
