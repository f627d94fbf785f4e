/* The critical path of a trace: the longest way through what had to come before what.
 *
 *     host     |--- op ---[launch]----| ...  [ synchronize ]----|
 *                             \                     ^
 *     stream                   +--> [kernel]->[kernel]
 *
 * Every event has two points, its start and its end; an edge leads from one to another
 * that could not come before it, and weighs the time between them. Of a thread all
 * points are a chain, in which a call that waits for the device weighs nothing: the way
 * through the device is the longer one then. So the longest path says what the time went
 * by on: nothing of it can be saved elsewhere.
 *
 * There are two graphs. Our own is exact in ns; the main thread counts also between its
 * ops, and what a call waited for is known from what ended in it. The other is the one
 * of Holistic Trace Analysis 0.6.1, with its µs, windows and rules, which are in
 * critical_hta.c. Both are made of the same parts. */
#ifndef LW_ANALYSES_CRITICAL_H
#define LW_ANALYSES_CRITICAL_H

#include "analyses/analysis.h"
#include "analyses/hta_events.h"

enum lw_critical_kind {
    LW_CRITICAL_OPERATOR,   /* time in an event */
    LW_CRITICAL_DEPENDENCY, /* one after the other, at no cost */
    LW_CRITICAL_LAUNCH,     /* from the call until the device began */
    LW_CRITICAL_GAP,        /* between two works of a stream */
    LW_CRITICAL_SYNC,       /* the end of work that a call, or other work, waited for */
    LW_CRITICAL_KIND_COUNT,
};

/* What the time of an edge is bound by. */
enum lw_critical_bound {
    LW_BOUND_NOTHING, /* it takes no time */
    LW_BOUND_HOST,
    LW_BOUND_DATA, /* the host, in a DataLoader */
    LW_BOUND_COMPUTATION,
    LW_BOUND_COMMUNICATION,
    LW_BOUND_MEMORY, /* copies and memsets; for HTA they are computation */
    LW_BOUND_LAUNCH,
    LW_BOUND_GAP,
    LW_BOUND_COUNT,
};

/* A point of event E: 2 * E is its start, 2 * E + 1 its end. */
struct lw_critical_edge {
    uint32_t from, to; /* points */
    uint32_t event;    /* whose time it is; LW_NONE: nobody's */
    uint8_t kind;      /* enum lw_critical_kind */
    uint8_t bound;     /* enum lw_critical_bound */
    bool is_free;      /* weighs nothing, whatever its time */
};

/* What is known of an event (`taken`). */
enum lw_critical_taken {
    LW_TAKEN_HOST = 1,    /* on a thread, in the window */
    LW_TAKEN_POINTS = 2,  /* it has points in the graph */
    LW_TAKEN_CLOSED = 4,  /* the walk of its thread has passed its end */
    LW_TAKEN_WAITED = 8,  /* a call that waited for the device */
    LW_TAKEN_QUEUE = 16,  /* of Holistic Trace Analysis: a call that found its stream's
                            queue empty, or work that left it so */
    LW_TAKEN_DEVICE = 32, /* on a device, in the window */
    LW_TAKEN_LOCKS = 64,  /* of HTA: a call that holds the runtime's lock */
    LW_TAKEN_LAUNCHES = 128, /* a call that launched work */
};

/* The window: what starts on the host from START to END, both included. */
struct lw_critical_window {
    int64_t start, end; /* as in `times` */
};

struct lw_critical {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint32_t rank;     /* index: the one that it is about */
    bool is_hta;       /* else our own */
    struct lw_hta hta; /* owned: if it is */
    struct lw_critical_window window;
    int64_t *times;  /* owned: of each point; ns, or µs as HTA has them */
    uint8_t *taken;  /* owned: of each event, enum lw_critical_taken */
    uint32_t *works; /* owned: of each call the work that it launched; LW_NONE: none */

    struct lw_critical_edge *edges; /* owned */
    size_t edge_count, edge_capacity;
    uint32_t *path; /* owned: indexes of edges, in order */
    size_t path_count;

    struct lw_error *err; /* of what failed while edges were added */
    bool failed;
};

static inline bool lw_critical_has(const struct lw_critical *c, uint32_t event,
                                   enum lw_critical_taken what)
{
    return c->taken[event] & what;
}
static inline uint32_t lw_critical_start(uint32_t event)
{
    return 2 * event;
}
static inline uint32_t lw_critical_end(uint32_t event)
{
    return 2 * event + 1;
}
static inline int64_t lw_critical_duration(const struct lw_critical *c, uint32_t event)
{
    return c->times[lw_critical_end(event)] - c->times[lw_critical_start(event)];
}
/* The time of an edge, even if it is not counted; negative where HTA's times are. */
static inline int64_t lw_critical_weight(const struct lw_critical *c,
                                         const struct lw_critical_edge *edge)
{
    return edge->is_free ? 0 : c->times[edge->to] - c->times[edge->from];
}

/* The times of PROFILE's trace, all of it in the window; RANK is an index. Release in any
 * case. */
bool lw_critical_init(struct lw_critical *c, const struct lw_profile *profile,
                      uint32_t rank, bool is_hta, struct lw_error *err) LW_MUST_CHECK;
void lw_critical_release(struct lw_critical *c);

/* Which range a window is. */
struct lw_critical_range {
    uint32_t event;  /* index */
    uint64_t number; /* of those that hold the name, from 0 */
    size_t count;    /* how many do */
};

/* Make the window that of RANGE: "ProfilerStep#7", or "Step@2" for the third whose name
 * holds "Step". LW_ERR_USAGE: there is none. */
bool lw_critical_choose(struct lw_critical *c, const char *range,
                        struct lw_critical_range *found, struct lw_error *err)
    LW_MUST_CHECK;

/* Failure is sticky: after it nothing is added. */
void lw_critical_add(struct lw_critical *c, const struct lw_critical_edge *edge);

/* The longest path, into `path`. LW_ERR_FORMAT: what the edges say is a circle. */
bool lw_critical_find_path(struct lw_critical *c, struct lw_error *err) LW_MUST_CHECK;

/* The track of the thread that the program is in; LW_NONE: there is none. */
uint32_t lw_critical_main(const struct lw_critical *c);
/* Which threads are one, since one waits while the other works: for each track the one
 * that it belongs to (MAIN_TRACK, and for HTA what it takes for it); caller frees. */
uint32_t *lw_critical_groups(const struct lw_critical *c, uint32_t main_track,
                             struct lw_error *err);

/* What joins streams: events that are recorded in one and waited for in another. */

/* Something that happens to a stream. */
struct lw_critical_entry {
    uint64_t key;   /* of which stream, say */
    int64_t time;   /* as in `times` */
    uint32_t event; /* index */
    int32_t change; /* of a queue's length */
};

struct lw_critical_entries {
    struct lw_critical_entry *list; /* owned */
    size_t count, capacity;
};

bool lw_critical_entries_add(struct lw_critical_entries *entries,
                             const struct lw_critical_entry *entry,
                             struct lw_error *err) LW_MUST_CHECK;
/* By key, then time; what makes a queue longer first. */
void lw_critical_entries_sort(struct lw_critical_entries *entries);

struct lw_critical_syncs {
    const struct lw_critical *c;
    struct lw_critical_entries by_stream; /* launches into a stream of a device */
    struct lw_critical_entries by_thread; /* launches into a stream from a thread */
    struct lw_critical_entries records;   /* calls that record; key: correlation */
};

/* Of what is `taken`, with `works`. Release in any case. */
bool lw_critical_syncs_init(struct lw_critical_syncs *syncs,
                            const struct lw_critical *c, struct lw_error *err)
    LW_MUST_CHECK;
void lw_critical_syncs_release(struct lw_critical_syncs *syncs);
/* The work that the event which WAIT is for was recorded behind; LW_NONE: not known. */
uint32_t lw_critical_syncs_source(const struct lw_critical_syncs *syncs, uint32_t wait);
/* The next work that is launched into the stream which CALL has wait, as WAIT tells. */
uint32_t lw_critical_syncs_next(const struct lw_critical_syncs *syncs, uint32_t wait,
                                uint32_t call);

/* The chains of the host, of what is `taken`. MAIN_TRACK counts all its time; LW_NONE:
 * none does. */
bool lw_critical_add_host(struct lw_critical *c, const uint32_t *groups,
                          uint32_t main_track, struct lw_error *err) LW_MUST_CHECK;
/* The whole of our own, and the whole of HTA's. */
bool lw_critical_make_own(struct lw_critical *c, struct lw_error *err) LW_MUST_CHECK;
bool lw_critical_make_hta(struct lw_critical *c, struct lw_error *err) LW_MUST_CHECK;
bool lw_critical_add_hta_device(struct lw_critical *c, struct lw_error *err)
    LW_MUST_CHECK;
/* Is NAME that of EVENT? */
bool lw_critical_is_named(const struct lw_critical *c, uint32_t event,
                          const char *name);

#endif
