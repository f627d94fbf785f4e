/* The thread that looks, and the handing over of what it saw. */

#include "recorder/system.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

#define MS 1000000ull
#define PERIOD_NS (250 * MS)
#define PATIENCE_NS (1000 * MS) /* with a driver that does not answer, at the end */

struct lw_system {
    pthread_mutex_t lock; /* for all that follows, but the reader */
    pthread_cond_t wake;
    bool is_ending;
    struct lw_system_target *targets; /* owned; by number */
    size_t target_count, target_capacity;
    struct lw_system_points points; /* of the last look, until they are fetched */

    struct lw_system_reader reader; /* the thread's */
    bool has_thread, has_failed;
    pthread_t thread;
};

/* ---- the thread --------------------------------------------------------------------- */

/* Until DEADLINE_NS, or the end. */
static void wait_until(struct lw_system *system, uint64_t deadline_ns)
{
    struct timespec deadline = { (time_t)(deadline_ns / 1000000000u),
                                 (long)(deadline_ns % 1000000000u) };

    while (!system->is_ending &&
           pthread_cond_clockwait(&system->wake, &system->lock, CLOCK_MONOTONIC,
                                  &deadline) == 0)
        ;
}

/* One look, at those who are there now; the lock is held but not meanwhile. */
static void look(struct lw_system *system)
{
    struct lw_system_points points = { 0 };
    size_t count = system->target_count;
    struct lw_system_target *targets = lw_alloc((count + 1) * sizeof(*targets), NULL);

    if (!targets)
        return;
    if (count > 0)
        memcpy(targets, system->targets, count * sizeof(*targets));
    pthread_mutex_unlock(&system->lock);
    if (!lw_system_reader_look(&system->reader, targets, count, lw_clock_ns(),
                               &points)) {
        /* No memory for some of it: the next look may have it. */
    }
    lw_free(targets);
    pthread_mutex_lock(&system->lock);
    system->points = points;
}

static void *work(void *argument)
{
    struct lw_system *system = argument;
    uint64_t next_ns = lw_clock_ns();

    pthread_mutex_lock(&system->lock);
    while (!system->is_ending) {
        if (system->points.count == 0) {
            lw_free(system->points.list);
            system->points = (struct lw_system_points){ 0 };
            look(system);
        }
        while (next_ns <= lw_clock_ns())
            next_ns += PERIOD_NS;
        wait_until(system, next_ns);
    }
    pthread_mutex_unlock(&system->lock);
    return NULL;
}

static void start_thread(struct lw_system *system)
{
    sigset_t all, before;

    sigfillset(&all); /* signals are for the recorder's own thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    system->has_thread = pthread_create(&system->thread, NULL, work, system) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    system->has_failed = !system->has_thread;
}

/* ---- the recorder's side ------------------------------------------------------------ */

struct lw_system *lw_system_new(struct lw_error *err)
{
    struct lw_system *system = lw_zalloc(1, sizeof(*system), err);

    if (!system)
        return NULL;
    pthread_mutex_init(&system->lock, NULL);
    pthread_cond_init(&system->wake, NULL);
    if (lw_system_reader_init(&system->reader, NULL, NULL, NULL, err))
        return system;
    lw_system_free(system);
    return NULL;
}

/* False: it hangs in a driver, and what it uses must stay. */
static bool end_thread(struct lw_system *system)
{
    uint64_t deadline_ns = lw_clock_ns() + PATIENCE_NS;
    struct timespec deadline = { (time_t)(deadline_ns / 1000000000u),
                                 (long)(deadline_ns % 1000000000u) };

    pthread_mutex_lock(&system->lock);
    system->is_ending = true;
    pthread_cond_signal(&system->wake);
    pthread_mutex_unlock(&system->lock);
    if (pthread_clockjoin_np(system->thread, NULL, CLOCK_MONOTONIC, &deadline) == 0)
        return true;
    pthread_detach(system->thread);
    return false;
}

void lw_system_free(struct lw_system *system)
{
    if (!system || (system->has_thread && !end_thread(system)))
        return;
    lw_system_reader_release(&system->reader);
    pthread_cond_destroy(&system->wake);
    pthread_mutex_destroy(&system->lock);
    lw_free(system->targets);
    lw_free(system->points.list);
    lw_free(system);
}

static void put(const struct lw_system_point *point,
                const struct lw_system_guest *guests, size_t count)
{
    struct lw_counter_point counter = { .time_ns = point->time_ns,
                                        .value = point->value };

    for (size_t i = 0; i < count; i++) {
        struct lw_lap_writer *writer = guests[i].writer;

        if (guests[i].target.number != point->number)
            continue;
        if (!lw_lap_writer_string(writer, point->name, strlen(point->name),
                                  &counter.name, NULL) ||
            !lw_lap_writer_counter(writer, &counter, NULL)) {
            /* No memory: a gap in a curve. */
        }
        return;
    }
}

static int compare_targets(const void *a, const void *b)
{
    const struct lw_system_target *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

void lw_system_look(struct lw_system *system, const struct lw_system_guest *guests,
                    size_t count)
{
    if (!system->has_thread && !system->has_failed && count > 0)
        start_thread(system);
    pthread_mutex_lock(&system->lock);
    for (size_t i = 0; i < system->points.count; i++)
        put(&system->points.list[i], guests, count);
    system->points.count = 0;
    system->target_count = 0;
    if (lw_grow(&system->targets, &system->target_capacity, count,
                sizeof(*system->targets), NULL)) {
        for (size_t i = 0; i < count; i++)
            system->targets[system->target_count++] = guests[i].target;
        if (count > 1)
            qsort(system->targets, count, sizeof(*system->targets), compare_targets);
    }
    pthread_mutex_unlock(&system->lock);
}
