/* The memory of the machine, or of its container, nearly full: what comes next may not fit,
 * and before that the machine swaps, and drops what it had cached of the data. There is no
 * time to be gained that could be told. What a GPU has is not looked at here: torch keeps
 * what it once took, so how much of it is in use only a trace tells (advice_memory.c). */

#include <math.h>

#include "analyses/advice_batches.h"
#include "analyses/advice_machine.h"
#include "analyses/steps_view.h"
#include "model/units.h"

#define NEARLY_FULL 0.9
#define SWAPPED 0.01 /* of the memory: more than what was asleep anyway */

/* Memory with a limit, when it was fullest, and whose it was then. */
struct ram {
    const char *of; /* "the machine" */
    double full_bytes, used_bytes;
    uint64_t time_ns;
    double own_bytes, worker_bytes, run_bytes; /* the last: of all processes recorded */
    size_t worker_count;
};

struct looking {
    const struct lw_advice *advice;
    const struct lw_step_track *track;
    struct lw_advice_window window;
    struct ram ram;
};

/* ---- what there was ------------------------------------------------------------------ */

static struct ram find_peak(const struct lw_advice_window *window, const char *of,
                            const char *full, const char *used)
{
    struct ram ram = { .of = of };

    ram.used_bytes = lw_advice_peak(window, used, &ram.time_ns);
    ram.full_bytes = lw_advice_mean(window, full, LW_NONE);
    return ram;
}

static double share_of(const struct ram *ram)
{
    return ram->used_bytes / ram->full_bytes;
}

/* The one of the two that was fuller. A container without a limit has none. */
static struct ram find_fullest(const struct lw_advice_window *window)
{
    struct ram machine = find_peak(window, "the machine", "machine memory [bytes]",
                                   "machine memory used [bytes]");
    struct ram container =
        find_peak(window, "the container", "container memory limit [bytes]",
                  "container memory used [bytes]");

    return share_of(&container) > share_of(&machine) || isnan(share_of(&machine))
               ? container
               : machine;
}

/* What PROCESS had then, and of what it has in common with others only its share. The latter
 * is not looked at as often, and changes less. */
static double process_bytes(const struct looking *l, uint32_t process)
{
    const struct lw_profile *profile = l->window.profile;
    uint64_t since_ns = 0, ignored;
    double rss =
        lw_advice_at(profile, "rss [bytes]", process, l->ram.time_ns, &ignored);
    double pss =
        lw_advice_at(profile, "pss [bytes]", process, l->ram.time_ns, &since_ns);
    double rss_then = lw_advice_at(profile, "rss [bytes]", process, since_ns, &ignored);
    double common = isnan(pss) ? 0 : fmax(rss_then - pss, 0);

    return isnan(rss) ? 0 : fmax(rss - common, 0);
}

static void find_owners(struct looking *l)
{
    const struct lw_profile *profile = l->window.profile;
    uint64_t pid = profile->processes[l->track->process].pid;

    for (uint32_t i = 0; i < profile->process_count; i++) {
        const struct lw_process *process = &profile->processes[i];
        bool is_over = process->end_ns && process->end_ns <= l->ram.time_ns;
        double bytes = is_over ? 0 : process_bytes(l, i);

        l->ram.run_bytes += bytes;
        if (i == l->track->process) {
            l->ram.own_bytes = bytes;
        } else if (process->parent_pid == pid && bytes > 0) {
            l->ram.worker_bytes += bytes;
            l->ram.worker_count++;
        }
    }
}

/* ---- what is said --------------------------------------------------------------------- */

static bool is_of_others(const struct ram *ram)
{
    return ram->run_bytes < ram->used_bytes / 2;
}

static const char *change_of(const struct ram *ram)
{
    if (is_of_others(ram))
        return "Give the training more memory, or end what else has it";
    if (ram->worker_bytes > ram->own_bytes)
        return "Have fewer workers, or less in each: a smaller prefetch_factor, and "
               "arrays in place of lists and dicts in the dataset, which each worker "
               "copies as it touches them";
    return "Take less memory before it runs out: data that is read when it is needed, "
           "smaller batches with gradient accumulation, torch.autocast, activation "
           "checkpointing";
}

static void add_bytes(struct lw_buf *out, const char *before, double bytes)
{
    lw_buf_add_text(out, before);
    lw_units_add_bytes(out, (int64_t)bytes);
}

static void describe(const struct looking *l, struct lw_buf *out)
{
    const struct ram *ram = &l->ram;
    uint64_t when_ns;
    double others_bytes = ram->used_bytes - ram->own_bytes - ram->worker_bytes;
    double swapped_bytes =
        lw_advice_peak(&l->window, "machine swap used [bytes]", &when_ns);

    lw_steps_add_who(&l->advice->steps, l->track, out);
    lw_buf_addf(out, "%s%s had ", out->len ? ": " : "", ram->of);
    lw_units_add_bytes(out, (int64_t)ram->used_bytes);
    add_bytes(out, " of its ", ram->full_bytes);
    lw_buf_add_text(out, " in use at the peak, ");
    lw_units_add_share(out, share_of(ram));
    add_bytes(out, ": the training ", ram->own_bytes);
    if (ram->worker_count > 0) {
        lw_buf_addf(out, ", the %zu process%s that it started ", ram->worker_count,
                    ram->worker_count == 1 ? "" : "es");
        lw_units_add_bytes(out, (int64_t)ram->worker_bytes);
    }
    if (others_bytes > 0)
        add_bytes(out, ", others ", others_bytes);
    if (swapped_bytes > SWAPPED * ram->full_bytes)
        add_bytes(out, "; swapped out ", swapped_bytes);
}

static bool add_finding(const struct looking *l, struct lw_advice *advice,
                        struct lw_error *err)
{
    struct lw_finding finding = { .rule = &lw_advice_rule_ram,
                                  .change = change_of(&l->ram),
                                  .gain_low = NAN,
                                  .gain_high = NAN };
    struct lw_batches batches;
    struct lw_buf evidence;
    bool done = lw_batches_init(&batches, advice, l->track, err);

    if (done) {
        lw_buf_init(&evidence, 0);
        describe(l, &evidence);
        done = lw_advice_add_at(advice, &finding, &evidence,
                                is_of_others(&l->ram) ? 0 : batches.loop.frame, err);
    }
    lw_batches_release(&batches);
    return done;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    bool done = true;

    for (size_t i = 0; done && i < advice->steps.track_count; i++) {
        struct looking l = { .advice = advice, .track = &advice->steps.tracks[i] };

        if (l.track->step_count == 0)
            continue;
        l.window = lw_advice_window_of(advice->profile, l.track);
        l.ram = find_fullest(&l.window);
        if (!(share_of(&l.ram) > NEARLY_FULL))
            continue;
        find_owners(&l);
        done = add_finding(&l, advice, err);
    }
    return done;
}

const struct lw_advice_rule lw_advice_rule_ram = {
    .name = "ram",
    .question = "Is the memory of the machine, or of its container, nearly full?",
    .needs = LW_ADVICE_STEPS | LW_ADVICE_COUNTERS,
    .look = look,
};
