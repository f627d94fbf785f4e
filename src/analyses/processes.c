/* Which processes there were, how long each lived and how it ended. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "pid", "process", LW_UNIT_TEXT, false },
    { "parent_pid", "parent", LW_UNIT_TEXT, false },
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "python", "python", LW_UNIT_TEXT, false },
    { "after_ns", "began after", LW_UNIT_NS, false },
    { "lived_ns", "lived", LW_UNIT_NS, false },
    { "exit_code", "exit", LW_UNIT_COUNT, false },
    { "threads", "threads", LW_UNIT_COUNT, false },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "time_ns", "in functions", LW_UNIT_NS, false },
    { "command", "command", LW_UNIT_TEXT, true },
};

/* Where there are samples and no calls. */
static const struct lw_column sample_columns[] = {
    { "pid", "process", LW_UNIT_TEXT, false },
    { "parent_pid", "parent", LW_UNIT_TEXT, false },
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "python", "python", LW_UNIT_TEXT, false },
    { "after_ns", "began after", LW_UNIT_NS, false },
    { "lived_ns", "lived", LW_UNIT_NS, false },
    { "exit_code", "exit", LW_UNIT_COUNT, false },
    { "threads", "threads", LW_UNIT_COUNT, false },
    { "samples", "samples", LW_UNIT_COUNT, false },
    { "time_ns", "sampled", LW_UNIT_NS, false },
    { "command", "command", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

struct work {
    uint64_t threads, calls, samples;
    uint64_t called_ns, sampled_ns;
};

static void add_up(const struct lw_profile *profile, struct work *works)
{
    const struct lw_thread *threads = profile->threads;

    for (size_t i = 0; i < profile->thread_count; i++)
        works[threads[i].process].threads++;
    for (size_t i = 0; i < profile->call_count; i++) {
        struct work *work = &works[threads[profile->calls[i].thread].process];

        work->calls += profile->calls[i].calls;
        work->called_ns += profile->calls[i].self_ns;
    }
    for (size_t i = 0; i < profile->sample_count; i++) {
        struct work *work = &works[threads[profile->samples[i].thread].process];

        work->samples += profile->samples[i].count;
        work->sampled_ns += profile->samples[i].weight_ns;
    }
}

static void add_integer(struct lw_table *table, bool is_known, uint64_t value)
{
    if (is_known)
        lw_table_add_integer(table, (int64_t)value);
    else
        lw_table_add_none(table);
}

static void add_pid(struct lw_table *table, uint64_t pid)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, pid);
    if (pid)
        lw_table_add_text(table, text, strlen(text));
    else
        lw_table_add_none(table);
}

static void add_text(struct lw_table *table, const struct lw_profile *profile,
                     lw_string_id id)
{
    if (id)
        lw_table_add_text(table, lw_profile_text(profile, id),
                          lw_strings_len(profile->strings, id));
    else
        lw_table_add_none(table);
}

static void add_process(struct lw_table *table, const struct lw_profile *profile,
                        const struct lw_process *process, const struct work *work)
{
    uint64_t start_ns = process->start_ns, end_ns = process->end_ns;

    lw_table_row(table, 0);
    add_pid(table, process->pid);
    add_pid(table, process->parent_pid);
    add_integer(table, process->rank >= 0, (uint64_t)process->rank);
    add_text(table, profile, process->python);
    add_integer(table, profile->start_ns && start_ns >= profile->start_ns,
                start_ns - profile->start_ns);
    add_integer(table, start_ns && end_ns >= start_ns, end_ns - start_ns);
    add_integer(table, process->exit_code >= 0, (uint64_t)process->exit_code);
    lw_table_add_integer(table, (int64_t)work->threads);
    if (table->columns == sample_columns)
        add_integer(table, work->samples > 0, work->samples);
    else
        add_integer(table, profile->call_count > 0, work->calls);
    lw_table_add_integer(table,
                         (int64_t)(work->calls ? work->called_ns : work->sampled_ns));
    add_text(table, profile, process->command);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct work *works;

    (void)query; /* all of them: this is the list to choose from */
    lw_table_init(table, columns, COLUMN_COUNT);
    if (profile->process_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "the profile does not tell processes apart");
    works = lw_zalloc(profile->process_count, sizeof(*works), err);
    if (!works)
        return false;
    if (profile->call_count == 0 && profile->sample_count > 0)
        lw_table_init(table, sample_columns, COLUMN_COUNT);
    add_up(profile, works);
    for (size_t i = 0; i < profile->process_count; i++)
        add_process(table, profile, &profile->processes[i], &works[i]);
    lw_table_set_title(table, "%zu %s", profile->process_count,
                       profile->process_count == 1 ? "process" : "processes");
    lw_analysis_note_losses(profile, table);
    lw_free(works);
    return true;
}

const struct lw_analysis lw_analysis_processes = {
    .name = "processes",
    .summary = "which processes there were, how long each lived, how it ended",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .run = run,
};
