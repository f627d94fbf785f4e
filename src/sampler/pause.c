#include "sampler/pause.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sampler/os.h"

/* How often to look whether a thread stands before giving the processor away. One that
 * runs on another processor stops within a few microseconds. */
#define EAGER_LOOKS 50
#define NAP_NS 20000

/* ptrace() takes its numbers as pointers. */
static long trace(int request, pid_t tid, uintptr_t address, uintptr_t value)
{
    return ptrace((enum __ptrace_request)request, tid, (void *)address, (void *)value);
}

void lw_pause_init(struct lw_pause *pause)
{
    memset(pause, 0, sizeof(*pause));
}

/* The kernel lets go of all when the thread that seized them ends. */
void lw_pause_release(struct lw_pause *pause)
{
    lw_free(pause->threads);
    memset(pause, 0, sizeof(*pause));
}

static struct lw_paused *find(const struct lw_pause *pause, pid_t tid)
{
    for (size_t i = 0; i < pause->count; i++) {
        if (pause->threads[i].tid == tid)
            return &pause->threads[i];
    }
    return NULL;
}

static void drop(struct lw_pause *pause, struct lw_paused *thread)
{
    *thread = pause->threads[--pause->count];
}

/* ---- letting go --------------------------------------------------------------------- */

/* Does it stand still? Its stop is not waited for with waitpid(): whoever of this process
 * waits for its children may get that first. *SIGNAL: what is being delivered, 0: none. */
static bool stands(pid_t tid, int *signal)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    if (trace(PTRACE_GETSIGINFO, tid, 0, (uintptr_t)&info) != 0)
        return false;
    /* An event of tracing has its number above the signal's; all others are signals. */
    *signal = info.si_code >> 8 == PTRACE_EVENT_STOP ? 0 : info.si_signo;
    return true;
}

static bool let_go(pid_t tid)
{
    int signal;

    return stands(tid, &signal) &&
           trace(PTRACE_DETACH, tid, 0, (uintptr_t)(unsigned)signal) == 0;
}

static bool is_traced_by_us(pid_t tid)
{
    return trace(PTRACE_INTERRUPT, tid, 0, 0) == 0;
}

/* A traced thread that has ended stays until its tracer has taken notice. The program's
 * own end, if we are its parent, is for the recorder to see. */
static bool has_ended(const struct lw_paused *thread)
{
    struct lw_os_process process;
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    if (waitid(P_PID, (id_t)thread->tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) !=
        0)
        return errno == ECHILD;
    if (info.si_pid == 0 || (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED &&
                             info.si_code != CLD_DUMPED))
        return false;
    if (thread->tid != thread->pid || !lw_os_process(thread->pid, &process, NULL) ||
        process.parent != getpid())
        waitid(P_PID, (id_t)thread->tid, &info, WEXITED | WNOHANG | __WALL);
    return true;
}

/* A thread that calls exec becomes the first of its process, and is still traced. */
static bool has_moved(const struct lw_paused *thread)
{
    return thread->tid != thread->pid && !is_traced_by_us(thread->tid) &&
           is_traced_by_us(thread->pid);
}

bool lw_pause_settle(struct lw_pause *pause)
{
    for (size_t i = pause->count; i-- > 0;) {
        struct lw_paused *thread = &pause->threads[i];

        if (!thread->is_late)
            continue;
        if (let_go(thread->tid))
            drop(pause, thread);
        else if (has_moved(thread))
            thread->tid = thread->pid;
        else if (has_ended(thread) || !is_traced_by_us(thread->tid))
            drop(pause, thread);
    }
    return pause->count > 0;
}

void lw_pause_resume(struct lw_pause *pause)
{
    for (size_t i = pause->count; i-- > 0;) {
        struct lw_paused *thread = &pause->threads[i];

        if (thread->is_late)
            continue;
        if (let_go(thread->tid))
            drop(pause, thread);
        else
            thread->is_late = true; /* was killed meanwhile */
    }
    if (pause->stood_ns) {
        uint64_t len = lw_clock_ns() - pause->stood_ns;

        pause->longest_ns = len > pause->longest_ns ? len : pause->longest_ns;
    }
    pause->stood_ns = 0;
}

/* ---- stopping ----------------------------------------------------------------------- */

static bool has_one_of(const struct lw_pause *pause, pid_t pid)
{
    for (size_t i = 0; i < pause->count; i++) {
        if (pause->threads[i].pid == pid)
            return true;
    }
    return false;
}

/* Does it stand before the deadline? */
static bool wait_for(pid_t tid)
{
    const struct timespec nap = { 0, NAP_NS };
    uint64_t deadline_ns = lw_clock_ns() + LW_PAUSE_DEADLINE_NS;
    int signal;

    for (unsigned looks = 0; !stands(tid, &signal); looks++) {
        if (lw_clock_ns() >= deadline_ns)
            return false;
        /* Not sched_yield(): on a busy machine it puts us behind everybody, and the
         * thread stands meanwhile. */
        if (looks >= EAGER_LOOKS)
            nanosleep(&nap, NULL);
    }
    return true;
}

bool lw_pause_stop(struct lw_pause *pause, pid_t pid, pid_t tid)
{
    struct lw_paused *thread;

    if (has_one_of(pause, pid) && lw_pause_settle(pause) && has_one_of(pause, pid)) {
        pause->misses++;
        return false;
    }
    if (!lw_grow(&pause->threads, &pause->capacity, pause->count + 1,
                 sizeof(*pause->threads), NULL))
        return false;
    if (trace(PTRACE_SEIZE, tid, 0, 0) != 0) {
        pause->refused += errno == EPERM;
        return false;
    }
    thread = &pause->threads[pause->count++];
    *thread = (struct lw_paused){ .pid = pid, .tid = tid };
    /* Fails only if it has ended meanwhile, which the wait will find. */
    trace(PTRACE_INTERRUPT, tid, 0, 0);
    thread->is_late = !wait_for(tid);
    if (thread->is_late) {
        pause->misses++;
        return false;
    }
    pause->stops++;
    pause->stood_ns = lw_clock_ns();
    return true;
}

bool lw_pause_has(const struct lw_pause *pause, pid_t tid)
{
    const struct lw_paused *thread = find(pause, tid);

    return thread && !thread->is_late;
}

/* ---- registers ---------------------------------------------------------------------- */

#if defined(__x86_64__)
static void take_registers(const struct user_regs_struct *from,
                           struct lw_registers *registers)
{
    const uint64_t values[LW_REG_COUNT] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rip,
    };

    memcpy(registers->value, values, sizeof(values));
}
#elif defined(__aarch64__)
static void take_registers(const struct user_regs_struct *from,
                           struct lw_registers *registers)
{
    memcpy(registers->value, from->regs, sizeof(from->regs));
    registers->value[LW_REG_STACK] = from->sp;
    registers->value[LW_REG_PC] = from->pc;
}
#endif

bool lw_pause_registers(pid_t tid, struct lw_registers *registers)
{
    struct user_regs_struct values;
    struct iovec vector = { &values, sizeof(values) };

    if (trace(PTRACE_GETREGSET, tid, NT_PRSTATUS, (uintptr_t)&vector) != 0 ||
        vector.iov_len != sizeof(values)) /* shorter: a process of 32 bits */
        return false;
    take_registers(&values, registers);
    registers->known = (1ull << LW_REG_COUNT) - 1;
    return true;
}
