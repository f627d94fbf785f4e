/* Who is recording calls right now, and the hot path that all hooks share.
 *
 * A collector owns one region: the session's is shared with the recorder, a
 * lapwing.Profile's is private. While it records it sits in a lane; usually one lane is
 * taken, and a call costs one step in one tree. A thread finds its place in a lane's
 * region through thread-local storage; the lane's epoch says whether it is still that
 * collector's.
 *
 * The tracer is the one writable global of the extension: an evaluation hook and the
 * handlers of fork and thread exit get no argument by which to find their state.
 * Everything runs under the GIL, except the end of a thread, and what writes to the
 * session's rings (py_session_enter): both go by `lock`. */
#ifndef PY_LAPWING_TRACER_H
#define PY_LAPWING_TRACER_H

#include <pthread.h>

#include "agent/calls.h"
#include "agent/ticks.h"
#include "functions.h"

enum {
    PY_LANES = 4096, /* collectors that may record at once: a profiled function that
                      * recurses has one a level */
    /* Those whose places lie in the thread's own storage, of which there is little; the
     * session always has one of these. */
    PY_NEAR_LANES = 8,
};

/* One thread's place in a collector, for as long as both live. */
struct py_place {
    struct lw_calls_thread *calls; /* NULL: the region had no slot for it */
    uint64_t thread;               /* kernel id */
    struct py_place *next;
};

struct py_collector {
    struct lw_region region;
    struct py_place *places; /* owned */
    bool c_calls;
    bool marks_only; /* no calls: what the program announces, and no hook */
    bool is_session;
    bool this_thread; /* only the calls of one thread: */
    uint64_t thread;  /* its kernel id; 0: it has ended */
    uint64_t min_span_ticks;
    PyObject *timer;     /* the caller's own clock, borrowed from the owner; or NULL */
    double timer_unit_s; /* seconds a tick of it; 0: it gives seconds as float */
    _Atomic int lane;    /* -1: not recording */
};

enum py_records { /* of a lane; bits */
                  PY_RECORDS_CALLS = 1,
                  PY_RECORDS_C_CALLS = 2,
};

struct py_lane {
    struct py_collector *collector; /* NULL: free */
    uint32_t epoch;                 /* grows each time the lane is taken or left */
    uint8_t records;                /* enum py_records */
    bool has_timer;                 /* a clock of its own */
};

/* One moment on both clocks. */
struct py_moment {
    uint64_t ticks, ns;
};

/* What every call looks at comes first, in one cache line. */
struct py_tracer {
    unsigned active;     /* how many lanes record Python calls */
    unsigned active_c;   /* and builtins */
    uint32_t only_epoch; /* grows with every change of the above; see py_tracer_only */
    bool use_tsc;
    _Atomic bool is_session_on; /* see session.h */
    bool waiting_for_main;      /* the session starts with the program's first module */
    bool hooked;                /* the hooks of this Python are in place */
    struct py_functions functions;
    struct py_compat compat;
    struct py_moment start; /* from which a tick's length is measured */
    struct py_moment asked; /* when it was last asked for */
    double tick_s;          /* what it was then; 0: never */
    pthread_mutex_t
        lock; /* guards places and `threads`, which change without the GIL */
    struct py_thread *threads; /* those that have a place */
    pthread_key_t thread_end;
    unsigned lane_limit; /* all lanes from here on are free */
    struct py_lane lanes[PY_LANES];
};

extern struct py_tracer py_tracer __attribute__((aligned(64)));

/* Of a lane's former collector it says nothing, and `calls` is freed memory then: only
 * the functions below look into it, which compare epochs. */
struct py_lane_place {
    struct lw_calls_thread *calls; /* NULL with a right epoch: not recorded here */
    uint32_t epoch;                /* `calls` is right and has Python's name */
    uint32_t unnamed_epoch; /* `calls` is right; Python may have no name for it yet */
};

/* What a thread keeps: its places, what it has announced and not ended, and on 3.11 the
 * state of the deep-stack handover. */
struct py_thread {
    struct lw_calls_thread *only; /* see py_tracer_only */
    uint32_t only_epoch;
    bool only_c;        /* `only` wants builtins too */
    bool profile_hook;  /* the profile hook counts for this thread, not the eval hook */
    bool lost_hook;     /* the program took the profile hook's place; see eval.c */
    bool shut_out;      /* that it did is counted as a loss */
    bool has_limits;    /* slow_below has been worked out */
    uint8_t name_tries; /* how often its name was looked for */
    uintptr_t
        slow_below; /* stack addresses under this take the slow path; see eval.c */
    const struct py_collector
        *in_timer; /* whose own clock is running: not part of any profile; or NULL */
    uint32_t hook_depth;     /* running calls that the profile hook entered */
    uint32_t hook_turn;      /* the recording that what is said of hooks here is of */
    bool is_listed;          /* in py_tracer.threads */
    _Atomic bool is_writing; /* in py_session_enter's section */
    struct py_thread *next;  /* of py_tracer.threads; NULL also if not in it */
    struct py_open_marks *marks;     /* see marks.c; owned; NULL: none yet */
    struct lw_calls_thread *session; /* its place in the session's lane */
    uint32_t session_epoch;          /* py_tracer.only_epoch, while that holds */
    struct py_lane_place places[PY_NEAR_LANES];
    struct py_lane_place *far_places; /* of the other lanes; owned */
    unsigned far_count;
};

extern __thread struct py_thread py_thread
    __attribute__((tls_model("initial-exec"), aligned(64)));

/* ---- starting and stopping ------------------------------------------------------- */

bool py_tracer_init(void); /* once; false with an exception set */

/* Begin and end recording into COLLECTOR; the hooks are put in place with the first
 * and taken away with the last. False with an exception set. */
bool py_collector_start(struct py_collector *collector);
void py_collector_stop(struct py_collector *collector);
void py_collector_release(struct py_collector *collector);

/* Put the hooks in place, recording nothing until the first module of the program
 * runs; then COLLECTOR starts by itself. */
bool py_tracer_await_main(struct py_collector *collector);
/* A frame of CODE with GLOBALS begins while we wait: the main module's own? Then start
 * and return true. */
bool py_tracer_see_main(PyObject *code, PyObject *globals);

/* LANE is not to be recorded any more, whatever becomes of its collector: it could not
 * be taken over by a forked child. */
void py_tracer_abandon_lane(unsigned lane);

/* The calling thread's place in LANE, made when new. */
struct lw_calls_thread *py_tracer_attach(unsigned lane);
/* The same without the GIL, for a thread that Python may not know. False: LANE is
 * COLLECTOR's no more. */
bool py_tracer_attach_unnamed(unsigned lane, const struct py_collector *collector);

/* Wait until no thread is in py_session_enter's section. False: one still is after a
 * second, so it jumped out of it (siglongjmp in a signal handler, as cysignals does). */
bool py_tracer_await_writers(void);

/* Fork: the parent's lock must be free in the child, whose only thread is this one. */
void py_tracer_before_fork(void);
void py_tracer_after_fork_parent(void);
void py_tracer_after_fork_child(void);

/* The hooks of each Python; one of these serves. What runs may be started again, with
 * other C_CALLS. False with an exception set: all is as it was. */
bool py_monitoring_start(bool c_calls);
void py_monitoring_stop(void);
bool py_monitoring_is_deaf(void); /* the program has all tool ids */
bool py_eval_start(bool c_calls);
void py_eval_stop(void);

uint64_t py_tracer_timer_now(unsigned lane);
double py_tracer_tick_s(void); /* seconds a tick of the common clock */

/* ---- the hot path ---------------------------------------------------------------- */

/* NULL: no memory. */
struct py_lane_place *py_tracer_far_place(unsigned lane);

static inline struct py_lane_place *py_tracer_lane_place(unsigned lane)
{
    return __builtin_expect(lane < PY_NEAR_LANES, 1) ? &py_thread.places[lane]
                                                     : py_tracer_far_place(lane);
}

/* Whether the calling thread has been attached to the collector that is in LANE now. */
static inline bool py_tracer_is_attached(unsigned lane)
{
    const struct py_lane_place *place = py_tracer_lane_place(lane);

    return place && place->unnamed_epoch == py_tracer.lanes[lane].epoch;
}

/* And has the name that Python gives it, or never will have one. */
static inline bool py_tracer_is_named(unsigned lane)
{
    const struct py_lane_place *place = py_tracer_lane_place(lane);

    return place && place->epoch == py_tracer.lanes[lane].epoch;
}

/* Its place there, if it has one already: attaches nobody, so it needs no GIL. */
static inline struct lw_calls_thread *py_tracer_known_place(unsigned lane)
{
    return py_tracer_is_attached(lane) ? py_tracer_lane_place(lane)->calls : NULL;
}

static inline struct lw_calls_thread *py_tracer_place(unsigned lane)
{
    const struct py_lane_place *place = py_tracer_lane_place(lane);

    if (__builtin_expect(place && place->epoch == py_tracer.lanes[lane].epoch, 1))
        return place->calls;
    return py_tracer_attach(lane);
}

/* The first lane from LANE on that records RECORDS (enum py_records; any of them);
 * lane_limit: there is none. */
static inline unsigned py_tracer_find_lane(unsigned lane, unsigned records)
{
    while (lane < py_tracer.lane_limit && !(py_tracer.lanes[lane].records & records))
        lane++;
    return lane;
}

/* The calling thread's place, where nearly always all is plain: one lane is taken, by
 * the common clock, and this thread is known there. Else NULL: take the long way, which
 * begins with py_tracer_refresh. */
static inline struct lw_calls_thread *py_tracer_only(void)
{
    return __builtin_expect(py_thread.only_epoch == py_tracer.only_epoch, 1)
               ? py_thread.only
               : NULL;
}

/* Make the next py_tracer_only succeed if it can. */
void py_tracer_refresh(void);

/* The collectors that record now are not for this thread. */
static inline bool py_tracer_is_idle(void)
{
    return py_thread.only_epoch == py_tracer.only_epoch && !py_thread.only;
}

/* The calling thread's place in LANE; *NOW, the common clock's, becomes what the lane's own
 * says. That may run any code: NULL also where the lane is another's by now. */
struct lw_calls_thread *py_tracer_place_at(unsigned lane, uint64_t *now);

static inline const struct py_function_slot *py_tracer_function(PyObject *code)
{
    const struct py_function_slot *slot = py_functions_find(&py_tracer.functions, code);

    return __builtin_expect(slot != NULL, 1)
               ? slot
               : py_functions_add_code(&py_tracer.functions, code);
}

/* Enter FUNCTION in each lane that records RECORDS. */
void py_tracer_enter(enum py_records records, uint32_t function);

/* Leave the running call, whichever it is. */
void py_tracer_leave(enum py_records records);

static inline bool py_tracer_is_key(uint32_t function, void *key)
{
    return function < py_tracer.functions.count &&
           py_tracer.functions.list[function].key == key;
}

/* Leave the call of KEY (see struct py_function); if that is not the running one, find
 * it among its callers. */
void py_tracer_leave_function(enum py_records records, void *key);

/* One loss by CAUSE for the calling thread, in each lane that has it and records RECORDS. */
void py_tracer_count_lost(enum py_records records, enum lw_agent_loss cause);

#endif
