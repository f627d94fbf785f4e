/* Checks everything that comes in, and adds up call rows.
 *
 * The same function may arrive a thousand times over a run (a recorder saves what was
 * counted since the last time), so rows of equal (thread, stack) are added up whenever
 * the array would have to grow, as well as at the end: it stays as large as the distinct rows,
 * not as the recording. */

#include "model/builder.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

struct lw_builder {
    struct lw_profile *profile; /* owned until finish */
    size_t process_capacity;
    size_t thread_capacity;
    size_t call_capacity;
    size_t sample_capacity;
    size_t span_capacity;
    size_t origin_capacity;
    size_t counter_capacity;
    size_t allocation_capacity;
    size_t function_capacity;
    size_t edge_capacity;
    size_t loss_capacity;
    size_t fact_capacity;
    struct lw_map losses; /* index + 1, by what lw_builder_loss adds up */
    struct lw_map facts;  /* index + 1, by key */
    size_t summed_calls;  /* the first so many rows are distinct and sorted by thread */
};

struct lw_builder *lw_builder_new(struct lw_error *err)
{
    struct lw_builder *builder = lw_zalloc(1, sizeof(*builder), err);
    struct lw_profile *profile;
    lw_string_id unknown;

    if (!builder)
        return NULL;
    profile = lw_zalloc(1, sizeof(*profile), err);
    builder->profile = profile;
    if (!profile || !(profile->strings = lw_strings_new(err)) ||
        !(profile->stacks = lw_stacks_new(err)) ||
        !lw_strings_intern(profile->strings, "(unknown)", 9, &unknown, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    lw_stacks_name_unknown(profile->stacks, unknown);
    return builder;
}

void lw_builder_free(struct lw_builder *builder)
{
    if (!builder)
        return;
    lw_profile_free(builder->profile);
    lw_map_release(&builder->losses);
    lw_map_release(&builder->facts);
    lw_free(builder);
}

const struct lw_profile *lw_builder_profile(const struct lw_builder *builder)
{
    return builder->profile;
}

/* What may be referred to */

static bool check_string(const struct lw_builder *builder, lw_string_id id,
                         struct lw_error *err)
{
    if (id < lw_strings_count(builder->profile->strings))
        return true;
    return lw_fail(err, LW_ERR_FORMAT, "there is no string %u", id);
}

static bool check_frame(const struct lw_builder *builder, lw_frame_id id,
                        struct lw_error *err)
{
    size_t count;

    lw_stacks_frames(builder->profile->stacks, &count);
    return id < count || lw_fail(err, LW_ERR_FORMAT, "there is no frame %u", id);
}

static size_t stack_count(const struct lw_builder *builder)
{
    size_t count;

    lw_stacks_list(builder->profile->stacks, &count);
    return count;
}

static bool check_process(const struct lw_builder *builder, uint32_t index,
                          struct lw_error *err)
{
    return index < builder->profile->process_count ||
           lw_fail(err, LW_ERR_FORMAT, "there is no process %u", index);
}

static bool check_place(const struct lw_builder *builder, uint32_t thread,
                        lw_stack_id stack, struct lw_error *err)
{
    if (thread >= builder->profile->thread_count)
        return lw_fail(err, LW_ERR_FORMAT, "there is no thread %u", thread);
    if (stack >= stack_count(builder))
        return lw_fail(err, LW_ERR_FORMAT, "there is no stack %u", stack);
    return true;
}

/* An index must fit 32 bits and may not be LW_NONE. */
static bool check_room(size_t count, const char *what, struct lw_error *err)
{
    return count < LW_NONE || lw_fail(err, LW_ERR_LIMIT, "more than 2^32 %s", what);
}

/* Strings, frames, stacks */

bool lw_builder_string(struct lw_builder *builder, const char *text, size_t len,
                       lw_string_id *id, struct lw_error *err)
{
    return lw_strings_intern(builder->profile->strings, text, len, id, err);
}

bool lw_builder_frame(struct lw_builder *builder, const struct lw_frame *frame,
                      lw_frame_id *id, struct lw_error *err)
{
    if (frame->kind >= LW_FRAME_KINDS)
        return lw_fail(err, LW_ERR_FORMAT, "there is no kind %u of frame", frame->kind);
    return check_string(builder, frame->name, err) &&
           check_string(builder, frame->file, err) &&
           lw_stacks_frame(builder->profile->stacks, frame, id, err);
}

bool lw_builder_push(struct lw_builder *builder, lw_stack_id parent, lw_frame_id frame,
                     lw_stack_id *id, struct lw_error *err)
{
    if (parent >= stack_count(builder))
        return lw_fail(err, LW_ERR_FORMAT, "there is no stack %u", parent);
    return check_frame(builder, frame, err) &&
           lw_stacks_push(builder->profile->stacks, parent, frame, id, err);
}

/* Processes and threads */

static bool check_process_strings(const struct lw_builder *builder,
                                  const struct lw_process *process,
                                  struct lw_error *err)
{
    return check_string(builder, process->command, err) &&
           check_string(builder, process->python, err);
}

bool lw_builder_process(struct lw_builder *builder, const struct lw_process *process,
                        uint32_t *index, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_process_strings(builder, process, err) ||
        !check_room(profile->process_count, "processes", err) ||
        !lw_grow(&profile->processes, &builder->process_capacity,
                 profile->process_count + 1, sizeof(*process), err))
        return false;
    *index = (uint32_t)profile->process_count;
    profile->processes[profile->process_count++] = *process;
    return true;
}

bool lw_builder_update_process(struct lw_builder *builder, uint32_t index,
                               const struct lw_process *process, struct lw_error *err)
{
    if (!check_process(builder, index, err) ||
        !check_process_strings(builder, process, err))
        return false;
    builder->profile->processes[index] = *process;
    return true;
}

bool lw_builder_thread(struct lw_builder *builder, const struct lw_thread *thread,
                       uint32_t *index, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_process(builder, thread->process, err) ||
        !check_string(builder, thread->name, err) ||
        !check_room(profile->thread_count, "threads", err) ||
        !lw_grow(&profile->threads, &builder->thread_capacity,
                 profile->thread_count + 1, sizeof(*thread), err))
        return false;
    *index = (uint32_t)profile->thread_count;
    profile->threads[profile->thread_count++] = *thread;
    return true;
}

bool lw_builder_update_thread(struct lw_builder *builder, uint32_t index,
                              const struct lw_thread *thread, struct lw_error *err)
{
    if (!check_place(builder, index, LW_NO_STACK, err) ||
        !check_process(builder, thread->process, err) ||
        !check_string(builder, thread->name, err))
        return false;
    builder->profile->threads[index] = *thread;
    return true;
}

/* Calls */

static bool is_sorted_by_thread(const struct lw_call_row *rows, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (rows[i - 1].thread > rows[i].thread)
            return false;
    return true;
}

/* Sort the rows by thread, those of one thread staying in order: count how many each
 * has, which says where each starts, then move every row to its place. */
static bool sort_by_thread(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    size_t count = profile->call_count;
    struct lw_call_row *sorted = NULL;
    size_t *starts = NULL;
    bool done = false;

    if (is_sorted_by_thread(profile->calls, count))
        return true;
    starts = lw_zalloc(profile->thread_count + 1, sizeof(*starts), err);
    if (!starts)
        goto out;
    sorted = lw_alloc(builder->call_capacity * sizeof(*sorted), err);
    if (!sorted)
        goto out;
    for (size_t i = 0; i < count; i++)
        starts[profile->calls[i].thread + 1]++;
    for (size_t t = 0; t < profile->thread_count; t++)
        starts[t + 1] += starts[t];
    for (size_t i = 0; i < count; i++)
        sorted[starts[profile->calls[i].thread]++] = profile->calls[i];

    lw_free(profile->calls);
    profile->calls = sorted;
    sorted = NULL;
    done = true;
out:
    lw_free(starts);
    lw_free(sorted);
    return done;
}

/* Add up rows of equal (thread, stack). Stacks are numbered densely, so `place[stack]`
 * finds the row to add to with one load. It is never cleared between threads: a place
 * counts only if the row found there is of this very thread and stack. */
static bool sum_calls(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    struct lw_call_row *rows;
    uint32_t *place;
    uint32_t count = 0;

    if (builder->summed_calls == profile->call_count)
        return true;
    place = lw_zalloc(stack_count(builder), sizeof(*place), err);
    if (!place)
        return false;
    if (!sort_by_thread(builder, err)) {
        lw_free(place);
        return false;
    }
    rows = profile->calls;
    for (size_t i = 0; i < profile->call_count; i++) {
        struct lw_call_row row = rows[i];
        uint32_t at = place[row.stack];

        if (at < count && rows[at].stack == row.stack &&
            rows[at].thread == row.thread) {
            rows[at].calls += row.calls;
            rows[at].self_ns += row.self_ns;
        } else {
            place[row.stack] = count;
            rows[count++] = row;
        }
    }
    lw_free(place);
    profile->call_count = count;
    builder->summed_calls = count;
    return true;
}

bool lw_builder_calls(struct lw_builder *builder, const struct lw_call_row *row,
                      struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_place(builder, row->thread, row->stack, err) ||
        !check_room(profile->call_count, "rows of calls", err))
        return false;
    if (profile->call_count == builder->call_capacity) {
        /* Summing is worth its time only if enough rows came since the last. */
        if (builder->summed_calls <= profile->call_count / 2 &&
            !sum_calls(builder, err))
            return false;
        if (profile->call_count >= builder->call_capacity / 4 * 3 &&
            !lw_grow(&profile->calls, &builder->call_capacity,
                     builder->call_capacity + 1, sizeof(*row), err))
            return false;
    }
    profile->calls[profile->call_count++] = *row;
    return true;
}

struct lw_trace *lw_builder_trace(struct lw_builder *builder, struct lw_error *err)
{
    if (!builder->profile->trace)
        builder->profile->trace = lw_zalloc(1, sizeof(struct lw_trace), err);
    return builder->profile->trace;
}

static bool finish_trace(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    return !profile->trace ||
           lw_trace_finish(profile->trace, lw_strings_count(profile->strings),
                           stack_count(builder), err);
}

struct lw_profile *lw_builder_finish(struct lw_builder *builder, struct lw_error *err)
{
    struct lw_profile *profile = NULL;

    if (sum_calls(builder, err) && finish_trace(builder, err)) {
        profile = builder->profile;
        builder->profile = NULL;
    }
    lw_builder_free(builder);
    return profile;
}

/* Samples, spans, counters, allocations */

bool lw_builder_samples(struct lw_builder *builder, const struct lw_sample *samples,
                        size_t count, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    size_t threads = profile->thread_count, stacks = stack_count(builder);
    bool good = true;

    for (size_t i = 0; i < count; i++)
        good &= (samples[i].thread < threads) & (samples[i].stack < stacks);
    for (size_t i = 0; !good && i < count; i++)
        if (!check_place(builder, samples[i].thread, samples[i].stack, err))
            return false;
    if (!lw_grow(&profile->samples, &builder->sample_capacity,
                 profile->sample_count + count, sizeof(*samples), err))
        return false;
    if (count)
        memcpy(profile->samples + profile->sample_count, samples,
               count * sizeof(*samples));
    profile->sample_count += count;
    return true;
}

bool lw_builder_spans(struct lw_builder *builder, const struct lw_span *spans,
                      size_t count, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    size_t threads = profile->thread_count, stacks = stack_count(builder);
    bool good = true;

    for (size_t i = 0; i < count; i++)
        good &= (spans[i].thread < threads) & (spans[i].stack < stacks);
    for (size_t i = 0; !good && i < count; i++)
        if (!check_place(builder, spans[i].thread, spans[i].stack, err))
            return false;
    if (!lw_grow(&profile->spans, &builder->span_capacity, profile->span_count + count,
                 sizeof(*spans), err))
        return false;
    if (count)
        memcpy(profile->spans + profile->span_count, spans, count * sizeof(*spans));
    profile->span_count += count;
    return true;
}

bool lw_builder_origins(struct lw_builder *builder, const struct lw_origin *origins,
                        size_t count, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    for (size_t i = 0; i < count; i++)
        if (!check_place(builder, origins[i].thread, LW_NO_STACK, err) ||
            !check_frame(builder, origins[i].function, err))
            return false;
    if (!lw_grow(&profile->origins, &builder->origin_capacity,
                 profile->origin_count + count, sizeof(*origins), err))
        return false;
    if (count)
        memcpy(profile->origins + profile->origin_count, origins,
               count * sizeof(*origins));
    profile->origin_count += count;
    return true;
}

bool lw_builder_counter(struct lw_builder *builder,
                        const struct lw_counter_point *point, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_process(builder, point->process, err) ||
        !check_string(builder, point->name, err) ||
        !lw_grow(&profile->counters, &builder->counter_capacity,
                 profile->counter_count + 1, sizeof(*point), err))
        return false;
    profile->counters[profile->counter_count++] = *point;
    return true;
}

bool lw_builder_allocation(struct lw_builder *builder,
                           const struct lw_allocation *allocation, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_place(builder, allocation->thread, allocation->stack, err) ||
        !lw_grow(&profile->allocations, &builder->allocation_capacity,
                 profile->allocation_count + 1, sizeof(*allocation), err))
        return false;
    profile->allocations[profile->allocation_count++] = *allocation;
    return true;
}

/* A given graph */

bool lw_builder_function(struct lw_builder *builder,
                         const struct lw_graph_function *function, uint32_t *index,
                         struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;

    if (!check_frame(builder, function->frame, err) ||
        !check_room(profile->function_count, "functions", err) ||
        !lw_grow(&profile->functions, &builder->function_capacity,
                 profile->function_count + 1, sizeof(*function), err))
        return false;
    *index = (uint32_t)profile->function_count;
    profile->functions[profile->function_count++] = *function;
    return true;
}

bool lw_builder_edge(struct lw_builder *builder, const struct lw_graph_edge *edge,
                     struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    uint32_t larger = edge->caller > edge->callee ? edge->caller : edge->callee;

    if (larger >= profile->function_count)
        return lw_fail(err, LW_ERR_FORMAT, "there is no function %u", larger);
    if (!lw_grow(&profile->edges, &builder->edge_capacity, profile->edge_count + 1,
                 sizeof(*edge), err))
        return false;
    profile->edges[profile->edge_count++] = *edge;
    return true;
}

/* Losses and facts */

static bool is_loss(const void *owner, uint32_t number, const void *key)
{
    const struct lw_profile *profile = owner;
    const struct lw_loss *a = &profile->losses[number - 1], *b = key;

    return a->cause == b->cause && a->unit == b->unit && a->process == b->process;
}

bool lw_builder_loss(struct lw_builder *builder, const char *cause, const char *unit,
                     uint32_t process, uint64_t count, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    struct lw_loss loss = { .process = process, .count = count };
    uint64_t hash;
    uint32_t number;

    if ((process != LW_NONE && !check_process(builder, process, err)) ||
        !lw_builder_string(builder, cause, strlen(cause), &loss.cause, err) ||
        !lw_builder_string(builder, unit, strlen(unit), &loss.unit, err))
        return false;
    hash = lw_hash_u64(lw_hash_u64((uint64_t)loss.cause << 32 | loss.unit) ^ process);
    number = lw_map_find(&builder->losses, hash, is_loss, profile, &loss);
    if (number) {
        profile->losses[number - 1].count += count;
        return true;
    }
    if (!check_room(profile->loss_count, "losses", err) ||
        !lw_grow(&profile->losses, &builder->loss_capacity, profile->loss_count + 1,
                 sizeof(loss), err) ||
        !lw_map_add(&builder->losses, hash, (uint32_t)profile->loss_count + 1, err))
        return false;
    profile->losses[profile->loss_count++] = loss;
    return true;
}

static bool is_fact(const void *owner, uint32_t number, const void *key)
{
    const struct lw_profile *profile = owner;
    const struct lw_fact *fact = key;

    return profile->facts[number - 1].key == fact->key;
}

bool lw_builder_fact(struct lw_builder *builder, const char *key, const char *value,
                     size_t len, struct lw_error *err)
{
    struct lw_profile *profile = builder->profile;
    struct lw_fact fact;
    uint64_t hash;
    uint32_t number;

    if (!lw_builder_string(builder, key, strlen(key), &fact.key, err) ||
        !lw_builder_string(builder, value, len, &fact.value, err))
        return false;
    hash = lw_hash_u64(fact.key);
    number = lw_map_find(&builder->facts, hash, is_fact, profile, &fact);
    if (number) {
        profile->facts[number - 1] = fact;
        return true;
    }
    if (!check_room(profile->fact_count, "facts", err) ||
        !lw_grow(&profile->facts, &builder->fact_capacity, profile->fact_count + 1,
                 sizeof(fact), err) ||
        !lw_map_add(&builder->facts, hash, (uint32_t)profile->fact_count + 1, err))
        return false;
    profile->facts[profile->fact_count++] = fact;
    return true;
}

void lw_builder_set_times(struct lw_builder *builder, uint64_t start_ns,
                          uint64_t end_ns, uint64_t wall_start_ns)
{
    builder->profile->start_ns = start_ns;
    builder->profile->end_ns = end_ns;
    builder->profile->wall_start_ns = wall_start_ns;
}

void lw_builder_set_c_calls(struct lw_builder *builder, bool has_c_calls)
{
    builder->profile->has_c_calls = has_c_calls;
}
