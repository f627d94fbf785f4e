/* Two profiles have two tables of strings, so names are put into a third one, each once.
 * An event belongs to the step in which it started: what it is within may be the whole
 * program, where Python's functions were recorded. */

#include <math.h>
#include <string.h>

#include "analyses/compare.h"
#include "base/alloc.h"
#include "base/text.h"

bool lw_compare_is_loader(const char *name)
{
    return lw_text_starts(name, "enumerate(DataLoader)#") ||
           lw_text_starts(name, "enumerate(DataPipe)#");
}

static bool is_op(const struct lw_event *event)
{
    return event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE;
}

/* Is TIME_NS within a step of RANK that is whole? */
static bool is_in_step(const struct lw_compare_side *side, uint32_t rank,
                       uint64_t time_ns)
{
    const struct lw_trace_steps *steps = &side->steps[rank];
    const struct lw_trace_step *step = lw_trace_steps_at(steps, time_ns);

    return step && (size_t)(step - steps->list) < steps->count;
}

/* Parents on the host come before their children; what launched work on a device may
 * come later, so devices have a pass of their own. */
static void set_flags(struct lw_compare_side *side)
{
    const struct lw_trace *trace = side->scope.trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint32_t rank = trace->tracks[event->track].rank;
        const char *name;

        if (lw_event_is_on_device(event) || !side->scope.ranks[rank])
            continue;
        if (event->parent != LW_NONE)
            side->flags[i] =
                (uint8_t)(side->flags[event->parent] & ~LW_COMPARE_IN_STEP);
        if (is_in_step(side, rank, event->start_ns))
            side->flags[i] |= LW_COMPARE_IN_STEP;
        if (!is_op(event))
            continue;
        name = lw_profile_text(side->scope.profile, event->name);
        if (lw_compare_is_loader(name))
            side->flags[i] |= LW_COMPARE_IN_LOADER;
        if (lw_trace_is_step(name))
            side->flags[i] |= LW_COMPARE_UNDER_STEP;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if (lw_event_is_on_device(event) && event->parent != LW_NONE)
            side->flags[i] = side->flags[event->parent];
    }
}

static bool side_init(struct lw_compare_side *side, const struct lw_profile *profile,
                      const struct lw_query *query, struct lw_error *err)
{
    const struct lw_trace *trace;
    size_t count;

    if (!lw_trace_scope_init(&side->scope, profile, query, "compare", err))
        return false;
    trace = side->scope.trace;
    count = lw_strings_count(profile->strings);
    side->steps = lw_zalloc(trace->rank_count + 1, sizeof(*side->steps), err);
    side->chosen =
        side->steps ? lw_zalloc(trace->rank_count + 1, sizeof(bool), err) : NULL;
    side->flags = side->chosen ? lw_zalloc(trace->event_count + 1, 1, err) : NULL;
    side->names = side->flags ? lw_alloc(count * sizeof(*side->names), err) : NULL;
    if (!side->names)
        return false;
    memset(side->names, 0xff, count * sizeof(*side->names));
    for (uint32_t i = 0; i < trace->rank_count; i++)
        if (side->scope.ranks[i] &&
            !lw_trace_steps_init(&side->steps[i], profile, i, LW_COMPAT_NONE, err))
            return false;
    set_flags(side);
    return true;
}

static void side_release(struct lw_compare_side *side)
{
    for (size_t i = 0; side->steps && i < side->scope.trace->rank_count; i++)
        lw_trace_steps_release(&side->steps[i]);
    lw_op_tree_release(&side->tree);
    lw_free(side->steps);
    lw_free(side->chosen);
    lw_free(side->flags);
    lw_free(side->names);
    lw_trace_scope_release(&side->scope);
}

/* Kernels whose launch is not in the trace are in no step that is known. */
static void count_unlinked(struct lw_compare_side *side)
{
    const struct lw_trace *trace = side->scope.trace;

    side->unlinked_count = side->unlinked_ns = 0;
    for (size_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];

        if (!side->chosen[track->rank] || !track->is_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (lw_event_is_work(&trace->events[i]) &&
                trace->events[i].parent == LW_NONE) {
                side->unlinked_count++;
                side->unlinked_ns += trace->events[i].duration_ns;
            }
    }
}

static void choose(struct lw_compare_side *side, int64_t number)
{
    const struct lw_trace *trace = side->scope.trace;

    side->step_count = side->step_ns = 0;
    side->left_out = 0;
    for (uint32_t i = 0; i < trace->rank_count; i++) {
        const struct lw_trace_steps *steps = &side->steps[i];

        side->chosen[i] = side->scope.ranks[i] &&
                          (number < 0 || lw_trace_rank_number(trace, i) == number);
        if (!side->chosen[i])
            continue;
        side->step_count += steps->count;
        side->left_out += steps->left_out;
        for (size_t s = 0; s < steps->count; s++)
            side->step_ns += steps->list[s].end_ns - steps->list[s].start_ns;
    }
    count_unlinked(side);
}

void lw_compare_choose(struct lw_compare *compare, int64_t number)
{
    choose(&compare->sides[LW_BEFORE], number);
    choose(&compare->sides[LW_AFTER], number);
    compare->row_count = 0;
    lw_compare_keys_reset(&compare->keys);
}

bool lw_compare_init(struct lw_compare *compare, const struct lw_profile *before,
                     const struct lw_profile *after, const struct lw_query *query,
                     struct lw_error *err)
{
    memset(compare, 0, sizeof(*compare));
    compare->query = query;
    compare->strings = lw_strings_new(err);
    if (!compare->strings ||
        !side_init(&compare->sides[LW_BEFORE], before, query, err) ||
        !side_init(&compare->sides[LW_AFTER], after, query, err))
        return false;
    lw_compare_choose(compare, -1);
    return true;
}

void lw_compare_release(struct lw_compare *compare)
{
    side_release(&compare->sides[LW_BEFORE]);
    side_release(&compare->sides[LW_AFTER]);
    lw_strings_free(compare->strings);
    lw_free(compare->rows);
    lw_compare_keys_release(&compare->keys);
}

/* Figures */

double lw_compare_a_step(const struct lw_compare_side *side, double figure)
{
    return side->step_count ? figure / (double)side->step_count : 0;
}

double lw_compare_step_ns(const struct lw_compare_side *side)
{
    return lw_compare_a_step(side, (double)side->step_ns);
}

double lw_compare_size(const struct lw_compare *compare,
                       const struct lw_compare_row *row)
{
    const struct lw_compare_side *sides = compare->sides;
    const struct lw_compare_figures *b = &row->sides[LW_BEFORE];
    const struct lw_compare_figures *a = &row->sides[LW_AFTER];
    double host = lw_compare_a_step(&sides[LW_AFTER], (double)a->host_ns) -
                  lw_compare_a_step(&sides[LW_BEFORE], (double)b->host_ns);
    double device = lw_compare_a_step(&sides[LW_AFTER], (double)a->device_ns) -
                    lw_compare_a_step(&sides[LW_BEFORE], (double)b->device_ns);

    return fmax(fabs(host), fabs(device));
}

const char *lw_compare_name(const struct lw_compare *compare,
                            const struct lw_compare_row *row)
{
    lw_string_id name = row->names[LW_BEFORE];

    return lw_strings_text(compare->strings, name ? name : row->names[LW_AFTER]);
}
