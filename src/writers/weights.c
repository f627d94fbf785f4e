/* Rows are copied, sorted if they are not, and equal ones added up. */

#include "writers/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int compare_rows(const void *a, const void *b)
{
    const struct lw_call_row *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static bool is_sorted(const struct lw_weights *weights)
{
    for (size_t i = 1; i < weights->count; i++)
        if (compare_rows(&weights->rows[i - 1], &weights->rows[i]) >= 0)
            return false;
    return true;
}

/* Rows of a program that was watched come nearly in order: the builder adds them as the
 * stacks were met. */
static void sort_and_add(struct lw_weights *weights)
{
    struct lw_call_row *rows = weights->rows;
    size_t kept = 0;

    if (is_sorted(weights))
        return;
    qsort(rows, weights->count, sizeof(*rows), compare_rows);
    for (size_t i = 1; i < weights->count; i++) {
        if (compare_rows(&rows[kept], &rows[i]) == 0) {
            rows[kept].calls += rows[i].calls;
            rows[kept].self_ns += rows[i].self_ns;
        } else {
            rows[++kept] = rows[i];
        }
    }
    weights->count = kept + 1;
}

static void take_samples(struct lw_weights *weights, const struct lw_profile *profile)
{
    for (size_t i = 0; i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];

        weights->rows[i] = (struct lw_call_row){ .thread = sample->thread,
                                                 .stack = sample->stack,
                                                 .self_ns = sample->weight_ns };
    }
}

bool lw_weights_init(struct lw_weights *weights, const struct lw_profile *profile,
                     struct lw_error *err)
{
    bool has_calls = profile->call_count > 0;

    memset(weights, 0, sizeof(*weights));
    weights->source = has_calls ? LW_GRAPH_CALLS : LW_GRAPH_SAMPLES;
    weights->count = has_calls ? profile->call_count : profile->sample_count;
    if (weights->count == 0 && profile->function_count > 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no stacks to write: such a file holds who called "
                       "whom, but not along which paths; callgrind, csv, json, "
                       "markdown and pstats can say that");
    if (weights->count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no calls and no samples to write");
    weights->rows = lw_alloc(weights->count * sizeof(*weights->rows), err);
    if (!weights->rows)
        return false;
    if (has_calls)
        memcpy(weights->rows, profile->calls, weights->count * sizeof(*weights->rows));
    else
        take_samples(weights, profile);
    sort_and_add(weights);
    return true;
}

void lw_weights_release(struct lw_weights *weights)
{
    lw_free(weights->rows);
    memset(weights, 0, sizeof(*weights));
}

size_t lw_weights_thread_end(const struct lw_weights *weights, size_t first)
{
    size_t end = first;

    while (end < weights->count &&
           weights->rows[end].thread == weights->rows[first].thread)
        end++;
    return end;
}
