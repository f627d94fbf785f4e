#include "readers/trace_read.h"

#include "lap/reader.h" /* enum lw_want */
#include "readers/kineto.h"
#include "readers/kineto_args.h"
#include "readers/trace_spans.h"

struct reading {
    struct lw_trace_events in;
    struct lw_kineto *kineto;     /* NULL: no trace is wanted */
    struct lw_trace_spans *spans; /* NULL: nothing but a trace is wanted */
    struct lw_trace_losses losses;
    struct lw_trace_losses same; /* as the one beside it counts them */
};

static bool open_consumers(struct reading *r, const char *name, unsigned want,
                           struct lw_builder *out, struct lw_error *err)
{
    const unsigned of_trace = LW_WANT_TRACE | LW_WANT_ARGS;
    /* Ops of a trace, or else of a recording. */
    const unsigned of_either = LW_WANT_TRACE | LW_WANT_OPS;

    if (want & LW_WANT_TRACE &&
        !(r->kineto = lw_kineto_new(out, name, want, lw_stream_expected(r->in.stream),
                                    &r->losses, err)))
        return false;
    if (want & LW_WANT_TRACE_ALONE || (want & of_either) == of_either ||
        (!(want & ~of_trace) && want))
        return true;
    r->spans = lw_trace_spans_new(out, want, lw_kineto_rank_of_name(name),
                                  r->kineto ? &r->same : &r->losses, err);
    return r->spans != NULL;
}

static bool feed(struct reading *r, struct lw_error *err)
{
    for (;;) {
        enum lw_trace_item item;

        if (!lw_trace_events_next(&r->in, &item, err))
            return false;
        if (item == LW_TRACE_END)
            return true;
        if (item == LW_TRACE_MEMBER) {
            if (r->kineto && !lw_kineto_add_member(r->kineto, &r->in.member, err))
                return false;
            continue;
        }
        if ((r->kineto && !lw_kineto_add_event(r->kineto, &r->in.event, err)) ||
            (r->spans && !lw_trace_spans_add(r->spans, &r->in.event, err)))
            return false;
    }
}

/* A file of which nothing is left is not read. */
static bool check_rest(const struct reading *r, struct lw_error *err)
{
    const struct lw_trace_events *in = &r->in;
    uint64_t lost = in->broken_count + r->losses.timeless;

    if (in->event_count > lost + in->cut_count || in->event_count == 0)
        return true;
    if (in->stream->damage.code != LW_OK)
        return lw_fail(err, in->stream->damage.code, "%s", in->stream->damage.text);
    if (lost == 0)
        return lw_fail(err, LW_ERR_FORMAT, "at byte %llu: the text ends too early",
                       (unsigned long long)(in->stream->before + in->stream->len));
    return lw_fail(err, LW_ERR_FORMAT,
                   "no event can be read (%llu broken JSON, %llu without a time or "
                   "before time 0)",
                   (unsigned long long)in->broken_count,
                   (unsigned long long)r->losses.timeless);
}

static bool add_losses(const struct reading *r, struct lw_builder *out,
                       struct lw_error *err)
{
    const struct lw_trace_events *in = &r->in;
    const struct lw_error *damage = &in->stream->damage;
    const struct {
        const char *cause, *unit;
        uint64_t count;
    } losses[] = {
        { "begun and not ended; taken to end with the last", "ends of spans",
          r->losses.unclosed },
        { "ended but not begun", "spans", r->losses.unopened },
        { "asynchronous, objects and the like are not read", "events",
          r->losses.others },
        { "without a time, or before time 0", "events", r->losses.timeless },
        { "below zero or beyond reason; taken as none", "durations",
          r->losses.endless },
        { "broken JSON", "events", in->broken_count },
        { "quotes inside a text, taken as part of it", "events", in->mended_count },
        { damage->code != LW_OK ? damage->text : "the file stops before its end",
          "files cut short", in->is_cut || damage->code != LW_OK },
        { "behind the end of the trace", "texts", in->has_rest },
    };

    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
        if (losses[i].count && !lw_builder_loss(out, losses[i].cause, losses[i].unit,
                                                LW_NONE, losses[i].count, err))
            return false;
    return true;
}

bool lw_trace_read(struct lw_stream *stream, const char *name, unsigned want,
                   struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .kineto = NULL };
    bool done;

    lw_trace_events_init(&r.in, stream);
    r.in.code_of = lw_kineto_arg_code;
    done = open_consumers(&r, name, want, out, err) && feed(&r, err) &&
           check_rest(&r, err) &&
           (!r.kineto || lw_kineto_finish(r.kineto, r.in.event_count, err)) &&
           (!r.spans || lw_trace_spans_finish(r.spans, err)) &&
           add_losses(&r, out, err);
    lw_trace_events_release(&r.in);
    lw_kineto_free(r.kineto);
    lw_trace_spans_free(r.spans);
    return done;
}

bool lw_trace_read_one(struct lw_stream *stream, const char *name, unsigned want,
                       struct lw_builder *out, uint64_t *read, struct lw_error *why,
                       struct lw_error *err)
{
    struct lw_trace *trace = lw_builder_profile(out)->trace;
    size_t tracks = trace ? trace->track_count : 0;
    size_t ranks = trace ? trace->rank_count : 0, gpus = trace ? trace->gpu_count : 0;

    if (lw_trace_read(stream, name, want, out, why)) {
        *read += 1;
        return true;
    }
    if (why->code == LW_ERR_NOMEM)
        return lw_fail(err, why->code, "%s", why->text);
    lw_error_prefix(why, "%s", name);
    trace = lw_builder_profile(out)->trace;
    if (trace && trace->track_count == tracks) {
        trace->rank_count = ranks;
        trace->gpu_count = gpus;
    }
    return lw_builder_loss(out, why->text, "files", LW_NONE, 1, err);
}
