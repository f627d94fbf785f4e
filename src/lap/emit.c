/* Cuts rows into chunks of a good size, encodes and appends them. */

#include "lap/emit.h"

#include <string.h>

#include "base/alloc.h"

/* Rows in one chunk: enough for zstd, few enough to stay in the cache when decoded. */
#define CHUNK_ROWS 16384u
/* Pairs in one chunk: with both texts as long as can be, half of LW_CHUNK_BYTES_MAX. */
#define PAIRS_MAX 16u

void lw_emit_init(struct lw_emit *emit, int level)
{
    memset(emit, 0, sizeof(*emit));
    lw_chunk_coder_init(&emit->coder);
    lw_buf_init(&emit->body, 0);
    lw_buf_init(&emit->out, 0);
    emit->level = level;
}

void lw_emit_release(struct lw_emit *emit)
{
    lw_chunk_coder_release(&emit->coder);
    lw_string_batch_release(&emit->strings);
    lw_buf_release(&emit->body);
    lw_buf_release(&emit->out);
    lw_free(emit->rows);
    lw_emit_init(emit, emit->level);
}

static void append_body(struct lw_emit *emit, enum lw_chunk_kind kind, size_t rows)
{
    if (emit->body.failure && !emit->out.failure)
        emit->out.failure = emit->body.failure;
    if (!emit->out.failure)
        lw_chunk_append(&emit->coder, kind, (uint32_t)rows, emit->body.bytes,
                        emit->body.len, emit->level, &emit->out);
    lw_buf_reset(&emit->body);
}

void lw_emit_rows(struct lw_emit *emit, enum lw_chunk_kind kind, const uint64_t *lead,
                  const void *rows, size_t count)
{
    bool numbered = kind == LW_CHUNK_FRAMES || kind == LW_CHUNK_STACKS;
    size_t size = lw_rows_size(kind);

    for (size_t done = 0; done < count;) {
        size_t n = count - done < CHUNK_ROWS ? count - done : CHUNK_ROWS;
        uint64_t first = numbered ? *lead + done : 0;

        lw_rows_encode(kind, numbered ? &first : lead, (const char *)rows + done * size,
                       n, &emit->body);
        append_body(emit, kind, n);
        done += n;
    }
}

void lw_emit_strings(struct lw_emit *emit)
{
    size_t count = emit->strings.count;

    if (!count)
        return;
    lw_string_batch_encode(&emit->strings, &emit->body);
    append_body(emit, LW_CHUNK_STRINGS, count);
}

void lw_emit_string(struct lw_emit *emit, uint64_t number, const char *text, size_t len)
{
    struct lw_string_batch *batch = &emit->strings;

    if (number != batch->first + batch->count || lw_string_batch_is_full(batch))
        lw_emit_strings(emit);
    if (!batch->count)
        batch->first = number;
    lw_string_batch_add(batch, text, len);
}

void lw_emit_pairs(struct lw_emit *emit)
{
    if (emit->pairs)
        append_body(emit, LW_CHUNK_META, emit->pairs);
    emit->pairs = 0;
}

void lw_emit_pair(struct lw_emit *emit, const char *key, const char *value, size_t len)
{
    lw_rows_encode_pair(key, value, len, &emit->body);
    if (++emit->pairs == PAIRS_MAX)
        lw_emit_pairs(emit);
}

static void *room_for_rows(struct lw_emit *emit, size_t size)
{
    if (!lw_grow(&emit->rows, &emit->rows_capacity, CHUNK_ROWS * size, 1, NULL)) {
        emit->out.failure = LW_ERR_NOMEM;
        return NULL;
    }
    return emit->rows;
}

void lw_emit_calls(struct lw_emit *emit, const struct lw_sums *sums, uint64_t start_ns,
                   uint64_t end_ns)
{
    const uint64_t lead[2] = { start_ns, end_ns };
    struct lw_call_row *rows = room_for_rows(emit, sizeof(*rows));
    size_t n = 0;

    for (size_t i = 0; rows && i < sums->count; i++) {
        const struct lw_sum *sum = &sums->rows[i];

        if (sum->count || sum->ns)
            rows[n++] = (struct lw_call_row){ .thread = sum->thread,
                                              .stack = sum->stack,
                                              .calls = sum->count,
                                              .self_ns = sum->ns };
        if (n == CHUNK_ROWS || i + 1 == sums->count) {
            lw_emit_rows(emit, LW_CHUNK_CALLS, lead, rows, n);
            n = 0;
        }
    }
}

void lw_emit_sample_sums(struct lw_emit *emit, const struct lw_sums *sums)
{
    struct lw_sample *rows = room_for_rows(emit, sizeof(*rows));
    size_t n = 0;

    for (size_t i = 0; rows && i < sums->count; i++) {
        const struct lw_sum *sum = &sums->rows[i];

        rows[n++] = (struct lw_sample){ .time_ns = sum->first_ns,
                                        .weight_ns = sum->ns,
                                        .thread = sum->thread,
                                        .stack = sum->stack,
                                        .state = sum->state };
        if (n == CHUNK_ROWS || i + 1 == sums->count) {
            lw_emit_rows(emit, LW_CHUNK_SAMPLES, NULL, rows, n);
            n = 0;
        }
    }
}
