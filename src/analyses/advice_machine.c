/* Means of counters over the time of a training. A point of a counter holds until the next
 * one (recorder/system_read.h). */

#include "analyses/advice_machine.h"

#include <math.h>
#include <string.h>

struct window {
    const struct lw_profile *profile;
    uint64_t start_ns, end_ns;
};

/* The mean of NAME in the window, of PROCESS or, with LW_NONE, whoever's series it lies
 * in; NAN: nobody counted it. */
static double mean_of(const struct window *w, const char *name, uint32_t process)
{
    const struct lw_counter_point *last = NULL;
    double sum = 0, held_ns = 0;

    for (size_t i = 0; i <= w->profile->counter_count; i++) {
        const struct lw_counter_point *point =
            i < w->profile->counter_count ? &w->profile->counters[i] : NULL;

        if (point && ((process != LW_NONE && point->process != process) ||
                      strcmp(lw_profile_text(w->profile, point->name), name) != 0))
            continue;
        if (last && isfinite(last->value)) {
            uint64_t from = last->time_ns > w->start_ns ? last->time_ns : w->start_ns;
            uint64_t to =
                point && point->time_ns < w->end_ns ? point->time_ns : w->end_ns;

            if (to > from) {
                sum += last->value * (double)(to - from);
                held_ns += (double)(to - from);
            }
        }
        last = point;
    }
    return held_ns > 0 ? sum / held_ns : NAN;
}

struct lw_advice_machine lw_advice_machine_of(const struct lw_profile *profile,
                                              const struct lw_step_track *track)
{
    const struct window w = {
        .profile = profile,
        .start_ns = track->pieces[0].start_ns,
        .end_ns = track->pieces[track->piece_count - 1].start_ns,
    };
    uint64_t pid = profile->processes[track->process].pid;
    double limit = mean_of(&w, "container cpu limit [%]", LW_NONE) / 100;
    double all = mean_of(&w, "machine cpu [%]", LW_NONE) / 100;
    struct lw_advice_machine machine = {
        .cpus = mean_of(&w, "machine cpus", LW_NONE),
        .own = mean_of(&w, "cpu [%]", track->process) / 100,
    };

    machine.family = machine.own;
    if (limit < machine.cpus)
        machine.cpus = limit;
    for (uint32_t i = 0; i < profile->process_count; i++) {
        double its = NAN;

        if (profile->processes[i].parent_pid == pid)
            its = mean_of(&w, "cpu [%]", i) / 100;
        machine.family += isfinite(its) ? its : 0;
    }
    machine.others = all > machine.family ? all - machine.family : 0;
    return machine;
}
