#include "sampler/sample_log.h"

#include <string.h>

#include "base/alloc.h"
#include "sampler/native.h"

/* Samples that nobody takes out are dropped beyond this many. */
#define SAMPLES_MAX (4u << 20)

static bool add_note(struct lw_sample_log *log, const char *name, lw_frame_id *id,
                     struct lw_error *err)
{
    struct lw_frame frame = { .kind = LW_FRAME_NOTE };

    return lw_strings_intern(log->strings, name, strlen(name), &frame.name, err) &&
           lw_stacks_frame(log->stacks, &frame, id, err);
}

bool lw_sample_log_init(struct lw_sample_log *log, struct lw_error *err)
{
    memset(log, 0, sizeof(*log));
    lw_map_init(&log->by_place);
    log->strings = lw_strings_new(err);
    log->stacks = log->strings ? lw_stacks_new(err) : NULL;
    if (log->stacks && add_note(log, "(moving)", &log->moving_frame, err) &&
        add_note(log, "(no Python)", &log->native_frame, err))
        return true;
    lw_sample_log_release(log);
    return false;
}

void lw_sample_log_release(struct lw_sample_log *log)
{
    lw_strings_free(log->strings);
    lw_stacks_free(log->stacks);
    lw_map_release(&log->by_place);
    lw_free(log->places);
    lw_free(log->threads);
    lw_free(log->samples);
    lw_free(log->functions);
    memset(log, 0, sizeof(*log));
}

/* ---- frames ------------------------------------------------------------------------- */

static uint64_t place_hash(uint32_t code, int32_t instruction)
{
    return lw_hash_u64((uint64_t)code << 32 | (uint32_t)instruction);
}

static bool is_place(const void *owner, uint32_t number, const void *key)
{
    const struct lw_sample_log *log = owner;
    const struct lw_walk_frame *frame = key;

    return log->places[number - 1].code == frame->code &&
           log->places[number - 1].instruction == frame->instruction;
}

/* What does not fit is left out: nobody reads a line that long. */
static void set_columns(struct lw_frame *frame, const struct lw_position *position)
{
    int32_t more_lines = position->end_line - position->line;

    if (position->column < 0 || position->end_column < 0 || more_lines < 0 ||
        position->column >= UINT16_MAX || position->end_column >= UINT16_MAX ||
        more_lines > UINT16_MAX)
        return;
    frame->column = (uint16_t)(position->column + 1);
    frame->end_column = (uint16_t)(position->end_column + 1);
    frame->more_lines = (uint16_t)more_lines;
}

static bool make_frame(struct lw_sample_log *log, const struct lw_target *target,
                       const struct lw_walk_frame *walked, lw_frame_id *id)
{
    const struct lw_py_code *code = &target->codes.codes[walked->code];
    struct lw_frame frame = { .first_line = code->first_line, .kind = LW_FRAME_PYTHON };
    struct lw_position position;

    if (lw_target_position(target, walked, &position) && position.line > 0) {
        frame.line = (uint32_t)position.line;
        set_columns(&frame, &position);
    }
    return lw_strings_intern(log->strings, code->name, code->name_len, &frame.name,
                             NULL) &&
           lw_strings_intern(log->strings, code->file, code->file_len, &frame.file,
                             NULL) &&
           lw_stacks_frame(log->stacks, &frame, id, NULL);
}

static bool find_frame(struct lw_sample_log *log, const struct lw_target *target,
                       const struct lw_walk_frame *walked, lw_frame_id *id)
{
    uint64_t hash = place_hash(walked->code, walked->instruction);
    uint32_t number = lw_map_find(&log->by_place, hash, is_place, log, walked);

    if (number) {
        *id = log->places[number - 1].frame;
        return true;
    }
    if (!make_frame(log, target, walked, id) ||
        !lw_grow(&log->places, &log->place_capacity, log->place_count + 1,
                 sizeof(*log->places), NULL) ||
        !lw_map_add(&log->by_place, hash, (uint32_t)log->place_count + 1, NULL))
        return false;
    log->places[log->place_count++] =
        (struct lw_sampled_place){ walked->code, walked->instruction, *id };
    return true;
}

/* The frame of the native function NUMBER. */
static bool find_function(struct lw_sample_log *log, const struct lw_native *native,
                          uint32_t number, lw_frame_id *id)
{
    const struct lw_native_function *function = &native->functions.functions[number];
    struct lw_frame frame = { .kind = LW_FRAME_NATIVE };
    size_t known = log->function_capacity;

    if (number >= known) {
        if (!lw_grow(&log->functions, &log->function_capacity, number + 1,
                     sizeof(*log->functions), NULL))
            return false;
        memset(log->functions + known, 0,
               (log->function_capacity - known) * sizeof(*log->functions));
    }
    if (log->functions[number] == 0 &&
        (!lw_strings_intern(log->strings, function->name, strlen(function->name),
                            &frame.name, NULL) ||
         !lw_strings_intern(log->strings, function->file, strlen(function->file),
                            &frame.file, NULL) ||
         !lw_stacks_frame(log->stacks, &frame, &log->functions[number], NULL)))
        return false;
    *id = log->functions[number];
    return true;
}

/* ---- samples ------------------------------------------------------------------------ */

/* MERGED (see sampler/native.h), if not NULL, says which frames of both kinds. */
static bool push_frames(struct lw_sample_log *log, const struct lw_target *target,
                        const struct lw_walk *walk, const struct lw_merged *merged,
                        lw_stack_id *stack)
{
    size_t count = merged ? merged->count : walk->count;

    for (size_t i = 0; i < count; i++) {
        uint32_t entry = merged ? merged->entries[i] : (uint32_t)i;
        lw_frame_id frame;

        if (!(entry & LW_MERGED_FUNCTION
                  ? find_function(log, target->native, entry & ~LW_MERGED_FUNCTION,
                                  &frame)
                  : find_frame(log, target, &walk->frames[entry], &frame)) ||
            !lw_stacks_push(log->stacks, *stack, frame, stack, NULL))
            return false;
    }
    return true;
}

static bool find_stack(struct lw_sample_log *log, const struct lw_target *target,
                       const struct lw_target_thread *thread, lw_stack_id *stack)
{
    const struct lw_merged *merged =
        target->native ? lw_native_of(target->native, thread) : NULL;

    *stack = LW_NO_STACK;
    if (!thread->has_python && !merged)
        return lw_stacks_push(log->stacks, *stack, log->native_frame, stack, NULL);
    if (!push_frames(log, target, &thread->walk, merged, stack))
        return false;
    return !thread->walk.is_moving ||
           lw_stacks_push(log->stacks, *stack, log->moving_frame, stack, NULL);
}

static bool find_native_stack(struct lw_sample_log *log, const struct lw_target *target,
                              const struct lw_native_thread *thread, lw_stack_id *stack)
{
    *stack = LW_NO_STACK;
    if (!thread->has_stack)
        return lw_stacks_push(log->stacks, *stack, log->native_frame, stack, NULL);
    return push_frames(log, target, NULL, &thread->merged, stack);
}

/* The thread that has WHO's number, which is added if it is new. */
static struct lw_sampled_thread *find_thread(struct lw_sample_log *log,
                                             const struct lw_sampled_thread *who,
                                             uint64_t now_ns)
{
    struct lw_sampled_thread *thread;

    /* Newest last, and mostly the last ones are alive. */
    for (size_t i = log->thread_count; i-- > 0;) {
        thread = &log->threads[i];
        if (thread->number == who->number) {
            thread->last_ns = now_ns;
            memcpy(thread->name, who->name, sizeof(thread->name));
            return thread;
        }
    }
    if (!lw_grow(&log->threads, &log->thread_capacity, log->thread_count + 1,
                 sizeof(*log->threads), NULL))
        return NULL;
    thread = &log->threads[log->thread_count++];
    *thread = *who;
    thread->start_ns = thread->last_ns = now_ns;
    return thread;
}

static bool add_sample(struct lw_sample_log *log, const struct lw_sampled_thread *who,
                       const struct lw_sample *sample)
{
    struct lw_sampled_thread *thread = find_thread(log, who, sample->time_ns);

    if (!thread || log->sample_count >= SAMPLES_MAX ||
        !lw_grow(&log->samples, &log->sample_capacity, log->sample_count + 1,
                 sizeof(*log->samples), NULL))
        return false;
    thread->last = log->sample_count++;
    log->samples[thread->last] = *sample;
    log->samples[thread->last].thread = (uint32_t)(thread - log->threads);
    return true;
}

/* Let the thread's last sample, if it is still there and alike, stand for this one too:
 * hundreds of threads that only wait for work would fill a recording. */
static bool extend_last(struct lw_sample_log *log, const struct lw_sampled_thread *who,
                        const struct lw_sample *sample)
{
    const struct lw_sampled_thread *thread = find_thread(log, who, sample->time_ns);
    struct lw_sample *last;

    if (!thread || thread->last >= log->sample_count)
        return false;
    last = &log->samples[thread->last];
    if (last->thread != (uint32_t)(thread - log->threads) ||
        last->stack != sample->stack || last->state != sample->state)
        return false;
    last->weight_ns += sample->weight_ns;
    return true;
}

static bool add_python(struct lw_sample_log *log, const struct lw_target *target,
                       const struct lw_target_thread *thread, struct lw_sample sample)
{
    struct lw_sampled_thread who = { .tid = thread->tid, .number = thread->number };

    memcpy(who.name, thread->name, sizeof(who.name));
    sample.state = thread->state;
    return find_stack(log, target, thread, &sample.stack) &&
           add_sample(log, &who, &sample);
}

static bool add_native(struct lw_sample_log *log, const struct lw_target *target,
                       const struct lw_native_thread *thread, struct lw_sample sample)
{
    struct lw_sampled_thread who = { .tid = (uint64_t)thread->tid,
                                     .number = thread->number };

    memcpy(who.name, thread->name, sizeof(who.name));
    sample.state = thread->state;
    return find_native_stack(log, target, thread, &sample.stack) &&
           ((thread->is_same && extend_last(log, &who, &sample)) ||
            add_sample(log, &who, &sample));
}

void lw_sample_log_add(struct lw_sample_log *log, const struct lw_target *target,
                       uint64_t now_ns, uint64_t weight_ns)
{
    const struct lw_sample sample = { .time_ns = now_ns, .weight_ns = weight_ns };
    const struct lw_native *native = target->native;

    for (size_t i = 0; i < target->thread_count; i++) {
        const struct lw_target_thread *thread = &target->threads[i];

        if (thread->has_stack && !add_python(log, target, thread, sample))
            log->dropped++;
    }
    for (size_t i = 0; native && i < native->thread_count; i++) {
        if (!native->threads[i].has_python &&
            !add_native(log, target, &native->threads[i], sample))
            log->dropped++;
    }
}
