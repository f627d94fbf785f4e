#include "recorder/samples.h"

#include <string.h>

#include "base/alloc.h"

bool lw_samples_start(struct lw_samples *samples, struct lw_sampler *sampler,
                      struct lw_target *target, struct lw_error *err)
{
    memset(samples, 0, sizeof(*samples));
    samples->sampler = sampler;
    samples->sampled = lw_sampler_add(sampler, target, err);
    return samples->sampled != NULL;
}

void lw_samples_release(struct lw_samples *samples)
{
    if (samples->sampled)
        lw_sampler_remove(samples->sampler, samples->sampled);
    lw_free(samples->strings.ids);
    lw_free(samples->frames.ids);
    lw_free(samples->stacks.ids);
    lw_free(samples->threads);
    memset(samples, 0, sizeof(*samples));
}

/* ---- names -------------------------------------------------------------------------- */

static bool add_id(struct lw_samples_ids *ids, uint32_t id, struct lw_error *err)
{
    if (!lw_grow(&ids->ids, &ids->capacity, ids->count + 1, sizeof(*ids->ids), err))
        return false;
    ids->ids[ids->count++] = id;
    return true;
}

static bool tell_strings(struct lw_samples *samples, const struct lw_sample_log *log,
                         struct lw_lap_writer *writer, struct lw_error *err)
{
    while (samples->strings.count < lw_strings_count(log->strings)) {
        lw_string_id from = (lw_string_id)samples->strings.count, to;

        if (!lw_lap_writer_string(writer, lw_strings_text(log->strings, from),
                                  lw_strings_len(log->strings, from), &to, err) ||
            !add_id(&samples->strings, to, err))
            return false;
    }
    return true;
}

static bool tell_frames(struct lw_samples *samples, const struct lw_sample_log *log,
                        struct lw_lap_writer *writer, struct lw_error *err)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(log->stacks, &count);

    while (samples->frames.count < count) {
        struct lw_frame frame = frames[samples->frames.count];
        lw_frame_id to;

        frame.name = samples->strings.ids[frame.name];
        frame.file = samples->strings.ids[frame.file];
        if (!lw_lap_writer_frame(writer, &frame, &to, err) ||
            !add_id(&samples->frames, to, err))
            return false;
    }
    return true;
}

static bool tell_stacks(struct lw_samples *samples, const struct lw_sample_log *log,
                        struct lw_lap_writer *writer, struct lw_error *err)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(log->stacks, &count);

    while (samples->stacks.count < count) {
        const struct lw_stack *stack = &stacks[samples->stacks.count];
        lw_stack_id to = LW_NO_STACK;

        if (samples->stacks.count > 0 &&
            !lw_lap_writer_push(writer, samples->stacks.ids[stack->parent],
                                samples->frames.ids[stack->frame], &to, err))
            return false;
        if (!add_id(&samples->stacks, to, err))
            return false;
    }
    return true;
}

/* ---- threads ------------------------------------------------------------------------ */

static bool tell_name(struct lw_samples_thread *thread,
                      const struct lw_sampled_thread *sampled,
                      struct lw_lap_writer *writer, struct lw_error *err)
{
    if (!lw_lap_writer_string(writer, sampled->name, strlen(sampled->name),
                              &thread->row.name, err))
        return false;
    memcpy(thread->name, sampled->name, sizeof(thread->name));
    return true;
}

static bool tell_thread(struct lw_samples *samples,
                        const struct lw_sampled_thread *sampled,
                        struct lw_lap_writer *writer, lw_samples_find_thread *find,
                        void *owner, struct lw_error *err)
{
    struct lw_samples_thread thread = { .row = { .tid = sampled->tid,
                                                 .start_ns = sampled->start_ns } };

    if (!lw_grow(&samples->threads, &samples->thread_capacity,
                 samples->thread_count + 1, sizeof(*samples->threads), err))
        return false;
    thread.is_ours = !find(owner, sampled->tid, &thread.number);
    if (thread.is_ours &&
        (!tell_name(&thread, sampled, writer, err) ||
         !lw_lap_writer_thread(writer, &thread.row, &thread.number, err)))
        return false;
    samples->threads[samples->thread_count++] = thread;
    return true;
}

/* Python's name of a thread is found out later than the thread, and may change. */
static bool tell_new_names(struct lw_samples *samples, const struct lw_sample_log *log,
                           struct lw_lap_writer *writer, struct lw_error *err)
{
    for (size_t i = 0; i < samples->thread_count; i++) {
        struct lw_samples_thread *thread = &samples->threads[i];

        if (thread->is_ours && strcmp(thread->name, log->threads[i].name) != 0 &&
            (!tell_name(thread, &log->threads[i], writer, err) ||
             !lw_lap_writer_update_thread(writer, thread->number, &thread->row, err)))
            return false;
    }
    return true;
}

static bool tell_threads(struct lw_samples *samples, const struct lw_sample_log *log,
                         struct lw_lap_writer *writer, lw_samples_find_thread *find,
                         void *owner, struct lw_error *err)
{
    while (samples->thread_count < log->thread_count) {
        if (!tell_thread(samples, &log->threads[samples->thread_count], writer, find,
                         owner, err))
            return false;
    }
    return tell_new_names(samples, log, writer, err);
}

bool lw_samples_thread_number(const struct lw_samples *samples, uint64_t tid,
                              uint32_t *number)
{
    for (size_t i = samples->thread_count; i-- > 0;) {
        if (samples->threads[i].row.tid == tid) {
            *number = samples->threads[i].number;
            return true;
        }
    }
    return false;
}

bool lw_samples_end(struct lw_samples *samples, struct lw_lap_writer *writer,
                    struct lw_error *err)
{
    const struct lw_sample_log *log =
        lw_sampled_lock(samples->sampler, samples->sampled);
    bool done = true;

    for (size_t i = 0; done && i < samples->thread_count; i++) {
        if (!samples->threads[i].is_ours)
            continue;
        samples->threads[i].row.end_ns = log->threads[i].last_ns;
        done = lw_lap_writer_update_thread(writer, samples->threads[i].number,
                                           &samples->threads[i].row, err);
    }
    lw_sampled_unlock(samples->sampler);
    return done;
}

/* ---- samples ------------------------------------------------------------------------ */

/* The log's samples in the recording's numbers, in place: they are the writer's next. */
static void translate(const struct lw_samples *samples, struct lw_sample_log *log)
{
    for (size_t i = 0; i < log->sample_count; i++) {
        struct lw_sample *sample = &log->samples[i];

        sample->thread = samples->threads[sample->thread].number;
        sample->stack = samples->stacks.ids[sample->stack];
    }
}

static bool tell_samples(struct lw_samples *samples, struct lw_sample_log *log,
                         struct lw_lap_writer *writer, struct lw_error *err)
{
    if (log->sample_count == 0)
        return true;
    translate(samples, log);
    if (!lw_lap_writer_samples(writer, log->samples, log->sample_count, err)) {
        log->dropped += log->sample_count;
        log->sample_count = 0;
        return false;
    }
    log->sample_count = 0;
    return true;
}

static bool tell_loss(struct lw_lap_writer *writer, const char *cause, uint64_t now,
                      uint64_t *told, struct lw_error *err)
{
    if (now == *told)
        return true;
    if (!lw_lap_writer_loss(writer, cause, "samples", now - *told, err))
        return false;
    *told = now;
    return true;
}

bool lw_samples_read(struct lw_samples *samples, struct lw_lap_writer *writer,
                     lw_samples_find_thread *find, void *owner, struct lw_error *err)
{
    struct lw_sampled_counts counts =
        lw_sampled_counts(samples->sampler, samples->sampled);
    struct lw_sample_log *log = lw_sampled_lock(samples->sampler, samples->sampled);
    bool done = tell_strings(samples, log, writer, err) &&
                tell_frames(samples, log, writer, err) &&
                tell_stacks(samples, log, writer, err) &&
                tell_threads(samples, log, writer, find, owner, err) &&
                tell_samples(samples, log, writer, err);

    lw_sampled_unlock(samples->sampler);
    return done &&
           tell_loss(writer, "a thread's stack could not be read", counts.unreadable,
                     &samples->told.unreadable, err) &&
           tell_loss(writer, "no memory for samples", counts.dropped,
                     &samples->told.dropped, err) &&
           tell_loss(writer,
                     "machine code and Python did not fit: Python alone is kept",
                     counts.mismatched, &samples->told.mismatched, err) &&
           tell_loss(writer, "a thread did not stop in time: Python alone is kept",
                     counts.uncaught, &samples->told.uncaught, err) &&
           tell_loss(writer,
                     "machine code without rules, or too deep: some frames are missing",
                     counts.cut, &samples->told.cut, err);
}
