#include "analyses/trace_scope.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

int64_t lw_trace_rank_number(const struct lw_trace *trace, uint32_t rank)
{
    return trace->ranks[rank].rank >= 0 ? trace->ranks[rank].rank : (int64_t)rank;
}

/* More ranks than this are not listed in a sentence. */
#define LISTED_RANKS 16

static bool fail_rank(const struct lw_trace *trace, const char *asked,
                      struct lw_error *err)
{
    struct lw_buf text;
    bool done;

    lw_buf_init(&text, 0);
    for (uint32_t i = 0; i < trace->rank_count && i < LISTED_RANKS; i++)
        lw_buf_addf(&text, "%s%" PRId64, i ? ", " : "", lw_trace_rank_number(trace, i));
    if (trace->rank_count > LISTED_RANKS)
        lw_buf_addf(&text, " ... (%zu of them)", trace->rank_count);
    done = lw_buf_check(&text, err);
    if (done)
        lw_fail(err, LW_ERR_USAGE, "there is no rank %s, only: %s", asked,
                text.bytes ? text.bytes : "none");
    lw_buf_release(&text);
    return false;
}

bool lw_trace_scope_init(struct lw_trace_scope *scope, const struct lw_profile *profile,
                         const struct lw_query *query, const char *view,
                         struct lw_error *err)
{
    const struct lw_trace *trace = lw_analysis_trace(profile, view, err);
    int64_t number = -1;

    memset(scope, 0, sizeof(*scope));
    if (!trace)
        return false;
    scope->profile = profile;
    scope->trace = trace;
    scope->ranks = lw_zalloc(trace->rank_count + 1, sizeof(*scope->ranks), err);
    if (!scope->ranks)
        return false;
    if (query->rank && !lw_text_i64(query->rank, strlen(query->rank), &number))
        return fail_rank(trace, query->rank, err);
    for (uint32_t i = 0; i < trace->rank_count; i++) {
        scope->ranks[i] = !query->rank || lw_trace_rank_number(trace, i) == number;
        scope->rank_count += scope->ranks[i];
    }
    return scope->rank_count > 0 || fail_rank(trace, query->rank, err);
}

void lw_trace_scope_release(struct lw_trace_scope *scope)
{
    lw_free(scope->ranks);
    memset(scope, 0, sizeof(*scope));
}

bool lw_trace_is_step(const char *name)
{
    return lw_text_starts(name, "ProfilerStep#");
}

/* On the host: a device may have seen them too. */
static size_t count_steps(const struct lw_trace_scope *scope)
{
    size_t count = 0;

    for (size_t i = 0; i < scope->trace->event_count; i++) {
        const struct lw_event *event = &scope->trace->events[i];

        count += (event->kind == LW_EVENT_RANGE || event->kind == LW_EVENT_OP) &&
                 lw_trace_scope_has(scope, event) &&
                 lw_trace_is_step(lw_profile_text(scope->profile, event->name));
    }
    return count;
}

static void add_rank(const struct lw_trace_scope *scope, struct lw_buf *out)
{
    const struct lw_trace *trace = scope->trace;
    const char *file;
    uint32_t rank = 0;

    while (!scope->ranks[rank])
        rank++;
    file = lw_text_basename(lw_profile_text(scope->profile, trace->ranks[rank].file));
    lw_text_add_printable(out, file, strlen(file));
    if (trace->ranks[rank].rank < 0 && trace->rank_count == 1)
        return;
    lw_buf_addf(out, "%srank %" PRId64, *file ? ": " : "",
                lw_trace_rank_number(trace, rank));
    if (trace->ranks[rank].world_size > 0)
        lw_buf_addf(out, " of %" PRId64, trace->ranks[rank].world_size);
}

void lw_trace_scope_add_name(const struct lw_trace_scope *scope, struct lw_buf *out)
{
    if (scope->rank_count == 1)
        add_rank(scope, out);
    else
        lw_buf_addf(out, "%zu ranks", scope->rank_count);
}

void lw_trace_scope_add_text(const struct lw_trace_scope *scope, struct lw_buf *out)
{
    size_t steps = count_steps(scope), ranks = scope->rank_count;

    lw_trace_scope_add_name(scope, out);
    if (out->len > 0)
        lw_buf_add_text(out, ", ");
    if (steps == 0)
        lw_buf_add_text(out, "no steps marked");
    else if (steps % ranks == 0)
        lw_buf_addf(out, "%zu step%s%s", steps / ranks, steps == ranks ? "" : "s",
                    ranks > 1 ? " each" : "");
    else
        lw_buf_addf(out, "%zu steps in all", steps);
}

bool lw_trace_scope_wants_device(const struct lw_trace_scope *scope, const char *view,
                                 struct lw_error *err)
{
    for (size_t i = 0; i < scope->trace->event_count; i++)
        if (lw_event_is_work(&scope->trace->events[i]) &&
            lw_trace_scope_has(scope, &scope->trace->events[i]))
            return true;
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "%s is about work on a GPU, and the trace has none (record with "
                   "ProfilerActivity.CUDA)",
                   view);
}
