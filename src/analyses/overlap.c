/* Communication against computation: how long a device talked to other ranks, and how
 * much of that it hid behind computing. By rank, by what ran at the same time, and by the
 * ranges that a person marked, as the device saw them. */

#include "analyses/device_times.h"
#include "analyses/hta_events.h"
#include "analyses/overlap_ranges.h"
#include "base/alloc.h"

/* clang-format off */
static const struct lw_column rank_columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false },
    { "device", "device", LW_UNIT_COUNT, false },
    { "communication_ns", "communication", LW_UNIT_NS, false },
    { "hidden_ns", "hidden", LW_UNIT_NS, false },
    { "hidden_share", "of it", LW_UNIT_SHARE, false },
    { "exposed_ns", "exposed", LW_UNIT_NS, false },
    { "computation_ns", "computation", LW_UNIT_NS, false },
    { "memory_ns", "copies", LW_UNIT_NS, false },
    { "busy_ns", "busy", LW_UNIT_NS, false },
    { "span_ns", "from first to last", LW_UNIT_NS, false },
};
static const struct lw_column kind_columns[] = {
    { "kind", "at the same time", LW_UNIT_TEXT, true },
    { "time_ns", "time", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What one device did, or as Holistic Trace Analysis has it all devices of a rank. */
struct device {
    uint32_t rank;
    int32_t device;                         /* -1: not told, or all */
    int64_t times_ns[LW_WORK_COMBINATIONS]; /* exactly these at once */
    int64_t computation_ns, communication_ns, memory_ns;
    int64_t hidden_ns; /* communication while it computed */
    int64_t busy_ns;
    int64_t span_ns; /* from the first work to the end of the last */
};

struct devices {
    struct device *list; /* owned */
    size_t count;
};

static int64_t sum_with(const int64_t times_ns[LW_WORK_COMBINATIONS], unsigned bit)
{
    int64_t sum = 0;

    for (unsigned i = 1; i < LW_WORK_COMBINATIONS; i++)
        if (i & bit)
            sum += times_ns[i];
    return sum;
}

static bool find_devices(struct devices *devices, const struct lw_trace_scope *scope,
                         struct lw_error *err)
{
    struct lw_device_times times;
    bool done = lw_device_times_init(&times, scope, err);

    if (done) {
        devices->list = lw_zalloc(times.count + 1, sizeof(*devices->list), err);
        done = devices->list != NULL;
    }
    for (size_t i = 0; done && i < times.count; i++) {
        struct device *device = &devices->list[devices->count++];

        device->rank = times.list[i].rank;
        device->device = times.list[i].device;
        lw_device_time_combine(&times.list[i], device->times_ns);
        for (unsigned b = 1; b < LW_WORK_COMBINATIONS; b++)
            device->busy_ns += device->times_ns[b];
        device->span_ns = device->busy_ns + device->times_ns[0];
        device->computation_ns = sum_with(device->times_ns, LW_WORK_BIT_COMPUTATION);
        device->communication_ns =
            sum_with(device->times_ns, LW_WORK_BIT_COMMUNICATION);
        device->memory_ns = sum_with(device->times_ns, LW_WORK_BIT_MEMORY);
        device->hidden_ns =
            device->times_ns[LW_WORK_BIT_COMPUTATION | LW_WORK_BIT_COMMUNICATION] +
            device->times_ns[LW_WORK_COMBINATIONS - 1];
    }
    lw_device_times_release(&times);
    return done;
}

/* As Holistic Trace Analysis: its microseconds as ns. */
static bool add_device_as_hta(void *context, const struct lw_hta *hta, uint32_t rank,
                              struct lw_hta_events *events, struct lw_error *err)
{
    const unsigned both = LW_HTA_COMPUTATION | LW_HTA_COMMUNICATION;
    struct devices *devices = context;
    struct device *device = &devices->list[devices->count++];
    int64_t pairs_us[LW_HTA_COMBINATIONS];

    (void)hta;
    device->rank = rank;
    device->device = -1;
    if (!lw_hta_sweep(events, both, pairs_us, err) ||
        !lw_hta_sweep(events, both | LW_HTA_MEMORY, device->times_ns, err))
        return false;
    for (size_t i = 0; i < LW_HTA_COMBINATIONS; i++)
        device->times_ns[i] *= 1000;
    device->computation_ns = lw_hta_busy_us(events, LW_HTA_COMPUTATION) * 1000;
    device->communication_ns = lw_hta_busy_us(events, LW_HTA_COMMUNICATION) * 1000;
    device->memory_ns = lw_hta_busy_us(events, LW_HTA_MEMORY) * 1000;
    device->hidden_ns = pairs_us[both] * 1000;
    device->busy_ns = lw_hta_busy_us(events, 0) * 1000;
    device->span_ns = lw_hta_span_us(events) * 1000;
    return true;
}

static bool find_devices_as_hta(struct devices *devices,
                                const struct lw_trace_scope *scope,
                                struct lw_error *err)
{
    devices->list =
        lw_zalloc(scope->trace->rank_count + 1, sizeof(*devices->list), err);
    return devices->list && lw_hta_visit_ranks(scope, add_device_as_hta, devices, err);
}

static void add_ranks(struct lw_table *table, const struct lw_trace_scope *scope,
                      const struct devices *devices)
{
    for (size_t i = 0; i < devices->count; i++) {
        const struct device *d = &devices->list[i];

        lw_table_row(table, 0);
        lw_table_add_integer(table, lw_trace_rank_number(scope->trace, d->rank));
        if (d->device >= 0)
            lw_table_add_integer(table, d->device);
        else
            lw_table_add_none(table);
        lw_table_add_integer(table, d->communication_ns);
        lw_table_add_integer(table, d->hidden_ns);
        lw_analysis_add_share(table, (double)d->hidden_ns, (double)d->communication_ns);
        lw_table_add_integer(table, d->communication_ns - d->hidden_ns);
        lw_table_add_integer(table, d->computation_ns);
        lw_table_add_integer(table, d->memory_ns);
        lw_table_add_integer(table, d->busy_ns);
        lw_table_add_integer(table, d->span_ns);
    }
}

static void add_combination(struct lw_table *table, unsigned bits, bool as_hta)
{
    static const char *const own[] = { "computation", "communication", "copies" };
    static const char *const hta[] = { "COMPUTATION", "COMMUNICATION", "MEMORY" };
    struct lw_buf text;

    lw_buf_init(&text, 0);
    for (unsigned i = 0; i < COUNT(own); i++)
        if (bits & (1u << i)) {
            if (text.len > 0)
                lw_buf_add_text(&text, as_hta ? " overlapping " : " and ");
            lw_buf_add_text(&text, as_hta ? hta[i] : own[i]);
        }
    if (bits == 0)
        lw_buf_add_text(&text, "nothing (idle)");
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

/* The longest first, and idle time at the end; it is none of its kinds for Holistic
 * Trace Analysis. */
static void add_kinds(struct lw_table *table, const struct devices *devices,
                      bool as_hta)
{
    int64_t times_ns[LW_WORK_COMBINATIONS] = { 0 }, whole_ns = 0;
    unsigned order[LW_WORK_COMBINATIONS - 1];

    for (unsigned b = as_hta ? 1 : 0; b < LW_WORK_COMBINATIONS; b++) {
        for (size_t i = 0; i < devices->count; i++)
            times_ns[b] += devices->list[i].times_ns[b];
        whole_ns += times_ns[b];
    }
    for (unsigned b = 1; b < LW_WORK_COMBINATIONS; b++) {
        unsigned at = b - 1;

        for (; at > 0 && times_ns[order[at - 1]] < times_ns[b]; at--)
            order[at] = order[at - 1];
        order[at] = b;
    }
    for (unsigned i = 0; i < LW_WORK_COMBINATIONS; i++) {
        unsigned bits = i < COUNT(order) ? order[i] : 0;

        if (times_ns[bits] == 0)
            continue;
        lw_table_row(table, 0);
        add_combination(table, bits, as_hta);
        lw_table_add_integer(table, times_ns[bits]);
        lw_analysis_add_share(table, (double)times_ns[bits], (double)whole_ns);
    }
}

static bool has_communication(const struct devices *devices)
{
    for (size_t i = 0; i < devices->count; i++)
        if (devices->list[i].communication_ns > 0)
            return true;
    return false;
}

static void set_title(struct lw_table *table, const struct lw_trace_scope *scope,
                      const char *what, bool as_hta)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(scope, &text);
    lw_table_set_title(table, "%s%s; %s", what,
                       as_hta ? ", as Holistic Trace Analysis has it" : "",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static bool run_devices(const struct lw_trace_scope *scope,
                        const struct lw_query *query, struct lw_table *table,
                        struct lw_error *err)
{
    bool as_hta = query->compat == LW_COMPAT_HTA;
    bool by_kind = lw_query_is_by(query, "kind");
    struct devices devices = { 0 };
    bool done = as_hta ? find_devices_as_hta(&devices, scope, err)
                       : find_devices(&devices, scope, err);

    if (done && by_kind) {
        set_title(table, scope, "What devices did at the same time", as_hta);
        add_kinds(table, &devices, as_hta);
    } else if (done) {
        set_title(table, scope, "Communication against computation", as_hta);
        add_ranks(table, scope, &devices);
    }
    if (done && as_hta && devices.count == 0)
        lw_table_note(table, LW_HTA_NOTHING);
    else if (done && !has_communication(&devices))
        lw_table_note(table, "No device communicated: there is one rank, or its "
                             "collectives ran on the host.");
    else if (done && !by_kind)
        lw_table_note(table, "hidden: communication while the same device computed; "
                             "exposed: the rest, which the step waits for. Per "
                             "collective: the view ranks.");
    lw_free(devices.list);
    return done;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_trace_scope scope;
    bool by_range = lw_query_is_by(query, "range");
    bool done;

    if (lw_query_is_by(query, "kind"))
        lw_table_init(table, kind_columns, COUNT(kind_columns));
    else if (by_range)
        lw_overlap_ranges_columns(table);
    else
        lw_table_init(table, rank_columns, COUNT(rank_columns));
    done = lw_trace_scope_init(&scope, profile, query, "overlap", err) &&
           lw_trace_scope_wants_device(&scope, "overlap", err);
    if (done && by_range) {
        set_title(table, &scope, "Marked ranges on devices",
                  query->compat == LW_COMPAT_HTA);
        done = lw_overlap_ranges(&scope, query, table, err);
    } else if (done) {
        done = run_devices(&scope, query, table, err);
    }
    if (done) {
        lw_analysis_note_losses(profile, table);
        done = lw_analysis_arrange(table, query, err);
    }
    lw_trace_scope_release(&scope);
    return done;
}

const struct lw_analysis lw_analysis_overlap = {
    .name = "overlap",
    .summary = "how much communication hides behind computation",
    .want = LW_WANT_TRACE,
    .sorts_columns = true,
    .by = "rank|kind|range",
    .compat = "hta",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
