#include "sampler/sampler.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sampler/native.h"

#define SECOND_NS 1000000000ull
/* With nobody to sample, how often to look whether there is. */
#define IDLE_NS 10000000ull
/* Who asks for a sample more often than this gives a processor to it: to go to sleep and
 * to be woken takes as long as the sample itself. */
#define WAKING_NS 80000
/* Who does nothing but look at the clock does so many times a microsecond: with so long
 * between two looks, the processor was somebody else's. */
#define TAKEN_AWAY_NS 10000
/* How often to look whether a thread that did not stop in time has stopped by now. */
#define SETTLE_NS 200000ull

struct lw_sampled {
    struct lw_target *target; /* owned */
    struct lw_sample_log log;
    uint64_t last_ns; /* of its last sample */
    bool is_over;
};

struct lw_sampler {
    struct lw_sampler_options options;
    double period_ns;
    uint64_t random;        /* state of the generator */
    uint64_t given_back_ns; /* when the processor last was, after it was taken away */

    /* Held while samples are taken, and while somebody looks at a log: the list, the logs
     * and the counts are of one or the other. */
    pthread_mutex_t mutex;
    struct lw_sampled **processes; /* owned */
    size_t count, capacity;
    struct lw_sampler_counts counts;
    struct lw_pause pause;
    struct lw_symbols symbols;
    bool is_stopping;
    pthread_t thread;
};

/* ---- the schedule ------------------------------------------------------------------- */

/* xorshift64*: a number in (0, 1]. */
static double next_random(struct lw_sampler *sampler)
{
    sampler->random ^= sampler->random >> 12;
    sampler->random ^= sampler->random << 25;
    sampler->random ^= sampler->random >> 27;
    return (double)((sampler->random * 0x2545f4914f6cdd1dull >> 11) + 1) * 0x1p-53;
}

static uint64_t next_gap(struct lw_sampler *sampler)
{
    return (uint64_t)(sampler->period_ns / 2 * (1 - log(next_random(sampler))));
}

/* How long after it was due a sample is still as good: by then the next one would be. */
static uint64_t grace_ns(const struct lw_sampler *sampler)
{
    return (uint64_t)sampler->period_ns;
}

static void sleep_until(uint64_t when_ns)
{
    struct timespec when = { (time_t)(when_ns / SECOND_NS),
                             (long)(when_ns % SECOND_NS) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

static void spin_until(struct lw_sampler *sampler, uint64_t when_ns)
{
    uint64_t last_ns = lw_clock_ns(), now_ns = last_ns;

    while (now_ns < when_ns) {
#if defined(__x86_64__)
        __builtin_ia32_pause(); /* whoever shares the core gets more of it */
#endif
        last_ns = now_ns;
        now_ns = lw_clock_ns();
        if (now_ns - last_ns > TAKEN_AWAY_NS)
            sampler->given_back_ns = now_ns;
    }
}

/* ---- the thread --------------------------------------------------------------------- */

static void sample_process(struct lw_sampled *sampled, uint64_t now_ns)
{
    if (sampled->is_over)
        return;
    if (!lw_target_sample(sampled->target, now_ns)) {
        sampled->is_over = true;
        return;
    }
    lw_sample_log_add(&sampled->log, sampled->target, now_ns,
                      now_ns - sampled->last_ns);
    sampled->last_ns = now_ns;
}

/* One round over all processes; false: it is time to end. */
static bool sample_all(struct lw_sampler *sampler, uint64_t due_ns, bool *is_idle)
{
    bool go_on;

    pthread_mutex_lock(&sampler->mutex);
    go_on = !sampler->is_stopping;
    *is_idle = sampler->count == 0;
    if (go_on && sampler->count > 0) {
        bool is_late = lw_clock_ns() - due_ns > grace_ns(sampler);

        sampler->counts.taken++;
        sampler->counts.late += is_late;
        sampler->counts.interrupted += is_late && due_ns < sampler->given_back_ns;
        for (size_t i = 0; i < sampler->count; i++)
            sample_process(sampler->processes[i], lw_clock_ns());
    }
    pthread_mutex_unlock(&sampler->mutex);
    return go_on;
}

/* When the next one is due. One that is overdue, but not by much, is taken at once; those
 * that should have been taken long ago are missed. */
static uint64_t next_due(struct lw_sampler *sampler, uint64_t due_ns)
{
    uint64_t soonest_ns = lw_clock_ns() - grace_ns(sampler);
    uint64_t missed = 0, interrupted = 0;

    for (due_ns += next_gap(sampler); due_ns < soonest_ns;
         due_ns += next_gap(sampler)) {
        missed++;
        interrupted += due_ns < sampler->given_back_ns;
        if (soonest_ns - due_ns > SECOND_NS) { /* the machine slept */
            due_ns = soonest_ns;
            break;
        }
    }
    if (missed > 0) {
        pthread_mutex_lock(&sampler->mutex);
        sampler->counts.missed += missed;
        sampler->counts.interrupted += interrupted;
        pthread_mutex_unlock(&sampler->mutex);
    }
    return due_ns;
}

/* Nobody may stand still until the next sample because it stopped too late for this
 * one. */
static void rest_until(struct lw_sampler *sampler, uint64_t when_ns)
{
    while (lw_pause_settle(&sampler->pause) && lw_clock_ns() + SETTLE_NS < when_ns)
        sleep_until(lw_clock_ns() + SETTLE_NS);
    if (sampler->period_ns < WAKING_NS && when_ns < lw_clock_ns() + 4 * WAKING_NS)
        spin_until(sampler, when_ns);
    else
        sleep_until(when_ns);
}

static void *run(void *argument)
{
    struct lw_sampler *sampler = argument;
    uint64_t due_ns = lw_clock_ns();
    bool is_idle = true;

    prctl(PR_SET_NAME, "lapwing-sampler");
    prctl(PR_SET_TIMERSLACK, 1);
    while (sample_all(sampler, due_ns, &is_idle)) {
        due_ns = is_idle ? lw_clock_ns() + IDLE_NS : next_due(sampler, due_ns);
        rest_until(sampler, due_ns);
    }
    return NULL;
}

/* ---- starting and ending ------------------------------------------------------------ */

struct lw_sampler *lw_sampler_start(const struct lw_sampler_options *options,
                                    struct lw_error *err)
{
    struct lw_sampler *sampler = lw_zalloc(1, sizeof(*sampler), err);

    if (!sampler)
        return NULL;
    sampler->options = *options;
    sampler->period_ns = (double)SECOND_NS / options->rate;
    lw_pause_init(&sampler->pause);
    lw_symbols_init(&sampler->symbols);
    sampler->random = lw_clock_ns() | 1;
    pthread_mutex_init(&sampler->mutex, NULL);
    if (pthread_create(&sampler->thread, NULL, run, sampler) != 0) {
        lw_fail(err, LW_ERR_IO,
                "cannot start the sampler's thread (allow more: ulimit -u)");
        pthread_mutex_destroy(&sampler->mutex);
        lw_free(sampler);
        return NULL;
    }
    return sampler;
}

static void free_sampled(struct lw_sampled *sampled)
{
    lw_target_free(sampled->target);
    lw_sample_log_release(&sampled->log);
    lw_free(sampled);
}

void lw_sampler_stop(struct lw_sampler *sampler)
{
    if (!sampler)
        return;
    pthread_mutex_lock(&sampler->mutex);
    sampler->is_stopping = true;
    pthread_mutex_unlock(&sampler->mutex);
    pthread_join(sampler->thread, NULL);
    while (sampler->count > 0)
        free_sampled(sampler->processes[--sampler->count]);
    lw_free(sampler->processes);
    lw_pause_release(&sampler->pause);
    lw_symbols_release(&sampler->symbols);
    pthread_mutex_destroy(&sampler->mutex);
    lw_free(sampler);
}

struct lw_sampled *lw_sampler_add(struct lw_sampler *sampler, struct lw_target *target,
                                  struct lw_error *err)
{
    struct lw_sampled *sampled = lw_zalloc(1, sizeof(*sampled), err);
    bool added = false;

    if (sampler->options.pause)
        lw_target_set_pause(target, &sampler->pause);
    if (!sampled ||
        (sampler->options.native &&
         !lw_target_add_native(target, &sampler->pause, &sampler->symbols, err)) ||
        !lw_sample_log_init(&sampled->log, err)) {
        lw_target_free(target);
        lw_free(sampled);
        return NULL;
    }
    sampled->target = target;
    sampled->last_ns = lw_clock_ns();
    pthread_mutex_lock(&sampler->mutex);
    if (lw_grow(&sampler->processes, &sampler->capacity, sampler->count + 1,
                sizeof(*sampler->processes), err)) {
        sampler->processes[sampler->count++] = sampled;
        added = true;
    }
    pthread_mutex_unlock(&sampler->mutex);
    if (added)
        return sampled;
    free_sampled(sampled);
    return NULL;
}

void lw_sampler_remove(struct lw_sampler *sampler, struct lw_sampled *sampled)
{
    pthread_mutex_lock(&sampler->mutex);
    for (size_t i = 0; i < sampler->count; i++) {
        if (sampler->processes[i] == sampled) {
            sampler->processes[i] = sampler->processes[--sampler->count];
            break;
        }
    }
    pthread_mutex_unlock(&sampler->mutex);
    free_sampled(sampled);
}

/* ---- looking ------------------------------------------------------------------------ */

bool lw_sampled_lives(struct lw_sampler *sampler, const struct lw_sampled *sampled)
{
    bool lives;

    pthread_mutex_lock(&sampler->mutex);
    lives = !sampled->is_over;
    pthread_mutex_unlock(&sampler->mutex);
    return lives;
}

struct lw_sampler_counts lw_sampler_counts(struct lw_sampler *sampler)
{
    struct lw_sampler_counts counts;

    pthread_mutex_lock(&sampler->mutex);
    counts = sampler->counts;
    counts.stops = sampler->pause.stops;
    counts.stop_misses = sampler->pause.misses;
    counts.stop_refusals = sampler->pause.refused;
    counts.longest_stop_ns = sampler->pause.longest_ns;
    pthread_mutex_unlock(&sampler->mutex);
    return counts;
}

struct lw_sampled_counts lw_sampled_counts(struct lw_sampler *sampler,
                                           const struct lw_sampled *sampled)
{
    const struct lw_target *target = sampled->target;
    struct lw_sampled_counts counts;

    pthread_mutex_lock(&sampler->mutex);
    counts = (struct lw_sampled_counts){
        .samples = target->samples,
        .stacks = target->stacks,
        .moving = target->moving,
        .unreadable = target->unreadable,
        .dropped = sampled->log.dropped,
        .system_calls = target->memory.calls,
    };
    if (target->native) {
        counts.merged = target->native->merged;
        counts.mismatched = target->native->mismatched;
        counts.uncaught = target->native->uncaught;
        counts.cut = target->native->cut;
    }
    pthread_mutex_unlock(&sampler->mutex);
    return counts;
}

struct lw_sample_log *lw_sampled_lock(struct lw_sampler *sampler,
                                      struct lw_sampled *sampled)
{
    pthread_mutex_lock(&sampler->mutex);
    return &sampled->log;
}

void lw_sampled_unlock(struct lw_sampler *sampler)
{
    pthread_mutex_unlock(&sampler->mutex);
}
