/* Collects what is to be written: rows are checked, copied, and wait for the flush. */

#include "lap/writer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "lap/writer_state.h"

#define DEFAULT_SEGMENT_BYTES (8u << 20)
#define DEFAULT_SEGMENT_NS 120000000000u
#define DEFAULT_JOIN_BYTES (64u << 10)
#define DEFAULT_PENDING_BYTES (16u << 20)
#define DEFAULT_LEVEL 1

/* Opening */

static void release(struct lw_lap_writer *w)
{
    lw_writer_wait_for_sealing(w);
    if (w->fd >= 0)
        close(w->fd);
    for (size_t i = 0; i < w->meta_count; i++) {
        lw_free(w->metas[i].key);
        lw_free(w->metas[i].value);
    }
    lw_free(w->metas);
    lw_free(w->threads);
    lw_free(w->samples.rows);
    lw_free(w->spans.rows);
    lw_free(w->counters.rows);
    lw_free(w->origins.rows);
    lw_free(w->losses);
    lw_sums_release(&w->calls);
    lw_strings_free(w->strings);
    lw_stacks_free(w->stacks);
    lw_emit_release(&w->emit);
    lw_free(w->path);
    lw_free(w->folder);
    lw_free(w);
}

struct lw_lap_writer *lw_lap_writer_open(const char *folder, uint32_t number,
                                         const struct lw_lap_writer_options *options,
                                         struct lw_error *err)
{
    struct lw_lap_writer *w = lw_zalloc(1, sizeof(*w), err);

    lw_assert(number > 0);
    if (!w)
        return NULL;
    w->fd = -1;
    w->number = number;
    lw_sums_init(&w->calls);
    if (options)
        w->options = *options;
    if (!w->options.segment_bytes)
        w->options.segment_bytes = DEFAULT_SEGMENT_BYTES;
    if (!w->options.segment_ns)
        w->options.segment_ns = DEFAULT_SEGMENT_NS;
    if (!w->options.join_bytes)
        w->options.join_bytes = DEFAULT_JOIN_BYTES;
    if (!w->options.pending_bytes)
        w->options.pending_bytes = DEFAULT_PENDING_BYTES;
    if (!w->options.level)
        w->options.level = DEFAULT_LEVEL;
    lw_emit_init(&w->emit, w->options.level);

    w->folder = lw_copy_text(folder, strlen(folder), err);
    if (!w->folder || !(w->strings = lw_strings_new(err)) ||
        !(w->stacks = lw_stacks_new(err)) || !lw_writer_start_segment(w, 1, err)) {
        release(w);
        return NULL;
    }
    /* The first string, frame and stack need no words: format.h says what they are. */
    w->strings_written = w->frames_written = w->stacks_written = 1;
    return w;
}

/* Adding */

bool lw_lap_writer_meta(struct lw_lap_writer *w, const char *key, const char *value,
                        struct lw_error *err)
{
    size_t len = strnlen(value, LW_LAP_TEXT_MAX), i = 0;
    char *copy = lw_copy_text(value, len, err);

    if (!copy)
        return false;
    while (i < w->meta_count && strcmp(w->metas[i].key, key) != 0)
        i++;
    if (i == w->meta_count) {
        char *name = NULL;

        if (!lw_grow(&w->metas, &w->meta_capacity, i + 1, sizeof(*w->metas), err) ||
            !(name = lw_copy_text(key, strlen(key), err))) {
            lw_free(copy);
            return false;
        }
        w->metas[i] = (struct lw_writer_meta){ .key = name };
        w->meta_count++;
    }
    lw_free(w->metas[i].value);
    w->metas[i].value = copy;
    w->metas[i].is_new = true;
    return true;
}

bool lw_lap_writer_meta_u64(struct lw_lap_writer *w, const char *key, uint64_t value,
                            struct lw_error *err)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return lw_lap_writer_meta(w, key, text, err);
}

bool lw_lap_writer_string(struct lw_lap_writer *w, const char *text, size_t len,
                          lw_string_id *id, struct lw_error *err)
{
    return lw_strings_intern(w->strings, text,
                             len < LW_LAP_TEXT_MAX ? len : LW_LAP_TEXT_MAX, id, err);
}

static bool check_id(size_t id, size_t count, const char *what, struct lw_error *err)
{
    if (id < count)
        return true;
    return lw_fail(err, LW_ERR_FORMAT, "there is no %s %zu in this recording", what,
                   id);
}

static bool check_string(const struct lw_lap_writer *w, lw_string_id id,
                         struct lw_error *err)
{
    return check_id(id, lw_strings_count(w->strings), "string", err);
}

bool lw_lap_writer_frame(struct lw_lap_writer *w, const struct lw_frame *frame,
                         lw_frame_id *id, struct lw_error *err)
{
    return check_string(w, frame->name, err) && check_string(w, frame->file, err) &&
           lw_stacks_frame(w->stacks, frame, id, err);
}

bool lw_lap_writer_push(struct lw_lap_writer *w, lw_stack_id parent, lw_frame_id frame,
                        lw_stack_id *id, struct lw_error *err)
{
    size_t stacks, frames;

    lw_stacks_list(w->stacks, &stacks);
    lw_stacks_frames(w->stacks, &frames);
    return check_id(parent, stacks, "stack", err) &&
           check_id(frame, frames, "frame", err) &&
           lw_stacks_push(w->stacks, parent, frame, id, err);
}

bool lw_lap_writer_thread(struct lw_lap_writer *w, const struct lw_thread *thread,
                          uint32_t *number, struct lw_error *err)
{
    if (w->thread_count >= LW_LAP_THREADS_MAX)
        return lw_fail(err, LW_ERR_LIMIT, "more than %u threads in a process",
                       LW_LAP_THREADS_MAX);
    if (!check_string(w, thread->name, err) ||
        !lw_grow(&w->threads, &w->thread_capacity, w->thread_count + 1,
                 sizeof(*w->threads), err))
        return false;
    *number = (uint32_t)w->thread_count++;
    return lw_lap_writer_update_thread(w, *number, thread, err);
}

bool lw_lap_writer_update_thread(struct lw_lap_writer *w, uint32_t number,
                                 const struct lw_thread *thread, struct lw_error *err)
{
    if (!check_id(number, w->thread_count, "thread", err) ||
        !check_string(w, thread->name, err))
        return false;
    w->threads[number].row = (struct lw_thread_row){ .number = number,
                                                     .name = thread->name,
                                                     .tid = thread->tid,
                                                     .start_ns = thread->start_ns,
                                                     .end_ns = thread->end_ns };
    w->threads[number].is_new = true;
    return true;
}

/* THREAD and STACK are the largest of some rows. */
static bool check_place(const struct lw_lap_writer *w, uint32_t thread,
                        lw_stack_id stack, struct lw_error *err)
{
    size_t stacks;

    lw_stacks_list(w->stacks, &stacks);
    return check_id(thread, w->thread_count, "thread", err) &&
           check_id(stack, stacks, "stack", err);
}

/* Adding the negative, modulo 2^64. Their sums are there, so it needs no memory. */
static void take_back(struct lw_lap_writer *w, const struct lw_call_row *rows,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lw_sum sum = { .thread = rows[i].thread,
                              .stack = rows[i].stack,
                              .first_ns = UINT64_MAX,
                              .count = -rows[i].calls,
                              .ns = -rows[i].self_ns };
        bool added = lw_sums_add(&w->calls, &sum, NULL);

        lw_assert(added);
    }
}

bool lw_lap_writer_calls(struct lw_lap_writer *w, const struct lw_call_row *rows,
                         size_t count, uint64_t start_ns, uint64_t end_ns,
                         struct lw_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!check_place(w, rows[i].thread, rows[i].stack, err))
            return false;
    for (size_t i = 0; i < count; i++) {
        struct lw_sum sum = { .thread = rows[i].thread,
                              .stack = rows[i].stack,
                              .first_ns = start_ns,
                              .count = rows[i].calls,
                              .ns = rows[i].self_ns };

        if (!lw_sums_add(&w->calls, &sum, err)) {
            take_back(w, rows, i);
            return false;
        }
    }
    if (!w->calls_end_ns || start_ns < w->calls_start_ns)
        w->calls_start_ns = start_ns;
    if (end_ns > w->calls_end_ns)
        w->calls_end_ns = end_ns;
    return true;
}

static size_t pending_bytes(const struct lw_lap_writer *w)
{
    return w->samples.count * sizeof(struct lw_sample) +
           w->spans.count * sizeof(struct lw_span) +
           w->counters.count * sizeof(struct lw_counter_row) +
           w->origins.count * sizeof(struct lw_origin);
}

/* Take COUNT rows of SIZE bytes; with no room for them even after a flush, count. */
static bool add_pending(struct lw_lap_writer *w, struct lw_writer_pending *pending,
                        const void *rows, size_t count, size_t size,
                        struct lw_error *err)
{
    if (pending_bytes(w) + count * size > w->options.pending_bytes &&
        (w->failure || !lw_lap_writer_flush(w, NULL)) && pending_bytes(w) > 0) {
        pending->lost += count;
        return true;
    }
    if (!lw_grow(&pending->rows, &pending->capacity, pending->count + count, size, err))
        return false;
    if (count)
        memcpy((char *)pending->rows + pending->count * size, rows, count * size);
    pending->count += count;
    return true;
}

bool lw_lap_writer_samples(struct lw_lap_writer *w, const struct lw_sample *samples,
                           size_t count, struct lw_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!check_place(w, samples[i].thread, samples[i].stack, err))
            return false;
    return add_pending(w, &w->samples, samples, count, sizeof(*samples), err);
}

bool lw_lap_writer_spans(struct lw_lap_writer *w, const struct lw_span *spans,
                         size_t count, struct lw_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!check_place(w, spans[i].thread, spans[i].stack, err))
            return false;
    return add_pending(w, &w->spans, spans, count, sizeof(*spans), err);
}

bool lw_lap_writer_origins(struct lw_lap_writer *w, const struct lw_origin *origins,
                           size_t count, struct lw_error *err)
{
    size_t frames;

    lw_stacks_frames(w->stacks, &frames);
    for (size_t i = 0; i < count; i++)
        if (!check_place(w, origins[i].thread, LW_NO_STACK, err) ||
            !check_id(origins[i].function, frames, "frame", err))
            return false;
    return add_pending(w, &w->origins, origins, count, sizeof(*origins), err);
}

bool lw_lap_writer_counter(struct lw_lap_writer *w,
                           const struct lw_counter_point *point, struct lw_error *err)
{
    struct lw_counter_row row = { .time_ns = point->time_ns,
                                  .value = point->value,
                                  .name = point->name };

    return check_string(w, point->name, err) &&
           add_pending(w, &w->counters, &row, 1, sizeof(row), err);
}

bool lw_lap_writer_loss(struct lw_lap_writer *w, const char *cause, const char *unit,
                        uint64_t count, struct lw_error *err)
{
    lw_string_id cause_id, unit_id;

    if (count == 0)
        return true;
    if (!lw_lap_writer_string(w, cause, strlen(cause), &cause_id, err) ||
        !lw_lap_writer_string(w, unit, strlen(unit), &unit_id, err))
        return false;
    for (size_t i = 0; i < w->loss_count; i++)
        if (w->losses[i].cause == cause_id && w->losses[i].unit == unit_id) {
            w->losses[i].count += count;
            return true;
        }
    if (!lw_grow(&w->losses, &w->loss_capacity, w->loss_count + 1, sizeof(*w->losses),
                 err))
        return false;
    w->losses[w->loss_count++] = (struct lw_loss_row){ cause_id, unit_id, count };
    return true;
}

/* Ending */

bool lw_lap_writer_close(struct lw_lap_writer *w, struct lw_error *err)
{
    struct lw_error ignored;
    struct lw_seal how;
    bool done;

    if (!w)
        return true;
    done = lw_writer_flush_now(w, err);
    for (int also_calls = 0; !done && also_calls < 2; also_calls++) {
        lw_writer_drop(w, also_calls);
        if (lw_writer_flush_now(w, &ignored))
            break;
    }
    lw_writer_wait_for_sealing(w);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    how = lw_writer_how_to_seal(w);
    /* As with any other segment, that it cannot be sealed costs space only. */
    if (!lw_segment_seal(w->path, &how, &ignored))
        ignored.code = LW_OK;
    release(w);
    return done;
}
