/* report ranks --compat hta: what Holistic Trace Analysis says of ranks.
 *
 * Its potential stragglers are the two ranks that most often started late with one kernel:
 * of NCCL's kernels that take at least 1 % of a step, the last of each name and stream in
 * a step, those whose durations differ most over the ranks are the ones looked at. It
 * compares starts on the ranks' own clocks. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/hta_events.h"
#include "analyses/ranks.h"
#include "analyses/spread.h"
#include "base/alloc.h"
#include "base/text.h"

/* clang-format off */
static const struct lw_column overlap_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "communication_ns", "communication", LW_UNIT_NS, false },
    { "overlap_ns", "overlap", LW_UNIT_NS, false },
    { "overlap_share", "share", LW_UNIT_SHARE, false },
};

static const struct lw_column straggler_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "times", "times late", LW_UNIT_COUNT, false },
    { "steps", "of", LW_UNIT_COUNT, false },
    { "normalized_start", "mean start, in steps", LW_UNIT_NUMBER, false },
    { "kernel", "kernel", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define MIN_SHARE 0.01 /* of a step's time, for a kernel to be looked at */
#define CANDIDATES 2   /* as many are late, it says, unless asked for more */

static bool add_overlap(const struct lw_ranks *ranks, const struct lw_hta *hta,
                        uint32_t rank, struct lw_table *table, struct lw_error *err)
{
    const unsigned bits = LW_HTA_COMPUTATION | LW_HTA_COMMUNICATION;
    int64_t times_us[LW_HTA_COMBINATIONS], communication_us;
    struct lw_hta_events events = { 0 };
    bool done = lw_hta_events_init(&events, hta, rank, err) &&
                lw_hta_sweep(&events, bits, times_us, err);

    if (done) {
        communication_us = lw_hta_busy_us(&events, LW_HTA_COMMUNICATION);
        lw_table_row(table, 0);
        lw_ranks_add_rank(ranks, rank, table);
        lw_table_add_integer(table, communication_us * 1000);
        lw_table_add_integer(table, times_us[bits] * 1000);
        lw_analysis_add_share(table, (double)times_us[bits], (double)communication_us);
    }
    lw_hta_events_release(&events);
    return done;
}

bool lw_ranks_hta_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                          struct lw_error *err)
{
    struct lw_hta hta;
    bool done;

    lw_table_init(table, overlap_columns,
                  sizeof(overlap_columns) / sizeof(overlap_columns[0]));
    done = lw_hta_init(&hta, ranks->profile, err);
    for (size_t i = 0; done && i < ranks->scope.rank_count; i++)
        done = add_overlap(ranks, &hta, ranks->order[i], table, err);
    if (done)
        lw_ranks_set_title(
            ranks, table,
            "communication that computation hides, as Holistic Trace Analysis has it");
    lw_hta_release(&hta);
    return done;
}

/* Stragglers */

/* A step of a rank. */
struct step {
    int64_t start_us, end_us;
    int64_t number;
    uint32_t rank;
};

/* The last long kernel of its name on its stream in a step of a rank. */
struct late {
    int64_t stream;
    lw_string_id name;
    int64_t step;
    uint32_t rank;
    int64_t start_us, duration_us;
};

struct search {
    const struct lw_ranks *ranks;
    struct lw_hta hta;
    struct step *steps; /* owned; by rank and start */
    size_t step_count, step_capacity;
    size_t different_steps; /* numbers of steps that there are */
    struct late *lates;     /* owned */
    size_t late_count, late_capacity;
    int64_t first_us;
    double step_us; /* the mean */
};

static void search_release(struct search *s)
{
    lw_hta_release(&s->hta);
    lw_free(s->steps);
    lw_free(s->lates);
}

static uint32_t rank_of(const struct search *s, const struct lw_event *event)
{
    return s->ranks->trace->tracks[event->track].rank;
}

static int by_rank_and_start(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->start_us < b->start_us ? -1 : a->start_us > b->start_us;
}

static int by_number(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    return a->number < b->number ? -1 : a->number > b->number;
}

/* How many numbers of steps there are; they are left by rank and start. */
static void count_steps(struct search *s)
{
    qsort(s->steps, s->step_count, sizeof(*s->steps), by_number);
    for (size_t i = 0; i < s->step_count; i++)
        s->different_steps += i == 0 || s->steps[i].number != s->steps[i - 1].number;
    qsort(s->steps, s->step_count, sizeof(*s->steps), by_rank_and_start);
}

static bool find_steps(struct search *s, struct lw_error *err)
{
    const struct lw_trace *trace = s->ranks->trace;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        const char *name = lw_profile_text(s->ranks->profile, event->name);
        struct step step = { .rank = rank_of(s, event) };

        if (lw_event_is_on_device(event) || !lw_trace_is_step(name) ||
            !lw_hta_keeps(&s->hta, event))
            continue;
        name += strlen("ProfilerStep#");
        if (!lw_text_i64(name, strspn(name, "0123456789"), &step.number))
            continue;
        step.start_us = lw_hta_start_us(&s->hta, event);
        step.end_us = lw_hta_end_us(&s->hta, event);
        if (!lw_grow(&s->steps, &s->step_capacity, s->step_count + 1, sizeof(step),
                     err))
            return false;
        s->steps[s->step_count++] = step;
    }
    if (s->step_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "Holistic Trace Analysis looks for stragglers in steps, and the "
                       "traces have none (profiler.step())");
    count_steps(s);
    return true;
}

/* The number of the step of RANK that has begun by TIME_US, and not ended; -1: none. */
static int64_t step_at(const struct search *s, uint32_t rank, int64_t time_us)
{
    size_t low = 0, count = s->step_count;

    while (count > 0) { /* the first that starts later */
        size_t half = count / 2;
        const struct step *step = &s->steps[low + half];

        if (step->rank < rank || (step->rank == rank && step->start_us <= time_us)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    if (low == 0 || s->steps[low - 1].rank != rank ||
        s->steps[low - 1].end_us <= time_us)
        return -1;
    return s->steps[low - 1].number;
}

/* In which step EVENT is: by its own start on the host, by its launch on a device. */
static int64_t step_of(const struct search *s, const struct lw_event *event)
{
    int64_t stream = lw_hta_stream(s->ranks->trace, event);
    uint32_t launch;

    if (stream < 0)
        return step_at(s, rank_of(s, event), lw_hta_start_us(&s->hta, event));
    launch = lw_hta_launch(s->ranks->trace, event);
    if (stream == 0 || launch == LW_NONE)
        return -1;
    return step_at(s, rank_of(s, event),
                   lw_hta_start_us(&s->hta, &s->ranks->trace->events[launch]));
}

/* From the first to the last moment of anything that is in a step. */
static void measure_steps(struct search *s)
{
    const struct lw_trace *trace = s->ranks->trace;
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        int64_t start, end;

        if (!lw_hta_keeps(&s->hta, event) || step_of(s, event) < 0)
            continue;
        start = lw_hta_start_us(&s->hta, event);
        end = lw_hta_end_us(&s->hta, event);
        first = start < first ? start : first;
        last = end > last ? end : last;
    }
    s->first_us = first;
    s->step_us =
        first < last ? ((double)last - (double)first) / (double)s->different_steps : 0;
}

static int by_kernel(const void *x, const void *y)
{
    const struct late *a = x, *b = y;
    const int64_t keys[][2] = {
        { a->stream, b->stream }, { a->name, b->name },         { a->step, b->step },
        { a->rank, b->rank },     { a->start_us, b->start_us },
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Keep the last of those that are alike but for their start. */
static void keep_last(struct search *s)
{
    size_t kept = 0;

    qsort(s->lates, s->late_count, sizeof(*s->lates), by_kernel);
    for (size_t i = 1; i < s->late_count; i++) {
        const struct late *a = &s->lates[kept], *b = &s->lates[i];

        if (a->stream != b->stream || a->name != b->name || a->step != b->step ||
            a->rank != b->rank)
            kept++;
        s->lates[kept] = s->lates[i];
    }
    s->late_count = kept + 1;
}

static bool find_lates(struct search *s, struct lw_error *err)
{
    const struct lw_trace *trace = s->ranks->trace;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        struct late late = { .name = event->name, .rank = rank_of(s, event) };

        if (!lw_event_is_on_device(event) || !lw_hta_keeps(&s->hta, event) ||
            !lw_text_starts(lw_profile_text(s->ranks->profile, event->name),
                            "ncclKernel"))
            continue;
        late.stream = lw_hta_stream(trace, event);
        late.step = step_of(s, event);
        late.start_us = lw_hta_start_us(&s->hta, event);
        late.duration_us = lw_hta_end_us(&s->hta, event) - late.start_us;
        if (late.stream <= 0 || late.step <= 0 ||
            (double)late.duration_us < s->step_us * MIN_SHARE)
            continue;
        if (!lw_grow(&s->lates, &s->late_capacity, s->late_count + 1, sizeof(late),
                     err))
            return false;
        s->lates[s->late_count++] = late;
    }
    if (s->late_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "Holistic Trace Analysis looks for stragglers in kernels whose "
                       "names begin with ncclKernel and that take 1 %% of a step or "
                       "more: there are none");
    keep_last(s);
    return true;
}

/* The end of the lates from FIRST on that are of its kernel, and of its step too. */
static size_t same_end(const struct search *s, size_t first, bool of_step)
{
    size_t end = first + 1;

    while (end < s->late_count && s->lates[end].stream == s->lates[first].stream &&
           s->lates[end].name == s->lates[first].name &&
           (!of_step || s->lates[end].step == s->lates[first].step))
        end++;
    return end;
}

/* How the durations of a kernel differ over the ranks, in the mean of the steps. Not a
 * number: in no step was it seen in two ranks. VALUES has room for all. */
static double difference_of(const struct search *s, size_t first, size_t end,
                            double *values)
{
    double sum = 0;
    size_t count = 0;

    for (size_t at = first, next; at < end; at = next) {
        next = same_end(s, at, true);
        for (size_t i = at; i < next; i++)
            values[i - at] = (double)s->lates[i].duration_us;
        if (next - at > 1) {
            sum += lw_spread_of(values, next - at).sd;
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

/* The kernel to look at; false: none. */
static bool choose_kernel(const struct search *s, size_t *first, size_t *end,
                          struct lw_error *err)
{
    double *values = lw_alloc(s->late_count * sizeof(*values), err);
    double most = -1;

    if (!values)
        return false;
    for (size_t at = 0, next; at < s->late_count; at = next) {
        double difference;

        next = same_end(s, at, false);
        difference = difference_of(s, at, next, values);
        if (difference > most) {
            most = difference;
            *first = at;
            *end = next;
        }
    }
    lw_free(values);
    return most >= 0 || lw_fail(err, LW_ERR_UNSUPPORTED,
                                "no kernel of NCCL's that takes 1 %% of a step or more "
                                "was seen in two ranks in the same step");
}

struct straggler {
    uint32_t rank;
    uint64_t times, steps;
    double starts; /* added up */
};

/* Those of a step that start as late as the last but one, or later. */
static void count_late(const struct search *s, size_t first, size_t end,
                       struct straggler *list)
{
    int64_t last = INT64_MIN, before = INT64_MIN;

    for (size_t i = first; i < end; i++) {
        int64_t start = s->lates[i].start_us;

        if (start > last) {
            before = last;
            last = start;
        } else if (start > before) {
            before = start;
        }
    }
    for (size_t i = first; i < end; i++) {
        struct straggler *one = &list[s->lates[i].rank];

        one->steps++;
        one->starts +=
            ((double)s->lates[i].start_us - (double)s->first_us) / s->step_us;
        one->times += s->lates[i].start_us >= before;
    }
}

static int by_times(const void *x, const void *y)
{
    const struct straggler *a = x, *b = y;

    if (a->times != b->times)
        return a->times > b->times ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static bool list_stragglers(const struct search *s, struct lw_table *table,
                            struct lw_error *err)
{
    const struct lw_ranks *ranks = s->ranks;
    size_t count = ranks->trace->rank_count, first = 0, end = 0, listed = 0;
    struct straggler *list;
    const char *kernel;

    if (!choose_kernel(s, &first, &end, err))
        return false;
    list = lw_zalloc(count + 1, sizeof(*list), err);
    if (!list)
        return false;
    for (uint32_t i = 0; i < count; i++)
        list[i].rank = i;
    for (size_t at = first, next; at < end; at = next) {
        next = same_end(s, at, true);
        count_late(s, at, next, list);
    }
    qsort(list, count, sizeof(*list), by_times);
    kernel = lw_profile_text(ranks->profile, s->lates[first].name);
    for (size_t i = 0; i < count && listed < CANDIDATES; i++) {
        if (list[i].steps == 0)
            continue;
        listed++;
        lw_table_row(table, 0);
        lw_ranks_add_rank(ranks, list[i].rank, table);
        lw_table_add_integer(table, (int64_t)list[i].times);
        lw_table_add_integer(table, (int64_t)list[i].steps);
        lw_table_add_number(table, list[i].starts / (double)list[i].steps);
        lw_table_add_text(table, kernel, strlen(kernel));
    }
    lw_free(list);
    lw_ranks_set_title(ranks, table,
                       "potential stragglers, as Holistic Trace Analysis has them");
    return true;
}

bool lw_ranks_hta_by_straggler(const struct lw_ranks *ranks, struct lw_table *table,
                               struct lw_error *err)
{
    struct search s = { .ranks = ranks };
    bool done;

    lw_table_init(table, straggler_columns,
                  sizeof(straggler_columns) / sizeof(straggler_columns[0]));
    done = lw_hta_init(&s.hta, ranks->profile, err) && find_steps(&s, err);
    if (done)
        measure_steps(&s);
    done = done && find_lates(&s, err) && list_stragglers(&s, table, err);
    search_release(&s);
    return done;
}
