/* How a thread that trains gets its batches: what rules on data loading look at. */
#ifndef LW_ANALYSES_ADVICE_BATCHES_H
#define LW_ANALYSES_ADVICE_BATCHES_H

#include "analyses/advice_places.h"

/* A worker of a loader, as far as it worked for training steps. */
struct lw_advice_worker {
    const struct lw_step_worker *worker; /* borrowed */
    uint64_t batches, ns;                /* fetches with collate, begun in such steps */
    uint64_t start_ns, end_ns;           /* of the first and the last of them */
};

struct lw_batches {
    bool by_itself;     /* a DataLoader with num_workers=0 */
    bool by_workers;    /* or with more */
    size_t step_count;  /* training steps, but for the first of each epoch */
    double step_ns;     /* one, on average */
    double data_ns;     /* of it, waiting for its batch */
    double usual_share; /* the same of medians: that wait, of a step */
    double each;        /* batches a step */
    double on_cpu;      /* share of the samples of making them that were on a CPU */
    double train_share; /* training steps, of lw_advice_track_ns() */
    struct lw_advice_place loop; /* the person's own line that asks for the batch */
    struct lw_advice_place hot; /* what making batches spends most on, own code first */
    bool hot_is_own;            /* it is the person's own code */

    struct lw_advice_worker *workers; /* owned; those that made any batch */
    size_t worker_count, worker_capacity;
    size_t at_a_time; /* how many of them, at most */
};

/* Of TRACK, from steps, samples and spans. Release in any case. */
bool lw_batches_init(struct lw_batches *batches, const struct lw_advice *advice,
                     const struct lw_step_track *track, struct lw_error *err)
    LW_MUST_CHECK;
void lw_batches_release(struct lw_batches *batches); /* zeroed is fine */

/* What a worker takes for a batch, on average, in ns. */
double lw_batches_worker_ns(const struct lw_batches *batches);

#endif
