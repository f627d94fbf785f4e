/* The steps of a training, live: what one batch took, and which phase each moment of it
 * belongs to.
 *
 * A recording only says what was called and when ("data", "forward", "backward" ... as
 * spans whose last frame is LW_FRAME_PHASE). Here that becomes steps. A *step* is one
 * training batch, an *update* one call of an optimizer; what ran without either a backward
 * or an update is evaluation, and apart.
 *
 *     spans    [data][forward][loss]  [backward][optimizer]      [data][forward] ...
 *     pieces   |data |forward |loss      |backward |opt.   |other   |data |forward
 *     steps    |<-- step 7 ------------------------------------->|<-- step 8
 *
 * What bounds the steps of a thread, the first of these that it has:
 *  - lapwing.step(): its spans are the steps;
 *  - a loader: from one "data" to the next, as many at a time as a step usually takes (two
 *    zipped loaders are two); an epoch is a pass over it;
 *  - optimizers: a step ends when one does, or when the last of a cycle does (a GAN's two);
 *  - backward, where gradients are applied by hand.
 *
 * A moment belongs to the innermost phase that is open (LBFGS runs forward and backward in
 * its step); what is called inside "data" is data. Between them, from the end of the last
 * forward to the backward is "loss", and the rest is "other". */
#ifndef LW_ANALYSES_STEPS_H
#define LW_ANALYSES_STEPS_H

#include "model/profile.h"

enum lw_phase {
    LW_PHASE_DATA,
    LW_PHASE_TRANSFER,
    LW_PHASE_FORWARD, /* without gradients too, where every training step does that */
    LW_PHASE_LOSS,
    LW_PHASE_BACKWARD,
    LW_PHASE_OPTIMIZER, /* and zero_grad */
    LW_PHASE_EVAL,      /* calls of a model in eval mode or without gradients */
    LW_PHASE_OTHER,     /* logging, and whatever nobody announced */
    LW_PHASE_OWN,       /* the first of the program's own (lapwing.phase) */
    LW_PHASES_MAX = 64, /* more of its own than fit are one: "(more)" */
};

/* A phase of this profile; the first LW_PHASE_OWN are always there. */
struct lw_phase_name {
    const char *text; /* "forward"; borrowed */
};

/* From start_ns to that of the next piece of its track, the last one being empty. */
struct lw_step_piece {
    uint64_t start_ns;
    uint32_t step; /* index; LW_NONE: in no step */
    uint16_t phase;
};

struct lw_step {
    uint64_t start_ns, end_ns;
    uint32_t index; /* among those of its kind on its track, from 0 */
    uint32_t
        epoch; /* from 0: passes over a training loader that began before its own */
    uint32_t updates;
    bool is_eval;
    bool is_first;        /* of its epoch: a loader's workers start then */
    bool is_cut;          /* the recording ended in it, or lost some of it (thinned);
                             statistics leave it out */
    const uint64_t *ns;   /* of each phase; they add up to end_ns - start_ns */
    uint32_t first_piece; /* index; its pieces stand together */
    uint32_t piece_count;
};

/* What was called for a phase: "optimizer" of "SGD". */
struct lw_step_call {
    uint16_t phase;     /* to which its time went */
    bool is_eval;       /* in steps that are evaluation */
    lw_string_id name;  /* the span's own: "zero_grad" */
    lw_string_id of;    /* class of what was called; 0: none */
    uint64_t count, ns; /* in steps that are not cut; without what was called inside */
};

/* A thread that trains or evaluates. */
struct lw_step_track {
    uint32_t process, thread; /* indexes */
    struct lw_step *steps;    /* owned; in order of time, training and evaluation */
    size_t step_count, step_capacity;
    struct lw_step_piece *pieces; /* owned; in order of time, without a hole */
    size_t piece_count, piece_capacity;
    struct lw_step_call *calls; /* owned; by phase, the longest first */
    size_t call_count, call_capacity;
    uint64_t *times;    /* owned; what the steps' `ns` point into */
    size_t train_count; /* of its steps, cut ones apart, as the next two */
    size_t eval_count;
    size_t update_count;
    size_t cut_count;
    uint64_t train_ns, eval_ns; /* sums of those steps */
    uint32_t epoch_count; /* passes over a training loader that began; of one alone
                                   it is known that it ended */
    uint8_t bound;        /* enum lw_step_bound */
};

enum lw_step_bound {
    LW_BOUND_MARKS,     /* lapwing.step() */
    LW_BOUND_DATA,      /* a loader */
    LW_BOUND_OPTIMIZER, /* optimizers, one or a cycle of them */
    LW_BOUND_BACKWARD,
    LW_BOUND_CALLS, /* each call of a model: nothing is trained */
};

/* A process or thread that only makes batches: a worker of a loader. */
struct lw_step_worker {
    uint32_t process, thread;  /* indexes */
    uint64_t start_ns, end_ns; /* of the first and the last that it did */
    uint64_t batches;          /* fetches */
    uint64_t fetch_ns;         /* without collate */
    uint64_t collate_ns;
};

struct lw_steps {
    const struct lw_profile *profile; /* borrowed */
    struct lw_phase_name phases[LW_PHASES_MAX];
    size_t phase_count;
    struct lw_step_track *tracks; /* owned; by process, then thread */
    size_t track_count, track_capacity;
    struct lw_step_worker *workers; /* owned; likewise */
    size_t worker_count, worker_capacity;
    uint64_t span_count; /* of phases, whatever became of them */
};

/* The steps of PROFILE (LW_WANT_PHASES or LW_WANT_SPANS of it), on the threads that have a
 * flag in THREADS, or on all if that is NULL (lw_query_threads). No steps is no failure.
 * Release in any case. */
bool lw_steps_init(struct lw_steps *steps, const struct lw_profile *profile,
                   const bool *threads, struct lw_error *err) LW_MUST_CHECK;
void lw_steps_release(struct lw_steps *steps); /* zeroed is fine */

/* The piece of TRACK that TIME_NS is in; NULL: before the first step or after the last. */
const struct lw_step_piece *lw_steps_at(const struct lw_step_track *track,
                                        uint64_t time_ns);

#endif
