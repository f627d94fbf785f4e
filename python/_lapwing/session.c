/* The session: one collector whose region the recorder has, and what fork does to it. */

#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/missed.h"
#include "marks.h"
#include "ops.h"
#include "steps.h"

static struct {
    struct py_collector collector;
    struct lw_agent_config config;
    char *text; /* the hello's, kept for forked children; owned */
    size_t text_len;
    uint32_t argument_count;
    uint32_t number;
} session = { .collector = { .lane = -1 } };

/* Hand the region over, and a way to read our memory where it is wanted; neither
 * descriptor is needed after. */
static bool hand_over(void)
{
    struct lw_region *region = &session.collector.region;
    int fds[LW_HELLO_FDS] = { region->fd, -1 };
    bool sent;
    int error;

    if (session.config.sample)
        fds[LW_HELLO_FD_MEMORY] = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    sent = lw_handover_send(session.config.socket, LW_HELLO_REGION, fds, session.text,
                            session.text_len, session.argument_count);
    error = errno;
    if (fds[LW_HELLO_FD_MEMORY] >= 0)
        close(fds[LW_HELLO_FD_MEMORY]);
    close(region->fd);
    region->fd = -1;
    errno = error;
    return sent;
}

/* ERROR is of a hello that failed. */
static bool is_there_but_busy(int error)
{
    return error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS ||
           error == ENOMEM;
}

static bool make_region(struct lw_region *region, uint32_t more_flags)
{
    const struct lw_agent_config *config = &session.config;
    struct lw_region_options options = {
        .flags = more_flags | (config->calls ? LW_AGENT_CALLS : 0) |
                 (config->c_calls ? LW_AGENT_C_CALLS : 0) |
                 (config->timeline ? LW_AGENT_TIMELINE : 0) |
                 (config->ops == LW_OPS_WINDOWS ? LW_AGENT_OPS : 0) |
                 (config->ops == LW_OPS_ALL ? LW_AGENT_ALL_OPS : 0),
        .shared = true,
        .use_tsc = py_tracer.use_tsc,
    };

    return lw_region_create(region, &options);
}

/* ---- fork ------------------------------------------------------------------------ */

/* The place of the thread that forks. It may have none: it has done nothing yet that is
 * recorded. */
static struct lw_calls_thread *forking_place(void)
{
    int lane = session.collector.lane;

    return lane < 0 ? NULL : py_tracer_known_place((unsigned)lane);
}

/* What the child goes on from is noted now: once it runs, the region that it still maps
 * is the parent's, who goes on writing there. */
static void before_fork(void)
{
    struct lw_calls_thread *mine;

    py_tracer_before_fork();
    lw_names_lock(&py_tracer.functions.names);
    if (!py_tracer.is_session_on)
        return;
    mine = forking_place();
    if (mine)
        lw_calls_thread_before_fork(mine);
}

static void after_fork_in_parent(void)
{
    lw_names_unlock(&py_tracer.functions.names);
    py_tracer_after_fork_parent();
}

/* This process is not recorded: forget all that was the parent's. Places and their trees
 * are left where they are, a few bytes that nobody looks at again. */
static void give_up(void)
{
    struct py_collector *collector = &session.collector;
    int lane = collector->lane;

    py_tracer.is_session_on = false;
    py_tracer.waiting_for_main = false;
    if (lane >= 0) {
        py_tracer.active &= ~(1u << lane);
        py_tracer.active_c &= ~(1u << lane);
        py_tracer.only_epoch++;
        py_tracer.lanes[lane].collector = NULL;
        py_tracer.lanes[lane].epoch++;
    }
    collector->lane = -1;
    collector->places = NULL;
    lw_names_log_to_nobody(&py_tracer.functions.names);
    lw_region_leave(&collector->region);
}

/* The child still maps the parent's region: it must get one of its own before it
 * records anything, or record nothing. Python's state is not to be touched here. */
static void after_fork_in_child(void)
{
    struct py_collector *collector = &session.collector;
    struct lw_region old = collector->region;
    struct lw_calls_thread *mine = forking_place();

    lw_names_unlock(&py_tracer.functions.names);
    py_tracer_after_fork_child();
    py_marks_after_fork();
    py_steps_after_fork();
    if (!py_tracer.is_session_on)
        return;
    for (struct py_place *place = collector->places; place; place = place->next)
        if (place->calls != mine)
            place->calls = NULL; /* its thread is the parent's; a few bytes are lost */
    if (!make_region(&collector->region, LW_AGENT_FORKED) ||
        !lw_region_copy_names(&collector->region, &old) ||
        (mine && !lw_calls_thread_move(mine, &collector->region)) || !hand_over()) {
        lw_region_count_lost(&old, LW_LOST_FORKS);
        give_up();
    }
    lw_region_leave(&old);
}

/* ---- on and off ------------------------------------------------------------------ */

bool py_session_start(const char *config, const char *text, size_t text_len,
                      uint32_t argument_count, bool await_main)
{
    static bool fork_is_watched;
    struct py_collector *collector = &session.collector;

    if (py_tracer.is_session_on) {
        PyErr_SetString(PyExc_RuntimeError, "this process is being recorded already");
        return false;
    }
    if (!lw_agent_config_parse(&session.config, config)) {
        PyErr_Format(PyExc_ValueError, "%s is broken: %s", LW_AGENT_VARIABLE, config);
        return false;
    }
    if (!fork_is_watched) {
        if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) !=
            0) {
            PyErr_NoMemory();
            return false;
        }
        fork_is_watched = true;
    }
    free(session.text);
    session.text = malloc(text_len + 1);
    if (!session.text) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(session.text, text, text_len);
    session.text_len = text_len;
    session.argument_count = argument_count;

    if (!make_region(&collector->region, 0)) {
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    if (!hand_over()) {
        if (is_there_but_busy(errno))
            lw_missed_note(session.config.socket);
        lw_region_release(&collector->region);
        PyErr_Format(PyExc_ConnectionError, "no recorder answers at %s",
                     session.config.socket);
        return false;
    }
    collector->c_calls = session.config.c_calls;
    if (session.config.min_span_ns)
        collector->min_span_ticks =
            (uint64_t)((double)session.config.min_span_ns * 1e-9 / py_tracer_tick_s());
    py_functions_log_to(&py_tracer.functions, &collector->region);
    collector->marks_only = !session.config.calls;
    session.number++;
    py_tracer.is_session_on = true;
    if (await_main && session.config.calls ? py_tracer_await_main(collector)
                                           : py_collector_start(collector))
        return true;
    py_session_stop();
    return false;
}

void py_session_stop(void)
{
    struct py_collector *collector = &session.collector;
    bool is_unused;

    if (!py_tracer.is_session_on)
        return;
    py_ops_stop();
    py_tracer.is_session_on = false;
    is_unused = py_tracer_await_writers();
    lw_names_log_to_nobody(&py_tracer.functions.names);
    py_collector_stop(collector);
    atomic_store_explicit(&collector->region.header->state, LW_AGENT_FINISHED,
                          memory_order_release);
    if (!is_unused) { /* who knows what it will do: the memory stays */
        collector->places = NULL;
        memset(&collector->region, 0, sizeof(collector->region));
        collector->region.fd = -1;
    }
    py_collector_release(collector);
}

const struct lw_agent_config *py_session_config(void)
{
    return py_tracer.is_session_on ? &session.config : NULL;
}

void py_session_note(const char *sentence)
{
    if (py_tracer.is_session_on)
        lw_handover_send(session.config.socket, LW_HELLO_NOTE, NULL, sentence,
                         strlen(sentence), 0);
}

/* ---- writing to it --------------------------------------------------------------- */

uint32_t py_session_orders(void)
{
    return py_tracer.is_session_on
               ? atomic_load_explicit(&session.collector.region.header->orders,
                                      memory_order_relaxed)
               : 0;
}

uint32_t py_session_number(void)
{
    return session.number;
}

struct lw_calls_thread *py_session_find_place(void)
{
    int lane = session.collector.lane;
    struct lw_calls_thread *place;

    if (!py_tracer.is_session_on || lane < 0)
        return NULL;
    place = py_tracer_place((unsigned)lane);
    if (py_tracer_is_named((unsigned)lane)) {
        py_thread.session = place;
        py_thread.session_epoch = py_tracer.only_epoch;
    }
    return place;
}

/* Either we see here that the recording has ended, or who ends it sees that we write:
 * both store first and look then, in one order for all (seq_cst). */
struct lw_calls_thread *py_session_enter(void)
{
    while (py_session_is_on()) {
        struct lw_calls_thread *place;
        bool is_known;
        int lane;

        atomic_store(&py_thread.is_writing, true);
        lane = session.collector.lane;
        if (!py_tracer.is_session_on || lane < 0) {
            py_session_leave();
            break;
        }
        is_known = py_tracer_is_attached((unsigned)lane);
        place = py_tracer_known_place((unsigned)lane);
        if (place)
            return place;
        py_session_leave();
        if (is_known || !py_tracer_attach_unnamed((unsigned)lane, &session.collector))
            break;
    }
    return NULL;
}
