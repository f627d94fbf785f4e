/* Each event is taken for what it is by its category and name; nodes are looked up by their
 * ids while they are in that order, and are in order of time at the end. */

#include <stdlib.h>
#include <string.h>

#include "analyses/ranks_tb.h"
#include "base/alloc.h"
#include "base/text.h"

void lw_tb_ranks_release(struct lw_tb_ranks *ranks)
{
    for (size_t i = 0; ranks->list && i < ranks->trace->rank_count; i++) {
        struct lw_tb_rank *rank = &ranks->list[i];

        lw_free(rank->nodes);
        lw_free(rank->ranges);
        lw_intervals_release(&rank->kernels);
        lw_intervals_release(&rank->host);
        lw_intervals_release(&rank->communication);
        lw_intervals_release(&rank->overlap);
        lw_trace_steps_release(&rank->steps);
    }
    lw_free(ranks->list);
    lw_tb_events_release(&ranks->events);
}

/* Collectives */

static bool is_range(enum lw_tb_type type)
{
    return type == LW_TB_OPERATOR || type == LW_TB_ANNOTATION || type == LW_TB_PYTHON;
}

static bool is_node(struct lw_tb_ranks *ranks, const struct lw_event *event)
{
    return is_range(lw_tb_type(&ranks->events, event)) &&
           lw_tb_name(&ranks->events, event->name) == LW_TB_COLLECTIVE;
}

static bool find_nodes(struct lw_tb_ranks *ranks, struct lw_error *err)
{
    const struct lw_trace *trace = ranks->trace;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        struct lw_tb_rank *rank = &ranks->list[trace->tracks[event->track].rank];
        struct lw_tb_node node = { .external = event->external,
                                   .span = lw_tb_span(event),
                                   .event = i,
                                   .step = LW_NONE };

        if (!is_node(ranks, event))
            continue;
        if (lw_text_starts(lw_profile_text(ranks->profile, event->name), "nccl:"))
            rank->has_nccl = true;
        else
            rank->has_gloo = true;
        if (!lw_grow(&rank->nodes, &rank->node_capacity, rank->node_count + 1,
                     sizeof(node), err))
            return false;
        rank->nodes[rank->node_count++] = node;
    }
    return true;
}

static int by_external(const void *x, const void *y)
{
    const struct lw_tb_node *a = x, *b = y;

    if (a->external != b->external)
        return a->external < b->external ? -1 : 1;
    if (a->span.start_ns != b->span.start_ns)
        return a->span.start_ns < b->span.start_ns ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

static int by_start(const void *x, const void *y)
{
    const struct lw_tb_node *a = x, *b = y;

    if (a->span.start_ns != b->span.start_ns)
        return a->span.start_ns < b->span.start_ns ? -1 : 1;
    if (a->span.end_ns != b->span.end_ns)
        return a->span.end_ns > b->span.end_ns ? -1 : 1;
    return a->event < b->event ? -1 : a->event > b->event;
}

/* Of several with one id it keeps the last. Left in order of their ids. */
static void keep_last_nodes(struct lw_tb_rank *rank)
{
    size_t kept = 0;

    if (rank->node_count == 0)
        return;
    qsort(rank->nodes, rank->node_count, sizeof(*rank->nodes), by_external);
    for (size_t i = 1; i < rank->node_count; i++) {
        if (rank->nodes[i].external != rank->nodes[kept].external)
            kept++;
        rank->nodes[kept] = rank->nodes[i];
    }
    rank->node_count = kept + 1;
}

/* The node with that id, before they are sorted by start. */
static struct lw_tb_node *find_node(const struct lw_tb_rank *rank, uint64_t external)
{
    size_t low = 0, count = rank->node_count;

    while (count > 0) {
        size_t half = count / 2;

        if (rank->nodes[low + half].external < external) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low < rank->node_count && rank->nodes[low].external == external
               ? &rank->nodes[low]
               : NULL;
}

static bool add_range(struct lw_tb_rank *rank, struct lw_interval span,
                      uint64_t external, struct lw_error *err)
{
    struct lw_tb_range range = { .span = span, .external = external };

    if (!lw_grow(&rank->ranges, &rank->range_capacity, rank->range_count + 1,
                 sizeof(range), err))
        return false;
    rank->ranges[rank->range_count++] = range;
    return true;
}

/* What it takes an event for, in the set of the rank that holds it. */
static bool add_event(struct lw_tb_ranks *ranks, const struct lw_event *event,
                      struct lw_error *err)
{
    const struct lw_trace *trace = ranks->trace;
    struct lw_tb_rank *rank = &ranks->list[trace->tracks[event->track].rank];
    enum lw_tb_type type = lw_tb_type(&ranks->events, event);
    enum lw_tb_name name = lw_tb_name(&ranks->events, event->name);
    struct lw_interval span = lw_tb_span(event);
    struct lw_intervals *set = NULL;

    if (type == LW_TB_KERNEL) {
        bool is_joined = find_node(rank, event->external) != NULL;

        set = is_joined ? &rank->communication : &rank->kernels;
        if (is_joined && rank->has_nccl && !add_range(rank, span, event->external, err))
            return false;
    } else if (is_range(type) && name == LW_TB_COLLECTIVE) {
        set = &rank->communication;
    } else if (is_range(type) && name != LW_TB_LOADER) {
        set = &rank->host;
    }
    return !set || lw_intervals_add(set, span.start_ns, span.end_ns, err);
}

static int by_node(const void *x, const void *y)
{
    const struct lw_tb_range *a = x, *b = y;

    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->span.start_ns != b->span.start_ns)
        return a->span.start_ns < b->span.start_ns ? -1 : 1;
    return a->span.end_ns > b->span.end_ns ? -1 : a->span.end_ns < b->span.end_ns;
}

/* Each node's own span is a range of it, and so are its kernels. */
static bool find_ranges(struct lw_tb_rank *rank, struct lw_error *err)
{
    size_t kernels = rank->range_count;

    /* Ranges find their node while nodes are in order of ids, by where it will be. */
    for (size_t i = 0; i < rank->node_count; i++)
        if (!add_range(rank, rank->nodes[i].span, rank->nodes[i].external, err))
            return false;
    for (size_t i = 0; i < kernels; i++)
        rank->ranges[i].node =
            (uint32_t)(find_node(rank, rank->ranges[i].external) - rank->nodes);
    for (size_t i = kernels; i < rank->range_count; i++)
        rank->ranges[i].node = (uint32_t)(i - kernels);
    if (rank->range_count > 0)
        qsort(rank->ranges, rank->range_count, sizeof(*rank->ranges), by_node);
    for (size_t i = 0, end; i < rank->range_count; i = end) {
        for (end = i;
             end < rank->range_count && rank->ranges[end].node == rank->ranges[i].node;)
            end++;
        rank->nodes[rank->ranges[i].node].first = i;
        rank->nodes[rank->ranges[i].node].count = end - i;
    }
    if (rank->node_count > 0)
        qsort(rank->nodes, rank->node_count, sizeof(*rank->nodes), by_start);
    return true;
}

/* In which step each lies whole; one that does not ends the search where it stands. */
static void find_steps(struct lw_tb_rank *rank)
{
    size_t at = 0;

    for (size_t i = 0; i < rank->node_count && at < rank->steps.count; i++) {
        struct lw_tb_node *node = &rank->nodes[i];

        while (at < rank->steps.count &&
               node->span.start_ns >= rank->steps.list[at].end_ns)
            at++;
        if (at < rank->steps.count &&
            node->span.start_ns >= rank->steps.list[at].start_ns &&
            node->span.end_ns <= rank->steps.list[at].end_ns)
            node->step = (uint32_t)at;
    }
}

static bool fill_rank(struct lw_tb_ranks *ranks, uint32_t index, struct lw_error *err)
{
    struct lw_tb_rank *rank = &ranks->list[index];

    if (!find_ranges(rank, err) ||
        !lw_trace_steps_init(&rank->steps, ranks->profile, index, LW_COMPAT_TB, err))
        return false;
    find_steps(rank);
    lw_intervals_merge(&rank->kernels);
    lw_intervals_merge(&rank->host);
    lw_intervals_merge(&rank->communication);
    return lw_intervals_intersect(rank->kernels.count ? &rank->kernels : &rank->host,
                                  &rank->communication, &rank->overlap, err);
}

static uint64_t length(const struct lw_interval *span)
{
    return span->end_ns - span->start_ns;
}

/* The n-th ranges of the n-th nodes end with what the shortest of them took. */
static bool match_ranks(struct lw_tb_ranks *ranks)
{
    const struct lw_tb_rank *first = &ranks->list[0];
    size_t count = ranks->trace->rank_count;

    if (first->node_count == 0)
        return false;
    for (size_t r = 0; r < count; r++) {
        const struct lw_tb_rank *rank = &ranks->list[r];

        if (rank->node_count != first->node_count || (rank->has_nccl && rank->has_gloo))
            return false;
        for (size_t n = 0; n < first->node_count; n++)
            if (rank->nodes[n].count != first->nodes[n].count)
                return false;
    }
    for (size_t n = 0; n < first->node_count; n++)
        for (size_t i = 0; i < first->nodes[n].count; i++) {
            uint64_t least = UINT64_MAX;

            for (size_t r = 0; r < count; r++) {
                const struct lw_tb_rank *rank = &ranks->list[r];
                uint64_t ns = length(&rank->ranges[rank->nodes[n].first + i].span);

                least = ns < least ? ns : least;
            }
            for (size_t r = 0; r < count; r++) {
                const struct lw_tb_rank *rank = &ranks->list[r];

                rank->ranges[rank->nodes[n].first + i].transfer_ns = least;
            }
        }
    return true;
}

size_t lw_tb_rank_node_at(const struct lw_tb_rank *rank, uint64_t time_ns)
{
    size_t low = 0, count = rank->node_count;

    while (count > 0) {
        size_t half = count / 2;

        if (rank->nodes[low + half].span.start_ns < time_ns) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

bool lw_tb_ranks_init(struct lw_tb_ranks *ranks, const struct lw_profile *profile,
                      struct lw_error *err)
{
    const struct lw_trace *trace = profile->trace;

    memset(ranks, 0, sizeof(*ranks));
    ranks->profile = profile;
    ranks->trace = trace;
    ranks->list = lw_zalloc(trace->rank_count + 1, sizeof(*ranks->list), err);
    if (!ranks->list || !lw_tb_events_init(&ranks->events, ranks->profile, err) ||
        !find_nodes(ranks, err))
        return false;
    for (size_t i = 0; i < trace->rank_count; i++)
        keep_last_nodes(&ranks->list[i]);
    for (size_t i = 0; i < trace->event_count; i++)
        if (!add_event(ranks, &trace->events[i], err))
            return false;
    for (uint32_t i = 0; i < trace->rank_count; i++)
        if (!fill_rank(ranks, i, err))
            return false;
    ranks->is_matched = match_ranks(ranks);
    return true;
}
