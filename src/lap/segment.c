/* Rewrites segments: all chunks of one kind after the other, in the order in which
 * kinds may refer to each other, small chunks joined on the way.
 *
 *     META STRINGS FRAMES STACKS THREADS CALLS SAMPLES SPANS COUNTERS LOSSES THINNED
 *     ORIGINS
 *
 * Chunks that are large already are copied as they are, so that sealing a segment of
 * megabytes costs little more than copying it. */

#include "lap/segment.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "lap/emit.h"

/* A chunk of this many rows is not worth joining with others. */
#define SMALL_ROWS 4096u
/* Sealing rewrites only when small chunks make up more than an eighth of the file. */
#define SMALL_SHARE 8u
/* What a segment of a hostile or broken run may have at most, to be read as a whole. */
#define SEGMENT_BYTES_MAX ((size_t)1 << 30)

struct pair {
    const char *key, *value; /* in the arena */
    size_t key_len, value_len;
};

/* Rows of one kind that wait to be joined. */
struct joined {
    void *rows; /* owned */
    size_t count, capacity;
    uint64_t first; /* of FRAMES and STACKS: number of the first */
};

struct input {
    struct lw_file_view view;
    struct lw_segment_head head;
};

struct rewrite {
    struct input *inputs; /* owned; in the order of the series */
    size_t input_count;
    bool thin;

    struct lw_emit emit;
    struct lw_arena arena;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    struct lw_thread_row *threads; /* one a number */
    size_t thread_count, thread_capacity;
    struct lw_loss_row *losses;
    size_t loss_count, loss_capacity;
    struct lw_sums calls, samples;
    uint64_t calls_start_ns, calls_end_ns;
    struct joined joined;
    uint64_t dropped_spans, summed_samples;
    uint64_t thinned_start_ns, thinned_end_ns; /* by earlier thinning */
    void *rows;                                /* of the chunk at hand */
    size_t rows_capacity;
};

static bool decode_rows(struct rewrite *r, const struct lw_chunk *chunk,
                        uint64_t lead[2], void *rows, struct lw_error *err)
{
    size_t size = chunk->rows * lw_rows_size(chunk->kind);
    struct lw_cursor body;

    if (!lw_chunk_decode(&r->emit.coder, chunk, &body, err) ||
        !lw_grow(&r->rows, &r->rows_capacity, size + 1, 1, err)) /* never NULL */
        return false;
    memcpy(rows, &r->rows, sizeof(r->rows)); /* rows is some struct's ** */
    return lw_rows_decode(chunk->kind, &body, chunk->rows, lead, r->rows) ||
           lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
}

static bool take_meta(struct rewrite *r, const struct lw_chunk *chunk,
                      struct lw_error *err)
{
    struct lw_cursor body;

    if (!lw_chunk_decode(&r->emit.coder, chunk, &body, err))
        return false;
    for (uint32_t n = 0; n < chunk->rows; n++) {
        struct pair pair;
        size_t i = 0;

        if (!lw_rows_next_pair(&body, &pair.key, &pair.key_len, &pair.value,
                               &pair.value_len))
            return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
        pair.key = lw_arena_copy(&r->arena, pair.key, pair.key_len, err);
        pair.value = lw_arena_copy(&r->arena, pair.value, pair.value_len, err);
        if (!pair.key || !pair.value ||
            !lw_grow(&r->pairs, &r->pair_capacity, r->pair_count + 1, sizeof(*r->pairs),
                     err))
            return false;
        while (i < r->pair_count && strcmp(r->pairs[i].key, pair.key) != 0)
            i++;
        if (i == r->pair_count)
            r->pair_count++;
        r->pairs[i] = pair;
    }
    return true;
}

static bool take_strings(struct rewrite *r, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_string_walk walk;
    struct lw_cursor body;

    if (!lw_chunk_decode(&r->emit.coder, chunk, &body, err))
        return false;
    if (!lw_string_walk_start(&walk, &body, chunk->rows))
        return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
    for (uint32_t i = 0; i < chunk->rows; i++) {
        size_t len;
        const char *text = lw_string_walk_next(&walk, &len);

        lw_emit_string(&r->emit, walk.first + i, text, len);
    }
    return true;
}

static bool take_threads(struct rewrite *r, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_thread_row *rows;
    uint64_t lead[2];

    if (!decode_rows(r, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        size_t at = 0;

        /* Nearly always in order, so the row is where its number says, or at the end. */
        if (rows[i].number < r->thread_count &&
            r->threads[rows[i].number].number == rows[i].number)
            at = rows[i].number;
        else
            while (at < r->thread_count && r->threads[at].number != rows[i].number)
                at++;
        if (!lw_grow(&r->threads, &r->thread_capacity, r->thread_count + 1,
                     sizeof(*r->threads), err))
            return false;
        if (at == r->thread_count)
            r->thread_count++;
        r->threads[at] = rows[i];
    }
    return true;
}

static bool take_calls(struct rewrite *r, const struct lw_chunk *chunk,
                       struct lw_error *err)
{
    struct lw_call_row *rows;
    uint64_t lead[2];

    if (!decode_rows(r, chunk, lead, &rows, err))
        return false;
    if (!r->calls_end_ns || lead[0] < r->calls_start_ns)
        r->calls_start_ns = lead[0];
    if (lead[1] > r->calls_end_ns)
        r->calls_end_ns = lead[1];
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_sum sum = { .thread = rows[i].thread,
                              .stack = rows[i].stack,
                              .count = rows[i].calls,
                              .ns = rows[i].self_ns };

        if (!lw_sums_add(&r->calls, &sum, err))
            return false;
    }
    return true;
}

static bool take_sample_sums(struct rewrite *r, const struct lw_chunk *chunk,
                             struct lw_error *err)
{
    struct lw_sample *rows;
    uint64_t lead[2];

    if (!decode_rows(r, chunk, lead, &rows, err))
        return false;
    for (uint32_t i = 0; i < chunk->rows; i++) {
        struct lw_sum sum = { .thread = rows[i].thread,
                              .stack = rows[i].stack,
                              .state = rows[i].state,
                              .first_ns = rows[i].time_ns,
                              .count = 1,
                              .ns = rows[i].weight_ns };

        if (!lw_sums_add(&r->samples, &sum, err))
            return false;
    }
    return true;
}

static bool take_losses(struct rewrite *r, const struct lw_chunk *chunk,
                        struct lw_error *err)
{
    struct lw_loss_row *rows;
    uint64_t lead[2];

    if (!decode_rows(r, chunk, lead, &rows, err))
        return false;
    for (uint32_t n = 0; n < chunk->rows; n++) {
        size_t i = 0;

        if (!lw_grow(&r->losses, &r->loss_capacity, r->loss_count + 1,
                     sizeof(*r->losses), err))
            return false;
        while (i < r->loss_count && (r->losses[i].cause != rows[n].cause ||
                                     r->losses[i].unit != rows[n].unit))
            i++;
        if (i == r->loss_count)
            r->losses[r->loss_count++] = rows[n];
        else
            r->losses[i].count += rows[n].count;
    }
    return true;
}

static bool take_thinned(struct rewrite *r, const struct lw_chunk *chunk,
                         struct lw_error *err)
{
    struct lw_thinned_row *rows;
    uint64_t lead[2];

    if (!decode_rows(r, chunk, lead, &rows, err))
        return false;
    if (!r->thinned_end_ns || lead[0] < r->thinned_start_ns)
        r->thinned_start_ns = lead[0];
    if (lead[1] > r->thinned_end_ns)
        r->thinned_end_ns = lead[1];
    for (uint32_t i = 0; i < chunk->rows; i++) {
        if (rows[i].kind == LW_CHUNK_SPANS)
            r->dropped_spans += rows[i].rows;
        if (rows[i].kind == LW_CHUNK_SAMPLES)
            r->summed_samples += rows[i].rows;
    }
    return true;
}

static void emit_joined(struct rewrite *r, enum lw_chunk_kind kind)
{
    lw_emit_rows(&r->emit, kind, &r->joined.first, r->joined.rows, r->joined.count);
    r->joined.count = 0;
}

static bool copy_chunk(struct rewrite *r, const struct lw_chunk *chunk,
                       struct lw_error *err)
{
    if (!lw_chunk_is_whole(chunk))
        return lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
    lw_buf_add(&r->emit.out, chunk->head, LW_CHUNK_HEAD_BYTES + chunk->stored_bytes);
    return true;
}

static bool join(struct rewrite *r, const struct lw_chunk *chunk, struct lw_error *err)
{
    bool numbered = chunk->kind == LW_CHUNK_FRAMES || chunk->kind == LW_CHUNK_STACKS;
    size_t size = lw_rows_size(chunk->kind);
    uint64_t lead[2];
    void *rows;

    if (chunk->rows >= SMALL_ROWS) {
        emit_joined(r, chunk->kind);
        return copy_chunk(r, chunk, err);
    }
    if (!decode_rows(r, chunk, lead, &rows, err) ||
        !lw_grow(&r->joined.rows, &r->joined.capacity,
                 (r->joined.count + chunk->rows) * size + 1, 1, err))
        return false;
    if (r->joined.count >= SMALL_ROWS ||
        (numbered && lead[0] != r->joined.first + r->joined.count))
        emit_joined(r, chunk->kind);
    if (!r->joined.count)
        r->joined.first = lead[0];
    memcpy((char *)r->joined.rows + r->joined.count * size, rows, chunk->rows * size);
    r->joined.count += chunk->rows;
    return true;
}

static bool take(struct rewrite *r, const struct lw_chunk *chunk, bool was_thinned,
                 struct lw_error *err)
{
    switch (chunk->kind) {
    case LW_CHUNK_META: return take_meta(r, chunk, err);
    case LW_CHUNK_STRINGS: return take_strings(r, chunk, err);
    case LW_CHUNK_THREADS: return take_threads(r, chunk, err);
    case LW_CHUNK_CALLS: return take_calls(r, chunk, err);
    case LW_CHUNK_LOSSES: return take_losses(r, chunk, err);
    case LW_CHUNK_THINNED: return take_thinned(r, chunk, err);
    case LW_CHUNK_SAMPLES:
        if (!r->thin)
            return join(r, chunk, err);
        if (!was_thinned)
            r->summed_samples += chunk->rows;
        return take_sample_sums(r, chunk, err);
    case LW_CHUNK_SPANS:
    case LW_CHUNK_ORIGINS: /* go where their spans go */
        if (!r->thin)
            return join(r, chunk, err);
        if (chunk->kind == LW_CHUNK_SPANS)
            r->dropped_spans += chunk->rows;
        return lw_chunk_is_whole(chunk) ||
               lw_fail(err, LW_ERR_FORMAT, "a chunk is damaged");
    case LW_CHUNK_FRAMES:
    case LW_CHUNK_STACKS:
    case LW_CHUNK_COUNTERS: return join(r, chunk, err);
    default: return copy_chunk(r, chunk, err); /* of a later version */
    }
}

static void emit_thinned(struct rewrite *r)
{
    const struct input *first = &r->inputs[0], *last = &r->inputs[r->input_count - 1];
    uint64_t window[2] = { first->head.start_ns, last->head.end_ns };
    struct lw_thinned_row rows[2];
    size_t n = 0;

    if (window[1] < window[0])
        window[1] = r->calls_end_ns > window[0] ? r->calls_end_ns : window[0];
    if (r->thinned_end_ns > window[1])
        window[1] = r->thinned_end_ns;
    if (r->thinned_end_ns && r->thinned_start_ns < window[0])
        window[0] = r->thinned_start_ns;
    if (r->summed_samples)
        rows[n++] = (struct lw_thinned_row){ LW_CHUNK_SAMPLES, LW_THINNED_SUMMED,
                                             r->summed_samples };
    if (r->dropped_spans)
        rows[n++] = (struct lw_thinned_row){ LW_CHUNK_SPANS, LW_THINNED_DROPPED,
                                             r->dropped_spans };
    lw_emit_rows(&r->emit, LW_CHUNK_THINNED, window, rows, n);
}

/* All chunks of KIND are taken: what was held back of them comes out. */
static void finish_kind(struct rewrite *r, unsigned kind)
{
    switch (kind) {
    case LW_CHUNK_META:
        for (size_t i = 0; i < r->pair_count; i++)
            lw_emit_pair(&r->emit, r->pairs[i].key, r->pairs[i].value,
                         r->pairs[i].value_len);
        lw_emit_pairs(&r->emit);
        break;
    case LW_CHUNK_STRINGS: lw_emit_strings(&r->emit); break;
    case LW_CHUNK_THREADS:
        lw_emit_rows(&r->emit, LW_CHUNK_THREADS, NULL, r->threads, r->thread_count);
        break;
    case LW_CHUNK_CALLS:
        lw_sums_sort(&r->calls);
        lw_emit_calls(&r->emit, &r->calls, r->calls_start_ns, r->calls_end_ns);
        break;
    case LW_CHUNK_LOSSES:
        lw_emit_rows(&r->emit, LW_CHUNK_LOSSES, NULL, r->losses, r->loss_count);
        break;
    case LW_CHUNK_THINNED: emit_thinned(r); break;
    case LW_CHUNK_SAMPLES:
        if (r->thin) {
            lw_sums_sort(&r->samples);
            lw_emit_sample_sums(&r->emit, &r->samples);
        }
        emit_joined(r, LW_CHUNK_SAMPLES);
        break;
    case LW_CHUNK_FRAMES:
    case LW_CHUNK_STACKS:
    case LW_CHUNK_SPANS:
    case LW_CHUNK_COUNTERS:
    case LW_CHUNK_ORIGINS: emit_joined(r, kind); break;
    default: break;
    }
}

static struct lw_chunk_walk walk_of(const struct input *input)
{
    return (struct lw_chunk_walk){ .bytes = input->view.bytes + LW_SEGMENT_HEAD_BYTES,
                                   .len = input->view.len - LW_SEGMENT_HEAD_BYTES };
}

/* KIND LW_CHUNK_KINDS stands for all kinds that we do not know. */
static bool take_kind(struct rewrite *r, unsigned kind, struct lw_error *err)
{
    for (size_t i = 0; i < r->input_count; i++) {
        const struct input *input = &r->inputs[i];
        bool was_thinned = input->head.flags & LW_SEGMENT_THINNED;
        struct lw_chunk_walk walk = walk_of(input);
        struct lw_chunk chunk;

        while (lw_chunk_next(&walk, &chunk)) {
            unsigned known =
                chunk.kind && chunk.kind < LW_CHUNK_KINDS ? chunk.kind : LW_CHUNK_KINDS;

            if (known == kind && !take(r, &chunk, was_thinned, err))
                return false;
        }
        if (walk.damaged_places)
            return lw_fail(err, LW_ERR_FORMAT, "the segment is damaged");
    }
    finish_kind(r, kind);
    return true;
}

static void release(struct rewrite *r)
{
    for (size_t i = 0; i < r->input_count; i++)
        lw_file_close(&r->inputs[i].view);
    lw_free(r->inputs);
    lw_free(r->pairs);
    lw_free(r->threads);
    lw_free(r->losses);
    lw_free(r->joined.rows);
    lw_free(r->rows);
    lw_sums_release(&r->calls);
    lw_sums_release(&r->samples);
    lw_arena_release(&r->arena);
    lw_emit_release(&r->emit);
}

/* Read COUNT segments. *R need not be initialised; release() it in any case. */
static bool open_inputs(struct rewrite *r, const struct lw_folder *folder,
                        const char *const *names, size_t count, int level,
                        struct lw_error *err)
{
    memset(r, 0, sizeof(*r));
    lw_emit_init(&r->emit, level);
    lw_sums_init(&r->calls);
    lw_sums_init(&r->samples);
    r->inputs = lw_zalloc(count, sizeof(*r->inputs), err);
    if (!r->inputs)
        return false;
    for (; r->input_count < count; r->input_count++) {
        struct input *input = &r->inputs[r->input_count];

        if (!lw_folder_read(&input->view, folder, names[r->input_count],
                            SEGMENT_BYTES_MAX, err))
            return false;
        if (!lw_segment_head_get(&input->head, input->view.bytes, input->view.len,
                                 err)) {
            lw_error_prefix(err, "%s/%s", folder->path, names[r->input_count]);
            lw_file_close(&input->view);
            return false;
        }
    }
    return true;
}

/* Put what the inputs hold into NAME of FOLDER, with HEAD. */
static bool rewrite(struct rewrite *r, const struct lw_folder *folder, const char *name,
                    const struct lw_segment_head *head, struct lw_error *err)
{
    struct lw_buf *out = &r->emit.out;

    if (lw_buf_extend(out, LW_SEGMENT_HEAD_BYTES))
        lw_segment_head_put(head, (unsigned char *)out->bytes);
    for (unsigned kind = 1; kind <= LW_CHUNK_KINDS; kind++)
        if (!take_kind(r, kind, err)) {
            lw_error_prefix(err, "%s/%s", folder->path, name);
            return false;
        }
    return lw_buf_check(out, err) &&
           lw_folder_replace(folder, name, out->bytes, out->len, err);
}

static bool is_worth_joining(const struct input *input, uint64_t join_bytes)
{
    struct lw_chunk_walk walk = walk_of(input);
    struct lw_chunk chunk;
    uint64_t small_bytes = 0;

    while (lw_chunk_next(&walk, &chunk))
        if (chunk.rows < SMALL_ROWS)
            small_bytes += LW_CHUNK_HEAD_BYTES + chunk.stored_bytes;
    return small_bytes > join_bytes && small_bytes > input->view.len / SMALL_SHARE;
}

static bool mark_sealed(const struct lw_folder *folder, const char *name,
                        const struct lw_segment_head *head, struct lw_error *err)
{
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];
    int fd = openat(folder->fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool done;

    lw_segment_head_put(head, bytes);
    done = fd >= 0 && pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes);
    if (!done)
        lw_fail_errno(err, "cannot seal %s/%s", folder->path, name);
    if (fd >= 0)
        close(fd);
    return done;
}

bool lw_segment_seal(const struct lw_folder *folder, const char *name,
                     const struct lw_seal *how, struct lw_error *err)
{
    struct rewrite r;
    bool done = open_inputs(&r, folder, &name, 1, how->level, err);

    if (done) {
        struct lw_segment_head head = r.inputs[0].head;

        head.flags |= LW_SEGMENT_SEALED;
        head.end_ns = how->end_ns;
        /* A disk too full to rewrite it still takes the mark. */
        done = (is_worth_joining(&r.inputs[0], how->join_bytes) &&
                rewrite(&r, folder, name, &head, NULL)) ||
               mark_sealed(folder, name, &head, err);
    }
    release(&r);
    return done;
}

bool lw_segment_thin(const struct lw_folder *folder, const char *const *names,
                     size_t count, int level, struct lw_error *err)
{
    struct rewrite r;
    bool done = open_inputs(&r, folder, names, count, level, err);

    if (done) {
        struct lw_segment_head head = r.inputs[0].head;

        r.thin = true;
        head.flags |= LW_SEGMENT_SEALED | LW_SEGMENT_THINNED;
        head.last = r.inputs[count - 1].head.last;
        head.end_ns = r.inputs[count - 1].head.end_ns;
        done = rewrite(&r, folder, names[0], &head, err);
    }
    release(&r);
    return done;
}
