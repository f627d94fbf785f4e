/* What memory is for: parameters, gradients, activations ...
 *
 * A memory timeline tells it. Of a trace it is told from when an allocation was made and
 * how long it was held, by the first of these rules that fits:
 *
 *   in Optimizer.step           temporary if freed before its end, else optimizer state
 *   freed before its outermost op ended              temporary
 *   in a DataLoader             input
 *   in a backward function      gradient if held when the next Optimizer.step begins, else
 *                               autograd detail (with no such step behind it: unknown)
 *   held when a backward function begins             activation
 *
 * All else is unknown: what was there before the recording began (parameters, for one)
 * cannot be told. torch itself goes by data flow: a constant made in forward it calls
 * input, and an optimizer's temporaries by what they were computed from; but for these,
 * tests/live/test_kineto_memory.py finds its answers to be the same. */

#include <stdlib.h>
#include <string.h>

#include "analyses/memory_uses.h"
#include "base/alloc.h"
#include "base/text.h"

static const struct lw_column columns[] = {
    { "category", "category", LW_UNIT_TEXT, true },
    { "device", "device", LW_UNIT_TEXT, false },
    { "peak_bytes", "at the peak", LW_UNIT_BYTES, false },
    { "peak_share", "share", LW_UNIT_SHARE, false },
    { "most_bytes", "at most", LW_UNIT_BYTES, false },
    { "most_time_ns", "at", LW_UNIT_NS, false },
    { "end_bytes", "at end", LW_UNIT_BYTES, false },
    { "allocations", "allocs", LW_UNIT_COUNT, false },
    { "allocated_bytes", "allocated", LW_UNIT_BYTES, false },
};

/* Behind torch's own. */
#define BEFORE LW_MEMORY_CATEGORY_COUNT
#define KIND_COUNT (LW_MEMORY_CATEGORY_COUNT + 1)

static const char *const names[KIND_COUNT] = {
    [LW_MEMORY_UNKNOWN] = "unknown",
    [LW_MEMORY_PARAMETER] = "parameter",
    [LW_MEMORY_OPTIMIZER_STATE] = "optimizer state",
    [LW_MEMORY_INPUT] = "input",
    [LW_MEMORY_TEMPORARY] = "temporary",
    [LW_MEMORY_ACTIVATION] = "activation",
    [LW_MEMORY_GRADIENT] = "gradient",
    [LW_MEMORY_AUTOGRAD_DETAIL] = "autograd detail",
    [BEFORE] = "(before the recording)",
};

/* What a name means for the rules; asked once for each string. */
enum {
    NAME_ASKED = 1,
    NAME_OPTIMIZER = 2,
    NAME_LOADER = 4,
    NAME_BACKWARD = 8,
    NAME_STEP = 16,
};

/* When something began, of which rank. */
struct moment {
    uint32_t rank;
    uint64_t time_ns;
};

struct moments {
    struct moment *list;
    size_t count, capacity;
};

/* Around each event. */
struct around {
    uint32_t op;    /* the outermost op; LW_NONE: none */
    uint32_t range; /* the Optimizer.step or DataLoader; LW_NONE: none */
    bool is_backward;
};

struct telling {
    const struct lw_memory_uses *uses;
    uint8_t *names;    /* of each string */
    uint8_t *kinds;    /* of each memory event that allocates */
    struct around *in; /* of each event */
    struct moments optimizers, backwards;
};

static uint8_t ask_name(struct telling *t, lw_string_id id)
{
    const char *name = lw_profile_text(t->uses->profile, id);

    if (!t->names[id]) {
        t->names[id] = NAME_ASKED;
        if (lw_text_starts(name, "Optimizer.step"))
            t->names[id] |= NAME_OPTIMIZER;
        if (lw_text_starts(name, "enumerate(Data")) /* DataLoader, DataPipe */
            t->names[id] |= NAME_LOADER;
        if (lw_text_starts(name, "autograd::engine::evaluate_function"))
            t->names[id] |= NAME_BACKWARD;
        if (lw_trace_is_step(name))
            t->names[id] |= NAME_STEP;
    }
    return t->names[id];
}

static bool add_moment(struct telling *t, struct moments *moments, uint32_t event,
                       struct lw_error *err)
{
    const struct lw_trace *trace = t->uses->trace;
    struct moment moment = { trace->tracks[trace->events[event].track].rank,
                             trace->events[event].start_ns };

    if (!lw_grow(&moments->list, &moments->capacity, moments->count + 1, sizeof(moment),
                 err))
        return false;
    moments->list[moments->count++] = moment;
    return true;
}

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* The first of MOMENTS behind TIME_NS; NULL: there is none. */
static const struct moment *next_moment(const struct moments *moments, uint32_t rank,
                                        uint64_t time_ns)
{
    struct moment key = { rank, time_ns };
    size_t low = 0, high = moments->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_moments(&moments->list[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < moments->count && moments->list[low].rank == rank ? &moments->list[low]
                                                                   : NULL;
}

/* Parents come before what is in them. */
static bool look_around(struct telling *t, struct lw_error *err)
{
    const struct lw_trace *trace = t->uses->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        struct around in = { LW_NONE, LW_NONE, false };
        bool is_named = event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE;
        uint8_t name = is_named ? ask_name(t, event->name) : NAME_ASKED;

        if (event->parent != LW_NONE && event->parent < i &&
            trace->events[event->parent].track == event->track)
            in = t->in[event->parent];
        if (name & (NAME_OPTIMIZER | NAME_LOADER))
            in.range = in.range == LW_NONE ? i : in.range;
        else if (event->kind == LW_EVENT_OP && in.op == LW_NONE && !(name & NAME_STEP))
            in.op = i;
        in.is_backward |= (name & NAME_BACKWARD) != 0;
        t->in[i] = in;
        if ((name & NAME_OPTIMIZER && !add_moment(t, &t->optimizers, i, err)) ||
            (name & NAME_BACKWARD && !add_moment(t, &t->backwards, i, err)))
            return false;
    }
    if (t->optimizers.count > 0)
        qsort(t->optimizers.list, t->optimizers.count, sizeof(struct moment),
              compare_moments);
    if (t->backwards.count > 0)
        qsort(t->backwards.list, t->backwards.count, sizeof(struct moment),
              compare_moments);
    return true;
}

static bool ends_after(const struct telling *t, uint32_t event, uint64_t time_ns)
{
    return lw_event_end_ns(&t->uses->trace->events[event]) >= time_ns;
}

/* The rules. FREED_NS is UINT64_MAX of what was not seen to be freed. */
static enum lw_memory_category judge(const struct telling *t, uint32_t index,
                                     uint64_t freed_ns)
{
    const struct lw_trace *trace = t->uses->trace;
    const struct lw_memory_event *event = &trace->memory[index];
    uint32_t rank = trace->tracks[event->track].rank;
    uint32_t inner = t->uses->list[index].event;
    struct around in = { LW_NONE, LW_NONE, false };
    const struct moment *next;

    if (inner != LW_NONE)
        in = t->in[inner];
    if (in.range != LW_NONE && t->names[trace->events[in.range].name] & NAME_OPTIMIZER)
        return ends_after(t, in.range, freed_ns) ? LW_MEMORY_TEMPORARY
                                                 : LW_MEMORY_OPTIMIZER_STATE;
    if (in.op != LW_NONE && ends_after(t, in.op, freed_ns))
        return LW_MEMORY_TEMPORARY;
    if (in.range != LW_NONE)
        return ends_after(t, in.range, freed_ns) ? LW_MEMORY_TEMPORARY
                                                 : LW_MEMORY_INPUT;
    if (in.is_backward) {
        next = next_moment(&t->optimizers, rank, event->time_ns);
        if (!next)
            return LW_MEMORY_UNKNOWN;
        return freed_ns > next->time_ns ? LW_MEMORY_GRADIENT
                                        : LW_MEMORY_AUTOGRAD_DETAIL;
    }
    next = next_moment(&t->backwards, rank, event->time_ns);
    return next && freed_ns > next->time_ns ? LW_MEMORY_ACTIVATION : LW_MEMORY_UNKNOWN;
}

static void judge_all(struct telling *t)
{
    const struct lw_memory_uses *uses = t->uses;

    for (uint32_t i = 0; i < uses->trace->memory_count; i++) {
        const struct lw_memory_event *event = &uses->trace->memory[i];
        uint32_t pair = uses->list[i].pair;

        t->kinds[i] = uses->is_timeline ? event->category : LW_MEMORY_UNKNOWN;
        if (uses->is_timeline || uses->list[i].device == LW_NONE || event->address == 0)
            continue;
        if (event->bytes <= 0) /* the allocation was before it */
            t->kinds[i] = pair == LW_NONE ? BEFORE : t->kinds[pair];
        else
            t->kinds[i] = (uint8_t)judge(
                t, i, pair == LW_NONE ? UINT64_MAX : uses->trace->memory[pair].time_ns);
    }
}

/* Adding up */

struct sums {
    int64_t now, most, at_peak, allocated;
    uint64_t most_ns, allocations;
};

static void take(struct sums *sums, const struct lw_memory_event *event)
{
    sums->now = lw_memory_sum(sums->now, event->bytes);
    if (event->kind == LW_MEMORY_BLOCK && event->bytes > 0) {
        sums->allocations++;
        sums->allocated = lw_memory_sum(sums->allocated, event->bytes);
    }
    if (sums->now > sums->most) {
        sums->most = sums->now;
        sums->most_ns = event->time_ns;
    }
}

static void show(const struct lw_memory_uses *uses, uint32_t device,
                 const struct sums *sums, const char *name, struct lw_table *table)
{
    lw_table_row(table, 0);
    lw_table_add_text(table, name, strlen(name));
    lw_memory_device_cell(uses, device, table);
    lw_table_add_integer(table, sums->at_peak);
    lw_analysis_add_share(table, (double)sums->at_peak,
                          (double)uses->devices[device].peak_bytes);
    lw_table_add_integer(table, sums->most);
    lw_memory_time_cell(uses, sums->most_ns, table);
    lw_table_add_integer(table, sums->now);
    if (uses->is_timeline && uses->devices[device].allocation_count == 0)
        return; /* it has only what changed */
    lw_table_add_integer(table, (int64_t)sums->allocations);
    lw_table_add_integer(table, sums->allocated);
}

static void add_device(const struct lw_memory_uses *uses, const uint8_t *kinds,
                       uint32_t index, struct lw_table *table)
{
    const struct lw_memory_device *device = &uses->devices[index];
    struct sums sums[KIND_COUNT] = { { 0 } };

    sums[BEFORE].now = sums[BEFORE].most = uses->is_timeline ? 0 : device->start_bytes;
    sums[BEFORE].most_ns = uses->start_ns;
    for (uint32_t i = device->first; i < device->first + device->count; i++) {
        uint32_t at = uses->order[i];

        take(&sums[kinds[at]], &uses->trace->memory[at]);
        if (at == device->peak)
            for (size_t kind = 0; kind < KIND_COUNT; kind++)
                sums[kind].at_peak = sums[kind].now;
    }
    for (size_t kind = 0; kind < KIND_COUNT; kind++)
        if (sums[kind].most > 0 || sums[kind].allocations > 0)
            show(uses, index, &sums[kind], names[kind], table);
}

uint8_t *lw_memory_categories_new(const struct lw_memory_uses *uses,
                                  struct lw_error *err)
{
    const struct lw_trace *trace = uses->trace;
    struct telling t = { .uses = uses };
    bool done;

    done = (t.names = lw_zalloc(lw_strings_count(uses->profile->strings), 1, err)) &&
           (t.kinds = lw_alloc(trace->memory_count + 1, err)) &&
           (t.in = lw_alloc(trace->event_count * sizeof(*t.in) + 1, err)) &&
           look_around(&t, err);
    if (done)
        judge_all(&t);
    lw_free(t.names);
    lw_free(t.in);
    lw_free(t.optimizers.list);
    lw_free(t.backwards.list);
    if (done)
        return t.kinds;
    lw_free(t.kinds);
    return NULL;
}

const char *lw_memory_category_name(uint8_t category)
{
    return names[category];
}

bool lw_memory_by_category(const struct lw_memory_uses *uses,
                           const struct lw_query *query, struct lw_table *table,
                           struct lw_error *err)
{
    uint8_t *kinds;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    if (uses->is_snapshot)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "an allocator's snapshot does not tell what memory is for; a "
                       "trace with profile_memory=True does");
    if (!(kinds = lw_memory_categories_new(uses, err)))
        return false;
    for (uint32_t i = 0; i < uses->device_count; i++)
        add_device(uses, kinds, i, table);
    lw_free(kinds);
    if (!uses->is_timeline)
        lw_table_note(table,
                      "Told from when memory was allocated and how long it was held; "
                      "what was there before the recording, as parameters are, is not "
                      "told apart. export_memory_timeline() writes what torch knows.");
    return lw_memory_arrange(table, query, "peak_bytes", err);
}
