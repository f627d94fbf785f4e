/* Lanes, places and the life of a collector; see tracer.h. */

#include "tracer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"
#include "greenlets.h"

struct py_tracer py_tracer __attribute__((aligned(64)));
__thread struct py_thread py_thread
    __attribute__((tls_model("initial-exec"), aligned(64)));

static struct py_collector *awaiting; /* the collector that starts with __main__ */
static uint64_t forking_thread;       /* kernel id, in the parent */

static uint64_t thread_id(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

/* Have the hooks that the collectors need now. False with an exception set. */
static bool use_hooks(void)
{
    bool c_calls =
        py_tracer.active_c != 0 || (py_tracer.waiting_for_main && awaiting->c_calls);

    if (py_tracer.active == 0 && !py_tracer.waiting_for_main) {
        if (py_tracer.hooked) {
            if (py_tracer.compat.monitoring)
                py_monitoring_stop();
            else
                py_eval_stop();
            py_greenlets_forget();
        }
        py_tracer.hooked = false;
        return true;
    }
    if (!(py_tracer.compat.monitoring ? py_monitoring_start(c_calls)
                                      : py_eval_start(c_calls)))
        return false; /* hooks that are in place stay so */
    py_tracer.hooked = true;
    py_greenlets_watch();
    return true;
}

/* The same where nobody can be told, and an exception may be on its way. */
static void use_hooks_quietly(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    (void)use_hooks();
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* ---- threads --------------------------------------------------------------------- */

/* A thread of threading's registers itself a few calls after its first. */
enum { MOST_NAME_TRIES = 250 };

static void set_name(struct lw_agent_thread *slot, const char *name, size_t len)
{
    size_t used = len < sizeof(slot->name) ? len : sizeof(slot->name);

    memcpy(slot->name, name, used);
    atomic_store_explicit(&slot->name_len, (uint32_t)used, memory_order_release);
}

/* Copy Python's name of the calling thread into SLOT; false: it has none yet. Looks,
 * runs nothing: threading keeps its threads in `_active`, a Thread its name in `_name`. */
static bool name_thread(struct lw_agent_thread *slot)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *threading = PyDict_GetItemString(modules, "threading");
    PyObject *type, *value, *traceback;
    PyObject *active = NULL, *ident = NULL, *thread = NULL, *name = NULL;
    const char *text = NULL;
    Py_ssize_t len = 0;

    if (!threading) { /* then there is only one */
        set_name(slot, "MainThread", 10);
        return true;
    }
    PyErr_Fetch(&type, &value, &traceback);
    active = PyObject_GetAttrString(threading, "_active");
    ident = PyLong_FromUnsignedLong((unsigned long)pthread_self());
    if (active && ident && PyDict_CheckExact(active))
        thread = PyDict_GetItemWithError(active, ident); /* borrowed */
    if (thread)
        name = PyObject_GetAttrString(thread, "_name");
    if (name && PyUnicode_Check(name))
        text = PyUnicode_AsUTF8AndSize(name, &len);
    if (text)
        set_name(slot, text, (size_t)len);
    Py_XDECREF(active);
    Py_XDECREF(ident);
    Py_XDECREF(name);
    PyErr_Restore(type, value, traceback);
    return text != NULL;
}

static struct py_place *find_place(const struct py_collector *collector,
                                   uint64_t thread)
{
    struct py_place *place = collector->places;

    while (place && place->thread != thread)
        place = place->next;
    return place;
}

static void drop_place(struct py_collector *collector, uint64_t thread)
{
    struct py_place **link = &collector->places;

    while (*link && (*link)->thread != thread)
        link = &(*link)->next;
    if (*link) {
        struct py_place *place = *link;

        *link = place->next;
        lw_calls_thread_free(place->calls, true);
        free(place);
    }
}

static void unlist_thread(struct py_thread *thread)
{
    struct py_thread **link = &py_tracer.threads;

    while (*link && *link != thread)
        link = &(*link)->next;
    if (*link)
        *link = thread->next;
}

/* Runs without the GIL, when a thread is gone: its slots may go to another. */
static void thread_ended(void *unused)
{
    uint64_t thread = thread_id();

    (void)unused;
    pthread_mutex_lock(&py_tracer.lock);
    unlist_thread(&py_thread);
    for (unsigned lane = 0; lane < py_tracer.lane_limit; lane++) {
        struct py_collector *collector = py_tracer.lanes[lane].collector;

        if (!collector)
            continue;
        drop_place(collector, thread);
        if (collector->thread == thread)
            collector->thread = 0; /* another thread may get the number */
    }
    pthread_mutex_unlock(&py_tracer.lock);
    free(py_thread.marks);
    free(py_thread.far_places);
    memset(&py_thread, 0, sizeof(py_thread));
}

struct py_lane_place *py_tracer_far_place(unsigned lane)
{
    unsigned count = py_thread.far_count;
    unsigned need = lane - PY_NEAR_LANES + 1;
    struct py_lane_place *larger;

    if (need > count) {
        count = count * 2 > need ? count * 2 : need;
        larger = realloc(py_thread.far_places, count * sizeof(*larger));
        if (!larger)
            return NULL;
        memset(larger + py_thread.far_count, 0,
               (count - py_thread.far_count) * sizeof(*larger));
        py_thread.far_places = larger;
        py_thread.far_count = count;
    }
    return &py_thread.far_places[lane - PY_NEAR_LANES];
}

/* Locked: the calling thread's place HERE in LANE, made when new. */
static void take_place(unsigned lane, struct py_lane_place *here)
{
    struct py_collector *collector = py_tracer.lanes[lane].collector;
    uint64_t thread = thread_id();
    bool is_wanted = !collector->this_thread || collector->thread == thread;
    struct py_place *place = is_wanted ? find_place(collector, thread) : NULL;

    if (!place && is_wanted) {
        place = calloc(1, sizeof(*place));
        if (place) {
            place->thread = thread;
            place->calls =
                lw_calls_thread_new(&collector->region, collector->min_span_ticks);
            place->next = collector->places;
            collector->places = place;
        }
    }
    if (!py_thread.is_listed) {
        py_thread.next = py_tracer.threads;
        py_tracer.threads = &py_thread;
        py_thread.is_listed = true;
    }
    here->calls = place ? place->calls : NULL;
    here->unnamed_epoch = py_tracer.lanes[lane].epoch;
}

bool py_tracer_attach_unnamed(unsigned lane, const struct py_collector *collector)
{
    struct lw_calls_thread *calls = NULL;
    char name[17] = "";
    bool is_there;

    pthread_mutex_lock(&py_tracer.lock);
    is_there = py_tracer.lanes[lane].collector == collector;
    if (is_there) {
        take_place(lane, &py_thread.places[lane]); /* the session's: a near one */
        calls = py_tracer_known_place(lane);
    }
    /* The kernel's name, until Python has one. */
    if (calls && atomic_load(&calls->slot->name_len) == 0 &&
        prctl(PR_GET_NAME, name) == 0)
        set_name(calls->slot, name, strlen(name));
    pthread_mutex_unlock(&py_tracer.lock);
    pthread_setspecific(py_tracer.thread_end, &py_thread);
    return is_there;
}

bool py_tracer_await_writers(void)
{
    const uint64_t longest_ns = 1000000000;
    uint64_t start_ns = lw_ticks_monotonic_ns();
    bool is_over = true;

    pthread_mutex_lock(&py_tracer.lock);
    for (struct py_thread *thread = py_tracer.threads; thread; thread = thread->next) {
        while (atomic_load(&thread->is_writing) &&
               lw_ticks_monotonic_ns() - start_ns < longest_ns)
            sched_yield();
        is_over = is_over && !atomic_load(&thread->is_writing);
    }
    pthread_mutex_unlock(&py_tracer.lock);
    return is_over;
}

struct lw_calls_thread *py_tracer_attach(unsigned lane)
{
    struct py_lane_place *here = py_tracer_lane_place(lane);

    if (!here) {
        lw_region_count_lost(&py_tracer.lanes[lane].collector->region, LW_LOST_THREADS);
        return NULL;
    }
    pthread_mutex_lock(&py_tracer.lock);
    take_place(lane, here);
    pthread_mutex_unlock(&py_tracer.lock);
    pthread_setspecific(py_tracer.thread_end, &py_thread);

    /* Until the name is known the epoch stays wrong, so that we are asked again. */
    if (!here->calls || name_thread(here->calls->slot) ||
        ++py_thread.name_tries >= MOST_NAME_TRIES) {
        here->epoch = py_tracer.lanes[lane].epoch;
        py_thread.name_tries = 0;
    }
    return here->calls;
}

/* ---- collectors ------------------------------------------------------------------ */

static struct py_moment moment_now(void)
{
    return (struct py_moment){ lw_ticks_now(py_tracer.use_tsc),
                               lw_ticks_monotonic_ns() };
}

bool py_tracer_init(void)
{
    const char *reason = NULL;

    if (!py_compat_load(&py_tracer.compat, &reason)) {
        PyErr_SetString(PyExc_ImportError, reason);
        return false;
    }
    if (!py_functions_init(&py_tracer.functions, &py_tracer.compat))
        return false;
    if (pthread_mutex_init(&py_tracer.lock, NULL) != 0 ||
        pthread_key_create(&py_tracer.thread_end, thread_ended) != 0) {
        PyErr_SetString(PyExc_OSError, "no thread-specific key is left");
        return false;
    }
    py_tracer.use_tsc = lw_ticks_tsc_is_trusted(LW_TICKS_CLOCKSOURCE);
    py_tracer.only_epoch = 1; /* a new thread's is 0: none */
    py_tracer.start = py_tracer.asked = moment_now();
    return true;
}

static double tick_s_between(struct py_moment from, struct py_moment to)
{
    return (double)(to.ns - from.ns) / (double)(int64_t)(to.ticks - from.ticks) * 1e-9;
}

/* Measured from the start, for that is the most exact; but the counter may have jumped since
 * it was last asked for (a suspended machine), and then it is measured from there on. */
double py_tracer_tick_s(void)
{
    const uint64_t long_enough_ns = 1000000; /* reading both clocks costs under 100 */
    struct py_moment now;
    double ratio;

    if (!py_tracer.use_tsc)
        return 1e-9;
    do {
        now = moment_now();
    } while (now.ns - py_tracer.asked.ns < long_enough_ns && py_tracer.tick_s == 0);
    if (py_tracer.tick_s > 0) {
        if (now.ns - py_tracer.asked.ns < long_enough_ns)
            return py_tracer.tick_s;
        ratio = tick_s_between(py_tracer.asked, now) / py_tracer.tick_s;
        py_tracer.asked = now;
        if (!(ratio > 0.8 && ratio < 1.25)) {
            py_tracer.start = now;
            return py_tracer.tick_s;
        }
        if (now.ns - py_tracer.start.ns < long_enough_ns)
            return py_tracer.tick_s;
    }
    py_tracer.asked = now;
    py_tracer.tick_s = tick_s_between(py_tracer.start, now);
    return py_tracer.tick_s;
}

static uint64_t collector_now(const struct py_collector *collector)
{
    if (collector->timer)
        return py_tracer_timer_now((unsigned)collector->lane);
    return lw_ticks_now(py_tracer.use_tsc);
}

void py_tracer_refresh(void)
{
    const unsigned any = PY_RECORDS_CALLS | PY_RECORDS_C_CALLS;
    struct lw_calls_thread *only = NULL;
    bool only_c = false;

    if (py_tracer.active == 0 || py_thread.lost_hook)
        return;
    for (unsigned lane = py_tracer_find_lane(0, any); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, any)) {
        struct lw_calls_thread *calls = py_tracer_place(lane);

        if (!py_tracer_is_named(lane))
            return;
        if (!calls)
            continue;
        if (only || py_tracer.lanes[lane].has_timer)
            return;
        only = calls;
        only_c = py_tracer.lanes[lane].records & PY_RECORDS_C_CALLS;
    }
    py_thread.only = only;
    py_thread.only_c = only_c;
    py_thread.only_epoch = py_tracer.only_epoch;
}

struct lw_calls_thread *py_tracer_place_at(unsigned lane, uint64_t *now)
{
    struct lw_calls_thread *calls = py_tracer_place(lane);
    uint32_t epoch = py_tracer.lanes[lane].epoch;

    if (!calls || !py_tracer.lanes[lane].has_timer)
        return calls;
    *now = py_tracer_timer_now(lane);
    return py_tracer.lanes[lane].epoch == epoch ? calls : NULL;
}

void py_tracer_enter(enum py_records records, uint32_t function)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    for (unsigned lane = py_tracer_find_lane(0, records); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, records)) {
        uint64_t at = now;
        struct lw_calls_thread *calls = py_tracer_place_at(lane, &at);

        if (calls)
            lw_calls_enter(calls, function, at);
    }
}

void py_tracer_leave(enum py_records records)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    for (unsigned lane = py_tracer_find_lane(0, records); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, records)) {
        uint64_t at = now;
        struct lw_calls_thread *calls = py_tracer_place_at(lane, &at);

        if (calls)
            lw_calls_leave(calls, at);
    }
}

void py_tracer_leave_function(enum py_records records, void *key)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    for (unsigned lane = py_tracer_find_lane(0, records); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, records)) {
        uint64_t at = now;
        struct lw_calls_thread *calls = py_tracer_place_at(lane, &at);
        uint32_t function = calls ? lw_calls_function(calls) : LW_FUNCTION_ROOT;

        if (py_tracer_is_key(function, key)) {
            lw_calls_leave(calls, at);
        } else if (function != LW_FUNCTION_ROOT) {
            const struct py_function_slot *slot =
                py_functions_find(&py_tracer.functions, key);

            lw_calls_leave_through(calls, slot ? slot->number : LW_FUNCTION_UNKNOWN,
                                   at);
        }
    }
}

void py_tracer_count_lost(enum py_records records, enum lw_agent_loss cause)
{
    for (unsigned lane = py_tracer_find_lane(0, records); lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, records)) {
        struct lw_calls_thread *calls = py_tracer_place(lane);

        if (calls)
            lw_region_count_lost(calls->region, cause);
    }
}

/* Locked. */
static void fill_lane(unsigned lane, struct py_collector *collector)
{
    struct py_lane *taken = &py_tracer.lanes[lane];

    taken->collector = collector;
    taken->epoch++;
    taken->has_timer = collector->timer != NULL;
    taken->records = collector->marks_only ? 0 : PY_RECORDS_CALLS;
    if (collector->c_calls)
        taken->records |= PY_RECORDS_C_CALLS;
    if (py_tracer.lane_limit <= lane)
        py_tracer.lane_limit = lane + 1;
}

static void take_lane(struct py_collector *collector, unsigned lane)
{
    pthread_mutex_lock(&py_tracer.lock);
    fill_lane(lane, collector);
    if (collector->this_thread)
        collector->thread = thread_id();
    pthread_mutex_unlock(&py_tracer.lock);
    collector->lane = (int)lane; /* from here on threads without the GIL may come */
    py_tracer.active_c += collector->c_calls;
    py_tracer.active += !collector->marks_only;
    py_tracer.only_epoch++;
}

/* Nothing is recorded there any more; the collector keeps it. */
static void silence_lane(struct py_lane *lane)
{
    py_tracer.active -= (lane->records & PY_RECORDS_CALLS) != 0;
    py_tracer.active_c -= (lane->records & PY_RECORDS_C_CALLS) != 0;
    lane->records = 0;
    lane->has_timer = false;
    py_tracer.only_epoch++;
}

/* Locked. */
static void empty_lane(unsigned lane)
{
    py_tracer.lanes[lane].collector = NULL;
    py_tracer.lanes[lane].epoch++;
    while (py_tracer.lane_limit > 0 &&
           !py_tracer.lanes[py_tracer.lane_limit - 1].collector)
        py_tracer.lane_limit--;
}

void py_tracer_abandon_lane(unsigned lane)
{
    silence_lane(&py_tracer.lanes[lane]);
    empty_lane(lane);
}

bool py_collector_start(struct py_collector *collector)
{
    unsigned first = collector->is_session ? 0 : 1;
    unsigned limit = collector->is_session ? 1 : PY_LANES;

    for (unsigned lane = first; lane < limit; lane++) {
        if (py_tracer.lanes[lane].collector)
            continue;
        take_lane(collector, lane);
        if (!use_hooks()) {
            py_collector_stop(collector);
            return false;
        }
        if (!collector->marks_only && py_tracer.compat.monitoring &&
            py_monitoring_is_deaf())
            lw_region_count_lost(&collector->region, LW_LOST_TOOLS);
        return true;
    }
    PyErr_Format(PyExc_RuntimeError, "%d profiles are recording already", PY_LANES - 1);
    return false;
}

void py_collector_stop(struct py_collector *collector)
{
    unsigned lane = (unsigned)collector->lane;
    uint64_t now;

    if (collector->lane < 0)
        return;
    now = collector_now(collector);
    if (collector->lane != (int)lane)
        return; /* another thread has stopped it while its clock ran */
    silence_lane(&py_tracer.lanes[lane]);
    pthread_mutex_lock(&py_tracer.lock);
    for (struct py_place *place = collector->places; place; place = place->next)
        if (place->calls)
            lw_calls_leave_all(place->calls, now);
    empty_lane(lane);
    pthread_mutex_unlock(&py_tracer.lock);
    collector->lane = -1;
    use_hooks_quietly();
}

void py_collector_release(struct py_collector *collector)
{
    while (collector->lane >= 0) /* another thread may start it while its clock runs */
        py_collector_stop(collector);
    while (collector->places) {
        struct py_place *place = collector->places;

        collector->places = place->next;
        lw_calls_thread_free(place->calls, false);
        free(place);
    }
    lw_region_release(&collector->region);
}

bool py_tracer_await_main(struct py_collector *collector)
{
    awaiting = collector;
    py_tracer.waiting_for_main = true;
    return use_hooks();
}

bool py_tracer_see_main(PyObject *code, PyObject *globals)
{
    PyObject *type, *value, *traceback;
    PyObject *code_name, *module_name;
    bool is_main = false;

    PyErr_Fetch(&type, &value, &traceback);
    code_name = PyObject_GetAttrString(code, "co_name");
    if (code_name && PyUnicode_CompareWithASCIIString(code_name, "<module>") == 0) {
        module_name = PyDict_GetItemString(globals, "__name__"); /* borrowed */
        is_main = module_name && PyUnicode_Check(module_name) &&
                  PyUnicode_CompareWithASCIIString(module_name, "__main__") == 0;
    }
    Py_XDECREF(code_name);
    if (is_main) {
        py_tracer.waiting_for_main = false;
        if (!py_collector_start(awaiting))
            PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
    return is_main;
}

/* The caller's own clock. It may be a Python function, whose calls are not part of the
 * profile; one that fails or gives no number is at 0, and that is said as of any other
 * callback. */
uint64_t py_tracer_timer_now(unsigned lane)
{
    const struct py_collector *collector = py_tracer.lanes[lane].collector;
    double unit_s = collector->timer_unit_s;
    PyObject *timer = collector->timer;
    PyObject *type, *value, *traceback;
    PyObject *reading;
    double ticks = 0;

    PyErr_Fetch(&type, &value, &traceback);
    Py_INCREF(timer);
    py_thread.in_timer = collector;
    reading = PyObject_CallObject(timer, NULL);
    if (reading)
        ticks = PyFloat_AsDouble(reading);
    Py_XDECREF(reading);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_WriteUnraisable(timer);
    py_error_end(); /* KeyboardInterrupt goes on to the program */
    py_thread.in_timer = NULL;
    Py_DECREF(timer);
    PyErr_Restore(type, value, traceback);
    return (uint64_t)(int64_t)(unit_s > 0 ? ticks : ticks * 1e9);
}

/* ---- fork ------------------------------------------------------------------------ */

void py_tracer_before_fork(void)
{
    pthread_mutex_lock(&py_tracer.lock);
    forking_thread = thread_id();
}

void py_tracer_after_fork_parent(void)
{
    pthread_mutex_unlock(&py_tracer.lock);
}

/* Only the calling thread lives on, under a new number. Places of the others are
 * dropped; their trees stay in private regions as they were. */
void py_tracer_after_fork_child(void)
{
    pthread_mutex_unlock(&py_tracer.lock);
    py_thread.next = NULL;
    py_tracer.threads = py_thread.is_listed ? &py_thread : NULL;
    for (unsigned lane = 0; lane < py_tracer.lane_limit; lane++) {
        struct py_collector *collector = py_tracer.lanes[lane].collector;
        struct py_place *place = collector ? collector->places : NULL;

        for (; place; place = place->next)
            place->thread = place->thread == forking_thread ? thread_id() : 0;
        if (collector && collector->thread)
            collector->thread = collector->thread == forking_thread ? thread_id() : 0;
    }
}
