/* Calls on Python 3.10 and 3.11: a frame evaluation function (PEP 523) around each
 * Python call, and the profile hook where that cannot reach.
 *
 * The evaluation function costs a few ns where the profile hook costs fifty, but it
 * sees no builtins, and on 3.11 it makes each Python call take C stack again. So the
 * profile hook serves as well:
 *
 *  - for builtins (`c_calls`): then it counts everything in each thread, and the
 *    evaluation function is there only while it is needed: until the program's first
 *    module, while a thread that was started has not been hooked yet, and for good once
 *    the program has set a profile function of its own;
 *  - on early 3.11, from the first __getitem__ written in Python on: there a[i] calls it
 *    without the evaluation function (compat.c finds out);
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
static py_eval_function counting; /* ours */
static bool hook_everything;      /* every thread is hooked */
static bool must_hook;            /* even without builtins: a[i] passes us by */
static unsigned deep_threads;     /* that handed over to the profile hook */
static unsigned new_threads;      /* started and not hooked yet */
static bool hook_is_contested;    /* the program sets profile functions too */
static unsigned event_count;      /* of the profile hook, to look around now and then */
static uint32_t hook_turn = 1;    /* grows when the hooks are taken away: what a thread
                                   * has noted of them is void then */

static PyObject *eval_small(PyThreadState *state, void *frame, int throwing);
static PyObject *eval_fast(PyThreadState *state, void *frame, int throwing);
static int profile_hook(PyObject *arg, void *frame, int what, PyObject *value);

enum { LOOK_AROUND_EVERY = 4096 };

static PyObject *frame_code(void *frame)
{
    return *(PyObject **)((char *)frame + PY_FRAME_CODE);
}

/* The frame in a frame object. */
static void *inner_frame(void *object)
{
    size_t offset = py_tracer.compat.frame_inner;

    return offset ? *(void **)((char *)object + offset) : object;
}

static py_trace_function thread_hook(const PyThreadState *state)
{
    return py_compat_hook(&py_tracer.compat, state);
}

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

/* ---- the profile hook ------------------------------------------------------------ */

static void set_hook(PyThreadState *state, bool on)
{
    py_compat_set_hook(&py_tracer.compat, state, on ? profile_hook : NULL);
}

static void forget_old_turn(void)
{
    if (py_thread.hook_turn == hook_turn)
        return;
    py_thread.hook_turn = hook_turn;
    py_thread.profile_hook = false;
    py_thread.lost_hook = false;
    py_thread.shut_out = false;
    py_thread.hook_depth = 0;
}

/* Hook the calling thread; false: the program has a profile function of its own, which
 * keeps its place, and Python calls are counted by the evaluation function. */
static bool hook_this_thread(PyThreadState *state)
{
    if (thread_hook(state) != NULL && thread_hook(state) != profile_hook) {
        hook_is_contested = true;
        return false;
    }
    set_hook(state, true);
    if (!py_thread.has_limits)
        find_stack_limit();
    py_thread.profile_hook = true;
    py_thread.shut_out = false;
    return true;
}

/* What only the hook sees is not counted in this thread: builtins, and on early 3.11 what
 * passes the evaluation function by. */
static void count_shut_out(void)
{
    if (py_thread.shut_out)
        return;
    py_thread.shut_out = true;
    py_tracer_count_lost(PY_RECORDS_C_CALLS, LW_LOST_HOOKED);
    if (must_hook)
        py_tracer_count_lost(PY_RECORDS_CALLS, LW_LOST_GETITEM);
}

static void unhook_this_thread(PyThreadState *state)
{
    if (thread_hook(state) == profile_hook)
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

/* Our own evaluation function or the one before it, whichever is needed now. Where
 * another sits on ours (torch.compile's), ours stays under it and hands through. */
static void choose_eval(PyThreadState *state)
{
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(state);
    py_eval_function now = py_tracer.compat.get_eval(interpreter);
    bool wanted = deep_threads == 0 &&
                  (py_tracer.active || py_tracer.waiting_for_main) &&
                  (!hook_everything || py_tracer.waiting_for_main || new_threads ||
                   hook_is_contested);

    if (wanted && now == previous)
        py_tracer.compat.set_eval(interpreter, counting);
    else if (!wanted && now == counting)
        py_tracer.compat.set_eval(interpreter, previous);
}

/* Those that ran before us, and those that C code made: they come without
 * start_new_thread. Each sees to what changed before it counts its next call. */
static void hook_other_threads(PyThreadState *state)
{
    PyThreadState *other =
        py_tracer.compat.first_thread(PyThreadState_GetInterpreter(state));
    bool was_contested = hook_is_contested;

    for (; other; other = py_tracer.compat.next_thread(other)) {
        if (thread_hook(other) == NULL) {
            set_hook(other, true);
            py_tracer.only_epoch++;
        } else if (thread_hook(other) != profile_hook) {
            hook_is_contested = true;
        }
    }
    if (hook_is_contested && !was_contested) {
        py_tracer.only_epoch++;
        choose_eval(state);
    }
}

/* Enter and leave in the one lane there usually is, or in all that record RECORDS. */
static void enter(enum py_records records, uint32_t function)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (__builtin_expect(calls != NULL, 1)) {
        if (records == PY_RECORDS_CALLS || py_thread.only_c)
            lw_calls_enter(calls, function, lw_ticks_now(py_tracer.use_tsc));
    } else if (!py_tracer_is_idle()) {
        py_tracer_refresh();
        py_tracer_enter(records, function);
    }
}

static void leave(void)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (__builtin_expect(calls != NULL, 1))
        lw_calls_leave(calls, lw_ticks_now(py_tracer.use_tsc));
    else if (!py_tracer_is_idle())
        py_tracer_leave(PY_RECORDS_CALLS);
}

static void enter_builtin(const struct py_function_slot *slot)
{
    /* What sets another hook may never return to this one: it gets no call. */
    if (py_tracer.active_c && slot->role != PY_ROLE_SETS_HOOK)
        enter(PY_RECORDS_C_CALLS, slot->number);
    if (slot->role == PY_ROLE_PLAIN)
        return;
    if (slot->role == PY_ROLE_STARTS_THREAD)
        new_threads++;
    else
        hook_is_contested = true;
    choose_eval(PyThreadState_Get());
}

static void leave_builtin(PyObject *callable, int what)
{
    void *key = PY_BUILTIN_KEY(py_builtin_definition(callable));
    struct lw_calls_thread *calls = py_tracer_only();
    const struct py_function_slot *slot;

    if (calls && py_tracer_is_key(lw_calls_function(calls), key))
        lw_calls_leave(calls, lw_ticks_now(py_tracer.use_tsc));
    else if (py_tracer.active_c && !py_tracer_is_idle())
        py_tracer_leave_function(PY_RECORDS_C_CALLS, key);
    slot = what == PY_TRACE_C_EXCEPTION ? builtin_slot(callable) : NULL;
    if (slot && slot->role == PY_ROLE_STARTS_THREAD) {
        new_threads--;
        choose_eval(PyThreadState_Get());
    }
}

static int profile_hook(PyObject *arg, void *frame, int what, PyObject *value)
{
    (void)arg;
    if (__builtin_expect(py_tracer.active == 0 || py_thread.in_timer, 0))
        return 0;
    if (__builtin_expect(py_thread.hook_turn != hook_turn, 0))
        forget_old_turn();
    py_thread.profile_hook = true; /* another thread may have hooked this one */
    switch (what) {
    case PY_TRACE_CALL:
        if (py_thread.hook_depth == 0 && deep_threads == 0 && !hook_everything) {
            /* The deep thread is back: this one is the evaluation function's again,
             * beginning with the call that it has just entered. */
            unhook_this_thread(PyThreadState_Get());
            break;
        }
        py_thread.hook_depth++;
        enter(PY_RECORDS_CALLS,
              py_tracer_function(frame_code(inner_frame(frame)))->number);
        if (__builtin_expect(++event_count % LOOK_AROUND_EVERY == 0, 0))
            hook_other_threads(PyThreadState_Get());
        break;
    case PY_TRACE_RETURN:
        if (py_thread.hook_depth > 0) {
            py_thread.hook_depth--;
            leave();
        }
        break;
    case PY_TRACE_C_CALL:
        if (PyCFunction_Check(value))
            enter_builtin(builtin_slot(value));
        break;
    case PY_TRACE_C_RETURN:
    case PY_TRACE_C_EXCEPTION:
        if (PyCFunction_Check(value))
            leave_builtin(value, what);
        break;
    default: break;
    }
    return 0;
}

/* ---- the evaluation function ----------------------------------------------------- */

static inline bool stack_is_short(void)
{
    return (uintptr_t)__builtin_frame_address(0) < py_thread.slow_below;
}

/* Let the profile hook count in all threads and Python calls be inlined again, while
 * FRAME runs. Where the program has a profile function of its own in this thread, nobody
 * counts in it meanwhile: with our evaluation function under each call the stack would not
 * last. */
static PyObject *eval_deep(PyThreadState *state, void *frame, int throwing)
{
    PyObject *result;

    if (!hook_this_thread(state))
        py_tracer_count_lost(PY_RECORDS_CALLS, LW_LOST_DEEP);
    deep_threads++;
    choose_eval(state);
    hook_other_threads(state);
    result = previous(state, frame, throwing);
    deep_threads--;
    choose_eval(state);
    if (!hook_everything)
        unhook_this_thread(state);
    return result;
}

/* The program has put a profile function of its own where ours was. Python calls are
 * counted here from now on; those that the hook entered return unseen, so each new call
 * first finds its caller. */
static void lose_hook(void)
{
    PyFrameObject *caller = PyEval_GetFrame(); /* borrowed: ours is not running yet */
    PyObject *code = caller ? (PyObject *)PyFrame_GetCode(caller) : NULL;
    const struct py_function_slot *slot;

    if (py_thread.profile_hook)
        count_shut_out();
    if (py_thread.profile_hook && !hook_everything)
        py_tracer_count_lost(PY_RECORDS_CALLS, LW_LOST_DEEP);
    py_thread.profile_hook = false;
    py_thread.lost_hook = true;
    py_thread.only_epoch = 0;
    py_thread.hook_depth = 0;
    slot = code ? py_functions_find(&py_tracer.functions, code) : NULL;
    Py_XDECREF(code);
    for (unsigned lane = py_tracer_find_lane(0, PY_RECORDS_CALLS);
         slot && lane < py_tracer.lane_limit;
         lane = py_tracer_find_lane(lane + 1, PY_RECORDS_CALLS)) {
        struct lw_calls_thread *calls = py_tracer_place(lane);

        if (calls)
            lw_calls_leave_to(calls, slot->number, lw_ticks_now(py_tracer.use_tsc));
    }
}

/* What becomes of a call. */
enum verdict {
    COUNTED, /* it was entered here and is to be left here */
    PASSED,  /* it is none, or the profile hook sees to it */
    DEEP,    /* the stack is short: the profile hook takes over */
};

static enum verdict begin_slowly(PyThreadState *state,
                                 const struct py_function_slot *slot)
{
    if (!py_thread.has_limits)
        find_stack_limit();
    forget_old_turn();
    if (thread_hook(state) == profile_hook) {
        py_thread.profile_hook = true;
        return stack_is_short() ? DEEP : PASSED;
    }
    if (py_thread.profile_hook || py_thread.lost_hook) {
        lose_hook();
    } else if (hook_everything && hook_this_thread(state)) {
        if (new_threads > 0)
            new_threads--;
        choose_eval(state);
        return PASSED;
    } else if (hook_everything) {
        count_shut_out();
    }
    if (stack_is_short())
        return DEEP;
    py_tracer_refresh();
    if (py_tracer_is_idle())
        return PASSED;
    py_tracer_enter(PY_RECORDS_CALLS, slot->number);
    return COUNTED;
}

/* Calling a generator function runs a frame that only makes the generator: no call of
 * the function yet. */
static bool only_makes_generator(const void *frame, const struct py_function_slot *slot)
{
    return slot->role == PY_ROLE_SUSPENDS && py_tracer.compat.frame_owner &&
           ((const char *)frame)[py_tracer.compat.frame_owner] == 0;
}

static void hook_from_now_on(PyThreadState *state)
{
    must_hook = true;
    hook_everything = true;
    py_tracer.only_epoch++; /* every thread takes the slow path once, and is hooked */
    hook_other_threads(state);
}

/* FRAME is the main module's, which we waited for, and recording has begun. */
static bool main_begins(void *frame)
{
    PyObject *globals = *(PyObject **)((char *)frame + py_tracer.compat.frame_globals);

    return py_tracer.waiting_for_main &&
           py_tracer_see_main(frame_code(frame), globals) && py_tracer.active;
}

static __attribute__((noinline)) enum verdict begin_any(PyThreadState *state,
                                                        void *frame)
{
    struct lw_calls_thread *calls = py_tracer_only();
    const struct py_function_slot *slot;

    if (!calls && (py_tracer.active == 0 || py_thread.in_timer) && !main_begins(frame))
        return PASSED;
    slot = py_tracer_function(frame_code(frame));
    if (only_makes_generator(frame, slot))
        return PASSED;
    if (slot->role == PY_ROLE_HIDDEN && !hook_everything) {
        hook_from_now_on(state);
        calls = NULL;
    }
    if (!calls || py_thread.profile_hook || stack_is_short())
        return begin_slowly(state, slot);
    lw_calls_enter(calls, slot->number, lw_ticks_now(py_tracer.use_tsc));
    return COUNTED;
}

/* Whatever the running call is, RESULT is what it gives: by now recording may have
 * stopped, or begun elsewhere too. */
static __attribute__((noinline)) PyObject *leave_any(PyObject *result)
{
    if (py_tracer.active)
        leave();
    return result;
}

/* This and eval_small() lie on the C stack under each Python call, which costs a recursion
 * on 3.10 some of its depth (on 3.11 the hook takes over before, see eval_deep()): they
 * keep nothing but their arguments, 32 bytes beside the interpreter's 417, and leave the
 * rest to others. */
static __attribute__((noinline)) PyObject *eval_any(PyThreadState *state, void *frame,
                                                    int throwing)
{
    switch (begin_any(state, frame)) {
    case COUNTED: return leave_any(previous(state, frame, throwing));
    case DEEP: return eval_deep(state, frame, throwing);
    case PASSED: break;
    }
    return previous(state, frame, throwing);
}

/* The common paths of begin_any() and leave_any(): they call nobody but at their end, so
 * that little has to be kept across calls. */
static __attribute__((noinline)) PyObject *leave_counting(PyObject *result)
{
    struct lw_calls_thread *calls = py_tracer_only();

    if (__builtin_expect(calls && py_tracer.use_tsc &&
                             lw_calls_try_leave(calls, lw_ticks_now(true)),
                         1))
        return result;
    return leave_any(result);
}

static inline __attribute__((always_inline)) bool begin_counting(void *frame)
{
    struct lw_calls_thread *calls = py_tracer_only();
    const struct py_function_slot *slot;

    if (__builtin_expect(!calls || !py_tracer.use_tsc || py_thread.profile_hook ||
                             stack_is_short(),
                         0))
        return false;
    slot = py_functions_find(&py_tracer.functions, frame_code(frame));
    if (__builtin_expect(!slot || slot->role != PY_ROLE_PLAIN, 0) &&
        (!slot || slot->role != PY_ROLE_SUSPENDS || only_makes_generator(frame, slot)))
        return false;
    return lw_calls_try_enter(calls, slot->number, lw_ticks_now(true));
}

static __attribute__((noinline)) bool begin_apart(void *frame)
{
    return begin_counting(frame);
}

/* Where calls lie on the C stack anyway (3.10): 13 instructions more than the next one. */
static PyObject *eval_small(PyThreadState *state, void *frame, int throwing)
{
    if (__builtin_expect(!begin_apart(frame), 0))
        return eval_any(state, frame, throwing);
    return leave_counting(previous(state, frame, throwing));
}

static PyObject *eval_fast(PyThreadState *state, void *frame, int throwing)
{
    if (__builtin_expect(!begin_counting(frame), 0))
        return eval_any(state, frame, throwing);
    return leave_counting(previous(state, frame, throwing));
}

/* ---- on and off ------------------------------------------------------------------ */

bool py_eval_start(bool c_calls)
{
    PyThreadState *state = PyThreadState_Get();
    py_eval_function now =
        py_tracer.compat.get_eval(PyThreadState_GetInterpreter(state));

    counting = py_tracer.compat.calls_are_inlined ? eval_fast : eval_small;
    if (!py_tracer.hooked && now != counting)
        previous = now;
    /* What ran before us may have been specialised already. */
    if (py_tracer.compat.hides_getitem && !py_tracer.hooked &&
        !py_tracer.waiting_for_main)
        must_hook = true;
    hook_everything = c_calls || must_hook;
    forget_old_turn();
    if (hook_everything && py_tracer.active) {
        py_thread.shut_out = false; /* the one that begins is to be told too */
        if (thread_hook(state) != profile_hook && !hook_this_thread(state))
            count_shut_out();
        hook_other_threads(state);
    }
    choose_eval(state);
    return true;
}

void py_eval_stop(void)
{
    PyThreadState *state = PyThreadState_Get();
    PyThreadState *other =
        py_tracer.compat.first_thread(PyThreadState_GetInterpreter(state));

    hook_everything = false;
    must_hook = false;
    hook_is_contested = false;
    new_threads = 0;
    for (; other; other = py_tracer.compat.next_thread(other))
        if (thread_hook(other) == profile_hook)
            set_hook(other, false);
    hook_turn++;
    choose_eval(state);
}
