/* Calls on Python 3.10 and 3.11: a frame evaluation function (PEP 523) around each
 * Python call, and the profile hook where that cannot reach.
 *
 * The evaluation function costs a few ns where the profile hook costs fifty, but it
 * sees no builtins, and on 3.11 it makes each Python call take C stack again. So the
 * profile hook serves as well:
 *
 *  - for builtins (`c_calls`): then it counts everything in each thread, and the
 *    evaluation function only notices new threads and hooks them;
 *  - for deep recursion on 3.11: when a thread has used a quarter of its stack, the
 *    interpreter's own evaluation is put back (a call is inlined again and takes no
 *    stack) and the hook takes over in every thread, until that thread is back.
 *
 * While a thread has `profile_hook` set, the hook alone counts there. Calls that the
 * evaluation function entered before are still below; the hook knows their returns by
 * hook_depth being zero, and leaves them to the evaluation function. */

#include "tracer.h"

#include <pthread.h>

static py_eval_function previous; /* what evaluated frames before us: called for each */
static bool hook_everything;      /* builtins are recorded: every thread is hooked */
static unsigned deep_threads;     /* that handed over to the profile hook */

static PyObject *eval_counting(PyThreadState *state, void *frame, int throwing);
static int profile_hook(PyObject *arg, void *frame, int what, PyObject *value);

static PyObject *frame_code(void *frame)
{
    return *(PyObject **)((char *)frame + py_tracer.compat.frame_code);
}

static py_trace_function *thread_hook(PyThreadState *state)
{
    return (py_trace_function *)((char *)state + py_tracer.compat.thread_profile);
}

/* ---- the profile hook ------------------------------------------------------------ */

static void set_hook(PyThreadState *state, bool on)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    /* An auditing program may refuse it; then the thread goes on unhooked. */
    if (py_tracer.compat.set_profile(state, on ? profile_hook : NULL, NULL) < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* Hook the calling thread; false: the program has a profile function of its own, which
 * keeps its place. */
static bool hook_this_thread(PyThreadState *state)
{
    if (*thread_hook(state) != NULL && *thread_hook(state) != profile_hook) {
        for (unsigned lanes = py_tracer.active; lanes; lanes &= lanes - 1) {
            struct lw_calls_thread *calls =
                py_tracer_place((unsigned)__builtin_ctz(lanes));

            if (calls)
                lw_region_count_lost(calls->region, LW_LOST_HOOKED);
        }
        return false;
    }
    set_hook(state, true);
    py_thread.profile_hook = *thread_hook(state) == profile_hook;
    return py_thread.profile_hook;
}

static void unhook_this_thread(PyThreadState *state)
{
    if (*thread_hook(state) == profile_hook)
        set_hook(state, false);
    py_thread.profile_hook = false;
    py_thread.hook_depth = 0;
}

static const struct py_function_slot *builtin_slot(PyObject *callable)
{
    PyMethodDef *definition = py_builtin_definition(callable);
    const struct py_function_slot *slot =
        py_functions_find(&py_tracer.functions, PY_BUILTIN_KEY(definition));

    if (__builtin_expect(slot != NULL, 1))
        return slot;
    return py_functions_add_builtin(&py_tracer.functions, definition, callable,
                                    PyCFunction_GetSelf(callable));
}

static int profile_hook(PyObject *arg, void *frame, int what, PyObject *value)
{
    unsigned lanes = py_tracer.active;
    unsigned c_lanes = py_tracer.active_c;

    (void)arg;
    py_thread.profile_hook = true;
    if (__builtin_expect(lanes == 0 || py_tracer.in_timer, 0))
        return 0;
    switch (what) {
    case PY_TRACE_CALL: {
        PyObject *code = (PyObject *)PyFrame_GetCode(frame);

        if (py_thread.hook_depth == 0 && deep_threads == 0 && !hook_everything) {
            /* The deep thread is back: this one is the evaluation function's again,
             * beginning with the call that it has just entered. */
            unhook_this_thread(PyThreadState_Get());
        } else {
            py_thread.hook_depth++;
            py_tracer_enter(lanes, py_tracer_function(code)->number);
        }
        Py_DECREF(code);
        break;
    }
    case PY_TRACE_RETURN:
        if (py_thread.hook_depth > 0) {
            py_thread.hook_depth--;
            py_tracer_leave(lanes);
        }
        break;
    case PY_TRACE_C_CALL:
        if (c_lanes && PyCFunction_Check(value))
            py_tracer_enter(c_lanes, builtin_slot(value)->number);
        break;
    case PY_TRACE_C_RETURN:
    case PY_TRACE_C_EXCEPTION:
        if (c_lanes && PyCFunction_Check(value))
            py_tracer_leave_function(c_lanes,
                                     PY_BUILTIN_KEY(py_builtin_definition(value)));
        break;
    default:
        break;
    }
    return 0;
}

/* ---- the evaluation function ----------------------------------------------------- */

/* A quarter of the stack is ours to use; see the head of the file. */
static void find_stack_limit(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;

    py_thread.has_limits = true;
    if (!py_tracer.compat.calls_are_inlined ||
        pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0)
        py_thread.slow_below = (uintptr_t)low + size - size / 4;
    pthread_attr_destroy(&attributes);
}

static inline bool stack_is_short(void)
{
    return (uintptr_t)__builtin_frame_address(0) < py_thread.slow_below;
}

static void set_eval(PyThreadState *state, py_eval_function eval)
{
    py_tracer.compat.set_eval(PyThreadState_GetInterpreter(state), eval);
}

static bool we_evaluate(PyThreadState *state)
{
    return py_tracer.compat.get_eval(PyThreadState_GetInterpreter(state)) ==
           eval_counting;
}

/* Let the profile hook count in all threads and Python calls be inlined again, while
 * FRAME runs. */
static PyObject *eval_deep(PyThreadState *state, void *frame, int throwing)
{
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(state);
    PyObject *result;

    if (!we_evaluate(state) || !hook_this_thread(state))
        return previous(state, frame, throwing);
    if (deep_threads++ == 0) {
        PyThreadState *other = py_tracer.compat.first_thread(interpreter);

        set_eval(state, previous);
        for (; other; other = py_tracer.compat.next_thread(other))
            if (*thread_hook(other) == NULL)
                set_hook(other, true);
    }
    result = previous(state, frame, throwing);
    if (--deep_threads == 0 && py_tracer.hooked)
        set_eval(state, eval_counting);
    if (!hook_everything)
        unhook_this_thread(state);
    return result;
}

/* The profile hook counts in this thread. If the program puts its own in that place
 * while FRAME runs, come back to where we were and count here again, without
 * builtins. */
static PyObject *eval_hooked(PyThreadState *state, void *frame, int throwing)
{
    if (*thread_hook(state) == profile_hook)
        return stack_is_short() ? eval_deep(state, frame, throwing)
                                : previous(state, frame, throwing);
    py_thread.profile_hook = false;
    py_thread.hook_depth = 0;
    return eval_counting(state, frame, throwing);
}

static PyObject *eval_slow(PyThreadState *state, void *frame, int throwing)
{
    PyObject *result;

    if (!py_thread.has_limits)
        find_stack_limit();
    if (hook_everything && hook_this_thread(state))
        return previous(state, frame, throwing);
    if (stack_is_short())
        return eval_deep(state, frame, throwing);
    py_tracer_enter(py_tracer.active, py_tracer_function(frame_code(frame))->number);
    result = previous(state, frame, throwing);
    if (py_tracer.active)
        py_tracer_leave(py_tracer.active);
    return result;
}

static PyObject *eval_waiting(PyThreadState *state, void *frame, int throwing)
{
    PyObject *globals = *(PyObject **)((char *)frame + py_tracer.compat.frame_globals);

    if (py_tracer.waiting_for_main && py_tracer_see_main(frame_code(frame), globals))
        return eval_counting(state, frame, throwing);
    return previous(state, frame, throwing);
}

static PyObject *eval_counting(PyThreadState *state, void *frame, int throwing)
{
    const struct py_function_slot *slot;
    PyObject *result;

    if (__builtin_expect(py_tracer.active == 0 || py_tracer.in_timer, 0))
        return eval_waiting(state, frame, throwing);
    if (__builtin_expect(py_thread.profile_hook, 0))
        return eval_hooked(state, frame, throwing);
    slot = py_tracer_function(frame_code(frame));
    /* Calling a generator function runs a frame that only makes the generator: no
     * call of the function yet. */
    if (__builtin_expect(slot->suspends, 0) && py_tracer.compat.frame_owner &&
        ((char *)frame)[py_tracer.compat.frame_owner] == 0)
        return previous(state, frame, throwing);
    if (__builtin_expect(
            stack_is_short() || hook_everything || !py_thread.has_limits, 0))
        return eval_slow(state, frame, throwing);

    py_tracer_enter(py_tracer.active, slot->number);
    result = previous(state, frame, throwing);
    /* By now recording may have stopped, or this may be a forked child. */
    if (__builtin_expect(py_tracer.active != 0, 1))
        py_tracer_leave(py_tracer.active);
    return result;
}

/* ---- on and off ------------------------------------------------------------------ */

bool py_eval_start(bool c_calls)
{
    PyThreadState *state = PyThreadState_Get();
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(state);

    if (!py_tracer.hooked && !we_evaluate(state)) {
        previous = py_tracer.compat.get_eval(interpreter);
        set_eval(state, eval_counting);
    }
    hook_everything = c_calls;
    if (c_calls && py_tracer.active_c && !py_thread.profile_hook)
        hook_this_thread(state);
    return true;
}

void py_eval_stop(void)
{
    PyThreadState *state = PyThreadState_Get();
    PyThreadState *other =
        py_tracer.compat.first_thread(PyThreadState_GetInterpreter(state));

    hook_everything = false;
    for (; other; other = py_tracer.compat.next_thread(other))
        if (*thread_hook(other) == profile_hook)
            set_hook(other, false);
    py_thread.profile_hook = false;
    py_thread.hook_depth = 0;
    /* Where another evaluation function sits on ours (torch.compile's), ours stays
     * under it and hands through. */
    if (we_evaluate(state))
        set_eval(state, previous);
}
