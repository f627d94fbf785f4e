/* Counters in the time of a training. A point of a counter holds until the next
 * one (recorder/system_read.h). */

#include "analyses/advice_machine.h"

#include <math.h>
#include <string.h>

/* A value, and from when to when a counter had it. */
struct hold {
    double value;
    uint64_t from_ns, to_ns;
};

/* The next hold of NAME in the window, of PROCESS or, with LW_NONE, whoever's series it
 * lies in; *AT, 0 at first, is where to go on. */
static bool next_hold(const struct lw_advice_window *w, const char *name,
                      uint32_t process, size_t *at, struct hold *hold)
{
    const struct lw_counter_point *last = NULL;

    for (size_t i = *at; i <= w->profile->counter_count; i++) {
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
                *hold = (struct hold){ last->value, from, to };
                *at = i;
                return true;
            }
        }
        last = point;
    }
    return false;
}

double lw_advice_mean(const struct lw_advice_window *window, const char *name,
                      uint32_t process)
{
    double sum = 0, held_ns = 0;
    struct hold hold;

    for (size_t at = 0; next_hold(window, name, process, &at, &hold);) {
        double ns = (double)(hold.to_ns - hold.from_ns);

        sum += hold.value * ns;
        held_ns += ns;
    }
    return held_ns > 0 ? sum / held_ns : NAN;
}

double lw_advice_peak(const struct lw_advice_window *window, const char *name,
                      uint64_t *when_ns)
{
    double peak = NAN;
    struct hold hold;

    for (size_t at = 0; next_hold(window, name, LW_NONE, &at, &hold);)
        if (!(hold.value <= peak)) {
            peak = hold.value;
            *when_ns = hold.from_ns;
        }
    return peak;
}

double lw_advice_at(const struct lw_profile *profile, const char *name,
                    uint32_t process, uint64_t time_ns, uint64_t *since_ns)
{
    double value = NAN;

    for (size_t i = 0; i < profile->counter_count; i++) {
        const struct lw_counter_point *point = &profile->counters[i];

        if (point->process == process && point->time_ns <= time_ns &&
            strcmp(lw_profile_text(profile, point->name), name) == 0) {
            value = point->value;
            *since_ns = point->time_ns;
        }
    }
    return value;
}

struct lw_advice_window lw_advice_window_of(const struct lw_profile *profile,
                                            const struct lw_step_track *track)
{
    return (struct lw_advice_window){
        .profile = profile,
        .start_ns = track->pieces[0].start_ns,
        .end_ns = track->pieces[track->piece_count - 1].start_ns,
    };
}

struct lw_advice_machine lw_advice_machine_of(const struct lw_profile *profile,
                                              const struct lw_step_track *track)
{
    const struct lw_advice_window w = lw_advice_window_of(profile, track);
    uint64_t pid = profile->processes[track->process].pid;
    double limit = lw_advice_mean(&w, "container cpu limit [%]", LW_NONE) / 100;
    double all = lw_advice_mean(&w, "machine cpu [%]", LW_NONE) / 100;
    struct lw_advice_machine machine = {
        .cpus = lw_advice_mean(&w, "machine cpus", LW_NONE),
        .own = lw_advice_mean(&w, "cpu [%]", track->process) / 100,
    };

    machine.family = machine.own;
    if (limit < machine.cpus)
        machine.cpus = limit;
    for (uint32_t i = 0; i < profile->process_count; i++) {
        double its = NAN;

        if (profile->processes[i].parent_pid == pid)
            its = lw_advice_mean(&w, "cpu [%]", i) / 100;
        machine.family += isfinite(its) ? its : 0;
    }
    machine.others = all > machine.family ? all - machine.family : 0;
    return machine;
}
