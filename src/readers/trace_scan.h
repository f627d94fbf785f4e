/* The texts and values of JSON, found in a stream's window: what trace_events.c is made of.
 *
 * A scan takes where something begins and returns where it ends. NULL: it does not end; then
 * `wants_more` says whether that is for the window's end. */
#ifndef LW_READERS_TRACE_SCAN_H
#define LW_READERS_TRACE_SCAN_H

#include "readers/trace_events.h"

/* What a byte is outside of a text. */
enum {
    LW_BYTE_PLAIN,
    LW_BYTE_SPACE,
    LW_BYTE_STOP, /* comma, colon */
    LW_BYTE_QUOTE,
    LW_BYTE_OPEN,
    LW_BYTE_CLOSE,
    LW_BYTE_ZERO,
};
extern const unsigned char lw_trace_bytes[256];

static inline unsigned lw_trace_byte(const char *p)
{
    return lw_trace_bytes[(unsigned char)*p];
}

static inline const char *lw_trace_skip_space(const char *p)
{
    if ((unsigned char)*p > ' ')
        return p;
    while (lw_trace_byte(p) == LW_BYTE_SPACE)
        p++;
    return p;
}

static inline const char *lw_trace_window_end(const struct lw_trace_events *in)
{
    return in->stream->window + in->stream->len;
}

/* From a quote on: the key, its colon, and to where its value begins. */
const char *lw_trace_scan_key(struct lw_trace_events *in, const char *p,
                              const char **key, size_t *len);
const char *lw_trace_scan_value(struct lw_trace_events *in, const char *p,
                                struct lw_value *value);
/* From a bracket on: an event, which goes to `event`. NULL with ERR filled: no memory. */
const char *lw_trace_scan_event(struct lw_trace_events *in, const char *p,
                                struct lw_error *err);

#endif
