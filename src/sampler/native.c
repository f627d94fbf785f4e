#include "sampler/native.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/profile.h"
#include "sampler/os_sleep.h"

/* How often to look for new threads. */
#define LIST_NS 100000000ull
#define FIRST_BYTES 16384u
#define PAGE_BYTES 4096u
#define PAGES_MAX (LW_NATIVE_STACK_BYTES / PAGE_BYTES + 1)

struct lw_native *lw_native_new(struct lw_target *target, struct lw_pause *pause,
                                struct lw_symbols *symbols, struct lw_error *err)
{
    struct lw_native *native = lw_zalloc(1, sizeof(*native), err);

    if (!native)
        return NULL;
    native->pause = pause;
    lw_native_functions_init(&native->functions, symbols, &native->unwinder,
                             target->codes.code_type);
    if (lw_unwinder_init(&native->unwinder, &target->memory, target->pid, err))
        return native;
    lw_native_free(native);
    return NULL;
}

static void release_thread(struct lw_native_thread *thread)
{
    if (thread->runs_fd >= 0)
        close(thread->runs_fd);
    lw_free(thread->copy);
    lw_free(thread->unwound.addresses);
    lw_free(thread->merged.entries);
}

void lw_native_free(struct lw_native *native)
{
    if (!native)
        return;
    while (native->thread_count > 0)
        release_thread(&native->threads[--native->thread_count]);
    lw_free(native->threads);
    lw_free(native->tids);
    lw_free(native->frames);
    lw_native_functions_release(&native->functions);
    lw_unwinder_release(&native->unwinder);
    lw_free(native);
}

/* ---- which threads there are --------------------------------------------------------- */

static struct lw_native_thread *find_thread(const struct lw_native *native, pid_t tid)
{
    for (size_t i = 0; i < native->thread_count; i++) {
        if (native->threads[i].tid == tid)
            return &native->threads[i];
    }
    return NULL;
}

static struct lw_target_thread *find_python(const struct lw_target *target, pid_t tid)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (target->threads[i].tid == (uint64_t)tid)
            return &target->threads[i];
    }
    return NULL;
}

static void add_thread(struct lw_native *native, pid_t pid, pid_t tid)
{
    struct lw_native_thread *thread;

    if (!lw_grow(&native->threads, &native->thread_capacity, native->thread_count + 1,
                 sizeof(*native->threads), NULL))
        return;
    thread = &native->threads[native->thread_count++];
    *thread = (struct lw_native_thread){ .tid = tid, .wanted_bytes = FIRST_BYTES };
    thread->runs_fd = lw_os_runs_open(pid, tid);
    if (!lw_os_thread_name(pid, tid, thread->name, sizeof(thread->name)))
        thread->name[0] = '\0';
}

static bool has_tid(const pid_t *tids, size_t count, pid_t tid)
{
    for (size_t i = 0; i < count; i++) {
        if (tids[i] == tid)
            return true;
    }
    return false;
}

static void list_threads(struct lw_native *native, pid_t pid, uint64_t now_ns)
{
    size_t count = lw_os_threads(pid, &native->tids, &native->tid_capacity);

    native->listed_ns = now_ns;
    for (size_t i = native->thread_count; i-- > 0;) {
        if (has_tid(native->tids, count, native->threads[i].tid))
            continue;
        release_thread(&native->threads[i]);
        native->threads[i] = native->threads[--native->thread_count];
    }
    for (size_t i = 0; i < count; i++) {
        if (!find_thread(native, native->tids[i]))
            add_thread(native, pid, native->tids[i]);
    }
}

/* Is there a Python thread that is not listed yet? */
static bool lacks_some(const struct lw_native *native, const struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (target->threads[i].tid &&
            !find_thread(native, (pid_t)target->threads[i].tid))
            return true;
    }
    return false;
}

/* ---- copying ------------------------------------------------------------------------ */

/* From a little before STACK_POINTER on, as far as there is something: page by page, since
 * what is behind the last one cannot be read. */
static bool copy_stack(struct lw_memory *memory, struct lw_native_thread *thread,
                       uint64_t stack_pointer)
{
    struct lw_memory_range ranges[PAGES_MAX + 1];
    uint64_t address = stack_pointer - LW_STACK_BELOW;
    size_t count = 0, got, len = 0;

    if (!lw_grow(&thread->copy, &thread->copy_capacity, thread->wanted_bytes, 1, NULL))
        return false;
    while (len < thread->wanted_bytes) {
        size_t part = PAGE_BYTES - (address + len) % PAGE_BYTES;

        if (part > thread->wanted_bytes - len)
            part = thread->wanted_bytes - len;
        ranges[count++] =
            (struct lw_memory_range){ address + len, thread->copy + len, part };
        len += part;
    }
    got = lw_memory_read(memory, ranges, count);
    len = 0;
    for (size_t i = 0; i < got; i++)
        len += ranges[i].len;
    thread->stack = (struct lw_stack_copy){ address, thread->copy, len };
    return len > LW_STACK_BELOW;
}

/* Of a thread that stands still. */
static bool capture(struct lw_native_thread *thread, struct lw_target *target)
{
    return lw_pause_registers(thread->tid, &thread->registers) &&
           copy_stack(&target->memory, thread, thread->registers.value[LW_REG_STACK]);
}

/* ---- from copies to a stack ----------------------------------------------------------- */

static bool unwind(struct lw_native *native, struct lw_native_thread *thread)
{
    if (!lw_unwinder_run(&native->unwinder, thread->registers, &thread->stack,
                         &thread->unwound))
        return false;
    if (thread->unwound.end == LW_UNWIND_CUT &&
        thread->stack.len >= thread->wanted_bytes &&
        thread->wanted_bytes < LW_NATIVE_STACK_BYTES)
        thread->wanted_bytes *= 2; /* next time there is more */
    return true;
}

static bool merge(struct lw_native *native, struct lw_native_thread *thread,
                  const struct lw_target_thread *python)
{
    const struct lw_walk none = { .count = 0 };
    const struct lw_walk *walk = python && python->has_python ? &python->walk : &none;
    size_t count = thread->unwound.count;

    if (!lw_grow(&native->frames, &native->frame_capacity, count,
                 sizeof(*native->frames), NULL))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t number =
            lw_native_functions_at(&native->functions, thread->unwound.addresses[i]);

        if (number == 0)
            return false;
        native->frames[i] =
            (struct lw_native_frame){ number,
                                      native->functions.functions[number].kind };
    }
    if (walk->is_moving ||
        !lw_native_merge(&thread->merged, native->frames, count,
                         thread->unwound.end == LW_UNWIND_WHOLE, walk)) {
        native->mismatched++;
        return false;
    }
    native->merged += walk->count > 0;
    native->cut += thread->unwound.end != LW_UNWIND_WHOLE;
    return true;
}

/* ---- a sample ----------------------------------------------------------------------- */

/* Has it slept since its last sample? */
static bool has_slept_on(const struct lw_native_thread *thread,
                         const struct lw_target_thread *python)
{
    uint64_t runs;

    if (thread->slept_runs == 0 || !lw_os_runs(thread->runs_fd, &runs) ||
        runs != thread->slept_runs)
        return false;
    if (thread->python != (python ? python->number : 0))
        return false;
    return !python || (python->has_stack && !python->walk.is_moving &&
                       python->walk.count == thread->slept_frames);
}

/* What is known of a sleeper's registers: where it sleeps, and if it was woken there
 * before, what the others were then. */
static void guess_registers(struct lw_native_thread *thread, uint64_t stack_pointer,
                            uint64_t pc)
{
    thread->registers = thread->woken;
    if (!lw_registers_has(&thread->woken, LW_REG_PC) ||
        thread->woken.value[LW_REG_PC] != pc ||
        thread->woken.value[LW_REG_STACK] != stack_pointer)
        thread->registers.known = 0;
    lw_registers_set(&thread->registers, LW_REG_STACK, stack_pointer);
    lw_registers_set(&thread->registers, LW_REG_PC, pc);
}

/* Without stopping it. False: it does not sleep, or not long enough, or has to be asked
 * for its registers. */
static bool sample_asleep(struct lw_native *native, struct lw_target *target,
                          struct lw_native_thread *thread,
                          struct lw_target_thread *python, uint64_t now_ns)
{
    uint64_t before, after, stack_pointer, pc;

    if (!lw_os_runs(thread->runs_fd, &before) ||
        !lw_os_sleeps_at(target->pid, thread->tid, &stack_pointer, &pc))
        return false;
    thread->state = LW_STATE_WAIT;
    guess_registers(thread, stack_pointer, pc);
    if ((python && !lw_target_read_thread(target, python, now_ns)) ||
        !copy_stack(&target->memory, thread, stack_pointer) ||
        !lw_os_runs(thread->runs_fd, &after) || after != before ||
        !unwind(native, thread) || thread->unwound.end == LW_UNWIND_NEEDS_REGISTER)
        return false;
    thread->has_stack = merge(native, thread, python);
    thread->slept_runs = before;
    thread->slept_frames = python ? python->walk.count : 0;
    return true;
}

static bool catch_alone(struct lw_native *native, struct lw_target *target,
                        struct lw_native_thread *thread,
                        struct lw_target_thread *python, uint64_t now_ns)
{
    bool done;

    if (!lw_pause_stop(native->pause, target->pid, thread->tid))
        return false;
    done = capture(thread, target) &&
           (!python || lw_target_read_thread(target, python, now_ns));
    lw_pause_resume(native->pause);
    if (done && thread->state == LW_STATE_WAIT)
        thread->woken = thread->registers;
    return done;
}

static void sample_thread(struct lw_native *native, struct lw_target *target,
                          struct lw_native_thread *thread, uint64_t now_ns)
{
    struct lw_target_thread *python = find_python(target, thread->tid);

    thread->has_python = python != NULL;
    thread->is_same = has_slept_on(thread, python);
    thread->python = python ? python->number : 0;
    if (thread->is_same)
        return;
    thread->has_stack = false;
    thread->slept_runs = 0;
    thread->state = LW_STATE_CPU;
    if (sample_asleep(native, target, thread, python, now_ns))
        return;
    if (catch_alone(native, target, thread, python, now_ns))
        thread->has_stack = unwind(native, thread) && merge(native, thread, python);
    else
        native->uncaught++;
}

void lw_native_sample(struct lw_native *native, struct lw_target *target,
                      uint64_t now_ns)
{
    lw_unwinder_refresh(&native->unwinder, now_ns);
    if (now_ns - native->listed_ns >= LIST_NS || lacks_some(native, target))
        list_threads(native, target->pid, now_ns);
    for (size_t i = 0; i < native->thread_count; i++) {
        sample_thread(native, target, &native->threads[i], now_ns);
        if (native->threads[i].number == 0 && !native->threads[i].has_python)
            native->threads[i].number = ++target->last_number;
    }
}

const struct lw_merged *lw_native_of(const struct lw_native *native,
                                     const struct lw_target_thread *thread)
{
    const struct lw_native_thread *found = find_thread(native, (pid_t)thread->tid);

    return found && found->has_stack && found->python == thread->number ? &found->merged
                                                                        : NULL;
}
