/* Waits of the host for a GPU, in a loop that would otherwise run ahead of it.
 *
 *     host     [launch a][launch b][ .item() ....... ]      [launch c]
 *     device       [ a ......... ][ b .............. ]           [ c ]
 *                                                     |-- idle --|
 *
 * While it waits the host launches nothing, so the device then runs dry. Without the wait
 * all that follows would be launched earlier by as long as it was, and what is saved is
 * idle time, never the wait itself: at least (so the estimate) half of the gap right
 * behind it, at most all gaps until the next wait, neither being more than the wait, and a
 * tenth for the copies that go with it. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/late_host.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

#define WORTH_SHARE 0.02 /* of the steps: less is not worth a change */
#define MOST_FINDINGS 4
#define SEVERAL 3    /* waits that are alike */
#define SURE 0.5     /* of the first gap: the trace itself made the host slower */
#define ROOM 1.1     /* for what is left out with the wait: its copy, and the calls */
#define DEEPEST 4096 /* ops in ops: no program nests deeper */

enum reason {
    VALUE,     /* .item() */
    SIZE,      /* nonzero() */
    TO_HOST,   /* .cpu() */
    TO_DEVICE, /* .to("cuda"), of what is small */
    CALLED,    /* torch.cuda.synchronize() */
    FREES,     /* memory goes back to the driver */
    UNKNOWN,
};

static const char *const changes[] = {
    [VALUE] = "Do not read single values off the GPU in every step (.item(), float(), "
              "print, if): add them up there, and read them now and then",
    [SIZE] = "Avoid results whose size the host must wait for (nonzero, boolean masks, "
             "unique): torch.where, or a mask to multiply with, needs no wait",
    [TO_HOST] =
        "Do not wait for copies to the host (.cpu(), .numpy(), .tolist()): copy "
        "with non_blocking=True into pinned memory, and use that a step later",
    [TO_DEVICE] =
        "Make small tensors on the GPU itself (device=...), or copy them from "
        "pinned memory with non_blocking=True",
    [CALLED] = "Take the call that waits for the GPU (torch.cuda.synchronize(), "
               "Event.synchronize()) out of the loop",
    [FREES] =
        "Keep torch's memory: no torch.cuda.empty_cache() in the loop, and shapes "
        "that do not change",
    [UNKNOWN] = "Avoid the wait for the GPU",
};

/* Waits that are alike. */
struct group {
    uint8_t reason;
    lw_string_id op; /* the outermost that it is in; 0: none */
    const char *line;
    size_t line_len; /* 0: not known */
    uint64_t count, waited_ns;
    uint64_t seen;            /* of them, those behind which the GPU was seen to idle */
    uint64_t low_ns, high_ns; /* what would be saved, of these */
};

/* A wait, and when it began. */
struct timed {
    uint32_t rank; /* index */
    uint64_t start_ns;
    const struct lw_wait *wait;
};

struct looking {
    const struct lw_advice_trace *trace;
    const struct lw_profile *profile;
    const struct lw_event *events;
    struct lw_late_host late;
    struct timed *waits; /* owned: those that had to wait, by rank and time */
    size_t wait_count;
    struct group *groups; /* owned */
    size_t group_count, group_capacity;
    struct lw_map map;
};

static uint32_t rank_of(const struct looking *l, uint32_t event)
{
    return l->trace->scope.trace->tracks[l->events[event].track].rank;
}

/* ---- why it waits ------------------------------------------------------------------- */

static const char *name_of(const struct looking *l, uint32_t event)
{
    return event == LW_NONE ? "" : lw_profile_text(l->profile, l->events[event].name);
}

static uint32_t outermost_op(const struct looking *l, uint32_t event)
{
    uint32_t found = LW_NONE;

    for (size_t i = 0; event != LW_NONE && i < DEEPEST; i++) {
        if (l->events[event].kind == LW_EVENT_OP)
            found = event;
        event = l->events[event].parent;
    }
    return found;
}

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof((list)[0]))

static enum reason reason_of(const struct looking *l, const struct lw_wait *wait,
                             uint32_t outer)
{
    static const char *const values[] = { "aten::item", "aten::_local_scalar_dense",
                                          "aten::is_nonzero", "aten::equal" };
    static const char *const sizes[] = { "aten::nonzero", "aten::masked_select",
                                         "aten::unique", "aten::_unique2",
                                         "aten::repeat_interleave" };
    const char *inner_op = name_of(l, l->late.askers.ops[wait->call]);
    const char *work = name_of(l, wait->work);
    const char *call = name_of(l, wait->call);

    if (IS_ONE_OF(inner_op, values))
        return VALUE;
    if (IS_ONE_OF(inner_op, sizes) || IS_ONE_OF(name_of(l, outer), sizes))
        return SIZE;
    if (lw_text_ends(call, "Free"))
        return FREES;
    if (l->events[wait->work].kind == LW_EVENT_MEMCPY && strstr(work, "DtoH"))
        return TO_HOST;
    if (l->events[wait->work].kind == LW_EVENT_MEMCPY && strstr(work, "HtoD"))
        return TO_DEVICE;
    return outer == LW_NONE && lw_text_ends(call, "Synchronize") ? CALLED : UNKNOWN;
}

/* Those are advice_pinned's. */
static bool is_large_copy(const struct looking *l, const struct lw_wait *wait)
{
    uint32_t detail = l->events[wait->work].detail;

    return detail != LW_NONE &&
           l->trace->scope.trace->works[detail].bytes >= LW_ADVICE_LARGE_COPY_BYTES;
}

/* ---- what it costs ------------------------------------------------------------------ */

/* The first gap of LANE that begins at TIME_NS or later. */
static size_t first_gap(const struct lw_idle_gaps *gaps, uint32_t lane,
                        uint64_t time_ns)
{
    size_t low = 0, count = gaps->gap_count;

    while (count > 0) {
        size_t half = count / 2;
        const struct lw_idle_gap *gap = &gaps->gaps[low + half];

        if (gap->lane < lane || (gap->lane == lane && gap->start_ns < time_ns)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The lane of the device that WORK ran on, as a whole. */
static uint32_t lane_of(const struct looking *l, uint32_t work)
{
    const struct lw_idle_gaps *gaps = &l->late.gaps;
    const struct lw_track *track =
        &l->trace->scope.trace->tracks[l->events[work].track];

    for (uint32_t i = 0; i < gaps->lane_count; i++)
        if (!gaps->lanes[i].is_part && gaps->lanes[i].rank == track->rank &&
            gaps->lanes[i].device == track->device)
            return i;
    return LW_NONE;
}

/* How long the device of what WAIT waited for then stood idle, up to UNTIL_NS, because
 * nothing had been launched: first, and in all. False: the trace ends before it is known. */
static bool find_idle(const struct looking *l, const struct lw_wait *wait,
                      uint64_t until_ns, uint64_t *first_ns, uint64_t *all_ns)
{
    const struct lw_idle_gaps *gaps = &l->late.gaps;
    uint32_t lane = lane_of(l, wait->work);
    uint64_t done_ns = lw_event_end_ns(&l->events[wait->call]);
    size_t i = lane == LW_NONE
                   ? gaps->gap_count
                   : first_gap(gaps, lane, lw_event_end_ns(&l->events[wait->work]));

    *first_ns = *all_ns = 0;
    if (i == gaps->gap_count || gaps->gaps[i].lane != lane)
        return false;
    for (; i < gaps->gap_count && gaps->gaps[i].lane == lane &&
           gaps->gaps[i].start_ns < until_ns;
         i++) {
        const struct lw_idle_gap *gap = &gaps->gaps[i];
        uint64_t ns;

        if (gap->cause != LW_IDLE_HOST ||
            l->events[l->events[gap->event].parent].start_ns < done_ns)
            continue;
        ns = lw_advice_in_steps(l->trace, gaps->lanes[lane].rank, gap->start_ns,
                                gap->start_ns + (uint64_t)gap->duration_ns);
        if (*all_ns == 0 && gap->start_ns <= done_ns)
            *first_ns = ns;
        *all_ns += ns;
    }
    return true;
}

static int compare_waits(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->wait < y->wait ? -1 : x->wait > y->wait;
}

static bool sort_waits(struct looking *l, struct lw_error *err)
{
    const struct lw_waits *all = &l->late.waits;

    l->waits = lw_alloc(all->count * sizeof(*l->waits) + 1, err);
    if (!l->waits)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        const struct lw_wait *wait = &all->list[i];

        if (wait->work != LW_NONE &&
            lw_trace_scope_has(&l->trace->scope, &l->events[wait->call]))
            l->waits[l->wait_count++] =
                (struct timed){ rank_of(l, wait->call), l->events[wait->call].start_ns,
                                wait };
    }
    qsort(l->waits, l->wait_count, sizeof(*l->waits), compare_waits);
    return true;
}

/* ---- adding up ---------------------------------------------------------------------- */

static bool same_group(const void *owner, uint32_t number, const void *key)
{
    const struct looking *l = owner;
    const struct group *a = &l->groups[number - 1], *b = key;

    return a->reason == b->reason && a->op == b->op && a->line_len == b->line_len &&
           (a->line_len == 0 || memcmp(a->line, b->line, a->line_len) == 0);
}

static bool add_group(struct looking *l, const struct group *one, struct lw_error *err)
{
    uint64_t hash = lw_hash_bytes(one->line, one->line_len) ^
                    lw_hash_u64((uint64_t)one->op << 8 | one->reason);
    uint32_t number = lw_map_find(&l->map, hash, same_group, l, one);
    struct group *group;

    if (number == 0) {
        if (!lw_grow(&l->groups, &l->group_capacity, l->group_count + 1, sizeof(*one),
                     err) ||
            !lw_map_add(&l->map, hash, (uint32_t)l->group_count + 1, err))
            return false;
        l->groups[l->group_count++] = *one;
        return true;
    }
    group = &l->groups[number - 1];
    group->count++;
    group->waited_ns += one->waited_ns;
    group->seen += one->seen;
    group->low_ns += one->low_ns;
    group->high_ns += one->high_ns;
    return true;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool add_waits(struct looking *l, struct lw_error *err)
{
    for (size_t i = 0; i < l->wait_count; i++) {
        const struct lw_wait *wait = l->waits[i].wait;
        const struct lw_event *call = &l->events[wait->call];
        bool is_last =
            i + 1 == l->wait_count || l->waits[i + 1].rank != l->waits[i].rank;
        uint32_t outer = outermost_op(l, wait->call);
        struct group one = { .count = 1, .waited_ns = call->duration_ns };
        uint64_t first_ns, all_ns;

        one.reason = (uint8_t)reason_of(l, wait, outer);
        if (one.reason == TO_DEVICE && is_large_copy(l, wait))
            continue;
        if (lw_advice_in_steps(l->trace, l->waits[i].rank, call->start_ns,
                               lw_event_end_ns(call)) == 0)
            continue;
        one.op = outer == LW_NONE ? 0 : l->events[outer].name;
        one.line_len = lw_askers_line(&l->late.askers, wait->call, &one.line);
        one.seen = find_idle(l, wait, is_last ? UINT64_MAX : l->waits[i + 1].start_ns,
                             &first_ns, &all_ns);
        one.low_ns = smaller(first_ns, call->duration_ns);
        one.high_ns = smaller(all_ns, call->duration_ns);
        if (!add_group(l, &one, err))
            return false;
    }
    return true;
}

/* ---- what is said ------------------------------------------------------------------- */

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    if (x->high_ns != y->high_ns)
        return x->high_ns > y->high_ns ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->reason < y->reason ? -1 : x->reason > y->reason;
}

static bool say(const struct looking *l, const struct group *group,
                struct lw_error *err)
{
    struct lw_advice *advice = l->trace->advice;
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_sync);
    lw_buf_add_text(&words.change, changes[group->reason]);
    lw_buf_add_text(why, "the host waits for the GPU ");
    if (group->op)
        lw_buf_addf(why, "in %s ", lw_profile_text(l->profile, group->op));
    if (group->line_len > 0) {
        lw_buf_add_text(why, "(");
        lw_text_add_printable(why, group->line, group->line_len);
        lw_buf_add_text(why, ") ");
    }
    lw_advice_words_add_times(why, l->trace, group->count);
    lw_buf_add_text(why, ", ");
    lw_advice_words_add_part(why, l->trace, group->waited_ns);
    lw_buf_add_text(why, "; nothing is launched meanwhile, so that the GPU then stands "
                         "idle for ");
    lw_units_add_ns(why, (int64_t)(group->low_ns / l->trace->step_count));
    if (group->high_ns > group->low_ns) {
        lw_buf_add_text(why, " at once and ");
        lw_units_add_ns(why, (int64_t)(group->high_ns / l->trace->step_count));
        lw_buf_add_text(why, " until the next wait");
    }
    words.finding.gain_low = SURE * lw_advice_share(l->trace, (double)group->low_ns);
    words.finding.gain_high = ROOM * lw_advice_share(l->trace, (double)group->high_ns);
    done = lw_advice_words_place(&words, advice, group->line, group->line_len, err) &&
           lw_advice_words_add(&words, advice, err);
    lw_advice_words_release(&words);
    return done;
}

/* The last wait of a trace costs as much as those before, if it is one of several: a wait
 * for the end of all costs nothing. */
static void scale_groups(struct looking *l)
{
    for (size_t i = 0; i < l->group_count; i++) {
        struct group *group = &l->groups[i];
        double scale;

        if (group->seen < SEVERAL || group->count > group->seen + 1)
            continue;
        scale = (double)group->count / (double)group->seen;
        group->low_ns = (uint64_t)((double)group->low_ns * scale);
        group->high_ns = (uint64_t)((double)group->high_ns * scale);
    }
}

static bool say_all(struct looking *l, struct lw_error *err)
{
    scale_groups(l);
    if (l->group_count > 1)
        qsort(l->groups, l->group_count, sizeof(*l->groups), compare_groups);
    for (size_t i = 0; i < l->group_count && i < MOST_FINDINGS; i++)
        if (lw_advice_share(l->trace, (double)l->groups[i].high_ns) >= WORTH_SHARE &&
            !say(l, &l->groups[i], err))
            return false;
    return true;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct lw_advice_trace trace;
    struct looking l = { .trace = &trace,
                         .profile = advice->profile,
                         .events = advice->trace->events };
    bool done;

    lw_map_init(&l.map);
    done = lw_advice_trace_init(&trace, advice, err) &&
           lw_late_host_init(&l.late, &trace, err) && sort_waits(&l, err) &&
           add_waits(&l, err) && say_all(&l, err);
    lw_map_release(&l.map);
    lw_free(l.waits);
    lw_free(l.groups);
    lw_late_host_release(&l.late);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_advice_rule lw_advice_rule_sync = {
    .name = "sync",
    .question = "Does the host wait for the GPU in the loop?",
    .needs = LW_ADVICE_DEVICE,
    .look = look,
};
