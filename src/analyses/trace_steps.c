/* Two passes over the events of a rank: one for the steps, one for what they launched. */

#include "analyses/trace_steps.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/tb_events.h"
#include "analyses/trace_scope.h"
#include "base/alloc.h"
#include "base/text.h"

#define WHOLE_SHARE 0.8 /* of the work of the step before; torch_tb_profiler's */

/* What a pass over a rank needs. */
struct pass {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint32_t rank;
    bool as_tb;
    struct lw_tb_events tb; /* only as torch_tb_profiler */
    uint8_t *is_step;       /* owned: of each string, 1 no, 2 yes; 0: not asked */
    struct lw_trace_steps *steps;
};

/* When the work of a step began and ended. */
struct launched {
    uint64_t first_ns, last_ns;
};

static struct lw_interval span_of(const struct pass *pass, const struct lw_event *event)
{
    struct lw_interval span = { event->start_ns, lw_event_end_ns(event) };

    return pass->as_tb ? lw_tb_span(event) : span;
}

/* ---- the steps on the host ---------------------------------------------------------- */

static bool is_step(struct pass *pass, const struct lw_event *event)
{
    uint8_t *known = &pass->is_step[event->name];

    if (pass->as_tb)
        return lw_tb_type(&pass->tb, event) == LW_TB_STEP;
    if (event->kind != LW_EVENT_RANGE && event->kind != LW_EVENT_OP)
        return false;
    if (!*known)
        *known = 1 + lw_trace_is_step(lw_profile_text(pass->profile, event->name));
    return *known == 2;
}

static bool add_step(struct pass *pass, const struct lw_trace_step *step,
                     struct lw_error *err)
{
    struct lw_trace_steps *steps = pass->steps;

    if (!lw_grow(&steps->list, &steps->capacity, steps->count + 1, sizeof(*step), err))
        return false;
    steps->list[steps->count++] = *step;
    return true;
}

static bool add_marked(struct pass *pass, const struct lw_event *event,
                       struct lw_error *err)
{
    const char *name = lw_profile_text(pass->profile, event->name);
    const char *digits =
        name + strcspn(name, "#") + 1; /* it is there: it is a step's */
    struct lw_interval span = span_of(pass, event);
    struct lw_trace_step step = { .name = event->name,
                                  .host_start_ns = span.start_ns,
                                  .host_end_ns = span.end_ns };

    if (!lw_text_i64(digits, strspn(digits, "0123456789"), &step.number))
        step.number = -1;
    return add_step(pass, &step, err);
}

static bool find_marked(struct pass *pass, struct lw_error *err)
{
    const struct lw_trace *trace = pass->trace;

    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        if (track->rank != pass->rank || (track->is_device && !pass->as_tb))
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (is_step(pass, &trace->events[i]) &&
                !add_marked(pass, &trace->events[i], err))
                return false;
    }
    return true;
}

/* Is the time of EVENT part of a trace's that has no steps? The plugin asks its ops. */
static bool is_of_all(struct pass *pass, const struct lw_event *event, bool as_tb)
{
    enum lw_tb_type type;

    if (!as_tb)
        return event->kind != LW_EVENT_OTHER;
    type = lw_tb_type(&pass->tb, event);
    return type == LW_TB_PYTHON || type == LW_TB_OPERATOR || type == LW_TB_STEP;
}

static void stretch(struct pass *pass, const struct lw_track *track, bool as_tb,
                    struct lw_trace_step *step)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &pass->trace->events[i];
        struct lw_interval span;

        if (!is_of_all(pass, event, as_tb))
            continue;
        span = span_of(pass, event);
        if (span.start_ns < step->host_start_ns)
            step->host_start_ns = span.start_ns;
        if (span.end_ns > step->host_end_ns)
            step->host_end_ns = span.end_ns;
    }
}

static bool add_all(struct pass *pass, bool as_tb, struct lw_error *err)
{
    struct lw_trace_step step = { .number = -1, .host_start_ns = UINT64_MAX };

    for (size_t t = 0; t < pass->trace->track_count; t++)
        if (pass->trace->tracks[t].rank == pass->rank)
            stretch(pass, &pass->trace->tracks[t], as_tb, &step);
    if (step.host_start_ns < UINT64_MAX)
        return add_step(pass, &step, err);
    return !as_tb || add_all(pass, false, err);
}

static int compare_steps(const void *a, const void *b)
{
    const struct lw_trace_step *x = a, *y = b;

    return x->host_start_ns < y->host_start_ns ? -1
                                               : x->host_start_ns > y->host_start_ns;
}

static bool find_steps(struct pass *pass, struct lw_error *err)
{
    struct lw_trace_steps *steps = pass->steps;
    uint64_t latest_ns = 0;

    if (!find_marked(pass, err))
        return false;
    steps->is_marked = steps->count > 0;
    if (!steps->is_marked && !add_all(pass, pass->as_tb, err))
        return false;
    if (steps->count > 1)
        qsort(steps->list, steps->count, sizeof(*steps->list), compare_steps);
    for (size_t i = 0; i < steps->count; i++) {
        struct lw_trace_step *step = &steps->list[i];

        if (step->host_end_ns > latest_ns)
            latest_ns = step->host_end_ns;
        step->latest_ns = latest_ns;
        step->start_ns = step->host_start_ns;
        step->end_ns = step->host_end_ns;
    }
    return true;
}

/* ---- what they launched ------------------------------------------------------------- */

/* The step that launched EVENT; NULL: none of them. The plugin wants the whole of the
 * call to be in it. */
static struct lw_trace_step *launching_step(struct pass *pass,
                                            const struct lw_event *event)
{
    const struct lw_event *call;
    struct lw_trace_step *step;
    struct lw_interval span;

    if (event->parent == LW_NONE)
        return NULL;
    call = &pass->trace->events[event->parent];
    if (pass->as_tb && lw_tb_type(&pass->tb, call) != LW_TB_RUNTIME)
        return NULL;
    span = span_of(pass, call);
    step = lw_trace_steps_at(pass->steps, span.start_ns);
    return step && pass->as_tb && span.end_ns > step->host_end_ns ? NULL : step;
}

static void note_launched(struct pass *pass, const struct lw_event *event,
                          struct launched *launched)
{
    struct lw_trace_step *step = launching_step(pass, event);
    struct lw_interval span = span_of(pass, event);

    if (!step)
        return;
    launched += step - pass->steps->list;
    step->work_count++;
    if (span.start_ns < launched->first_ns)
        launched->first_ns = span.start_ns;
    if (span.end_ns > launched->last_ns)
        launched->last_ns = span.end_ns;
}

/* When the last work ended that no step launched and that was done before the first
 * step's began. Not before AT_LEAST_NS. */
static uint64_t end_before(struct pass *pass, uint64_t first_ns, uint64_t at_least_ns)
{
    const struct lw_trace *trace = pass->trace;
    uint64_t end_ns = at_least_ns;

    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        if (track->rank != pass->rank || !track->is_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++) {
            const struct lw_event *event = &trace->events[i];
            struct lw_interval span = span_of(pass, event);

            if (span.start_ns >= first_ns)
                break;
            if (lw_event_is_work(event) && span.end_ns < first_ns &&
                span.end_ns > end_ns && !launching_step(pass, event))
                end_ns = span.end_ns;
        }
    }
    return end_ns;
}

/* Each step ends with its work and begins where the one before ended. */
static void set_bounds(struct lw_trace_steps *steps, const struct launched *launched,
                       uint64_t previous_ns)
{
    for (size_t i = 0; i < steps->count; i++) {
        struct lw_trace_step *step = &steps->list[i];

        if (previous_ns > step->start_ns)
            step->start_ns = previous_ns;
        if (launched[i].last_ns > step->end_ns)
            step->end_ns = launched[i].last_ns;
        if (step->end_ns < step->start_ns)
            step->end_ns = step->start_ns;
        previous_ns = step->end_ns;
    }
}

static void leave_out_tail(struct lw_trace_steps *steps)
{
    size_t kept = steps->count;

    if (kept < 2)
        return;
    while (kept > 0 && steps->list[kept - 1].work_count == 0)
        kept--;
    if (kept > 1 && WHOLE_SHARE * (double)steps->list[kept - 2].work_count >
                        (double)steps->list[kept - 1].work_count)
        kept--;
    steps->left_out = steps->count - kept;
    steps->count = kept;
}

static bool add_work(struct pass *pass, struct lw_error *err)
{
    const struct lw_trace *trace = pass->trace;
    struct lw_trace_steps *steps = pass->steps;
    struct launched *launched = lw_alloc(steps->count * sizeof(*launched) + 1, err);
    uint64_t count = 0;

    if (!launched)
        return false;
    for (size_t i = 0; i < steps->count; i++)
        launched[i] = (struct launched){ UINT64_MAX, 0 };
    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        if (track->rank != pass->rank || !track->is_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (lw_event_is_work(&trace->events[i]))
                note_launched(pass, &trace->events[i], launched);
    }
    for (size_t i = 0; i < steps->count; i++)
        count += steps->list[i].work_count;
    if (count > 0) {
        uint64_t start_ns = steps->list[0].host_start_ns;

        set_bounds(steps, launched,
                   steps->list[0].work_count
                       ? end_before(pass, launched[0].first_ns, start_ns)
                       : start_ns);
        leave_out_tail(steps);
    }
    lw_free(launched);
    return true;
}

/* ---- all of it ---------------------------------------------------------------------- */

bool lw_trace_steps_init(struct lw_trace_steps *steps, const struct lw_profile *profile,
                         uint32_t rank, enum lw_compat compat, struct lw_error *err)
{
    struct pass pass = { .profile = profile,
                         .trace = profile->trace,
                         .rank = rank,
                         .as_tb = compat == LW_COMPAT_TB,
                         .steps = steps };
    bool done;

    memset(steps, 0, sizeof(*steps));
    pass.is_step = lw_zalloc(lw_strings_count(profile->strings), 1, err);
    done = pass.is_step && (!pass.as_tb || lw_tb_events_init(&pass.tb, profile, err)) &&
           find_steps(&pass, err) && add_work(&pass, err);
    lw_tb_events_release(&pass.tb);
    lw_free(pass.is_step);
    return done;
}

void lw_trace_steps_release(struct lw_trace_steps *steps)
{
    lw_free(steps->list);
    memset(steps, 0, sizeof(*steps));
}

struct lw_trace_step *lw_trace_steps_at(const struct lw_trace_steps *steps,
                                        uint64_t time_ns)
{
    size_t low = 0, count = steps->count + steps->left_out;

    while (count > 0) {
        size_t half = count / 2;

        if (steps->list[low + half].latest_ns <= time_ns) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low < steps->count + steps->left_out &&
                   steps->list[low].host_start_ns <= time_ns
               ? &steps->list[low]
               : NULL;
}
