/* A torch profiler's trace as Perfetto's protocol buffers. */
#ifndef LW_WRITERS_PERFETTO_TRACE_H
#define LW_WRITERS_PERFETTO_TRACE_H

#include "base/buf.h"
#include "model/profile.h"

/* Append PROFILE's trace, which is there, as a whole document. */
bool lw_perfetto_write_trace(const struct lw_profile *profile, struct lw_buf *out,
                             struct lw_error *err) LW_MUST_CHECK;

#endif
