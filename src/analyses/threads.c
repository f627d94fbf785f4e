/* Which threads there were, and what each did. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "lap/sums.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "pid", "process", LW_UNIT_TEXT, false },
    { "tid", "id", LW_UNIT_TEXT, false },
    { "thread", "thread", LW_UNIT_TEXT, true },
    { "lived_ns", "lived", LW_UNIT_NS, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "time_ns", "in functions", LW_UNIT_NS, false },
    { "time_share", "share", LW_UNIT_SHARE, false },
    { "longest", "longest in", LW_UNIT_TEXT, true },
};

/* Where there are samples and no calls: also what part of its time each state had. */
static const struct lw_column sample_columns[] = {
    { "pid", "process", LW_UNIT_TEXT, false },
    { "tid", "id", LW_UNIT_TEXT, false },
    { "thread", "thread", LW_UNIT_TEXT, true },
    { "lived_ns", "lived", LW_UNIT_NS, false },
    { "samples", "samples", LW_UNIT_COUNT, false },
    { "time_ns", "sampled", LW_UNIT_NS, false },
    { "time_share", "share", LW_UNIT_SHARE, false },
    { "cpu_share", "on CPU", LW_UNIT_SHARE, false },
    { "gil_share", "with GIL", LW_UNIT_SHARE, false },
    { "wait_share", "waiting", LW_UNIT_SHARE, false },
    { "gc_share", "in GC", LW_UNIT_SHARE, false },
    { "longest", "longest in", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define SAMPLE_COLUMN_COUNT (sizeof(sample_columns) / sizeof(sample_columns[0]))

struct work {
    uint64_t calls, samples;
    uint64_t called_ns, sampled_ns;
    uint64_t states_ns[LW_STATES_GC + 1]; /* by enum lw_states, which overlap */
    bool has_states;                      /* of some sample it is known */
    lw_stack_id longest;                  /* where most time of one row was spent */
    uint64_t longest_ns;
};

static void add_time(struct work *work, lw_stack_id stack, uint64_t ns)
{
    if (ns > work->longest_ns) {
        work->longest = stack;
        work->longest_ns = ns;
    }
}

static bool add_up(const struct lw_profile *profile, struct work *works,
                   struct lw_error *err)
{
    struct lw_sums sums; /* of samples, which are each one, or added up already */
    bool done = true;

    lw_sums_init(&sums);
    for (size_t i = 0; i < profile->call_count; i++) {
        const struct lw_call_row *row = &profile->calls[i];

        works[row->thread].calls += row->calls;
        works[row->thread].called_ns += row->self_ns;
        add_time(&works[row->thread], row->stack, row->self_ns);
    }
    for (size_t i = 0; done && i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];
        struct work *work = &works[sample->thread];
        struct lw_sum sum = { .thread = sample->thread,
                              .stack = sample->stack,
                              .state = sample->state,
                              .ns = sample->weight_ns };

        work->samples += sample->count;
        work->has_states |= sample->state != LW_STATE_UNKNOWN;
        work->sampled_ns += sample->weight_ns;
        for (int s = 0; s <= LW_STATES_GC; s++)
            if (lw_states_have((enum lw_states)s, sample->state))
                work->states_ns[s] += sample->weight_ns;
        done = work->calls > 0 || lw_sums_add(&sums, &sum, err);
    }
    for (size_t i = 0; i < sums.count; i++)
        add_time(&works[sums.rows[i].thread], sums.rows[i].stack, sums.rows[i].ns);
    lw_sums_release(&sums);
    return done;
}

static void add_number(struct lw_table *table, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    lw_table_add_text(table, text, strlen(text));
}

static uint64_t lived_ns(const struct lw_profile *profile,
                         const struct lw_thread *thread)
{
    uint64_t end_ns = thread->end_ns ? thread->end_ns : profile->end_ns;

    return thread->start_ns && end_ns > thread->start_ns ? end_ns - thread->start_ns
                                                         : 0;
}

static void add_count(struct lw_table *table, uint64_t count, bool is_known)
{
    if (is_known)
        lw_table_add_integer(table, (int64_t)count);
    else
        lw_table_add_none(table);
}

static uint64_t time_of(const struct work *work)
{
    return work->calls ? work->called_ns : work->sampled_ns;
}

static void add_thread(struct lw_table *table, const struct lw_profile *profile,
                       const struct lw_thread *thread, const struct work *work,
                       uint64_t all_ns)
{
    const char *name = lw_profile_text(profile, thread->name);
    size_t stack_count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &stack_count);

    lw_table_row(table, 0);
    add_number(table, profile->processes[thread->process].pid);
    add_number(table, thread->tid);
    lw_table_add_text(table, name, strlen(name));
    if (lived_ns(profile, thread))
        lw_table_add_integer(table, (int64_t)lived_ns(profile, thread));
    else
        lw_table_add_none(table);
    add_count(table, table->columns == sample_columns ? work->samples : work->calls,
              profile->call_count || work->samples);
    lw_table_add_integer(table, (int64_t)time_of(work));
    lw_analysis_add_share(table, (double)time_of(work), (double)all_ns);
    for (int s = LW_STATES_CPU; table->columns == sample_columns && s <= LW_STATES_GC;
         s++)
        lw_analysis_add_share(table,
                              work->has_states ? (double)work->states_ns[s] : NAN,
                              (double)work->sampled_ns);
    if (work->longest != LW_NO_STACK) {
        const struct lw_frame *frame =
            lw_profile_frame(profile, stacks[work->longest].frame);

        lw_table_add_text(table, lw_profile_text(profile, frame->name),
                          lw_strings_len(profile->strings, frame->name));
    } else {
        lw_table_add_none(table);
    }
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct work *works;
    bool *threads;
    uint64_t all_ns = 0;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    if (profile->thread_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the profile does not tell threads apart");
    if (!lw_query_threads(query, profile, &threads, err))
        return false;
    works = lw_zalloc(profile->thread_count, sizeof(*works), err);
    if (!works) {
        lw_free(threads);
        return false;
    }
    if (profile->call_count == 0 && profile->sample_count > 0)
        lw_table_init(table, sample_columns, SAMPLE_COLUMN_COUNT);
    done = add_up(profile, works, err);
    for (size_t i = 0; i < profile->thread_count; i++)
        all_ns += !threads || threads[i] ? time_of(&works[i]) : 0;
    for (size_t i = 0; i < profile->thread_count; i++)
        if (!threads || threads[i])
            add_thread(table, profile, &profile->threads[i], &works[i], all_ns);
    lw_table_set_title(table, "%zu %s", table->row_count,
                       table->row_count == 1 ? "thread" : "threads");
    lw_analysis_note_losses(profile, table);
    lw_free(works);
    lw_free(threads);
    return done;
}

const struct lw_analysis lw_analysis_threads = {
    .name = "threads",
    .summary = "which threads there were, and what each did",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .run = run,
};
