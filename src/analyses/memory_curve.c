/* Memory over time, and what each device had of it in all.
 *
 * A person is shown as many points as they want rows: of equal parts of the time the
 * highest. All points are shown to whoever sets no limit. */

#include "analyses/memory_tb.h"
#include "model/units.h"

static const struct lw_column curve_columns[] = {
    { "device", "device", LW_UNIT_TEXT, false },
    { "time_ns", "at", LW_UNIT_NS, false },
    { "allocated_bytes", "allocated", LW_UNIT_BYTES, false },
    { "reserved_bytes", "reserved", LW_UNIT_BYTES, false },
    { "peak_share", "of the peak", LW_UNIT_SHARE, false },
};

static void bytes_cell(struct lw_table *table, int64_t bytes)
{
    if (bytes < 0)
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, bytes);
}

static void point(const struct lw_memory_uses *uses, uint32_t index,
                  struct lw_table *table)
{
    const struct lw_memory_use *use = &uses->list[index];
    const struct lw_memory_device *device = &uses->devices[use->device];

    lw_table_row(table, 0);
    lw_memory_device_cell(uses, use->device, table);
    lw_memory_time_cell(uses, uses->trace->memory[index].time_ns, table);
    lw_table_add_integer(table, use->allocated);
    bytes_cell(table, use->reserved);
    lw_analysis_add_share(table, (double)use->allocated, (double)device->peak_bytes);
}

/* Of what was there before the recording, the sum is one point. The plugin's curve has
 * only what all is told of. */
static bool is_point(const struct lw_memory_uses *uses,
                     const struct lw_memory_device *device, uint32_t at,
                     enum lw_compat compat)
{
    const struct lw_memory_event *memory = uses->trace->memory;
    const struct lw_memory_event *event = &memory[uses->order[at]];

    if (compat == LW_COMPAT_TB)
        return event->address != 0 && event->allocated >= 0 && event->reserved >= 0;
    if (event->kind == LW_MEMORY_BEFORE)
        return at + 1 == device->first + device->count ||
               memory[uses->order[at + 1]].kind != LW_MEMORY_BEFORE;
    return event->kind != LW_MEMORY_FAILED;
}

static int64_t limit_of(const struct lw_query *query)
{
    int64_t limit = -1;

    for (size_t i = 0; i < query->restriction_count; i++)
        if (query->restrictions[i].kind == LW_RESTRICT_COUNT)
            limit = query->restrictions[i].count;
    return limit;
}

static void all_points(const struct lw_memory_uses *uses,
                       const struct lw_memory_device *device, enum lw_compat compat,
                       struct lw_table *table)
{
    for (uint32_t i = device->first; i < device->first + device->count; i++)
        if (is_point(uses, device, i, compat))
            point(uses, uses->order[i], table);
}

/* The highest of each of COUNT parts of the time that have any. */
static void some_points(const struct lw_memory_uses *uses,
                        const struct lw_memory_device *device, uint64_t count,
                        enum lw_compat compat, struct lw_table *table)
{
    const struct lw_memory_event *memory = uses->trace->memory;
    uint64_t start_ns = memory[uses->order[device->first]].time_ns;
    uint64_t end_ns = memory[uses->order[device->first + device->count - 1]].time_ns;
    uint64_t part_ns = (end_ns - start_ns) / count + 1, part = 0;
    uint32_t best = LW_NONE;

    for (uint32_t i = device->first; i < device->first + device->count; i++) {
        uint32_t index = uses->order[i];
        uint64_t here = (memory[index].time_ns - start_ns) / part_ns;

        if (!is_point(uses, device, i, compat))
            continue;
        if (best != LW_NONE && here != part) {
            point(uses, best, table);
            best = LW_NONE;
        }
        part = here;
        if (best == LW_NONE || uses->list[index].allocated > uses->list[best].allocated)
            best = index;
    }
    if (best != LW_NONE)
        point(uses, best, table);
}

bool lw_memory_by_curve(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err)
{
    int64_t limit = limit_of(query);
    bool is_thinned = false;

    lw_table_init(table, curve_columns,
                  sizeof(curve_columns) / sizeof(curve_columns[0]));
    for (size_t i = 0; i < uses->device_count; i++) {
        const struct lw_memory_device *device = &uses->devices[i];
        uint64_t share = limit > 0 ? (uint64_t)limit / uses->device_count : 0;

        if (limit <= 0 || device->count <= share) {
            all_points(uses, device, query->compat, table);
        } else {
            some_points(uses, device, share ? share : 1, query->compat, table);
            is_thinned = true;
        }
    }
    if (is_thinned)
        lw_table_note(table, "The highest of each part of the time; -n 0 shows all.");
    return lw_memory_arrange(table, query, NULL, err);
}

/* By device */

static const struct lw_column device_columns[] = {
    { "device", "device", LW_UNIT_TEXT, true },
    { "allocations", "allocs", LW_UNIT_COUNT, false },
    { "frees", "frees", LW_UNIT_COUNT, false },
    { "allocated_bytes", "allocated", LW_UNIT_BYTES, false },
    { "start_bytes", "at start", LW_UNIT_BYTES, false },
    { "peak_bytes", "peak", LW_UNIT_BYTES, false },
    { "peak_time_ns", "peak at", LW_UNIT_NS, false },
    { "end_bytes", "at end", LW_UNIT_BYTES, false },
    { "peak_reserved_bytes", "most reserved", LW_UNIT_BYTES, false },
    { "end_reserved_bytes", "reserved at end", LW_UNIT_BYTES, false },
    { "capacity_bytes", "capacity", LW_UNIT_BYTES, false },
};

static int64_t capacity_of(const struct lw_memory_uses *uses,
                           const struct lw_memory_device *device)
{
    const struct lw_trace *trace = uses->trace;

    for (size_t i = 0; device->type != 0 && i < trace->gpu_count; i++)
        if (trace->gpus[i].rank == device->rank && trace->gpus[i].id == device->id)
            return trace->gpus[i].memory_bytes;
    return -1;
}

/* Of a timeline's sums it is not known what was allocated. */
static void count_cells(const struct lw_memory_uses *uses,
                        const struct lw_memory_device *device, struct lw_table *table)
{
    if (uses->is_timeline && device->allocation_count == 0) {
        lw_table_add_none(table);
        lw_table_add_none(table);
        lw_table_add_none(table);
        return;
    }
    lw_table_add_integer(table, (int64_t)device->allocation_count);
    lw_table_add_integer(table, (int64_t)device->free_count);
    lw_table_add_integer(table, device->allocated_bytes);
}

bool lw_memory_by_device(const struct lw_memory_uses *uses,
                         const struct lw_query *query, struct lw_table *table,
                         struct lw_error *err)
{
    lw_table_init(table, device_columns,
                  sizeof(device_columns) / sizeof(device_columns[0]));
    for (uint32_t i = 0; i < uses->device_count; i++) {
        const struct lw_memory_device *device = &uses->devices[i];

        lw_table_row(table, 0);
        lw_memory_device_cell(uses, i, table);
        count_cells(uses, device, table);
        lw_table_add_integer(table, device->start_bytes);
        lw_table_add_integer(table, device->peak_bytes);
        lw_memory_time_cell(uses, uses->trace->memory[device->peak].time_ns, table);
        lw_table_add_integer(table, device->end_bytes);
        bytes_cell(table, device->peak_reserved);
        bytes_cell(table, device->end_reserved);
        bytes_cell(table, capacity_of(uses, device));
    }
    return lw_memory_arrange(table, query, "peak_bytes", err);
}
