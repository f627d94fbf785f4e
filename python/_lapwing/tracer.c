/* Lanes, places and the life of a collector; see tracer.h. */

#include "tracer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

struct py_tracer py_tracer __attribute__((aligned(64)));
__thread struct py_thread py_thread
    __attribute__((tls_model("initial-exec"), aligned(64)));

static struct py_collector *awaiting; /* the collector that starts with __main__ */

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
        }
        py_tracer.hooked = false;
        return true;
    }
    py_tracer.hooked = py_tracer.compat.monitoring ? py_monitoring_start(c_calls)
                                                   : py_eval_start(c_calls);
    return py_tracer.hooked;
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
    for (unsigned lane = 0; lane < PY_LANES; lane++)
        if (py_tracer.lanes[lane].collector)
            drop_place(py_tracer.lanes[lane].collector, thread);
    pthread_mutex_unlock(&py_tracer.lock);
    free(py_thread.marks);
    memset(&py_thread, 0, sizeof(py_thread));
}

/* Locked: the calling thread's place in LANE, made when new. */
static void take_place(unsigned lane)
{
    struct py_collector *collector = py_tracer.lanes[lane].collector;
    struct py_lane_place *here = &py_thread.places[lane];
    uint64_t thread = thread_id();
    struct py_place *place = find_place(collector, thread);

    if (!place) {
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
        take_place(lane);
        calls = py_thread.places[lane].calls;
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
    struct py_lane_place *here = &py_thread.places[lane];

    pthread_mutex_lock(&py_tracer.lock);
    take_place(lane);
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
    py_tracer.use_tsc = lw_ticks_tsc_is_invariant();
    py_tracer.only_epoch = 1; /* a new thread's is 0: none */
    py_tracer.start_ticks = lw_ticks_now(py_tracer.use_tsc);
    py_tracer.start_ns = lw_ticks_monotonic_ns();
    return true;
}

double py_tracer_tick_s(void)
{
    const uint64_t long_enough_ns = 1000000; /* reading both clocks costs under 100 */
    uint64_t ticks, ns;

    if (!py_tracer.use_tsc)
        return 1e-9;
    do {
        ticks = lw_ticks_now(true) - py_tracer.start_ticks;
        ns = lw_ticks_monotonic_ns() - py_tracer.start_ns;
    } while (ns < long_enough_ns);
    return (double)ns / (double)ticks * 1e-9;
}

static uint64_t collector_now(const struct py_collector *collector)
{
    if (collector->timer)
        return py_tracer_timer_now((unsigned)collector->lane);
    return lw_ticks_now(py_tracer.use_tsc);
}

void py_tracer_refresh(void)
{
    unsigned lanes = py_tracer.active;
    unsigned lane = lanes ? (unsigned)__builtin_ctz(lanes) : 0;

    if (lanes == 0 || (lanes & (lanes - 1)) || py_tracer.timers || py_thread.lost_hook)
        return;
    py_thread.only = py_tracer_place(lane);
    if (py_thread.places[lane].epoch == py_tracer.lanes[lane].epoch)
        py_thread.only_epoch = py_tracer.only_epoch;
}

void py_tracer_leave_function(unsigned lanes, void *key)
{
    uint64_t now = lw_ticks_now(py_tracer.use_tsc);

    for (; lanes; lanes &= lanes - 1) {
        unsigned lane = (unsigned)__builtin_ctz(lanes);
        struct lw_calls_thread *calls = py_tracer_place(lane);
        uint32_t function = calls ? lw_calls_function(calls) : LW_FUNCTION_ROOT;

        if (py_tracer_is_key(function, key)) {
            lw_calls_leave(calls, py_tracer_now(lane, now));
        } else if (function != LW_FUNCTION_ROOT) {
            const struct py_function_slot *slot =
                py_functions_find(&py_tracer.functions, key);

            lw_calls_leave_through(calls, slot ? slot->number : LW_FUNCTION_UNKNOWN,
                                   py_tracer_now(lane, now));
        }
    }
}

static void take_lane(struct py_collector *collector, unsigned lane)
{
    unsigned bit = 1u << lane;

    pthread_mutex_lock(&py_tracer.lock);
    py_tracer.lanes[lane].collector = collector;
    py_tracer.lanes[lane].epoch++;
    pthread_mutex_unlock(&py_tracer.lock);
    collector->lane = (int)lane; /* from here on threads without the GIL may come */
    py_tracer.timers |= collector->timer ? bit : 0;
    py_tracer.active_c |= collector->c_calls ? bit : 0;
    py_tracer.active |= collector->marks_only ? 0 : bit;
    py_tracer.only_epoch++;
}

bool py_collector_start(struct py_collector *collector)
{
    for (unsigned lane = 0; lane < PY_LANES; lane++) {
        if (py_tracer.lanes[lane].collector)
            continue;
        take_lane(collector, lane);
        if (use_hooks())
            return true;
        py_collector_stop(collector);
        return false;
    }
    PyErr_Format(PyExc_RuntimeError, "%d profiles are recording already", PY_LANES);
    return false;
}

void py_collector_stop(struct py_collector *collector)
{
    unsigned lane = (unsigned)collector->lane;
    uint64_t now;

    if (collector->lane < 0)
        return;
    now = collector_now(collector);
    py_tracer.active &= ~(1u << lane);
    py_tracer.active_c &= ~(1u << lane);
    py_tracer.timers &= ~(1u << lane);
    py_tracer.only_epoch++;
    pthread_mutex_lock(&py_tracer.lock);
    for (struct py_place *place = collector->places; place; place = place->next)
        if (place->calls)
            lw_calls_leave_all(place->calls, now);
    py_tracer.lanes[lane].collector = NULL;
    py_tracer.lanes[lane].epoch++;
    pthread_mutex_unlock(&py_tracer.lock);
    collector->lane = -1;
    (void)use_hooks();
}

void py_collector_release(struct py_collector *collector)
{
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
 * profile; one that fails or gives no number stands still. */
uint64_t py_tracer_timer_now(unsigned lane)
{
    struct py_collector *collector = py_tracer.lanes[lane].collector;
    PyObject *type, *value, *traceback;
    PyObject *reading;
    double ticks = 0;

    PyErr_Fetch(&type, &value, &traceback);
    py_tracer.in_timer = true;
    reading = PyObject_CallObject(collector->timer, NULL);
    py_tracer.in_timer = false;
    if (reading)
        ticks = PyFloat_AsDouble(reading);
    Py_XDECREF(reading);
    py_error_end();
    PyErr_Restore(type, value, traceback);
    return (uint64_t)(int64_t)(collector->timer_unit_s > 0 ? ticks : ticks * 1e9);
}

/* ---- fork ------------------------------------------------------------------------ */

void py_tracer_before_fork(void)
{
    pthread_mutex_lock(&py_tracer.lock);
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
    for (unsigned lane = 0; lane < PY_LANES; lane++) {
        struct py_collector *collector = py_tracer.lanes[lane].collector;
        struct py_place *place = collector ? collector->places : NULL;

        for (; place; place = place->next)
            place->thread = place->calls && place->calls == py_thread.places[lane].calls
                                ? thread_id()
                                : 0;
    }
}
