/* Holistic Trace Analysis's temporal breakdown: the time from the first work on a device
 * of each rank to the end of the last, as idle, computing and the rest. */

#include "analyses/hta_events.h"
#include "analyses/overview.h"
#include "analyses/trace_scope.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "idle_ns", "idle", LW_UNIT_NS, false },
    { "idle_share", "of it", LW_UNIT_SHARE, false },
    { "computation_ns", "computing", LW_UNIT_NS, false },
    { "computation_share", "of it", LW_UNIT_SHARE, false },
    { "other_ns", "other work", LW_UNIT_NS, false },
    { "other_share", "of it", LW_UNIT_SHARE, false },
    { "span_ns", "from first to last", LW_UNIT_NS, false },
};
/* clang-format on */

struct breakdown {
    struct lw_table *table;
    bool stops;      /* it would, with an AssertionError */
    bool drops_step; /* the last one */
};

/* Where the rounding to microseconds left so many negative durations that more was
 * computed than there was time, it stops. */
static bool add_rank(void *context, const struct lw_hta *hta, uint32_t rank,
                     struct lw_hta_events *events, struct lw_error *err)
{
    struct breakdown *breakdown = context;
    struct lw_table *table = breakdown->table;
    int64_t span_us = lw_hta_span_us(events);
    int64_t idle_us = span_us - lw_hta_busy_us(events, 0);
    int64_t computation_us = lw_hta_busy_us(events, LW_HTA_COMPUTATION);
    int64_t other_us = span_us - computation_us - idle_us;

    (void)err; /* the table keeps its own failure */
    lw_table_row(table, 0);
    lw_table_add_integer(table, lw_trace_rank_number(hta->trace, rank));
    lw_table_add_integer(table, idle_us * 1000);
    lw_analysis_add_share(table, (double)idle_us, (double)span_us);
    lw_table_add_integer(table, computation_us * 1000);
    lw_analysis_add_share(table, (double)computation_us, (double)span_us);
    lw_table_add_integer(table, other_us * 1000);
    lw_analysis_add_share(table, (double)other_us, (double)span_us);
    lw_table_add_integer(table, span_us * 1000);
    breakdown->stops |= idle_us > span_us || computation_us > span_us || other_us < 0;
    breakdown->drops_step |= hta->last_step_us != NULL;
    return true;
}

static void set_title(struct lw_table *table, const struct lw_trace_scope *scope)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(scope, &text);
    lw_table_set_title(table, "Time of devices, as Holistic Trace Analysis has it; %s",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static void add_notes(const struct breakdown *breakdown)
{
    if (breakdown->table->row_count == 0)
        lw_table_note(breakdown->table, LW_HTA_NOTHING);
    if (breakdown->stops)
        lw_table_note(breakdown->table,
                      "HTA itself stops here with an AssertionError: its rounding to "
                      "whole microseconds makes durations negative.");
    if (breakdown->drops_step)
        lw_table_note(breakdown->table,
                      "HTA leaves out the last step, and what it launched.");
}

bool lw_overview_hta(const struct lw_profile *profile, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err)
{
    struct breakdown breakdown = { .table = table };
    struct lw_trace_scope scope;
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    if (!lw_query_is_by(query, "category"))
        return lw_fail(err, LW_ERR_USAGE,
                       "overview --compat hta has a row for each rank, and no --by %s",
                       query->by);
    done = lw_trace_scope_init(&scope, profile, query, "overview", err) &&
           lw_trace_scope_wants_device(&scope, "HTA's overview", err) &&
           lw_hta_visit_ranks(&scope, add_rank, &breakdown, err);
    if (done) {
        set_title(table, &scope);
        add_notes(&breakdown);
        lw_analysis_note_losses(profile, table);
        done = lw_analysis_arrange(table, query, err);
    }
    lw_trace_scope_release(&scope);
    return done;
}
