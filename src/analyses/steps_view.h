/* What the rows of `report steps` are made with. For the files steps*.c, and for those
 * that go on from there (advice*.c, summary.c). */
#ifndef LW_ANALYSES_STEPS_VIEW_H
#define LW_ANALYSES_STEPS_VIEW_H

#include "analyses/analysis.h"
#include "analyses/steps.h"
#include "base/map.h"

/* From so many steps on a quantile says something: below, one step in ten (or in a
 * hundred) is not even one. */
#define LW_P90_STEPS 10
#define LW_P99_STEPS 100

struct lw_steps_view {
    struct lw_steps steps;
    const struct lw_profile *profile;
    const struct lw_query *query;
    struct lw_table *table;
};

/* Who trains, where that has to be said: "rank 0", "process 4242", "thread 7 of process
 * 4242"; nothing if there is one track. */
void lw_steps_add_who(const struct lw_steps *steps, const struct lw_step_track *track,
                      struct lw_buf *out);

/* Leave of THREADS (lw_query_threads) those of processes of the rank that QUERY is about,
 * if it is about one; caller frees. That there is none such is LW_ERR_USAGE. */
bool lw_steps_choose_rank(const struct lw_profile *profile,
                          const struct lw_query *query, bool **threads,
                          struct lw_error *err) LW_MUST_CHECK;

/* The tables, each with its title and notes. */
bool lw_steps_by_action(struct lw_steps_view *view, struct lw_error *err) LW_MUST_CHECK;
bool lw_steps_by_step(struct lw_steps_view *view, struct lw_error *err) LW_MUST_CHECK;
bool lw_steps_by_other(struct lw_steps_view *view, struct lw_error *err) LW_MUST_CHECK;
bool lw_steps_by_worker(struct lw_steps_view *view, struct lw_error *err) LW_MUST_CHECK;

/* Append "240 training steps of 24.1 ms, 41.5 steps/s, 41.5 updates/s, 3 epochs". */
void lw_steps_add_pace(struct lw_buf *out, const struct lw_step_track *track);
/* Append "data 10.2 %, forward 31 %, other 5 %": of its training, or else of its
 * evaluation. */
void lw_steps_add_split(struct lw_buf *out, const struct lw_steps *steps,
                        const struct lw_step_track *track);

/* ---- a spread of times -------------------------------------------------------------- */

/* Of the steps of TRACK that are evaluation or not, what they took of PHASE, or with
 * LW_PHASES_MAX in all. Caller frees; NULL for memory. *COUNT may be 0. */
double *lw_steps_sorted_ns(const struct lw_step_track *track, bool is_eval,
                           uint16_t phase, size_t *count, struct lw_error *err);
/* Four cells: p50, p90, p99 and the most. What there are too few for is none. */
void lw_steps_add_spread(struct lw_table *table, const double *sorted, size_t count);

/* A step that took much longer than others, and by which phase. */
struct lw_slow_step {
    const struct lw_step *step;
    uint64_t ns;
    uint16_t phase;   /* that took most more than its median */
    uint64_t more_ns; /* by so much */
};

/* What half of the training steps of TRACK took at most, of each phase; [LW_PHASES_MAX]:
 * in all. */
bool lw_steps_medians(const struct lw_steps *steps, const struct lw_step_track *track,
                      bool is_eval, uint64_t medians[LW_PHASES_MAX + 1],
                      struct lw_error *err) LW_MUST_CHECK;
struct lw_slow_step lw_steps_explain(const struct lw_steps *steps,
                                     const struct lw_step *step,
                                     const uint64_t medians[LW_PHASES_MAX + 1]);

/* ---- what was called ---------------------------------------------------------------- */

/* What some code called, as samples have it. */
struct lw_called {
    lw_frame_id function;
    lw_frame_id caller; /* with the line of the call; 0: not known; FUNCTION: no call,
                           its own line */
    uint64_t ns;
    uint64_t samples;
};

struct lw_called_list {
    const struct lw_profile *profile; /* borrowed */
    struct lw_called *list;           /* owned; once divided, the longest first */
    size_t count, capacity;
    struct lw_map map; /* of them, until they are divided */
    uint64_t ns;       /* what was divided */
    uint64_t samples;  /* in it */
};

void lw_called_init(struct lw_called_list *calls, const struct lw_profile *profile);
void lw_called_release(struct lw_called_list *calls); /* zeroed is fine */
bool lw_called_add(struct lw_called_list *calls, lw_frame_id function,
                   lw_frame_id caller, uint64_t ns, uint64_t samples,
                   struct lw_error *err) LW_MUST_CHECK;
/* How long it was in all is known exactly, and of samples only how it is divided: each
 * call gets so much of NS as it has of them. */
void lw_called_divide(struct lw_called_list *calls, uint64_t ns);
/* Are two frames of one function, whatever their lines? */
bool lw_called_is_same(const struct lw_profile *profile, lw_frame_id a, lw_frame_id b);
/* Append "log_metrics (train.py:57)": what was called, and the line that called it. */
void lw_called_add_name(const struct lw_called_list *calls,
                        const struct lw_called *call, struct lw_buf *out);

/* What the loop of training, or evaluation, called in the time that no phase has: it, or
 * the person's own code below it. */
bool lw_steps_find_other(struct lw_called_list *calls, const struct lw_steps *steps,
                         const struct lw_step_track *track, bool is_eval,
                         struct lw_error *err) LW_MUST_CHECK;
/* Below a frame of this file of torch's, a batch is made: by the dataset, then collated. */
#define LW_FETCH_FILE "torch/utils/data/_utils/fetch.py"
/* What the dataset of each worker called to give its samples: reading, decoding,
 * transforms. LISTS is as long as the workers are; release them in any case. */
bool lw_steps_find_fetches(struct lw_called_list *lists, const struct lw_steps *steps,
                           struct lw_error *err) LW_MUST_CHECK;

#endif
