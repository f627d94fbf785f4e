/* Trace event JSON, which chrome://tracing and Perfetto's viewer open and which VizTracer,
 * torch, Bazel, clang's -ftime-trace, Node.js and many others write.
 *
 *     { "traceEvents": [                                      or the list alone
 *         {"ph": "X", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3, "name": "step"},
 *         {"ph": "B", "pid": 1, "tid": 2, "ts": 20, "name": "load"},
 *         {"ph": "E", "pid": 1, "tid": 2, "ts": 27.125},
 *         {"ph": "i", "pid": 1, "tid": 2, "ts": 30, "name": "checkpoint"},
 *         {"ph": "C", "pid": 1, "ts": 30, "name": "memory", "args": {"used": 7}},
 *         {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "main"}}
 *     ] }
 *
 * trace_events.c finds the events, trace_spans.c and kineto.c say what they mean. A list
 * that stops after an event, as a program leaves it that was killed, is whole; the format
 * says so. */

#include <string.h>

#include "model/trace_ranks.h"
#include "readers/reader.h"
#include "readers/trace_read.h"

static bool read_chrome(const struct lw_source *source, unsigned want,
                        struct lw_builder *out, struct lw_error *err)
{
    struct lw_stream bytes = { .has_fd = false };
    struct lw_stream *stream = source->stream ? source->stream : &bytes;
    bool done;

    if (!source->stream &&
        !lw_stream_open_bytes(&bytes, source->view.bytes, source->view.len, 0, err))
        return false;
    done = lw_trace_read(stream, source->name, want, out, err) &&
           (!(want & LW_WANT_TRACE) || lw_trace_ranks_align(out, err));
    lw_stream_close(&bytes);
    return done;
}

static bool has(const struct lw_source *source, const char *text)
{
    return memmem(source->head, source->head_len, text, strlen(text)) != NULL;
}

/* Kineto's list comes behind what it knows of the machine, which may be long. */
static bool sniff_chrome(const struct lw_source *source)
{
    size_t at = 0;

    if (source->head_len >= 3 && memcmp(source->head, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < source->head_len && memchr(" \t\r\n", source->head[at], 4))
        at++;
    if (at == source->head_len)
        return false;
    if (source->head[at] == '{')
        return has(source, "\"traceEvents\"") || (has(source, "\"schemaVersion\"") &&
                                                  has(source, "\"deviceProperties\""));
    return source->head[at] == '[' && has(source, "\"ph\"");
}

const struct lw_reader lw_reader_chrome = {
    .name = "chrome",
    .summary = "trace event JSON (chrome://tracing, Perfetto, VizTracer, torch)",
    .suffixes = ".json .trace",
    .streams = true,
    .sniff = sniff_chrome,
    .read = read_chrome,
};
