/* Windows of ops, by the counter that says when they were on; see analyses/op_windows.h. */

#include "analyses/op_windows.h"

#include <string.h>

#include "analyses/analysis.h"
#include "analyses/op_spans.h"
#include "model/units.h"

struct windows {
    uint64_t count;
    uint64_t ns; /* all of them */
};

static uint64_t end_of_process(const struct lw_profile *profile, uint32_t process)
{
    uint64_t end_ns = profile->processes[process].end_ns;

    return end_ns ? end_ns : profile->end_ns;
}

bool lw_op_windows_find(const struct lw_profile *profile, uint32_t process,
                        struct lw_intervals *set, struct lw_error *err)
{
    uint64_t end_ns = end_of_process(profile, process), open_ns = 0, last_ns = 0;

    for (size_t i = 0; i < profile->counter_count; i++) {
        const struct lw_counter_point *point = &profile->counters[i];

        if (point->process != process)
            continue;
        last_ns = point->time_ns;
        if (strcmp(lw_profile_text(profile, point->name), LW_OP_SPANS_COUNTER) != 0)
            continue;
        if (point->value > 0 && open_ns == 0) {
            open_ns = point->time_ns;
        } else if (point->value <= 0 && open_ns > 0) {
            if (!lw_intervals_add(set, open_ns, point->time_ns, err))
                return false;
            open_ns = 0;
        }
    }
    return open_ns == 0 ||
           lw_intervals_add(set, open_ns, end_ns ? end_ns : last_ns, err);
}

static bool add_windows(const struct lw_profile *profile, struct windows *windows,
                        struct lw_error *err)
{
    bool done = true;

    for (uint32_t i = 0; done && i < profile->process_count; i++) {
        struct lw_intervals set = { 0 };

        done = lw_op_windows_find(profile, i, &set, err);
        windows->count += set.count;
        windows->ns += lw_intervals_total(&set);
        lw_intervals_release(&set);
    }
    return done;
}

static void note_windows(const struct lw_profile *profile,
                         const struct windows *windows, struct lw_table *table)
{
    struct lw_buf text;

    if (windows->count == 0)
        return;
    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "Ops were recorded for ");
    lw_units_add_ns(&text, (int64_t)windows->ns);
    if (windows->count > 1) {
        lw_buf_add_text(&text, ", in ");
        lw_units_add_count(&text, (int64_t)windows->count);
        lw_buf_add_text(&text, " windows of whole steps");
    }
    if (profile->end_ns > profile->start_ns) {
        lw_buf_add_text(&text, "; the run took ");
        lw_units_add_ns(&text, (int64_t)(profile->end_ns - profile->start_ns));
    }
    lw_buf_add_text(&text,
                    windows->count > 1 ? " (run with --ops=all for every op)." : ".");
    lw_table_note(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

bool lw_op_windows_note(const struct lw_profile *profile, struct lw_table *table,
                        struct lw_error *err)
{
    struct windows windows = { 0 };

    if (!add_windows(profile, &windows, err))
        return false;
    note_windows(profile, &windows, table);
    return true;
}
