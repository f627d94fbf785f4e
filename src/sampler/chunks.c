#include "sampler/chunks.h"

#include <string.h>

/* Bounds on what a broken or hostile target can make us read. */
#define CHUNKS_MAX 8192u
#define BYTES_MAX (64u << 20) /* of all chunks of a thread */
/* Read a little more than was used, so that a few more calls do not need another look. */
#define SLACK_BYTES 1024u
/* What is read too much before the guess is made smaller again. */
#define EXCESS_BYTES 8192u

static uint64_t word_at(struct lw_memory *memory, uint64_t address)
{
    uint64_t value;

    return lw_memory_u64(memory, address, &value) ? value : 0;
}

/* All of them, newest first. */
static bool add_chunks(struct lw_snapshot *snapshot, const struct lw_py_layout *layout,
                       struct lw_memory *memory, uint64_t chunk, uint64_t top)
{
    uint64_t used = top - chunk + SLACK_BYTES, all = 0;

    for (unsigned i = 0; chunk && i < CHUNKS_MAX; i++) {
        uint64_t size = word_at(memory, chunk + layout->chunk_size);

        if (size > BYTES_MAX || size < layout->chunk_data)
            return false;
        if (i > 0) {
            uint64_t words = word_at(memory, chunk + layout->chunk_top);

            used = words < size ? layout->chunk_data + 8 * words : size;
        }
        used = used < size ? used : size;
        all += used;
        if (all > BYTES_MAX || !lw_snapshot_add_chunk(snapshot, chunk, (uint32_t)used))
            return false;
        chunk = word_at(memory, chunk + layout->chunk_previous);
    }
    return true;
}

void lw_chunks_plan(struct lw_snapshot *snapshot, const struct lw_py_layout *layout,
                    struct lw_memory *memory, const struct lw_thread_words *words)
{
    lw_snapshot_drop_chunks(snapshot);
    if (words->top < words->chunk || words->top - words->chunk > BYTES_MAX ||
        !add_chunks(snapshot, layout, memory, words->chunk, words->top))
        lw_snapshot_drop_chunks(snapshot);
}

bool lw_chunks_hold(const struct lw_snapshot *snapshot,
                    const struct lw_py_layout *layout,
                    const struct lw_thread_words *words)
{
    const struct lw_snapshot_piece *newest = snapshot->chunks;

    if (words->chunk == 0)
        return snapshot->chunk_count == 0;
    if (snapshot->chunk_count == 0 || newest->place == 0 ||
        newest->address != words->chunk || words->top < words->chunk ||
        words->top - words->chunk > newest->len)
        return false;
    for (size_t i = 0; i < snapshot->chunk_count; i++) {
        const unsigned char *head = snapshot->copies[LW_SECOND] + newest[i].place;
        uint64_t previous;

        memcpy(&previous, head + layout->chunk_previous, 8);
        if (previous != (i + 1 < snapshot->chunk_count ? newest[i + 1].address : 0))
            return false;
    }
    return true;
}

void lw_chunks_shrink(struct lw_snapshot *snapshot, const struct lw_thread_words *words)
{
    struct lw_snapshot_piece *newest = snapshot->chunks;

    if (snapshot->chunk_count > 0 &&
        newest->len > words->top - words->chunk + EXCESS_BYTES)
        newest->len = (uint32_t)(words->top - words->chunk + SLACK_BYTES);
}
