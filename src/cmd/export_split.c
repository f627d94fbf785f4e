/* A step is what its range on the host is, on every rank: whoever looks at one wants to
 * see what the host did then, what ran meanwhile, and what came of it (model/trace_cut.h).
 * The last step is written, too, though a report may leave it out as not whole. */

#include "cmd/export_split.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/trace_steps.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "model/trace_cut.h"

#define STEPS_MAX 10000 /* as many files in one folder are no help to anybody */

struct step {
    int64_t number;
    uint32_t rank;
    struct lw_trace_window window;
};

struct steps {
    struct step *list; /* owned */
    size_t count, capacity;
};

static bool add_steps_of(struct steps *steps, const struct lw_profile *profile,
                         uint32_t rank, struct lw_error *err)
{
    struct lw_trace_steps found = { 0 };
    bool done = lw_trace_steps_init(&found, profile, rank, LW_COMPAT_NONE, err);

    for (size_t i = 0; done && found.is_marked && i < found.count + found.left_out;
         i++) {
        const struct lw_trace_step *from = &found.list[i];
        struct step step = { from->number,
                             rank,
                             { from->host_start_ns, from->host_end_ns } };

        done = lw_grow(&steps->list, &steps->capacity, steps->count + 1, sizeof(step),
                       err);
        if (done)
            steps->list[steps->count++] = step;
    }
    lw_trace_steps_release(&found);
    return done;
}

static int compare_steps(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->window.start_ns < y->window.start_ns   ? -1
           : x->window.start_ns > y->window.start_ns ? 1
                                                     : 0;
}

/* A range that comes twice on a rank (on two threads) is from the first to the last. */
static void widen(struct lw_trace_window *window, const struct lw_trace_window *by)
{
    if (window->end_ns == 0) {
        *window = *by;
        return;
    }
    if (by->start_ns < window->start_ns)
        window->start_ns = by->start_ns;
    if (by->end_ns > window->end_ns)
        window->end_ns = by->end_ns;
}

static bool write_step(const struct lw_profile *profile, const char *path,
                       size_t suffix_len, int64_t number,
                       const struct lw_trace_window *windows, lw_export_write *write,
                       const void *how, struct lw_error *err)
{
    size_t len = strlen(path);
    struct lw_profile part = *profile;
    struct lw_buf name;
    bool done = false;

    lw_buf_init(&name, 0);
    lw_buf_add(&name, path, len - suffix_len);
    lw_buf_addf(&name, ".step%" PRId64, number);
    lw_buf_add_text(&name, path + len - suffix_len);
    part.trace = lw_trace_cut(profile->trace, windows, err);
    if (part.trace)
        done = lw_buf_check(&name, err) && write(how, &part, name.bytes, err);
    lw_trace_free(part.trace);
    lw_buf_release(&name);
    return done;
}

bool lw_export_split_steps(const struct lw_profile *profile, const char *path,
                           size_t suffix_len, lw_export_write *write, const void *how,
                           struct lw_error *err)
{
    uint32_t ranks = profile->trace ? (uint32_t)profile->trace->rank_count : 0;
    struct lw_trace_window *windows = lw_zalloc(ranks, sizeof(*windows), err);
    struct steps steps = { 0 };
    bool done = windows != NULL;

    for (uint32_t i = 0; done && i < ranks; i++)
        done = add_steps_of(&steps, profile, i, err);
    if (done && steps.count == 0)
        done = lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no steps to split it by: torch.profiler marks them "
                       "where the program calls its step()");
    if (done && steps.count / ranks > STEPS_MAX)
        done = lw_fail(err, LW_ERR_LIMIT,
                       "%zu steps would be as many files; it takes at most %d",
                       steps.count / ranks, STEPS_MAX);
    if (done)
        qsort(steps.list, steps.count, sizeof(*steps.list), compare_steps);
    for (size_t i = 0; done && i < steps.count;) {
        int64_t number = steps.list[i].number;

        memset(windows, 0, ranks * sizeof(*windows));
        for (; i < steps.count && steps.list[i].number == number; i++)
            widen(&windows[steps.list[i].rank], &steps.list[i].window);
        done = write_step(profile, path, suffix_len, number, windows, write, how, err);
    }
    lw_free(steps.list);
    lw_free(windows);
    return done;
}
