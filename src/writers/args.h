/* The arguments of an event, as they lay in the file of another tool, on their way into
 * ours: usually JSON, and then left as they are. Profilers also write NaN, N/A, paths with
 * bare backslashes and quotes inside of quotes, which no viewer would open. */
#ifndef LW_WRITERS_ARGS_H
#define LW_WRITERS_ARGS_H

#include "base/buf.h"

/* The LEN bytes at TEXT as a JSON object in UTF-8: they themselves, or what was made of
 * them in SCRATCH, whose failure is to be checked. The length is put in *JSON_LEN. */
const char *lw_args_json(const char *text, size_t len, struct lw_buf *scratch,
                         size_t *json_len);

#endif
