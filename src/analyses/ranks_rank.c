/* report ranks: a row for each rank, with what it did in the mean of its steps. */

#include "analyses/ranks.h"

#include "analyses/intervals.h"
#include "analyses/trace_steps.h"
#include "analyses/work_kinds.h"
#include "base/alloc.h"
#include "base/text.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "steps", "steps", LW_UNIT_COUNT, false },
    { "step_ns", "step", LW_UNIT_NS, false },
    { "computation_ns", "computation", LW_UNIT_NS, false },
    { "communication_ns", "communication", LW_UNIT_NS, false },
    { "overlap_ns", "overlap", LW_UNIT_NS, false },
    { "exposed_ns", "exposed", LW_UNIT_NS, false },
    { "idle_ns", "idle", LW_UNIT_NS, false },
    { "wait_ns", "waited", LW_UNIT_NS, false },
    { "last", "came last", LW_UNIT_COUNT, false },
    { "clock_ns", "clock off", LW_UNIT_NS, false },
    { "spread_ns", "spread", LW_UNIT_NS, false },
    { "host", "host", LW_UNIT_TEXT, false },
    { "file", "file", LW_UNIT_TEXT, true },
};
/* clang-format on */

/* What a rank did: sets of time. */
struct rank_work {
    struct lw_intervals computation, communication, busy;
    uint64_t wait_ns; /* within steps */
    uint64_t last;    /* how often it came last */
    bool has_device;
    bool has_wait; /* something to wait for was seen in another rank too */
};

struct filling {
    const struct lw_ranks *ranks;
    struct lw_trace_steps *steps; /* owned: of each rank */
    struct rank_work *works;      /* owned: likewise */
};

static void filling_release(struct filling *f)
{
    size_t count = f->ranks->trace->rank_count;

    for (size_t i = 0; f->works && i < count; i++) {
        lw_intervals_release(&f->works[i].computation);
        lw_intervals_release(&f->works[i].communication);
        lw_intervals_release(&f->works[i].busy);
    }
    for (size_t i = 0; f->steps && i < count; i++)
        lw_trace_steps_release(&f->steps[i]);
    lw_free(f->works);
    lw_free(f->steps);
}

static bool find_work(struct filling *f, const uint8_t *kinds, struct lw_error *err)
{
    const struct lw_trace *trace = f->ranks->trace;
    const struct lw_collectives *all = &f->ranks->collectives;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        struct rank_work *work = &f->works[trace->tracks[event->track].rank];
        uint64_t end_ns = lw_event_end_ns(event);

        if (kinds[i] == LW_WORK_NONE)
            continue;
        work->has_device = true;
        if (kinds[i] == LW_WORK_COMPUTATION &&
            !lw_intervals_add(&work->computation, event->start_ns, end_ns, err))
            return false;
        if (!lw_intervals_add(&work->busy, event->start_ns, end_ns, err))
            return false;
    }
    for (size_t i = 0; i < all->part_count; i++) {
        const struct lw_event *event = &trace->events[all->parts[i].event];
        struct rank_work *work = &f->works[all->parts[i].rank];

        if (!lw_intervals_add(&work->communication, event->start_ns,
                              lw_event_end_ns(event), err))
            return false;
    }
    for (size_t i = 0; i < trace->rank_count; i++) {
        lw_intervals_merge(&f->works[i].computation);
        lw_intervals_merge(&f->works[i].communication);
        lw_intervals_merge(&f->works[i].busy);
    }
    return true;
}

static bool is_in_steps(const struct lw_trace_steps *steps, uint64_t time_ns)
{
    return steps->count > 0 && time_ns >= steps->list[0].start_ns &&
           time_ns < steps->list[steps->count - 1].end_ns;
}

static void find_waits(struct filling *f)
{
    const struct lw_collectives *all = &f->ranks->collectives;

    for (size_t m = 0; m < all->match_count; m++) {
        const struct lw_collective_match *match = &all->matches[m];

        if (!lw_ranks_is_measured(match))
            continue;
        if (lw_ranks_has_last(f->ranks, match))
            f->works[all->parts[match->last].rank].last++;
        for (uint32_t i = match->first; i < match->first + match->count; i++) {
            const struct lw_collective_part *part = &all->parts[i];
            uint64_t start_ns = all->trace->events[part->event].start_ns;

            f->works[part->rank].has_wait = true;
            if (is_in_steps(&f->steps[part->rank], start_ns))
                f->works[part->rank].wait_ns += lw_collective_wait_ns(all, match, part);
        }
    }
}

/* How much of SET is in the steps, in the mean of one. */
static uint64_t mean_in_steps(const struct lw_intervals *set,
                              const struct lw_trace_steps *steps)
{
    uint64_t total = 0;

    for (size_t i = 0; i < steps->count; i++)
        total +=
            lw_intervals_within(set, steps->list[i].start_ns, steps->list[i].end_ns);
    return steps->count ? total / steps->count : 0;
}

static uint64_t mean_step(const struct lw_trace_steps *steps)
{
    uint64_t total = 0;

    for (size_t i = 0; i < steps->count; i++)
        total += steps->list[i].end_ns - steps->list[i].start_ns;
    return steps->count ? total / steps->count : 0;
}

static bool add_rank(const struct filling *f, uint32_t rank, struct lw_table *table,
                     struct lw_error *err)
{
    const struct lw_trace_steps *steps = &f->steps[rank];
    const struct rank_work *work = &f->works[rank];
    const struct lw_profile *profile = f->ranks->profile;
    const struct lw_trace_rank *about = &f->ranks->trace->ranks[rank];
    const struct lw_clock *clock = &f->ranks->clocks[rank];
    uint64_t step = mean_step(steps), both, communication;
    struct lw_intervals overlap = { 0 };

    if (!lw_intervals_intersect(&work->computation, &work->communication, &overlap,
                                err)) {
        lw_intervals_release(&overlap);
        return false;
    }
    both = mean_in_steps(&overlap, steps);
    communication = mean_in_steps(&work->communication, steps);
    lw_table_row(table, 0);
    lw_ranks_add_rank(f->ranks, rank, table);
    lw_table_add_integer(table, steps->is_marked ? (int64_t)steps->count : 0);
    lw_table_add_integer(table, (int64_t)step);
    lw_ranks_add_known(table, work->has_device,
                       mean_in_steps(&work->computation, steps));
    lw_table_add_integer(table, (int64_t)communication);
    lw_ranks_add_known(table, work->has_device, both);
    lw_table_add_integer(table, (int64_t)(communication - both));
    lw_ranks_add_known(table, work->has_device,
                       step - mean_in_steps(&work->busy, steps));
    lw_ranks_add_known(table, work->has_wait,
                       steps->count ? work->wait_ns / steps->count : 0);
    lw_ranks_add_known(table, work->has_wait, work->last);
    lw_ranks_add_known(table, clock->count > 0, (uint64_t)clock->measured_ns);
    lw_ranks_add_known(table, clock->count > 0, clock->spread_ns);
    lw_ranks_add_text(table, lw_profile_text(profile, about->host));
    lw_ranks_add_text(table, lw_text_basename(lw_profile_text(profile, about->file)));
    lw_intervals_release(&overlap);
    return true;
}

/* What the numbers of a row are of. */
static void note_steps(const struct filling *f, struct lw_table *table)
{
    size_t left_out = 0, unmarked = 0, devices = 0;

    for (size_t i = 0; i < f->ranks->trace->rank_count; i++) {
        left_out += f->ranks->scope.ranks[i] ? f->steps[i].left_out : 0;
        unmarked += f->ranks->scope.ranks[i] && !f->steps[i].is_marked;
        devices += f->ranks->scope.ranks[i] && f->works[i].has_device;
    }
    if (left_out > 0)
        lw_table_note(table,
                      "%zu step%s at the ends of the traces %s left out: not all that "
                      "%s launched was recorded.",
                      left_out, left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are",
                      left_out == 1 ? "it" : "they");
    if (unmarked > 0)
        lw_table_note(table,
                      "%zu of the ranks %s no steps (profiler.step()): the whole trace "
                      "is taken for one.",
                      unmarked, unmarked == 1 ? "has" : "have");
    if (devices == 0)
        lw_table_note(table,
                      "No work on a GPU was recorded: computation is not known.");
    if (f->ranks->collectives.part_count == 0)
        lw_table_note(table, "No collectives were recorded.");
    else
        lw_table_note(table, "Where the waiting was: --by collective, --by kind; for "
                             "whom: --by straggler.");
}

static bool fill(struct filling *f, struct lw_table *table, struct lw_error *err)
{
    size_t count = f->ranks->trace->rank_count;
    uint8_t *kinds;
    bool done;

    f->steps = lw_zalloc(count + 1, sizeof(*f->steps), err);
    f->works = f->steps ? lw_zalloc(count + 1, sizeof(*f->works), err) : NULL;
    if (!f->works)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!lw_trace_steps_init(&f->steps[i], f->ranks->profile, i, LW_COMPAT_NONE,
                                 err))
            return false;
    kinds = lw_work_kinds_new(f->ranks->profile, LW_COMPAT_NONE, err);
    done = kinds && find_work(f, kinds, err);
    lw_free(kinds);
    if (!done)
        return false;
    find_waits(f);
    for (size_t i = 0; i < f->ranks->scope.rank_count; i++)
        if (!add_rank(f, f->ranks->order[i], table, err))
            return false;
    lw_ranks_set_title(f->ranks, table, "times in the mean of a step");
    note_steps(f, table);
    return true;
}

bool lw_ranks_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                      struct lw_error *err)
{
    struct filling f = { .ranks = ranks };
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    done = fill(&f, table, err);
    filling_release(&f);
    return done;
}
