/* Copies and memsets by direction: bytes, time, and how the bandwidth of single ones is
 * spread. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/hta_events.h"
#include "analyses/kernels.h"
#include "analyses/spread.h"
#include "base/alloc.h"
#include "base/text.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "rank", "rank", LW_UNIT_COUNT, false }, /* only as Holistic Trace Analysis */
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "bytes", "bytes", LW_UNIT_BYTES, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "bandwidth", "bytes/total", LW_UNIT_BYTES_S, false },
    { "bandwidth_mean", "each: mean", LW_UNIT_BYTES_S, false },
    { "bandwidth_sd", "sd", LW_UNIT_BYTES_S, false },
    { "bandwidth_min", "min", LW_UNIT_BYTES_S, false },
    { "bandwidth_25", "25 %", LW_UNIT_BYTES_S, false },
    { "bandwidth_50", "50 %", LW_UNIT_BYTES_S, false },
    { "bandwidth_75", "75 %", LW_UNIT_BYTES_S, false },
    { "bandwidth_max", "max", LW_UNIT_BYTES_S, false },
    { "name", "copy", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

static void add_rate(struct lw_table *table, double bytes_s)
{
    if (isfinite(bytes_s))
        lw_table_add_number(table, bytes_s);
    else
        lw_table_add_none(table);
}

static void add_spread(struct lw_table *table, const struct lw_spread *spread)
{
    add_rate(table, spread->mean);
    add_rate(table, spread->sd);
    add_rate(table, spread->min);
    add_rate(table, spread->quarter);
    add_rate(table, spread->median);
    add_rate(table, spread->three_quarters);
    add_rate(table, spread->max);
}

static void set_title(const struct lw_trace_scope *scope, struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_trace_scope_add_text(scope, &text);
    lw_table_set_title(table, "copies by direction: %s",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* ---- ours --------------------------------------------------------------------------- */

struct copy {
    lw_string_id name;
    uint64_t ns;
    int64_t bytes;  /* -1: not told */
    double bytes_s; /* not a number: not known */
};

struct copies {
    struct copy *list; /* owned */
    size_t count, capacity;
};

static bool add_copy(struct copies *copies, const struct lw_trace *trace,
                     const struct lw_event *event, struct lw_error *err)
{
    const struct lw_work_detail *detail =
        event->detail == LW_NONE ? NULL : &trace->works[event->detail];
    struct copy copy = { event->name, event->duration_ns, detail ? detail->bytes : -1,
                         NAN };

    if (copy.bytes >= 0 && copy.ns > 0)
        copy.bytes_s = (double)copy.bytes * 1e9 / (double)copy.ns;
    else if (detail && detail->bandwidth_gbps >= 0)
        copy.bytes_s = detail->bandwidth_gbps * 1e9;
    if (!lw_grow(&copies->list, &copies->capacity, copies->count + 1, sizeof(copy),
                 err))
        return false;
    copies->list[copies->count++] = copy;
    return true;
}

static int compare_copies(const void *a, const void *b)
{
    const struct copy *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

/* The COUNT copies of one name. RATES has room for as many. */
static void add_direction(struct lw_table *table, const struct lw_profile *profile,
                          const struct copy *list, size_t count, double *rates)
{
    struct lw_spread spread;
    double bytes = 0, ns = 0, told_ns = 0;
    size_t known = 0;

    for (size_t i = 0; i < count; i++) {
        ns += (double)list[i].ns;
        if (list[i].bytes >= 0) {
            bytes += (double)list[i].bytes;
            told_ns += (double)list[i].ns;
        }
        if (!isnan(list[i].bytes_s))
            rates[known++] = list[i].bytes_s;
    }
    spread = lw_spread_of(rates, known);
    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)count);
    if (told_ns > 0)
        lw_table_add_integer(table, bytes < 9e18 ? (int64_t)bytes : INT64_MAX);
    else
        lw_table_add_none(table);
    lw_table_add_integer(table, ns < 9e18 ? (int64_t)ns : INT64_MAX);
    add_rate(table, bytes * 1e9 / told_ns);
    add_spread(table, &spread);
    lw_table_add_text(table, lw_profile_text(profile, list->name),
                      lw_strings_len(profile->strings, list->name));
}

static bool add_own(const struct lw_trace_scope *scope, struct lw_table *table,
                    struct lw_error *err)
{
    const struct lw_trace *trace = scope->trace;
    struct copies copies = { 0 };
    double *rates = NULL;
    bool done = true;

    for (size_t i = 0; done && i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        if ((event->kind == LW_EVENT_MEMCPY || event->kind == LW_EVENT_MEMSET) &&
            lw_trace_scope_has(scope, event))
            done = add_copy(&copies, trace, event, err);
    }
    if (done && copies.count == 0)
        done = lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no copy to, from or on a GPU is in the trace");
    if (done)
        rates = lw_alloc(copies.count * sizeof(*rates), err);
    done = rates != NULL;
    if (done)
        qsort(copies.list, copies.count, sizeof(*copies.list), compare_copies);
    for (size_t first = 0, end = 0; done && first < copies.count; first = end) {
        while (end < copies.count && copies.list[end].name == copies.list[first].name)
            end++;
        add_direction(table, scope->profile, copies.list + first, end - first, rates);
    }
    lw_free(rates);
    lw_free(copies.list);
    return done;
}

/* ---- as Holistic Trace Analysis ----------------------------------------------------- */

#define HTA_NAME 11 /* letters of "Memcpy DtoH", which are all it looks at */

/* The bandwidth in use changes. */
struct change {
    const char *name; /* its first `len` letters are meant */
    size_t len;
    int64_t time_us;
    size_t order; /* of what happens in one moment: as it was met */
    double gbps;
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->name, y->name, len);

    if (order)
        return order;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    if (x->time_us != y->time_us)
        return x->time_us < y->time_us ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool is_same_name(const struct change *a, const struct change *b)
{
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

static struct change change_of(const struct lw_trace_scope *scope,
                               const struct lw_hta_event *event)
{
    const struct lw_event *copy = &scope->trace->events[event->event];
    const char *name = lw_profile_text(scope->profile, copy->name);
    struct change change = { .time_us = event->start_us };

    change.name = lw_text_starts(name, "Memset")   ? "Memset"
                  : lw_text_starts(name, "Memcpy") ? name
                                                   : "Memcpy Unknown";
    change.len = strlen(change.name);
    if (change.name == name && change.len > HTA_NAME)
        change.len = HTA_NAME;
    if (copy->detail != LW_NONE && scope->trace->works[copy->detail].bandwidth_gbps > 0)
        change.gbps = scope->trace->works[copy->detail].bandwidth_gbps;
    return change;
}

/* Each copy is two changes, up and down, and takes at least a microsecond. How many. */
static size_t find_changes(const struct lw_trace_scope *scope,
                           const struct lw_hta_events *events, struct change *changes)
{
    size_t count = 0, copies = 0;

    for (size_t i = 0; i < events->count; i++)
        copies += events->list[i].kind == LW_WORK_MEMORY;
    for (size_t i = 0; i < events->count; i++) {
        const struct lw_hta_event *event = &events->list[i];
        struct change *start = &changes[count], *end = &changes[copies + count];
        int64_t us = event->end_us - event->start_us;

        if (event->kind != LW_WORK_MEMORY)
            continue;
        *start = change_of(scope, event);
        *end = *start;
        end->time_us += us == 0 ? 1 : us;
        end->gbps = -start->gbps;
        start->order = count;
        end->order = copies + count;
        count++;
    }
    qsort(changes, 2 * count, sizeof(*changes), compare_changes);
    return 2 * count;
}

/* How the bandwidth in use was spread over its changes, but for those to nothing. */
static void add_series(struct lw_table *table, int64_t rank,
                       const struct change *changes, size_t count, double *rates)
{
    struct lw_spread spread;
    double gbps = 0;
    size_t known = 0;

    for (size_t i = 0; i < count; i++) {
        gbps += changes[i].gbps;
        if (gbps > 0)
            rates[known++] = gbps * 1e9;
    }
    if (known == 0)
        return;
    spread = lw_spread_of(rates, known);
    lw_table_row(table, 0);
    lw_table_add_integer(table, rank);
    lw_table_add_integer(table, (int64_t)known);
    lw_table_add_none(table);
    lw_table_add_none(table);
    lw_table_add_none(table);
    add_spread(table, &spread);
    lw_table_add_text(table, changes->name, changes->len);
}

static bool add_rank_as_hta(const struct lw_trace_scope *scope,
                            const struct lw_hta *hta, uint32_t rank,
                            struct lw_table *table, struct lw_error *err)
{
    struct lw_hta_events events;
    struct change *changes = NULL;
    double *rates = NULL;
    bool done = lw_hta_events_init(&events, hta, rank, err);

    if (done)
        changes = lw_alloc(2 * events.count * sizeof(*changes) + 1, err);
    if (changes)
        rates = lw_alloc(2 * events.count * sizeof(*rates) + 1, err);
    done = rates != NULL;
    if (done) {
        size_t count = find_changes(scope, &events, changes);

        for (size_t first = 0, end = 0; first < count; first = end) {
            while (end < count && is_same_name(&changes[first], &changes[end]))
                end++;
            add_series(table, lw_trace_rank_number(scope->trace, rank), changes + first,
                       end - first, rates);
        }
    }
    lw_free(rates);
    lw_free(changes);
    lw_hta_events_release(&events);
    return done;
}

static bool add_as_hta(const struct lw_trace_scope *scope, struct lw_table *table,
                       struct lw_error *err)
{
    struct lw_hta hta;
    bool done = lw_hta_init(&hta, scope->profile, err);

    for (uint32_t i = 0; done && i < scope->trace->rank_count; i++)
        if (scope->ranks[i])
            done = add_rank_as_hta(scope, &hta, i, table, err);
    lw_hta_release(&hta);
    return done;
}

bool lw_kernels_by_copy(const struct lw_trace_scope *scope,
                        const struct lw_query *query, struct lw_table *table,
                        struct lw_error *err)
{
    bool as_hta = query->compat == LW_COMPAT_HTA;

    lw_table_init(table, columns + !as_hta, COLUMN_COUNT - !as_hta);
    if (as_hta ? !add_as_hta(scope, table, err) : !add_own(scope, table, err))
        return false;
    set_title(scope, table);
    lw_analysis_note_losses(scope->profile, table);
    return true;
}

/* ---- kernels by name ---------------------------------------------------------------- */

static bool add_rank_kernels(const struct lw_trace_scope *scope,
                             const struct lw_hta *hta, uint32_t rank,
                             struct lw_kernel_groups *groups, struct lw_error *err)
{
    struct lw_hta_events events;
    bool done = lw_hta_events_init(&events, hta, rank, err);

    for (size_t i = 0; done && i < events.count; i++) {
        const struct lw_hta_event *event = &events.list[i];
        struct lw_kernel_group *group;
        struct lw_kernel_key key;

        if (event->kind == LW_WORK_NONE)
            continue;
        memset(&key, 0, sizeof(key));
        key.rank = rank;
        key.name = scope->trace->events[event->event].name;
        group = lw_kernel_groups_get(groups, &key, err);
        done = group != NULL;
        if (done) {
            group->kind = event->kind;
            lw_kernel_group_add(group, (event->end_us - event->start_us) * 1000, NULL,
                                1);
        }
    }
    lw_hta_events_release(&events);
    return done;
}

bool lw_kernels_add_hta(const struct lw_trace_scope *scope,
                        struct lw_kernel_groups *groups, struct lw_error *err)
{
    struct lw_hta hta;
    bool done = lw_hta_init(&hta, scope->profile, err);

    for (uint32_t i = 0; done && i < scope->trace->rank_count; i++)
        if (scope->ranks[i])
            done = add_rank_kernels(scope, &hta, i, groups, err);
    lw_hta_release(&hta);
    return done;
}
