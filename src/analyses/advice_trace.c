#include "analyses/advice_trace.h"

#include <string.h>

#include "analyses/askers.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

/* ---- steps -------------------------------------------------------------------------- */

static bool add_rank(struct lw_advice_trace *trace, uint32_t index,
                     struct lw_error *err)
{
    struct lw_advice_rank *rank = &trace->ranks[index];

    if (!lw_trace_steps_init(&rank->steps, trace->scope.profile, index, LW_COMPAT_NONE,
                             err))
        return false;
    for (size_t i = 0; i < rank->steps.count; i++)
        if (!lw_intervals_add(&rank->set, rank->steps.list[i].start_ns,
                              rank->steps.list[i].end_ns, err))
            return false;
    lw_intervals_merge(&rank->set);
    rank->ns = lw_intervals_total(&rank->set);
    trace->step_count += rank->steps.count;
    trace->step_ns += rank->ns;
    trace->is_marked &= rank->steps.is_marked;
    return true;
}

bool lw_advice_trace_init(struct lw_advice_trace *trace, struct lw_advice *advice,
                          struct lw_error *err)
{
    memset(trace, 0, sizeof(*trace));
    trace->advice = advice;
    trace->is_marked = true;
    if (!lw_trace_scope_init(&trace->scope, advice->profile, advice->query, "advice",
                             err))
        return false;
    trace->ranks =
        lw_zalloc(trace->scope.trace->rank_count + 1, sizeof(*trace->ranks), err);
    if (!trace->ranks)
        return false;
    for (uint32_t i = 0; i < trace->scope.trace->rank_count; i++)
        if (trace->scope.ranks[i] && !add_rank(trace, i, err))
            return false;
    return true;
}

void lw_advice_trace_release(struct lw_advice_trace *trace)
{
    for (size_t i = 0; trace->ranks && i < trace->scope.trace->rank_count; i++) {
        lw_trace_steps_release(&trace->ranks[i].steps);
        lw_intervals_release(&trace->ranks[i].set);
    }
    lw_free(trace->ranks);
    lw_trace_scope_release(&trace->scope);
    memset(trace, 0, sizeof(*trace));
}

const struct lw_trace_gpu *lw_advice_gpu(const struct lw_trace *trace, uint32_t rank,
                                         int32_t device)
{
    for (size_t i = 0; i < trace->gpu_count; i++)
        if (trace->gpus[i].rank == rank && trace->gpus[i].id == device)
            return &trace->gpus[i];
    return NULL;
}

/* ---- words -------------------------------------------------------------------------- */

void lw_advice_words_init(struct lw_advice_words *words,
                          const struct lw_advice_rule *rule)
{
    memset(words, 0, sizeof(*words));
    lw_buf_init(&words->change, 0);
    lw_buf_init(&words->evidence, 0);
    words->finding.rule = rule;
}

void lw_advice_words_release(struct lw_advice_words *words)
{
    lw_buf_release(&words->change);
    lw_buf_release(&words->evidence);
}

bool lw_advice_words_place(struct lw_advice_words *words, struct lw_advice *advice,
                           const char *text, size_t len, struct lw_error *err)
{
    const char *end, *open;
    uint64_t line;

    if (!text || len == 0)
        return true;
    end = memmem(text, len, "): ", 3);
    open = end ? memrchr(text, '(', (size_t)(end - text)) : NULL;
    if (!open || open == text ||
        !lw_text_u64(open + 1, (size_t)(end - open - 1), &line) || line > UINT32_MAX)
        return true;
    words->finding.file =
        lw_arena_copy(&advice->arena, text, (size_t)(open - text), err);
    words->finding.line = (uint32_t)line;
    return words->finding.file != NULL;
}

bool lw_advice_words_place_of(struct lw_advice_words *words, struct lw_advice *advice,
                              uint32_t event, struct lw_error *err)
{
    struct lw_askers askers;
    const char *line = NULL;
    bool done = lw_askers_init(&askers, advice->profile, err);

    if (done) {
        size_t len = lw_askers_line(&askers, event, &line);

        done = lw_advice_words_place(words, advice, line, len, err);
    }
    lw_askers_release(&askers);
    return done;
}

void lw_advice_words_add_part(struct lw_buf *out, const struct lw_advice_trace *trace,
                              uint64_t ns)
{
    uint64_t count = trace->step_count > 0 ? trace->step_count : 1;

    lw_units_add_ns(out, (int64_t)(ns / count));
    lw_buf_add_text(out, trace->is_marked ? " of a step of " : " of ");
    lw_units_add_ns(out, (int64_t)(trace->step_ns / count));
}

void lw_advice_words_add_times(struct lw_buf *out, const struct lw_advice_trace *trace,
                               uint64_t count)
{
    double each = trace->step_count > 0 ? (double)count / (double)trace->step_count : 0;

    if (!trace->is_marked) {
        lw_units_add_count(out, (int64_t)count);
        lw_buf_add_text(out, count == 1 ? " time" : " times");
    } else if (each == 1) {
        lw_buf_add_text(out, "once a step");
    } else {
        if (each < 10)
            lw_buf_addf(out, "%.3g", each);
        else
            lw_units_add_count(out, (int64_t)(each + 0.5));
        lw_buf_add_text(out, " times a step");
    }
}

bool lw_advice_words_add(struct lw_advice_words *words, struct lw_advice *advice,
                         struct lw_error *err)
{
    if (!lw_buf_check(&words->change, err) || !lw_buf_check(&words->evidence, err))
        return false;
    words->finding.change = words->change.bytes;
    words->finding.evidence = words->evidence.bytes;
    return lw_advice_add(advice, &words->finding, err);
}
