/* Those of a job that are recorded: whether they have begun, and what became of it. */

#include "base/clock.h"
#include "recorder/facts.h"
#include "recorder/kineto_daemon_job.h"
#include "recorder/window_order.h"

#define SECOND 1000000000ull

/* When the last of the recorded processes was done; 0: none is. */
static uint64_t last_done(const struct lw_kineto_job *job)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < job->count; i++) {
        const struct lw_kineto_process *process = &job->processes[i];

        if (process->recorder && process->state == LW_KINETO_DONE &&
            process->since_ns > last_ns)
            last_ns = process->since_ns;
    }
    return last_ns;
}

static bool has_begun(const struct lw_kineto_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->processes[i].recorder &&
            (job->processes[i].state == LW_KINETO_ORDERED ||
             job->processes[i].state == LW_KINETO_DONE))
            return true;
    return false;
}

static void leave_out(struct lw_kineto_process *process)
{
    lw_order_withdraw(process->pid, process->recorder, &process->folder);
    lw_kineto_process_enter(process, LW_KINETO_LEFT_OUT);
}

/* PROCESS has begun no step since it was given its order. */
static void look_not_begun(struct lw_kineto_job *job, struct lw_kineto_process *process,
                           uint64_t now_ns)
{
    uint64_t done_ns = last_done(job);

    if ((done_ns && now_ns - done_ns > job->late_ns) ||
        (job->is_for_one && has_begun(job)) ||
        (job->count > 1 && lw_kineto_process_has_ended(process)))
        leave_out(process);
    else if (now_ns - process->since_ns > job->step_ns && !has_begun(job))
        lw_kineto_process_give_up(
            process,
            process->is_busy
                ? "has had a profiler of its own running for %d s: try again when "
                  "that is over"
                : "has begun no step in %d s: nothing of it asked a DataLoader for a "
                  "batch, made a step of an optimizer or called a module; "
                  "lapwing.step() in its loop would tell",
            (int)(job->step_ns / SECOND));
}

/* Has it become another program? */
static bool is_another(const struct lw_kineto_process *process)
{
    uint64_t image = lw_facts_image(process->pid); /* 0: it is about to end */

    return image && process->image && image != process->image;
}

void lw_kineto_recorded_look(struct lw_kineto_job *job,
                             struct lw_kineto_process *process, uint64_t now_ns)
{
    char why[400];
    enum lw_order_state state = lw_order_look(&process->folder, why, sizeof(why));
    bool is_begun;

    if (state == LW_ORDER_FAILED) {
        lw_kineto_process_give_up(process, "%s", why);
    } else if (state == LW_ORDER_BEGUN && process->state == LW_KINETO_WAITING) {
        lw_kineto_process_enter(process, LW_KINETO_ORDERED);
        lw_kineto_job_say(job, "process %d is in its window", (int)process->pid);
    } else if (state == LW_ORDER_BUSY && !process->is_busy) {
        process->is_busy = true;
        lw_kineto_job_say(
            job, "process %d has a profiler of its own running; waiting for its end",
            (int)process->pid);
    }
    if (process->state == LW_KINETO_WAITING)
        look_not_begun(job, process, now_ns);
    else if (process->state == LW_KINETO_ORDERED &&
             !lw_kineto_process_find_trace(process, &is_begun) && is_another(process))
        lw_kineto_process_give_up(process, "became another program in its window");
}
