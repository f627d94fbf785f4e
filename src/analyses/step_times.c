/* One pass over the events of a rank, then sets of time. What lies in the interval that
 * was added last only stretches it: a tree of ops becomes its roots. */

#include "analyses/step_times.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/collective_names.h"
#include "analyses/tb_events.h"
#include "analyses/trace_scope.h"
#include "analyses/work_kinds.h"
#include "base/alloc.h"

const char *const lw_role_names[LW_ROLE_COUNT] = {
    "Kernel",  "Memcpy",     "Memset", "Communication",
    "Runtime", "DataLoader", "CPU",    "Other",
};

#define NO_ROLE LW_ROLE_COUNT /* its time is nobody's */

struct finding {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    const uint8_t *kinds;
    uint32_t rank;
    bool as_tb;
    struct lw_tb_events names;
    uint8_t *roles;        /* owned: of each string as a range's name, plus 1; 0: not
                             asked yet */
    uint64_t *collectives; /* owned: ids of what the plugin takes for one, sorted */
    size_t collective_count, collective_capacity;
    struct lw_busy_times *busy;
};

/* ---- whose time an event is --------------------------------------------------------- */

static enum lw_role judge_range(struct finding *f, lw_string_id id)
{
    enum lw_tb_name known = lw_tb_name(&f->names, id);

    if (known == LW_TB_STEP_NAME)
        return NO_ROLE;
    if (known == LW_TB_LOADER)
        return LW_ROLE_DATA_LOADER;
    return lw_collective_is_host_range(lw_profile_text(f->profile, id))
               ? LW_ROLE_COMMUNICATION
               : LW_ROLE_CPU;
}

static enum lw_role role_of_range(struct finding *f, lw_string_id name)
{
    uint8_t *known = &f->roles[name];

    if (!*known)
        *known = (uint8_t)(1 + judge_range(f, name));
    return (enum lw_role)(*known - 1);
}

static enum lw_role role_of(struct finding *f, uint32_t index)
{
    const struct lw_event *event = &f->trace->events[index];

    switch (event->kind) {
    case LW_EVENT_OP:
    case LW_EVENT_RANGE: return role_of_range(f, event->name);
    case LW_EVENT_RUNTIME: return LW_ROLE_RUNTIME;
    case LW_EVENT_MEMCPY: return LW_ROLE_MEMCPY;
    case LW_EVENT_MEMSET: return LW_ROLE_MEMSET;
    case LW_EVENT_KERNEL:
        return f->kinds[index] == LW_WORK_COMMUNICATION ? LW_ROLE_COMMUNICATION
                                                        : LW_ROLE_KERNEL;
    default: return NO_ROLE;
    }
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The plugin's kernels of a collective are those that have the id of the range, which is
 * that of no kernel since torch 2.0: it counts them as computation. */
static enum lw_role role_as_tb(struct finding *f, const struct lw_event *event)
{
    enum lw_tb_type type = lw_tb_type(&f->names, event);
    enum lw_tb_name name;

    switch (type) {
    case LW_TB_KERNEL:
        return f->collective_count > 0 &&
                       bsearch(&event->external, f->collectives, f->collective_count,
                               sizeof(*f->collectives), compare_ids)
                   ? LW_ROLE_COMMUNICATION
                   : LW_ROLE_KERNEL;
    case LW_TB_MEMCPY: return LW_ROLE_MEMCPY;
    case LW_TB_MEMSET: return LW_ROLE_MEMSET;
    case LW_TB_RUNTIME: return LW_ROLE_RUNTIME;
    case LW_TB_OPERATOR:
    case LW_TB_ANNOTATION:
    case LW_TB_PYTHON:
        name = lw_tb_name(&f->names, event->name);
        if (name == LW_TB_LOADER && type != LW_TB_PYTHON)
            return LW_ROLE_DATA_LOADER;
        return name == LW_TB_COLLECTIVE ? LW_ROLE_COMMUNICATION : LW_ROLE_CPU;
    default: return NO_ROLE;
    }
}

/* ---- when each was busy ------------------------------------------------------------- */

static bool is_tb_collective(struct finding *f, const struct lw_event *event)
{
    enum lw_tb_type type = lw_tb_type(&f->names, event);

    return event->external &&
           (type == LW_TB_OPERATOR || type == LW_TB_ANNOTATION ||
            type == LW_TB_PYTHON) &&
           lw_tb_name(&f->names, event->name) == LW_TB_COLLECTIVE;
}

static bool add_collectives(struct finding *f, const struct lw_track *track,
                            struct lw_error *err)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        if (!is_tb_collective(f, &f->trace->events[i]))
            continue;
        if (!lw_grow(&f->collectives, &f->collective_capacity, f->collective_count + 1,
                     sizeof(*f->collectives), err))
            return false;
        f->collectives[f->collective_count++] = f->trace->events[i].external;
    }
    return true;
}

static bool find_collectives(struct finding *f, struct lw_error *err)
{
    for (size_t t = 0; t < f->trace->track_count; t++)
        if (f->trace->tracks[t].rank == f->rank &&
            !add_collectives(f, &f->trace->tracks[t], err))
            return false;
    if (f->collective_count > 1)
        qsort(f->collectives, f->collective_count, sizeof(*f->collectives),
              compare_ids);
    return true;
}

static bool add_span(struct lw_intervals *set, struct lw_interval span,
                     struct lw_error *err)
{
    struct lw_interval *last = set->count > 0 ? &set->list[set->count - 1] : NULL;

    if (!last || span.start_ns < last->start_ns || span.start_ns > last->end_ns)
        return lw_intervals_add(set, span.start_ns, span.end_ns, err);
    if (span.end_ns > last->end_ns)
        last->end_ns = span.end_ns;
    return true;
}

static bool add_track(struct finding *f, const struct lw_track *track,
                      struct lw_error *err)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &f->trace->events[i];
        struct lw_interval span = { event->start_ns, lw_event_end_ns(event) };
        enum lw_role role = f->as_tb ? role_as_tb(f, event) : role_of(f, i);

        if (role == NO_ROLE)
            continue;
        if (f->as_tb)
            span = lw_tb_span(event);
        if (!add_span(&f->busy->sets[role], span, err))
            return false;
    }
    return true;
}

static bool find_busy(struct finding *f, struct lw_error *err)
{
    if (f->as_tb && !find_collectives(f, err))
        return false;
    for (size_t t = 0; t < f->trace->track_count; t++)
        if (f->trace->tracks[t].rank == f->rank &&
            !add_track(f, &f->trace->tracks[t], err))
            return false;
    for (size_t role = 0; role < LW_ROLE_OTHER; role++)
        lw_intervals_merge(&f->busy->sets[role]);
    return true;
}

bool lw_busy_times_init(struct lw_busy_times *busy, const struct lw_profile *profile,
                        const uint8_t *kinds, uint32_t rank, enum lw_compat compat,
                        struct lw_error *err)
{
    struct finding f = { .profile = profile,
                         .trace = profile->trace,
                         .kinds = kinds,
                         .rank = rank,
                         .as_tb = compat == LW_COMPAT_TB,
                         .busy = busy };
    bool done;

    memset(busy, 0, sizeof(*busy));
    f.roles = lw_zalloc(lw_strings_count(profile->strings), 1, err);
    done = f.roles && lw_tb_events_init(&f.names, profile, err) && find_busy(&f, err);
    lw_tb_events_release(&f.names);
    lw_free(f.collectives);
    lw_free(f.roles);
    return done;
}

void lw_busy_times_release(struct lw_busy_times *busy)
{
    for (size_t role = 0; role < LW_ROLE_OTHER; role++)
        lw_intervals_release(&busy->sets[role]);
}

/* ---- and to whom a step's time goes ------------------------------------------------- */

static bool add_steps(struct lw_intervals *set, const struct lw_trace_steps *steps,
                      struct lw_error *err)
{
    for (size_t i = 0; i < steps->count; i++)
        if (!lw_intervals_add(set, steps->list[i].start_ns, steps->list[i].end_ns, err))
            return false;
    lw_intervals_merge(set);
    return true;
}

/* What of SET is in each of the steps, which may overlap where a file has them so. */
static bool add_within(struct lw_step_times *times, const struct lw_trace_steps *steps,
                       const struct lw_intervals *set, enum lw_role role,
                       struct lw_error *err)
{
    uint64_t *before = lw_alloc((set->count + 1) * sizeof(*before), err);

    if (!before)
        return false;
    lw_intervals_sum(set, before);
    for (size_t i = 0; i < steps->count; i++)
        times[i].ns[role] = lw_intervals_before(set, before, steps->list[i].end_ns) -
                            lw_intervals_before(set, before, steps->list[i].start_ns);
    lw_free(before);
    return true;
}

/* Give ROLE what is left of the steps in *FREE and was its time. The plugin starts all
 * over if nothing is left: a step that kernels fill has its time counted again. */
static bool take(struct lw_step_times *times, const struct lw_busy_times *busy,
                 const struct lw_trace_steps *steps, enum lw_role role, bool as_tb,
                 struct lw_intervals *free_times, struct lw_error *err)
{
    const struct lw_intervals *set = &busy->sets[role];
    struct lw_intervals taken = { 0 }, left = { 0 };
    bool starts_over = as_tb && free_times->count == 0;
    bool done = true;

    if (starts_over)
        done = add_steps(free_times, steps, err);
    else
        done = lw_intervals_intersect(free_times, set, &taken, err);
    done = done && lw_intervals_subtract(free_times, set, &left, err) &&
           add_within(times, steps, starts_over ? set : &taken, role, err);
    if (done) {
        lw_intervals_release(free_times);
        *free_times = left;
    } else {
        lw_intervals_release(&left);
    }
    lw_intervals_release(&taken);
    return done;
}

bool lw_step_times_fill(struct lw_step_times *times, const struct lw_busy_times *busy,
                        const struct lw_trace_steps *steps, enum lw_compat compat,
                        struct lw_error *err)
{
    bool as_tb = compat == LW_COMPAT_TB;
    struct lw_intervals free_times = { 0 };
    bool done = as_tb || add_steps(&free_times, steps, err);

    for (size_t role = 0; done && role < LW_ROLE_OTHER; role++)
        done = take(times, busy, steps, (enum lw_role)role, as_tb, &free_times, err);
    done = done && add_within(times, steps, &free_times, LW_ROLE_OTHER, err);
    lw_intervals_release(&free_times);
    return done;
}
