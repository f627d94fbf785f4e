/* One chunk after the other: checked, decoded, its numbers exchanged for the builder's,
 * added. A row that names something that could not be read is counted and left out. */

#include "lap/reader_series.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "lap/reader.h"

#define CAUSE_DAMAGED "damaged in the file"
#define CAUSE_NAMELESS "what they belong to is damaged in the file"

bool lw_series_start(struct lw_series *s, struct lw_builder *out, unsigned want,
                     struct lw_error *err)
{
    memset(s, 0, sizeof(*s));
    s->out = out;
    s->want = want;
    s->row_limit = LW_LAP_ROWS_MAX;
    s->about.rank = -1;
    s->about.exit_code = -1;
    lw_sums_init(&s->samples);
    lw_chunk_coder_init(&s->coder);
    return lw_builder_process(out, &s->about, &s->process, err);
}

static void release_map(struct lw_id_map *map)
{
    lw_free(map->ranges);
    lw_free(map->ids);
}

void lw_series_release(struct lw_series *s)
{
    release_map(&s->strings);
    release_map(&s->frames);
    release_map(&s->stacks);
    lw_free(s->threads);
    lw_free(s->decoded);
    lw_sums_release(&s->samples);
    lw_chunk_coder_release(&s->coder);
}

/* The file's numbers */

/* Room for COUNT numbers from FIRST on, to be filled in order. NULL with LW_ERR_FORMAT:
 * they were given before, or there are more than 32 bits hold. */
static uint32_t *add_numbers(struct lw_id_map *map, uint64_t first, size_t count,
                             struct lw_error *err)
{
    struct lw_id_range *last =
        map->range_count ? &map->ranges[map->range_count - 1] : NULL;
    uint64_t next = last ? (uint64_t)last->first + last->count : 1;
    uint32_t *room;

    if (first < next || first + count > UINT32_MAX ||
        map->id_count + count > UINT32_MAX) {
        lw_fail(err, LW_ERR_FORMAT, "a chunk gives numbers that were given before");
        return NULL;
    }
    if (!lw_grow(&map->ids, &map->id_capacity, map->id_count + count + 1, /* not NULL */
                 sizeof(*map->ids), err))
        return NULL;
    if (!last || first != next) {
        if (!lw_grow(&map->ranges, &map->range_capacity, map->range_count + 1,
                     sizeof(*map->ranges), err))
            return NULL;
        last = &map->ranges[map->range_count++];
        *last = (struct lw_id_range){ (uint32_t)first, 0, (uint32_t)map->id_count };
    }
    room = map->ids + map->id_count;
    for (size_t i = 0; i < count; i++)
        room[i] = LW_NONE;
    map->id_count += count;
    last->count += (uint32_t)count;
    return room;
}

/* The range that NUMBER would be in: the last one that begins at or below it. */
static const struct lw_id_range *range_of(const struct lw_id_map *map, uint32_t number)
{
    size_t low = 0, high = map->range_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (map->ranges[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &map->ranges[low];
}

/* Number 0 is the same on both sides. */
static inline uint32_t find_number(const struct lw_id_map *map, uint32_t number)
{
    const struct lw_id_range *range = map->ranges;

    if (number == 0)
        return 0;
    if (map->range_count != 1) {
        if (map->range_count == 0)
            return LW_NONE;
        range = range_of(map, number);
    }
    if (number < range->first || number - range->first >= range->count)
        return LW_NONE;
    return map->ids[range->start + (number - range->first)];
}

static inline uint32_t find_thread(const struct lw_series *s, uint32_t number)
{
    return number < s->thread_count ? s->threads[number] : LW_NONE;
}

/* Chunks */

static bool damaged(struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
}

static void saw(struct lw_series *s, uint64_t time_ns)
{
    if (time_ns > s->last_ns)
        s->last_ns = time_ns;
}

static bool decode_rows(struct lw_series *s, const struct lw_chunk *chunk,
                        uint64_t lead[2], void *rows, struct lw_error *err)
{
    size_t size = chunk->rows * lw_rows_size(chunk->kind);
    struct lw_cursor body;

    if (!lw_chunk_decode(&s->coder, chunk, &body, err) ||
        !lw_grow(&s->decoded, &s->decoded_capacity, size + 1, 1, err)) /* never NULL */
        return false;
    memcpy(rows, &s->decoded, sizeof(s->decoded)); /* rows is some struct's ** */
    return lw_rows_decode(chunk->kind, &body, chunk->rows, lead, s->decoded) ||
           damaged(err);
}

static uint64_t number_of(const char *text, size_t len)
{
    uint64_t value;

    return lw_text_u64(text, len, &value) ? value : 0;
}

static bool read_meta(struct lw_series *s, const struct lw_chunk *chunk,
                      struct lw_error *err)
{
    struct lw_process *about = &s->about;
    struct lw_cursor body;

    if (!lw_chunk_decode(&s->coder, chunk, &body, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        const char *key, *value;
        size_t key_len, len;
        char name[24] = "";
        uint64_t number;

        if (!lw_rows_next_pair(&body, &key, &key_len, &value, &len))
            return damaged(err);
        if (key_len < sizeof(name)) /* longer than any that we know */
            memcpy(name, key, key_len);
        number = number_of(value, len);
        if (strcmp(name, "pid") == 0)
            about->pid = number;
        else if (strcmp(name, "ppid") == 0)
            about->parent_pid = number;
        else if (strcmp(name, "rank") == 0)
            about->rank = (int64_t)(number & INT64_MAX);
        else if (strcmp(name, "start_ns") == 0)
            about->start_ns = number;
        else if (strcmp(name, "end_ns") == 0)
            about->end_ns = number;
        else if (strcmp(name, "exit_code") == 0)
            about->exit_code = (int32_t)(number & INT32_MAX);
        else if (strcmp(name, "c_calls") == 0)
            s->has_c_calls = number != 0;
        else if ((strcmp(name, "command") == 0 &&
                  !lw_builder_string(s->out, value, len, &about->command, err)) ||
                 (strcmp(name, "python") == 0 &&
                  !lw_builder_string(s->out, value, len, &about->python, err)))
            return false;
    }
    return true;
}

static bool read_strings(struct lw_series *s, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_string_walk walk;
    struct lw_cursor body;
    uint32_t *ids;

    if (!lw_chunk_decode(&s->coder, chunk, &body, err))
        return false;
    if (!lw_string_walk_start(&walk, &body, chunk->rows))
        return damaged(err);
    ids = add_numbers(&s->strings, walk.first, chunk->rows, err);
    if (!ids)
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        size_t len;
        const char *text = lw_string_walk_next(&walk, &len);

        if (!lw_builder_string(s->out, text, len, &ids[i], err))
            return false;
    }
    return true;
}

static bool read_frames(struct lw_series *s, const struct lw_chunk *chunk,
                        struct lw_error *err)
{
    struct lw_frame *frames;
    uint64_t lead[2];
    uint32_t *ids;

    if (!decode_rows(s, chunk, lead, &frames, err) ||
        !(ids = add_numbers(&s->frames, lead[0], chunk->rows, err)))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_frame *frame = &frames[i];

        frame->name = find_number(&s->strings, frame->name);
        frame->file = find_number(&s->strings, frame->file);
        if (frame->name == LW_NONE || frame->file == LW_NONE) {
            s->nameless[LW_CHUNK_FRAMES]++;
            continue;
        }
        if (frame->kind >= LW_FRAME_KINDS) /* of a later version */
            frame->kind = LW_FRAME_NOTE;
        if (!lw_builder_frame(s->out, frame, &ids[i], err))
            return false;
    }
    return true;
}

static bool read_stacks(struct lw_series *s, const struct lw_chunk *chunk,
                        struct lw_error *err)
{
    struct lw_stack *stacks;
    uint64_t lead[2];
    uint32_t *ids;

    if (!decode_rows(s, chunk, lead, &stacks, err) ||
        !(ids = add_numbers(&s->stacks, lead[0], chunk->rows, err)))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        uint32_t parent = find_number(&s->stacks, stacks[i].parent);
        uint32_t frame = find_number(&s->frames, stacks[i].frame);

        if (parent == LW_NONE || frame == LW_NONE)
            s->nameless[LW_CHUNK_STACKS]++;
        else if (!lw_builder_push(s->out, parent, frame, &ids[i], err))
            return false;
    }
    return true;
}

static bool read_thread(struct lw_series *s, const struct lw_thread_row *row,
                        struct lw_error *err)
{
    struct lw_thread thread = { .process = s->process,
                                .tid = row->tid,
                                .name = find_number(&s->strings, row->name),
                                .start_ns = row->start_ns,
                                .end_ns = row->end_ns };

    if (thread.name == LW_NONE) /* its rows are worth more than its name */
        thread.name = 0;
    saw(s, row->start_ns);
    saw(s, row->end_ns);
    if (!lw_grow(&s->threads, &s->thread_capacity, row->number + 1, sizeof(*s->threads),
                 err))
        return false;
    while (s->thread_count <= row->number)
        s->threads[s->thread_count++] = LW_NONE;
    if (s->threads[row->number] == LW_NONE)
        return lw_builder_thread(s->out, &thread, &s->threads[row->number], err);
    return lw_builder_update_thread(s->out, s->threads[row->number], &thread, err);
}

static bool read_threads(struct lw_series *s, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_thread_row *rows;
    uint64_t lead[2];

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++)
        if (rows[i].number >= LW_LAP_THREADS_MAX)
            return damaged(err);
    for (uint32_t i = 0; i < chunk->rows; i++)
        if (!read_thread(s, &rows[i], err))
            return false;
    return true;
}

static bool read_calls(struct lw_series *s, const struct lw_chunk *chunk,
                       struct lw_error *err)
{
    struct lw_call_row *rows;
    uint64_t lead[2];

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    saw(s, lead[1]);
    for (uint32_t i = 0; i < chunk->rows; i++) {
        rows[i].thread = find_thread(s, rows[i].thread);
        rows[i].stack = find_number(&s->stacks, rows[i].stack);
        if (rows[i].thread == LW_NONE || rows[i].stack == LW_NONE)
            s->nameless[LW_CHUNK_CALLS]++;
        else if (!lw_builder_calls(s->out, &rows[i], err))
            return false;
    }
    return true;
}

/* A state that a later version may have is unknown to us. */
static uint8_t known_state(uint8_t state)
{
    uint8_t plain = state & (uint8_t)~LW_STATE_HAS_GIL;

    return plain <= LW_STATE_GIL_WAIT ? state : state & LW_STATE_HAS_GIL;
}

static bool sum_sample(struct lw_series *s, const struct lw_sample *row,
                       struct lw_error *err)
{
    struct lw_sum sum = { .thread = row->thread,
                          .stack = row->stack,
                          .state = row->state,
                          .first_ns = row->time_ns,
                          .count = row->count,
                          .ns = row->weight_ns };

    return lw_sums_add(&s->samples, &sum, err);
}

static bool read_samples(struct lw_series *s, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    bool summed = !(s->want & LW_WANT_SAMPLES);
    struct lw_sample *rows;
    uint64_t lead[2];
    size_t kept = 0;

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_sample row = rows[i];

        row.thread = find_thread(s, row.thread);
        row.stack = find_number(&s->stacks, row.stack);
        row.state = known_state(row.state);
        row.count = s->has_sums ? 0 : 1; /* of how many is not said */
        saw(s, row.time_ns);
        if (row.thread == LW_NONE || row.stack == LW_NONE)
            s->nameless[LW_CHUNK_SAMPLES]++;
        else if (!summed)
            rows[kept++] = row;
        else if (!sum_sample(s, &row, err))
            return false;
    }
    return lw_builder_samples(s->out, rows, kept, err);
}

/* Is a span with STACK among those that are wanted? */
static bool is_wanted(const struct lw_series *s, lw_stack_id stack)
{
    const struct lw_profile *profile = lw_builder_profile(s->out);
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &(size_t){ 0 });

    if (s->want & LW_WANT_SPANS)
        return true;
    if (stack == LW_NO_STACK)
        return false;
    switch (lw_profile_frame(profile, stacks[stack].frame)->kind) {
    case LW_FRAME_PHASE: return s->want & LW_WANT_PHASES;
    case LW_FRAME_OP:
    case LW_FRAME_MARK: return s->want & LW_WANT_OPS;
    default: return false;
    }
}

static bool read_spans(struct lw_series *s, const struct lw_chunk *chunk,
                       struct lw_error *err)
{
    struct lw_span *rows;
    uint64_t lead[2];
    size_t kept = 0;

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_span row = rows[i];

        row.thread = find_thread(s, row.thread);
        row.stack = find_number(&s->stacks, row.stack);
        if (row.duration_ns > UINT64_MAX - row.start_ns)
            row.duration_ns = UINT64_MAX - row.start_ns; /* so that an end is one */
        saw(s, row.start_ns + row.duration_ns);
        if (row.thread == LW_NONE || row.stack == LW_NONE)
            s->nameless[LW_CHUNK_SPANS]++;
        else if (is_wanted(s, row.stack))
            rows[kept++] = row;
    }
    return lw_builder_spans(s->out, rows, kept, err);
}

static bool read_origins(struct lw_series *s, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_origin *rows;
    uint64_t lead[2];
    size_t kept = 0;

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_origin row = rows[i];

        row.thread = find_thread(s, row.thread);
        row.function = find_number(&s->frames, row.function);
        if (row.function == LW_NONE) { /* what it joins is worth more than its line */
            row.function = 0;
            row.line = 0;
        }
        if (row.thread == LW_NONE)
            s->nameless[LW_CHUNK_ORIGINS]++;
        else
            rows[kept++] = row;
    }
    return lw_builder_origins(s->out, rows, kept, err);
}

static bool read_counters(struct lw_series *s, const struct lw_chunk *chunk,
                          struct lw_error *err)
{
    struct lw_counter_row *rows;
    uint64_t lead[2];

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_counter_point point = { .time_ns = rows[i].time_ns,
                                          .value = rows[i].value,
                                          .process = s->process,
                                          .name =
                                              find_number(&s->strings, rows[i].name) };

        saw(s, point.time_ns);
        if (point.name == LW_NONE)
            s->nameless[LW_CHUNK_COUNTERS]++;
        else if (!lw_builder_counter(s->out, &point, err))
            return false;
    }
    return true;
}

static bool read_losses(struct lw_series *s, const struct lw_chunk *chunk,
                        struct lw_error *err)
{
    struct lw_loss_row *rows;
    uint64_t lead[2];

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        const struct lw_profile *profile = lw_builder_profile(s->out);
        uint32_t cause = find_number(&s->strings, rows[i].cause);
        uint32_t unit = find_number(&s->strings, rows[i].unit);

        if (!lw_builder_loss(
                s->out,
                cause == LW_NONE ? "(damaged)" : lw_profile_text(profile, cause),
                unit == LW_NONE ? "(damaged)" : lw_profile_text(profile, unit),
                s->process, rows[i].count, err))
            return false;
    }
    return true;
}

static bool read_thinned(struct lw_series *s, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_thinned_row *rows;
    uint64_t lead[2];

    if (!decode_rows(s, chunk, lead, &rows, err))
        return false;
    if (!s->thinned_end_ns || lead[0] < s->thinned_start_ns)
        s->thinned_start_ns = lead[0];
    if (lead[1] > s->thinned_end_ns)
        s->thinned_end_ns = lead[1];
    for (uint32_t i = 0; i < chunk->rows; i++)
        if (rows[i].kind < LW_CHUNK_KINDS)
            s->thinned[rows[i].kind] += rows[i].rows;
    return true;
}

/* How each kind is read, and who wants it (0: everybody). */
#define NAMES \
    (LW_WANT_CALLS | LW_WANT_SAMPLES | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS | \
     LW_WANT_COUNTERS | LW_WANT_PHASES | LW_WANT_OPS | LW_WANT_ORIGINS)

static const struct kind {
    bool (*read)(struct lw_series *s, const struct lw_chunk *chunk,
                 struct lw_error *err);
    unsigned wanted_by;
} kinds[LW_CHUNK_KINDS] = {
    [LW_CHUNK_META] = { read_meta, 0 },
    [LW_CHUNK_STRINGS] = { read_strings, 0 }, /* threads and losses have names */
    [LW_CHUNK_FRAMES] = { read_frames, NAMES },
    [LW_CHUNK_STACKS] = { read_stacks, NAMES },
    [LW_CHUNK_THREADS] = { read_threads, 0 },
    [LW_CHUNK_CALLS] = { read_calls, LW_WANT_CALLS },
    [LW_CHUNK_SAMPLES] = { read_samples, LW_WANT_SAMPLES | LW_WANT_SAMPLE_SUMS },
    [LW_CHUNK_SPANS] = { read_spans, LW_WANT_SPANS | LW_WANT_PHASES | LW_WANT_OPS },
    [LW_CHUNK_COUNTERS] = { read_counters, LW_WANT_COUNTERS },
    [LW_CHUNK_LOSSES] = { read_losses, 0 },
    [LW_CHUNK_THINNED] = { read_thinned, 0 },
    [LW_CHUNK_ORIGINS] = { read_origins, LW_WANT_ORIGINS },
};

static bool read_chunk(struct lw_series *s, const struct lw_chunk *chunk,
                       struct lw_error *err)
{
    const struct kind *kind = chunk->kind < LW_CHUNK_KINDS ? &kinds[chunk->kind] : NULL;
    struct lw_error reason;

    if (!kind || !kind->read || (kind->wanted_by && !(kind->wanted_by & s->want)))
        return true;
    if (s->rows[chunk->kind] + chunk->rows > s->row_limit)
        return lw_fail(err, LW_ERR_LIMIT, "more than %llu %s",
                       (unsigned long long)s->row_limit, lw_rows_unit(chunk->kind));
    if (kind->read(s, chunk, &reason)) {
        s->rows[chunk->kind] += chunk->rows;
        return true;
    }
    if (reason.code == LW_ERR_FORMAT) {
        s->damaged[chunk->kind] += chunk->rows;
        return true;
    }
    if (err)
        *err = reason;
    return false;
}

bool lw_series_read(struct lw_series *s, const unsigned char *bytes, size_t len,
                    bool is_growing, struct lw_error *err)
{
    struct lw_chunk_walk walk = { .bytes = bytes, .len = len };
    struct lw_chunk chunk;
    size_t end = 0; /* of the last whole chunk */

    while (lw_chunk_next(&walk, &chunk)) {
        if (!read_chunk(s, &chunk, err))
            return false;
        end = walk.next;
    }
    s->damaged_bytes += walk.damaged_bytes;
    if (is_growing && walk.is_cut)
        s->damaged_bytes -= len - end;
    return true;
}

/* The end */

static bool add_loss(struct lw_series *s, const char *cause, const char *unit,
                     uint64_t count, struct lw_error *err)
{
    return count == 0 || lw_builder_loss(s->out, cause, unit, s->process, count, err);
}

static bool add_thinned(struct lw_series *s, uint64_t start_ns, struct lw_error *err)
{
    double from = 0, to = 0;
    char cause[160];

    if (!s->thinned_end_ns)
        return true;
    if (start_ns && s->thinned_start_ns > start_ns)
        from = (double)(s->thinned_start_ns - start_ns) / 1e9;
    if (start_ns && s->thinned_end_ns > start_ns)
        to = (double)(s->thinned_end_ns - start_ns) / 1e9;
    snprintf(cause, sizeof(cause), "dropped to keep the run small (%.0f s to %.0f s)",
             from, to);
    if (!add_loss(s, cause, lw_rows_unit(LW_CHUNK_SPANS), s->thinned[LW_CHUNK_SPANS],
                  err))
        return false;
    snprintf(cause, sizeof(cause),
             "added up to keep the run small (%.0f s to %.0f s), their times lost",
             from, to);
    return add_loss(s, cause, lw_rows_unit(LW_CHUNK_SAMPLES),
                    s->thinned[LW_CHUNK_SAMPLES], err);
}

static bool add_sums(struct lw_series *s, struct lw_error *err)
{
    for (size_t i = 0; i < s->samples.count; i++) {
        const struct lw_sum *sum = &s->samples.rows[i];
        struct lw_sample sample = { .time_ns = sum->first_ns,
                                    .weight_ns = sum->ns,
                                    .thread = sum->thread,
                                    .stack = sum->stack,
                                    .state = sum->state,
                                    .count = sum->count < UINT32_MAX
                                                 ? (uint32_t)sum->count
                                                 : UINT32_MAX };

        if (!lw_builder_samples(s->out, &sample, 1, err))
            return false;
    }
    return true;
}

bool lw_series_finish(struct lw_series *s, uint64_t start_ns, struct lw_error *err)
{
    for (unsigned kind = 0; kind < LW_CHUNK_KINDS; kind++)
        if (!add_loss(s, CAUSE_DAMAGED, lw_rows_unit(kind), s->damaged[kind], err) ||
            !add_loss(s, CAUSE_NAMELESS, lw_rows_unit(kind), s->nameless[kind], err))
            return false;
    if (!add_loss(s, CAUSE_DAMAGED, "bytes", s->damaged_bytes, err) ||
        !add_thinned(s, start_ns, err) || !add_sums(s, err))
        return false;
    if (s->has_c_calls)
        lw_builder_set_c_calls(s->out, true);
    if (s->thinned[LW_CHUNK_SPANS]) {
        s->about.thinned_start_ns = s->thinned_start_ns;
        s->about.thinned_end_ns = s->thinned_end_ns;
    }
    return lw_builder_update_process(s->out, s->process, &s->about, err);
}
