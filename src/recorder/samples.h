/* What the sampler saw of one process, on its way into that process's recording. */
#ifndef LW_RECORDER_SAMPLES_H
#define LW_RECORDER_SAMPLES_H

#include "lap/writer.h"
#include "sampler/sampler.h"

/* Numbers of the log and what they are in the recording, by number. */
struct lw_samples_ids {
    uint32_t *ids; /* owned */
    size_t count, capacity;
};

struct lw_samples_thread {
    uint32_t number; /* in the recording */
    bool is_ours;    /* nobody else tells of it */
    struct lw_thread row;
    char name[LW_OS_NAME_BYTES]; /* as the recording knows it */
};

struct lw_samples {
    struct lw_sampler *sampler; /* borrowed */
    struct lw_sampled *sampled; /* ours to remove */
    struct lw_samples_ids strings, frames, stacks;
    struct lw_samples_thread *threads; /* as the log numbers them; owned */
    size_t thread_count, thread_capacity;
    struct lw_sampled_counts told; /* of what is missing, so far */
};

/* Begin to sample TARGET, which is ours in every case. */
bool lw_samples_start(struct lw_samples *samples, struct lw_sampler *sampler,
                      struct lw_target *target, struct lw_error *err) LW_MUST_CHECK;
void lw_samples_release(struct lw_samples *samples); /* zeroed is fine */

/* Who in the recording is the thread TID, if somebody has said it already. */
typedef bool lw_samples_find_thread(void *owner, uint64_t tid, uint32_t *number);

/* Tell WRITER what is new. A thread that FIND knows is not told again. What could not be
 * told is told the next time. */
bool lw_samples_read(struct lw_samples *samples, struct lw_lap_writer *writer,
                     lw_samples_find_thread *find, void *owner, struct lw_error *err)
    LW_MUST_CHECK;

/* The number in the recording of the sampled thread TID. */
bool lw_samples_thread_number(const struct lw_samples *samples, uint64_t tid,
                              uint32_t *number) LW_MUST_CHECK;

/* Nothing more will come: say when the threads were last seen. */
bool lw_samples_end(struct lw_samples *samples, struct lw_lap_writer *writer,
                    struct lw_error *err) LW_MUST_CHECK;

#endif
