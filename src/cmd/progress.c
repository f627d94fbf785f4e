/* How far a reader is, is seen from outside, so that no reader has to tell: what
 * it reads is counted by the kernel (rchar of /proc/self/io), and of a file that is mapped
 * the pages it has touched are resident (the shared pages of /proc/self/statm). Readers
 * go through a file from front to back, so the sum is the place they are at. A small
 * file is read at once before it is understood: then all is done and no time left is
 * claimed. How far a writer is, is the length of its buffer. */

#include "cmd/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "lap/run.h"
#include "model/units.h"

#define FIRST_NS 1000000000ull /* what is done sooner needs no line */
#define NEXT_NS 200000000ull

struct lw_progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over;                /* under the lock */
    struct lw_buf what;          /* "reading big.folded" */
    const struct lw_buf *output; /* borrowed; NULL: it is read, not written */
    uint64_t total_bytes;        /* 0: not known */
    uint64_t base_bytes;         /* seen before the work began */
    uint64_t start_ns;
};

void lw_progress_add_line(struct lw_buf *out, const struct lw_progress_state *state)
{
    double seconds = (double)state->elapsed_ns / 1e9;
    double rate = seconds > 0 ? (double)state->done_bytes / seconds : 0;
    uint64_t done = state->done_bytes, total = state->total_bytes;

    lw_buf_addf(out, "%s: ", state->what);
    lw_units_add_bytes(out, (int64_t)done);
    if (total > done) {
        lw_buf_add_text(out, " of ");
        lw_units_add_bytes(out, (int64_t)total);
    }
    if (total && done >= total) {
        lw_buf_addf(out, ", for %.0f s", seconds);
        return;
    }
    lw_buf_add_text(out, ", ");
    lw_units_add_bytes(out, (int64_t)rate);
    lw_buf_add_text(out, "/s");
    if (total && rate > 0)
        lw_buf_addf(out, ", %.0f s left", (double)(total - done) / rate);
}

/* The one number that FORM, as for scanf(), finds in a file of /proc; 0: none. */
static uint64_t read_number(const char *path, const char *form)
{
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    if (fscanf(file, form, &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

static uint64_t seen_bytes(const struct lw_progress *progress)
{
    uint64_t pages;

    /* The other thread may be adding to it: an old length only draws an old line. */
    if (progress->output)
        return __atomic_load_n(&progress->output->drained, __ATOMIC_RELAXED) +
               __atomic_load_n(&progress->output->len, __ATOMIC_RELAXED);
    pages = read_number("/proc/self/statm", "%*u %*u %llu");
    return read_number("/proc/self/io", "rchar: %llu") +
           pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void draw(const struct lw_progress *progress)
{
    uint64_t seen = seen_bytes(progress);
    struct lw_progress_state state = {
        .what = progress->what.bytes,
        .done_bytes = seen > progress->base_bytes ? seen - progress->base_bytes : 0,
        .total_bytes = progress->total_bytes,
        .elapsed_ns = lw_clock_ns() - progress->start_ns,
    };
    struct lw_buf line;

    lw_buf_init(&line, 0);
    lw_progress_add_line(&line, &state);
    if (!line.failure)
        fprintf(stderr, "\r%s\033[K", line.bytes);
    lw_buf_release(&line);
}

/* Until the work is over, or UNTIL_NS; was it over? */
static bool wait_until(struct lw_progress *progress, uint64_t until_ns)
{
    struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                              .tv_nsec = (long)(until_ns % 1000000000) };

    while (!progress->is_over &&
           pthread_cond_timedwait(&progress->wake, &progress->lock, &until) !=
               ETIMEDOUT)
        ;
    return progress->is_over;
}

static void *look_on(void *argument)
{
    struct lw_progress *progress = argument;
    uint64_t next_ns = progress->start_ns + FIRST_NS;
    bool is_drawn = false;

    pthread_mutex_lock(&progress->lock);
    while (!wait_until(progress, next_ns)) {
        draw(progress);
        is_drawn = true;
        next_ns = lw_clock_ns() + NEXT_NS;
    }
    pthread_mutex_unlock(&progress->lock);
    if (is_drawn)
        fputs("\r\033[K", stderr);
    return NULL;
}

static bool start_thread(struct lw_progress *progress)
{
    pthread_condattr_t attributes;
    bool done = pthread_condattr_init(&attributes) == 0 &&
                pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&progress->wake, &attributes) == 0 &&
                pthread_mutex_init(&progress->lock, NULL) == 0;

    return done && pthread_create(&progress->thread, NULL, look_on, progress) == 0;
}

/* Nothing here is worth failing for: without memory or threads nothing is shown. */
static struct lw_progress *start(const char *verb, const char *name,
                                 uint64_t total_bytes, const struct lw_buf *output)
{
    struct lw_error ignored;
    struct lw_progress *progress = lw_zalloc(1, sizeof(*progress), &ignored);

    if (!progress)
        return NULL;
    lw_buf_init(&progress->what, 0);
    lw_buf_addf(&progress->what, "%s ", verb);
    lw_text_add_printable(&progress->what, name, strlen(name));
    progress->total_bytes = total_bytes;
    progress->output = output;
    progress->base_bytes = seen_bytes(progress);
    progress->start_ns = lw_clock_ns();
    if (!progress->what.failure && start_thread(progress))
        return progress;
    lw_buf_release(&progress->what);
    lw_free(progress);
    return NULL;
}

/* The size of a file, or of all files of a run; 0: not known, as of a pipe. */
static uint64_t size_of(const char *name)
{
    struct lw_error ignored;
    struct lw_run run;
    struct stat about;
    uint64_t bytes = 0;

    if (name && stat(name, &about) == 0 && S_ISREG(about.st_mode))
        return (uint64_t)about.st_size;
    if (lw_run_open(&run, name, NULL, &ignored))
        bytes = run.bytes;
    lw_run_close(&run);
    return bytes;
}

struct lw_progress *lw_progress_start_reading(const char *name)
{
    if (!isatty(STDERR_FILENO))
        return NULL;
    return start("reading", name ? name : "the latest run", size_of(name), NULL);
}

struct lw_progress *lw_progress_start_writing(const char *name,
                                              const struct lw_buf *out)
{
    if (!isatty(STDERR_FILENO))
        return NULL;
    return start("writing", name, 0, out);
}

void lw_progress_stop(struct lw_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->is_over = true;
    pthread_cond_signal(&progress->wake);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    lw_buf_release(&progress->what);
    lw_free(progress);
}
