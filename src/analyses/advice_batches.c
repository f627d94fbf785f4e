/* Steps say how long a training waits for its batches; samples say for which line, here
 * and in the workers; spans say what each worker made.
 *
 *     fit:22  __next__  _next_data  fetch    __getitem__  augment:45  randint
 *     ^ loop  torch/utils/data ........ fetch.py           ^ hot: the last of one's own
 */

#include "analyses/advice_batches.h"

#include <math.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/mine.h"
#include "model/states.h"

#define LOADER_FILE "torch/utils/data/dataloader.py"
#define BY_ITSELF "_SingleProcessDataLoaderIter"
#define BY_WORKERS "_MultiProcessingDataLoaderIter"

struct looking {
    struct lw_batches *batches;
    const struct lw_advice *advice;
    const struct lw_profile *profile;
    const struct lw_step_track *track;
    const struct lw_stack *stacks;
    struct lw_mine mine;
    uint8_t *file_kinds; /* owned: of each string, enum file_kind */
    uint8_t *deepest;    /* owned: of each stack, the largest enum file_kind in it */
    lw_frame_id *loops; /* owned: of each stack, one's own line that asked the loader */
    lw_frame_id *hots;  /* owned: of each stack, the line that is to blame; 0: none */
    uint64_t *loop_ns;  /* owned: of each frame */
    uint64_t *hot_ns;   /* likewise */
    uint32_t *worker_of; /* owned: of each thread, its worker + 1; 0: none */
};

/* ---- steps -------------------------------------------------------------------------- */

static void add_steps(struct lw_batches *b, const struct lw_step_track *track)
{
    uint64_t all_ns = lw_advice_track_ns(track), ns = 0, data_ns = 0;

    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];

        if (step->is_eval || step->is_cut || step->is_first)
            continue;
        b->step_count++;
        ns += step->end_ns - step->start_ns;
        data_ns += step->ns[LW_PHASE_DATA];
    }
    if (b->step_count > 0) {
        b->step_ns = (double)ns / (double)b->step_count;
        b->data_ns = (double)data_ns / (double)b->step_count;
    }
    if (all_ns > 0)
        b->train_share = (double)track->train_ns / (double)all_ns;
}

/* Where all processors are in use a process is stopped for many ms now and then, wherever
 * it is; medians do not see that. */
static bool add_medians(struct lw_batches *b, const struct lw_steps *steps,
                        const struct lw_step_track *track, struct lw_error *err)
{
    uint64_t medians[LW_PHASES_MAX + 1];

    if (!lw_steps_medians(steps, track, false, medians, err))
        return false;
    if (medians[LW_PHASES_MAX] > 0)
        b->usual_share =
            (double)medians[LW_PHASE_DATA] / (double)medians[LW_PHASES_MAX];
    return true;
}

static void add_calls(struct lw_batches *b, const struct lw_profile *profile,
                      const struct lw_step_track *track)
{
    uint64_t count = 0;

    for (size_t i = 0; i < track->call_count; i++) {
        const struct lw_step_call *call = &track->calls[i];
        const char *of = lw_profile_text(profile, call->of);

        if (call->is_eval || call->phase != LW_PHASE_DATA ||
            strcmp(lw_profile_text(profile, call->name), "data") != 0)
            continue;
        count += call->count;
        b->by_itself |= strcmp(of, BY_ITSELF) == 0;
        b->by_workers |= strcmp(of, BY_WORKERS) == 0;
    }
    if (track->train_count > 0)
        b->each = (double)count / (double)track->train_count;
}

/* ---- stacks ------------------------------------------------------------------------- */

/* What is below a loader's frame is the loader's doing, whoever wrote it; below one of
 * fetch, a batch is made. */
enum file_kind { FILE_UNKNOWN, FILE_FOREIGN, FILE_OWN, FILE_LOADER, FILE_FETCH };

/* Code that a person can change: their own, or what at least is not installed. (Who starts
 * a script from another folder has none of their own there.) */
static bool is_own(struct looking *l, const char *file, struct lw_error *reason)
{
    return lw_mine_has(&l->mine, file, reason) ||
           (file[0] == '/' && !strstr(file, "-packages/") &&
            !strstr(file, "/lib/python"));
}

static enum file_kind kind_of(struct looking *l, lw_frame_id frame,
                              struct lw_error *reason)
{
    lw_string_id id = lw_profile_frame(l->profile, frame)->file;
    const char *file = lw_profile_text(l->profile, id);
    uint8_t *kind = &l->file_kinds[id];

    if (*kind == FILE_UNKNOWN)
        *kind = lw_text_ends(file, LW_FETCH_FILE) ? FILE_FETCH
                : lw_text_ends(file, LOADER_FILE) ? FILE_LOADER
                : is_own(l, file, reason)         ? FILE_OWN
                                                  : FILE_FOREIGN;
    return (enum file_kind) * kind;
}

/* Parents come before their children, so each takes over what its parent knows. */
static bool sort_stacks(struct looking *l, size_t stack_count, struct lw_error *err)
{
    struct lw_error reason = { 0 };

    for (lw_stack_id s = 1; s < stack_count && !reason.code; s++) {
        lw_stack_id parent = l->stacks[s].parent;
        lw_frame_id frame = l->stacks[s].frame, hot = l->hots[parent];
        bool is_note = lw_profile_frame(l->profile, frame)->kind == LW_FRAME_NOTE;
        enum file_kind kind = kind_of(l, frame, &reason);

        l->deepest[s] = kind > l->deepest[parent] ? (uint8_t)kind : l->deepest[parent];
        l->loops[s] =
            l->deepest[s] == FILE_OWN && kind == FILE_OWN ? frame : l->loops[parent];
        l->hots[s] = hot;
        if (l->deepest[parent] == FILE_FETCH && !is_note &&
            (kind == FILE_OWN || !hot || kind_of(l, hot, &reason) != FILE_OWN))
            l->hots[s] = frame;
    }
    if (reason.code && err)
        *err = reason;
    return reason.code == LW_OK;
}

/* ---- samples ------------------------------------------------------------------------ */

static bool is_in_training(const struct lw_step_track *track, uint64_t time_ns,
                           bool *is_data)
{
    const struct lw_step_piece *piece = lw_steps_at(track, time_ns);
    const struct lw_step *step =
        piece && piece->step != LW_NONE ? &track->steps[piece->step] : NULL;

    *is_data = piece && piece->phase == LW_PHASE_DATA;
    return step && !step->is_eval && !step->is_cut;
}

static void add_samples(struct looking *l)
{
    struct lw_batches *b = l->batches;
    uint64_t making_ns = 0, cpu_ns = 0;
    int64_t making_count = 0;

    for (size_t i = 0; i < l->profile->sample_count; i++) {
        const struct lw_sample *sample = &l->profile->samples[i];
        bool is_trainers = sample->thread == l->track->thread, is_data;
        lw_frame_id hot = l->hots[sample->stack];

        if (sample->count == 0 || !is_in_training(l->track, sample->time_ns, &is_data))
            continue;
        if (is_trainers && is_data)
            l->loop_ns[l->loops[sample->stack]] += sample->weight_ns;
        if (hot == 0 || !(is_trainers || l->worker_of[sample->thread]))
            continue;
        l->hot_ns[hot] += sample->weight_ns;
        making_ns += sample->weight_ns;
        making_count += (int64_t)sample->count;
        if (lw_states_have(LW_STATES_CPU, sample->state))
            cpu_ns += sample->weight_ns;
    }
    b->on_cpu = making_ns ? (double)cpu_ns / (double)making_ns : 1;
    b->loop = lw_advice_find_most(l->profile, l->loop_ns);
    b->hot = lw_advice_find_most(l->profile, l->hot_ns);
    if (!lw_advice_is_sure(llround(b->hot.share * (double)making_count), making_count))
        b->hot = (struct lw_advice_place){ 0 };
    b->hot_is_own =
        b->hot.frame &&
        l->file_kinds[lw_profile_frame(l->profile, b->hot.frame)->file] == FILE_OWN;
}

/* ---- workers ------------------------------------------------------------------------ */

static bool find_workers(struct looking *l, struct lw_error *err)
{
    const struct lw_profile *profile = l->profile;
    const struct lw_steps *steps = &l->advice->steps;
    uint64_t pid = profile->processes[l->track->process].pid;
    struct lw_batches *b = l->batches;

    for (size_t i = 0; i < steps->worker_count; i++) {
        const struct lw_step_worker *worker = &steps->workers[i];
        struct lw_advice_worker own = { .worker = worker };

        if (profile->processes[worker->process].parent_pid != pid)
            continue;
        if (!lw_grow(&b->workers, &b->worker_capacity, b->worker_count + 1, sizeof(own),
                     err))
            return false;
        b->workers[b->worker_count++] = own;
        l->worker_of[worker->thread] = (uint32_t)b->worker_count;
    }
    return true;
}

static void add_spans(struct looking *l)
{
    for (size_t i = 0; i < l->profile->span_count; i++) {
        const struct lw_span *span = &l->profile->spans[i];
        uint32_t number = l->worker_of[span->thread];
        const struct lw_frame *frame =
            lw_profile_frame(l->profile, l->stacks[span->stack].frame);
        struct lw_advice_worker *worker = &l->batches->workers[number - 1];
        uint64_t end_ns = span->start_ns + span->duration_ns;
        bool is_data;

        if (number == 0 || frame->kind != LW_FRAME_PHASE ||
            strcmp(lw_profile_text(l->profile, frame->name), "fetch") != 0 ||
            !is_in_training(l->track, span->start_ns, &is_data))
            continue;
        if (worker->batches == 0 || span->start_ns < worker->start_ns)
            worker->start_ns = span->start_ns;
        if (end_ns > worker->end_ns)
            worker->end_ns = end_ns;
        worker->batches++;
        worker->ns += span->duration_ns;
    }
}

/* Each epoch may have workers of its own: how many are there at once? As many as had begun
 * and not ended when one of them began. */
static void count_workers(struct lw_batches *b)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->worker_count; i++)
        if (b->workers[i].batches > 0)
            b->workers[kept++] = b->workers[i];
    b->worker_count = kept;
    for (size_t i = 0; i < kept; i++) {
        uint64_t time_ns = b->workers[i].start_ns;
        size_t here = 0;

        for (size_t k = 0; k < kept; k++)
            here += b->workers[k].start_ns <= time_ns && time_ns < b->workers[k].end_ns;
        if (here > b->at_a_time)
            b->at_a_time = here;
    }
}

double lw_batches_worker_ns(const struct lw_batches *batches)
{
    uint64_t count = 0, ns = 0;

    for (size_t i = 0; i < batches->worker_count; i++) {
        count += batches->workers[i].batches;
        ns += batches->workers[i].ns;
    }
    return count ? (double)ns / (double)count : 0;
}

/* ---- all of it ---------------------------------------------------------------------- */

static bool allocate(struct looking *l, size_t stack_count, struct lw_error *err)
{
    size_t frame_count;

    lw_stacks_frames(l->profile->stacks, &frame_count);
    return (l->file_kinds =
                lw_zalloc(lw_strings_count(l->profile->strings) + 1, 1, err)) &&
           (l->deepest = lw_zalloc(stack_count + 1, 1, err)) &&
           (l->loops = lw_zalloc(stack_count + 1, sizeof(*l->loops), err)) &&
           (l->hots = lw_zalloc(stack_count + 1, sizeof(*l->hots), err)) &&
           (l->loop_ns = lw_zalloc(frame_count + 1, sizeof(*l->loop_ns), err)) &&
           (l->hot_ns = lw_zalloc(frame_count + 1, sizeof(*l->hot_ns), err)) &&
           (l->worker_of =
                lw_zalloc(l->profile->thread_count + 1, sizeof(*l->worker_of), err));
}

bool lw_batches_init(struct lw_batches *batches, const struct lw_advice *advice,
                     const struct lw_step_track *track, struct lw_error *err)
{
    struct looking l = {
        .batches = batches, .advice = advice, .profile = advice->profile, .track = track
    };
    size_t stack_count;
    bool done;

    memset(batches, 0, sizeof(*batches));
    add_steps(batches, track);
    add_calls(batches, advice->profile, track);
    if (batches->step_count == 0 || !(batches->by_itself || batches->by_workers))
        return true;
    l.stacks = lw_stacks_list(l.profile->stacks, &stack_count);
    done = add_medians(batches, &advice->steps, track, err) &&
           allocate(&l, stack_count, err) && lw_mine_init(&l.mine, l.profile, err) &&
           sort_stacks(&l, stack_count, err) && find_workers(&l, err);
    if (done) {
        if (batches->worker_count > 0)
            add_spans(&l);
        add_samples(&l);
        count_workers(batches);
    }
    lw_mine_release(&l.mine);
    lw_free(l.file_kinds);
    lw_free(l.deepest);
    lw_free(l.loops);
    lw_free(l.hots);
    lw_free(l.loop_ns);
    lw_free(l.hot_ns);
    lw_free(l.worker_of);
    return done;
}

void lw_batches_release(struct lw_batches *batches)
{
    lw_free(batches->workers);
    memset(batches, 0, sizeof(*batches));
}
