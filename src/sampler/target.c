#include "sampler/target.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/profile.h"
#include "sampler/native.h"
#include "sampler/os.h"
#include "sampler/os_sleep.h"
#include "sampler/pause.h"
#include "sampler/python.h"

/* How often to look for new interpreters, and whether it is still the same program. */
#define LIST_NS 100000000ull
/* How often to ask for the names of threads that have none yet, of all of them, and how
 * soon for those of new ones: these are given their name a moment after they begin. */
#define NAME_NS 1000000000ull
#define NAME_ALL_NS 10000000000ull
#define NAME_NEW_NS 50000000ull
/* Reads of a thread in one sample, the first included. */
#define ROUNDS 4
#define CATCHES 3 /* of a thread that stood where it had no whole stack */
#define THREADS_MAX 10000
/* struct pthread: the thread's id lies somewhere in its first part. */
#define PTHREAD_BYTES 2048

/* What is read of an interpreter at each sample. */
struct interpreter_words {
    uint64_t threads_head;
    uint64_t gil_holder;
    int32_t
        gil_locked; /* right behind it, as in the interpreter: one range reads both */
    int32_t collecting;
};

#define INTERPRETERS_MAX \
    (sizeof(((struct lw_target *)0)->interpreters) / sizeof(uint64_t))
#define WORDS_OF_INTERPRETER 4

/* ---- interpreters ------------------------------------------------------------------- */

static uint64_t find_gil(struct lw_target *target, uint64_t interpreter)
{
    const struct lw_py_layout *layout = &target->layout;
    uint64_t gil;

    if (layout->runtime_gil != LW_NO_FIELD)
        return target->runtime + layout->runtime_gil;
    if (layout->interpreter_gil == LW_NO_FIELD ||
        !lw_memory_u64(&target->memory, interpreter + layout->interpreter_gil, &gil))
        return 0;
    return gil;
}

static bool list_interpreters(struct lw_target *target)
{
    const struct lw_py_layout *layout = &target->layout;
    uint64_t address;

    target->interpreter_count = 0;
    if (!lw_memory_u64(&target->memory,
                       target->runtime + layout->runtime_interpreters_head, &address))
        return false;
    while (address && target->interpreter_count < INTERPRETERS_MAX) {
        size_t i = target->interpreter_count;
        uint64_t next;

        if (!lw_memory_u64(&target->memory, address + layout->interpreter_next, &next))
            break;
        target->interpreters[i] = address;
        target->gil[i] = find_gil(target, address);
        target->interpreter_count++;
        address = next;
    }
    return true;
}

static struct lw_memory_range *add_words(const struct lw_target *target, size_t i,
                                         struct interpreter_words *words,
                                         struct lw_memory_range *ranges)
{
    const struct lw_py_layout *layout = &target->layout;
    uint64_t interpreter = target->interpreters[i], gil = target->gil[i];

    memset(words, 0, sizeof(*words));
    *ranges++ =
        (struct lw_memory_range){ interpreter + layout->interpreter_threads_head,
                                  &words->threads_head, sizeof(words->threads_head) };
    *ranges++ =
        (struct lw_memory_range){ interpreter + layout->interpreter_gc +
                                      layout->gc_collecting,
                                  &words->collecting, sizeof(words->collecting) };
    if (gil) {
        struct lw_memory_range holder = { gil + layout->gil_last_holder,
                                          &words->gil_holder,
                                          sizeof(words->gil_holder) };
        struct lw_memory_range locked = { gil + layout->gil_locked, &words->gil_locked,
                                          sizeof(words->gil_locked) };

        /* In every Python so far they are neighbours, as here, and each range costs. */
        if (layout->gil_locked == layout->gil_last_holder + holder.len) {
            holder.len += locked.len;
            *ranges++ = holder;
        } else {
            *ranges++ = holder;
            *ranges++ = locked;
        }
    }
    return ranges;
}

/* ---- threads ------------------------------------------------------------------------ */

static void release_thread(struct lw_target_thread *thread)
{
    lw_snapshot_release(&thread->snapshot);
    lw_walk_release(&thread->walk);
    lw_rest_close(&thread->rest);
}

static struct lw_target_thread *find_thread(struct lw_target *target, uint64_t address)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (target->threads[i].snapshot.thread == address)
            return &target->threads[i];
    }
    return NULL;
}

static bool add_thread(struct lw_target *target, uint64_t address)
{
    struct lw_target_thread *thread;

    if (!lw_grow(&target->threads, &target->thread_capacity, target->thread_count + 1,
                 sizeof(*target->threads), NULL))
        return false;
    thread = &target->threads[target->thread_count++];
    *thread = (struct lw_target_thread){ .number = ++target->last_number };
    lw_rest_init(&thread->rest);
    lw_snapshot_init(&thread->snapshot, address);
    return true;
}

/* The thread state behind THREAD's, as just read. */
static uint64_t next_of(const struct lw_target *target,
                        const struct lw_target_thread *thread)
{
    return thread->is_resting
               ? thread->next
               : lw_snapshot_words(&thread->snapshot, &target->layout, LW_SECOND).next;
}

/* Does the chain of thread states, as just read, hold the threads we know, all of them
 * and no other? */
static bool has_same_threads(const struct lw_target *target,
                             const struct interpreter_words *words)
{
    size_t known = 0;

    for (size_t i = 0; i < target->interpreter_count; i++) {
        uint64_t address = words[i].threads_head;

        while (address) {
            if (known == target->thread_count ||
                target->threads[known].snapshot.thread != address)
                return false;
            address = next_of(target, &target->threads[known++]);
        }
    }
    return known == target->thread_count;
}

/* Follow the chains and keep the threads in their order. */
static bool list_threads(struct lw_target *target,
                         const struct interpreter_words *words)
{
    size_t kept = 0;

    for (size_t i = 0; i < target->interpreter_count; i++) {
        uint64_t address = words[i].threads_head;

        while (address && kept < THREADS_MAX) {
            struct lw_target_thread *thread = find_thread(target, address), swap;
            uint64_t next;

            if (!lw_memory_u64(&target->memory, address + target->layout.thread_next,
                               &next))
                break;
            if (!thread) {
                if (!add_thread(target, address))
                    return false;
                thread = &target->threads[target->thread_count - 1];
            }
            if (thread < target->threads + kept)
                break; /* a circle */
            swap = target->threads[kept];
            target->threads[kept++] = *thread;
            *thread = swap;
            address = next;
        }
    }
    while (target->thread_count > kept)
        release_thread(&target->threads[--target->thread_count]);
    return true;
}

/* ---- which thread of the kernel's ---------------------------------------------------- */

/* Older Pythons know a thread only by its pthread_t, the address of a structure of the C
 * library's, in which the kernel's number lies at a place that is found once: in the main
 * thread's it is the pid. */
static uint64_t tid_of_pthread(struct lw_target *target, uint64_t pthread)
{
    unsigned char bytes[PTHREAD_BYTES];
    uint32_t tid;

    if (target->tid_offset == 0) {
        if (!lw_memory_get(&target->memory, pthread, bytes, sizeof(bytes)))
            return 0;
        /* In steps of 8: the upper half of a pointer may look like a pid. */
        for (uint32_t i = 0; i + 4 <= sizeof(bytes) && target->tid_offset == 0;
             i += 8) {
            memcpy(&tid, bytes + i, sizeof(tid));
            if (tid == (uint32_t)target->pid)
                target->tid_offset = i;
        }
        return target->tid_offset ? (uint64_t)target->pid : 0;
    }
    return lw_memory_get(&target->memory, pthread + target->tid_offset, &tid,
                         sizeof(tid))
               ? tid
               : 0;
}

/* The main thread is the last of the chain: new ones are put in front. */
static void learn_tid_offset(struct lw_target *target)
{
    const struct lw_target_thread *first = &target->threads[target->thread_count - 1];
    uint64_t pthread;

    if (target->tid_offset == 0 && target->thread_count > 0 &&
        lw_memory_u64(&target->memory,
                      first->snapshot.thread + target->layout.thread_thread_id,
                      &pthread))
        tid_of_pthread(target, pthread);
}

/* A thread's state is made by the thread that starts it, and says who that is until the
 * new one begins. So whoever it was taken for before, it is somebody else now. */
static void identify(struct lw_target *target, struct lw_target_thread *thread)
{
    struct lw_thread_words words =
        lw_snapshot_words(&thread->snapshot, &target->layout, LW_SECOND);
    uint64_t identity = words.native_id ? words.native_id : words.thread_id;

    if (thread->tid != 0 && identity == thread->identity)
        return;
    if (thread->tid != 0) {
        thread->number = ++target->last_number;
        lw_rest_close(&thread->rest);
    }
    thread->identity = identity;
    if (words.native_id == 0 && target->tid_offset == 0)
        learn_tid_offset(target);
    thread->tid =
        words.native_id ? words.native_id : tid_of_pthread(target, words.thread_id);
    if (thread->tid == 0)
        return;
    lw_rest_open(&thread->rest, target->pid, (pid_t)thread->tid);
    thread->is_named = false;
    if (!lw_os_thread_name(target->pid, (pid_t)thread->tid, thread->name,
                           sizeof(thread->name)))
        thread->name[0] = '\0';
}

/* ---- state -------------------------------------------------------------------------- */

static uint8_t state_of(struct lw_target *target, struct lw_target_thread *thread,
                        const struct interpreter_words *words)
{
    struct lw_thread_words of_thread =
        lw_snapshot_words(&thread->snapshot, &target->layout, LW_SECOND);
    char letter = lw_rest_state(&thread->rest);
    uint8_t state = LW_STATE_UNKNOWN, flag = 0;
    bool is_collecting = false;

    for (size_t i = 0; i < target->interpreter_count; i++) {
        if (words[i].gil_locked > 0 && words[i].gil_holder == thread->snapshot.thread) {
            flag = LW_STATE_HAS_GIL;
            is_collecting = words[i].collecting != 0;
        }
    }
    if (letter == 'R')
        state = LW_STATE_CPU;
    else if (letter)
        state = LW_STATE_WAIT;
    if (is_collecting)
        state = LW_STATE_GC;
    else if (of_thread.is_waiting_for_gil && !flag)
        state = LW_STATE_GIL_WAIT;
    return state | flag;
}

/* ---- a sample ----------------------------------------------------------------------- */

static size_t prepare_threads(struct lw_target *target)
{
    size_t count = 0;

    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        if (thread->is_pending &&
            !lw_snapshot_prepare(&thread->snapshot, &target->layout,
                                 &thread->range_count))
            thread->is_pending = false;
        if (thread->is_resting)
            thread->range_count = 1;
        if (thread->is_pending || thread->is_resting)
            count += thread->range_count;
    }
    return count;
}

/* The interpreters' words, then each pending thread's ranges; of one that rests only what
 * others may have changed. Returns how many in all;
 * *FIXED are the interpreters'. */
static size_t fill_ranges(struct lw_target *target, struct interpreter_words *words,
                          size_t *fixed)
{
    struct lw_memory_range *at = target->ranges;

    for (size_t i = 0; i < target->interpreter_count; i++)
        at = add_words(target, i, &words[i], at);
    *fixed = (size_t)(at - target->ranges);
    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        if (thread->is_pending)
            lw_snapshot_ranges(&thread->snapshot, &target->layout, at);
        else if (thread->is_resting)
            *at = (struct lw_memory_range){ thread->snapshot.thread +
                                                target->layout.thread_next,
                                            &thread->next, sizeof(thread->next) };
        else
            continue;
        thread->first_range = (size_t)(at - target->ranges);
        at += thread->range_count;
    }
    return (size_t)(at - target->ranges);
}

/* The range INDEX could not be read: what we thought of that thread was wrong, so begin
 * anew with it, and if that fails too, leave it out of this sample. */
static void give_up_guesses(struct lw_target *target, size_t index)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        if (!(thread->is_pending || thread->is_resting) ||
            index < thread->first_range ||
            index - thread->first_range >= thread->range_count)
            continue;
        thread->is_resting = false;
        lw_snapshot_drop_chunks(&thread->snapshot);
        lw_snapshot_drop_frames(&thread->snapshot);
        lw_snapshot_drop_cframes(&thread->snapshot);
        thread->is_pending = thread->failures++ == 0;
    }
}

/* Read what is pending; one thread that cannot be read does not keep the others from
 * it. False: the interpreter itself is not there. */
static bool read_pending(struct lw_target *target, struct interpreter_words *words)
{
    for (;;) {
        size_t count =
            INTERPRETERS_MAX * WORDS_OF_INTERPRETER + prepare_threads(target);
        size_t fixed, got;

        if (!lw_grow(&target->ranges, &target->range_capacity, count,
                     sizeof(*target->ranges), NULL))
            return false;
        count = fill_ranges(target, words, &fixed);
        got = lw_memory_read(&target->memory, target->ranges, count);
        if (got == count)
            return true;
        if (got < fixed)
            return false;
        give_up_guesses(target, got);
    }
}

/* Was every thread read that had to be? */
static bool all_there(const struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (!target->threads[i].is_pending && !target->threads[i].is_resting)
            return false;
    }
    return true;
}

static bool all_rest(const struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (!target->threads[i].is_resting)
            return false;
    }
    return target->thread_count > 0;
}

/* Which threads are to be read? One that was read while it slept, and has slept on, is
 * not; nor are those that will be stopped read twice. */
static void begin(struct lw_target *target)
{
    bool may_rest = !target->native && !target->pause;

    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        thread->failures = 0;
        thread->is_resting = may_rest && lw_rest_begin(&thread->rest) &&
                             thread->has_stack && !thread->walk.is_moving;
        thread->is_pending = !thread->is_resting;
        if (thread->is_pending)
            thread->has_stack = thread->has_python = false;
    }
}

static bool is_still(const struct lw_target *target,
                     const struct lw_target_thread *thread)
{
    const struct lw_pause *pause =
        target->native ? target->native->pause : target->pause;

    return pause && lw_pause_has(pause, (pid_t)thread->tid);
}

/* Walk the stacks that were just read. True: some have to be read again. */
static bool walk_pending(struct lw_target *target,
                         const struct interpreter_words *words, uint64_t now_ns,
                         bool is_last)
{
    bool again = false;

    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];
        enum lw_walk_result result;

        if (!thread->is_pending)
            continue;
        thread->snapshot.is_still = is_still(target, thread);
        result = lw_walk_stack(&thread->walk, &thread->snapshot, &target->codes,
                               &target->memory, now_ns, is_last);
        if (result == LW_WALK_AGAIN) {
            again = true;
            continue;
        }
        identify(target, thread);
        thread->is_pending = false;
        thread->has_stack = true;
        thread->has_python = result == LW_WALK_DONE;
        thread->state = state_of(target, thread, words);
    }
    return again;
}

static bool is_same_program(const struct lw_target *target)
{
    struct lw_os_process process;

    return lw_os_process(target->pid, &process, NULL) &&
           process.start_time == target->start_time &&
           process.stack_start == target->stack_start && process.state != 'Z';
}

/* All threads that there are. If all sleep, there are no others: only one that runs can
 * begin another (or end one). IS_SURE: look all the same. Where there are others than
 * before, it may be another process. */
static bool read_threads(struct lw_target *target, uint64_t now_ns, bool is_sure)
{
    struct interpreter_words words[INTERPRETERS_MAX];

    begin(target);
    if (!is_sure && all_rest(target))
        return true;
    for (int round = 0; round < ROUNDS; round++) {
        if (!read_pending(target, words))
            return false;
        if (round == 0 && (!all_there(target) || !has_same_threads(target, words))) {
            if ((target->memory.pid && !is_same_program(target)) ||
                !list_threads(target, words))
                return false;
            begin(target);
        } else if (!walk_pending(target, words, now_ns, round + 1 == ROUNDS))
            break;
    }
    return true;
}

bool lw_target_read_thread(struct lw_target *target, struct lw_target_thread *thread,
                           uint64_t now_ns)
{
    struct interpreter_words words[INTERPRETERS_MAX];
    uint8_t state = thread->state;

    thread->is_pending = true;
    thread->has_stack = thread->has_python = false;
    thread->failures = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (!read_pending(target, words) ||
            !walk_pending(target, words, now_ns, round + 1 == ROUNDS))
            break;
    }
    thread->is_pending = false;
    thread->state = state;
    return thread->has_stack && !thread->walk.is_moving;
}

/* ---- standing still ----------------------------------------------------------------- */

/* Read a thread that sleeps, and has slept on meanwhile; false: it has not. */
static bool read_asleep(struct lw_target *target, struct lw_target_thread *thread,
                        uint64_t now_ns)
{
    uint64_t before = 0, after = 0, stack, pc;

    return lw_rest_runs(&thread->rest, &before) &&
           lw_os_sleeps_at(target->pid, (pid_t)thread->tid, &stack, &pc) &&
           lw_target_read_thread(target, thread, now_ns) &&
           lw_rest_runs(&thread->rest, &after) && before == after;
}

/* Read each thread again, but now it stands: one after the other, so that nobody stands
 * for the others. It may be caught where the interpreter itself has no whole stack,
 * between two instructions that belong together; a moment later it has. */
static void read_standing(struct lw_target *target, uint64_t now_ns)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];
        bool is_whole = !thread->tid || read_asleep(target, thread, now_ns);

        for (int n = 0; n < CATCHES && !is_whole; n++) {
            if (!lw_pause_stop(target->pause, target->pid, (pid_t)thread->tid))
                break;
            is_whole = lw_target_read_thread(target, thread, now_ns);
            lw_pause_resume(target->pause);
        }
    }
}

static void count_stacks(struct lw_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        const struct lw_target_thread *thread = &target->threads[i];

        target->stacks += thread->has_stack;
        target->moving += thread->has_stack && thread->walk.is_moving;
        target->unreadable += !thread->has_stack;
    }
    target->samples++;
}

static void name_threads_when_due(struct lw_target *target, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - target->named_ns;
    bool all = now_ns - target->all_named_ns >= NAME_ALL_NS;

    if (!target->memory.pid || since_ns < NAME_NEW_NS ||
        (since_ns < NAME_NS && target->named_number == target->last_number))
        return;
    lw_target_name_threads(target, all);
    target->named_ns = now_ns;
    if (all)
        target->all_named_ns = now_ns;
    target->named_number = target->last_number;
}

bool lw_target_sample(struct lw_target *target, uint64_t now_ns)
{
    bool is_due = target->memory.pid && now_ns - target->listed_ns >= LIST_NS;

    if (is_due) {
        if (!is_same_program(target) || !list_interpreters(target))
            return false;
        target->listed_ns = now_ns;
    }
    if (!read_threads(target, now_ns, is_due))
        return false;
    if (target->native)
        lw_native_sample(target->native, target, now_ns);
    else if (target->pause)
        read_standing(target, now_ns);
    count_stacks(target);
    name_threads_when_due(target, now_ns);
    return true;
}

/* ---- opening ------------------------------------------------------------------------ */

static bool find_python(struct lw_target *target, struct lw_error *err)
{
    struct lw_os_process process;
    struct lw_python python;

    if (!lw_os_process(target->pid, &process, err) ||
        !lw_python_find(&python, &target->memory, target->pid, err))
        return false;
    target->start_time = process.start_time;
    target->stack_start = process.stack_start;
    target->runtime = python.runtime;
    if (!lw_layout_find(&target->layout, &target->memory, python.runtime,
                        python.version, err)) {
        lw_error_prefix(err, "process %d", (int)target->pid);
        return false;
    }
    lw_code_cache_init(&target->codes, &target->layout, python.code_type);
    target->has_started = list_interpreters(target) && target->interpreter_count > 0;
    return true;
}

struct lw_target *lw_target_open(pid_t pid, int mem_fd, struct lw_error *err)
{
    struct lw_target *target = lw_zalloc(1, sizeof(*target), err);

    if (!target) {
        if (mem_fd >= 0)
            close(mem_fd);
        return NULL;
    }
    target->pid = pid;
    target->memory.fd = mem_fd; /* to be closed, whatever comes */
    if (!lw_memory_open(&target->memory, pid, mem_fd, err) ||
        !find_python(target, err)) {
        lw_target_free(target);
        return NULL;
    }
    if (mem_fd >= 0 && !lw_memory_is_through_descriptor(&target->memory)) {
        close(mem_fd); /* a machine with many processes has few descriptors */
        target->memory.fd = -1;
    }
    return target;
}

void lw_target_set_pause(struct lw_target *target, struct lw_pause *pause)
{
    target->pause = pause;
}

bool lw_target_add_native(struct lw_target *target, struct lw_pause *pause,
                          struct lw_symbols *symbols, struct lw_error *err)
{
    target->native = lw_native_new(target, pause, symbols, err);
    return target->native != NULL;
}

void lw_target_free(struct lw_target *target)
{
    if (!target)
        return;
    lw_native_free(target->native);
    while (target->thread_count > 0)
        release_thread(&target->threads[--target->thread_count]);
    lw_free(target->threads);
    lw_free(target->ranges);
    if (target->memory.fd >= 0)
        close(target->memory.fd);
    lw_code_cache_release(&target->codes);
    lw_free(target);
}

bool lw_target_position(const struct lw_target *target,
                        const struct lw_walk_frame *frame, struct lw_position *position)
{
    const struct lw_py_code *code = &target->codes.codes[frame->code];

    return lw_lines_find(target->layout.lines, code->lines, code->lines_len,
                         (int32_t)code->first_line, frame->instruction, position);
}
