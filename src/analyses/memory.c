/* Where the memory of the devices and of the host went: who allocated it, the curve of it,
 * and who held it at its peak. Of a torch trace, of an allocator's snapshot, or of a
 * memory timeline. */

#include <inttypes.h>
#include <string.h>

#include "analyses/memory_uses.h"
#include "base/text.h"
#include "model/units.h"

struct view {
    const char *by;
    bool (*show)(const struct lw_memory_uses *uses, const struct lw_query *query,
                 struct lw_table *table, struct lw_error *err);
    const char *title; /* of its rows */
};

static const struct view views[] = {
    { "op", lw_memory_by_op, "memory by op" },
    { "curve", lw_memory_by_curve, "memory over time" },
    { "peak", lw_memory_by_peak, "who held memory at its peak" },
    { "event", lw_memory_by_event, "allocations" },
    { "category", lw_memory_by_category, "what memory was for" },
    { "device", lw_memory_by_device, "memory of each device" },
    { "segment", lw_memory_by_segment, "segments of the allocator and their blocks" },
};

static void set_title(const struct lw_memory_uses *uses, const struct view *view,
                      struct lw_table *table)
{
    const char *file = lw_profile_fact(uses->profile, "file");
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (uses->trace->event_count > 0)
        lw_trace_scope_add_text(&uses->scope, &text);
    else if (file)
        lw_text_add_printable(&text, file, strlen(file));
    lw_buf_addf(&text, "%s%s, over ", text.len ? ": " : "", view->title);
    lw_units_add_ns(&text, uses->end_ns > uses->start_ns
                               ? (int64_t)(uses->end_ns - uses->start_ns)
                               : 0);
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* "GPU0: at most 2.09 GB at 31.2 ms of 1.00 GB at the start ..." */
static void note_device(const struct lw_memory_uses *uses, uint32_t index,
                        struct lw_table *table)
{
    const struct lw_memory_device *device = &uses->devices[index];
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_memory_add_device(uses, index, &text);
    lw_buf_add_text(&text, ": at most ");
    lw_units_add_bytes(&text, device->peak_bytes);
    lw_buf_add_text(&text, " at ");
    lw_units_add_ns(
        &text, (int64_t)(uses->trace->memory[device->peak].time_ns - uses->start_ns));
    if (device->peak_reserved > 0) {
        lw_buf_add_text(&text, ", ");
        lw_units_add_bytes(&text, device->peak_reserved);
        lw_buf_add_text(&text, " reserved");
    }
    lw_buf_add_text(&text,
                    device->is_told ? "" : ", counted from the start of the recording");
    lw_table_note(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* More devices than this are for --by device. */
#define NOTED_DEVICES 4

static void add_notes(const struct lw_memory_uses *uses, const struct lw_query *query,
                      struct lw_table *table)
{
    if (!lw_query_is_by(query, "device"))
        for (uint32_t i = 0; i < uses->device_count && i < NOTED_DEVICES; i++)
            note_device(uses, i, table);
    for (uint32_t i = 0; i < uses->device_count && i < NOTED_DEVICES; i++)
        lw_memory_note_segments(uses, i, table);
    if (uses->no_address > 0 && !uses->is_timeline)
        lw_table_note(table,
                      "%zu of %zu allocations and frees %s no address, as before torch "
                      "1.10: what %s together with is not known.",
                      uses->no_address, uses->meant_count,
                      uses->no_address == 1 ? "has" : "have",
                      uses->no_address == 1 ? "it belongs" : "they belong");
    if (lw_query_is_by(query, "op"))
        lw_table_note(table, "--by peak: who held it then; %s",
                      uses->is_snapshot ? "--by segment: where it lies."
                                        : "--by category: what for.");
    lw_analysis_note_losses(uses->profile, table);
}

/* Whoever does not say by what gets what there is. */
static void choose(const struct lw_memory_uses *uses, struct lw_query *query)
{
    if (uses->is_timeline && strchr(query->by, '|'))
        query->by = "category";
}

static const struct view *find_view(const struct lw_query *query)
{
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        if (lw_query_is_by(query, views[i].by))
            return &views[i];
    return &views[0];
}

/* What a view does not know of what there is. */
static bool check_view(const struct lw_memory_uses *uses, const struct lw_query *query,
                       struct lw_error *err)
{
    bool by_op = lw_query_is_by(query, "op") || lw_query_is_by(query, "peak") ||
                 lw_query_is_by(query, "event");

    if (query->compat == LW_COMPAT_TB &&
        (lw_query_is_by(query, "category") || lw_query_is_by(query, "segment") ||
         uses->trace->event_count == 0))
        return lw_fail(
            err, LW_ERR_USAGE,
            "torch_tb_profiler knows no categories, snapshots and timelines");
    if (uses->is_timeline && by_op)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "a memory timeline does not say who allocated: --by category, "
                       "curve or device");
    if (lw_query_is_by(query, "segment") && !uses->is_snapshot)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "segments are in an allocator's snapshot "
                       "(torch.cuda.memory._dump_snapshot) only");
    return true;
}

static bool show(const struct lw_memory_uses *uses, const struct lw_query *query,
                 struct lw_table *table, struct lw_error *err)
{
    const struct view *view = find_view(query);
    bool by_op = view == &views[0];

    if (!check_view(uses, query, err))
        return false;
    if (by_op && query->compat == LW_COMPAT_TB
            ? !lw_memory_by_op_tb(uses, query, table, err)
        : by_op && uses->is_snapshot ? !lw_memory_by_stack(uses, query, table, err)
                                     : !view->show(uses, query, table, err))
        return false;
    set_title(uses, view, table);
    add_notes(uses, query, table);
    return true;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_query chosen = *query; /* what it owns stays the other's */
    struct lw_memory_uses uses;
    bool done;

    done = lw_memory_uses_init(&uses, profile, query, err);
    if (done) {
        choose(&uses, &chosen);
        done = show(&uses, &chosen, table, err);
    }
    lw_memory_uses_release(&uses);
    return done;
}

const struct lw_analysis lw_analysis_memory = {
    .name = "memory",
    .summary = "who allocated memory, its curve, and who held it at its peak",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "op|curve|peak|event|category|device|segment",
    .compat = "tb",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
