#include "sampler/snapshot.h"

#include <string.h>

#include "base/alloc.h"

/* Of a thread's state: up to the last field that is read, which is checked to lie in
 * here. */
#define STATE_MAX 4096
/* Frames that are read though no walk has used them lately, and for how many walks. */
#define IDLE_FRAMES 32
#define IDLE_MAX 256
/* Of the C stack at most so much is read, which costs less than to read all again. */
#define CFRAMES_BYTES 8192u

void lw_snapshot_init(struct lw_snapshot *snapshot, uint64_t thread)
{
    *snapshot = (struct lw_snapshot){ .thread = thread };
    lw_map_init(&snapshot->by_address);
    lw_map_init(&snapshot->by_caller);
}

void lw_snapshot_release(struct lw_snapshot *snapshot)
{
    lw_map_release(&snapshot->by_address);
    lw_map_release(&snapshot->by_caller);
    lw_free(snapshot->chunks);
    lw_free(snapshot->frames);
    lw_free(snapshot->copies[0]); /* the rest lies in it */
}

/* ---- what to read ------------------------------------------------------------------- */

static size_t end_of(uint32_t offset, size_t end)
{
    return offset != LW_NO_FIELD && offset + 8u > end ? offset + 8u : end;
}

static size_t state_len(const struct lw_py_layout *layout)
{
    size_t len = 0;

    len = end_of(layout->thread_next, len);
    len = end_of(layout->thread_frame, len);
    len = end_of(layout->thread_cframe, len);
    len = end_of(layout->thread_datastack_chunk, len);
    len = end_of(layout->thread_datastack_top, len);
    len = end_of(layout->thread_thread_id, len);
    len = end_of(layout->thread_native_thread_id, len);
    return end_of(layout->thread_gil_requested, len);
}

static size_t place_all(struct lw_snapshot_piece *pieces, size_t count, size_t place)
{
    for (size_t i = 0; i < count; i++) {
        pieces[i].place = (uint32_t)place;
        place += (pieces[i].len + 7u) & ~7u;
    }
    return place;
}

static size_t cframes_count(const struct lw_snapshot *snapshot)
{
    return snapshot->cframes.len > 0;
}

/* Each copy is the state and the pieces, and both are one piece of memory. */
bool lw_snapshot_prepare(struct lw_snapshot *snapshot,
                         const struct lw_py_layout *layout, size_t *count)
{
    size_t state = (state_len(layout) + 7u) & ~(size_t)7;
    size_t len = place_all(&snapshot->cframes, cframes_count(snapshot), state);

    if (state > STATE_MAX)
        return false;
    len = place_all(snapshot->chunks, snapshot->chunk_count, len);
    len = place_all(snapshot->frames, snapshot->frame_count, len);
    if (2 * len > snapshot->copy_capacity) {
        size_t wanted = 2 * len + len / 2;
        unsigned char *memory = lw_alloc(wanted, NULL);

        if (!memory)
            return false;
        lw_free(snapshot->copies[0]);
        snapshot->copies[0] = memory;
        snapshot->copy_capacity = wanted;
    }
    snapshot->copies[1] = snapshot->copies[0] + len;
    *count = 2 * (1 + cframes_count(snapshot) + snapshot->chunk_count +
                  snapshot->frame_count);
    return true;
}

static struct lw_memory_range *add_pieces(const struct lw_snapshot_piece *pieces,
                                          size_t count, unsigned char *copy,
                                          struct lw_memory_range *ranges)
{
    for (size_t i = 0; i < count; i++)
        *ranges++ = (struct lw_memory_range){ pieces[i].address, copy + pieces[i].place,
                                              pieces[i].len };
    return ranges;
}

static struct lw_memory_range *add_state(struct lw_snapshot *snapshot, size_t len,
                                         int which, struct lw_memory_range *ranges)
{
    *ranges++ =
        (struct lw_memory_range){ snapshot->thread, snapshot->copies[which], len };
    return add_pieces(&snapshot->cframes, cframes_count(snapshot),
                      snapshot->copies[which], ranges);
}

/* The newest chunk comes last in the first copy and first in the second, so that the
 * frames that change soonest are read at nearly one moment. */
void lw_snapshot_ranges(struct lw_snapshot *snapshot, const struct lw_py_layout *layout,
                        struct lw_memory_range *ranges)
{
    size_t len = state_len(layout);

    ranges = add_pieces(snapshot->frames, snapshot->frame_count,
                        snapshot->copies[LW_FIRST], ranges);
    for (size_t i = snapshot->chunk_count; i-- > 0;)
        ranges =
            add_pieces(&snapshot->chunks[i], 1, snapshot->copies[LW_FIRST], ranges);
    ranges = add_state(snapshot, len, LW_FIRST, ranges);
    ranges = add_pieces(snapshot->chunks, snapshot->chunk_count,
                        snapshot->copies[LW_SECOND], ranges);
    ranges = add_pieces(snapshot->frames, snapshot->frame_count,
                        snapshot->copies[LW_SECOND], ranges);
    add_state(snapshot, len, LW_SECOND, ranges);
}

/* ---- what was read ------------------------------------------------------------------ */

static uint64_t word_at(const unsigned char *bytes, uint32_t offset)
{
    uint64_t value;

    if (offset == LW_NO_FIELD)
        return 0;
    memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

static const unsigned char *in_piece(const struct lw_snapshot *snapshot, int which,
                                     const struct lw_snapshot_piece *piece,
                                     uint64_t address, size_t len)
{
    if (piece->place == 0 || address < piece->address ||
        address - piece->address > piece->len ||
        piece->len - (address - piece->address) < len)
        return NULL;
    return snapshot->copies[which] + piece->place + (address - piece->address);
}

struct lw_thread_words lw_snapshot_words(const struct lw_snapshot *snapshot,
                                         const struct lw_py_layout *layout, int which)
{
    const unsigned char *state = snapshot->copies[which];
    struct lw_thread_words words = {
        .next = word_at(state, layout->thread_next),
        .frame = word_at(state, layout->thread_frame),
        .cframe = word_at(state, layout->thread_cframe),
        .chunk = word_at(state, layout->thread_datastack_chunk),
        .top = word_at(state, layout->thread_datastack_top),
        .thread_id = word_at(state, layout->thread_thread_id),
        .native_id = word_at(state, layout->thread_native_thread_id),
    };

    if (words.cframe) {
        const unsigned char *told;

        words.cframe += layout->cframe_current_frame;
        told = in_piece(snapshot, which, &snapshot->cframes, words.cframe, 8);
        words.frame = told ? word_at(told, 0) : 0;
    }
    if (layout->thread_gil_requested != LW_NO_FIELD)
        words.is_waiting_for_gil =
            (word_at(state, layout->thread_gil_requested) & 0xffffffffu) != 0;
    return words;
}

static bool is_frame_at(const void *owner, uint32_t number, const void *key)
{
    const struct lw_snapshot *snapshot = owner;

    return snapshot->frames[number - 1].address == *(const uint64_t *)key;
}

/* A walk goes from one to the next, so the last one and its neighbours are tried first. */
struct lw_snapshot_piece *lw_snapshot_chunk(struct lw_snapshot *snapshot,
                                            uint64_t address)
{
    size_t count = snapshot->chunk_count, first = snapshot->last_chunk;

    first = first > 0 ? first - 1 : 0;
    for (size_t i = 0; i < count; i++) {
        size_t number = first + i < count ? first + i : first + i - count;
        struct lw_snapshot_piece *chunk = &snapshot->chunks[number];

        if (chunk->place > 0 && address >= chunk->address &&
            address - chunk->address < chunk->len) {
            snapshot->last_chunk = number;
            return chunk;
        }
    }
    return NULL;
}

const unsigned char *lw_snapshot_at(struct lw_snapshot *snapshot, int which,
                                    uint64_t address, size_t len)
{
    struct lw_snapshot_piece *piece = lw_snapshot_chunk(snapshot, address);
    const unsigned char *bytes;

    if (!piece) {
        uint32_t number = lw_map_find(&snapshot->by_address, lw_hash_u64(address),
                                      is_frame_at, snapshot, &address);

        if (number == 0)
            return NULL;
        piece = &snapshot->frames[number - 1];
    }
    bytes = in_piece(snapshot, which, piece, address, len);
    if (bytes)
        piece->idle = 0;
    return bytes;
}

/* ---- what to read next time --------------------------------------------------------- */

bool lw_snapshot_learn_cframe(struct lw_snapshot *snapshot, uint64_t address)
{
    struct lw_snapshot_piece *known = &snapshot->cframes;
    uint64_t start = address, end = address + 8;

    if (in_piece(snapshot, LW_SECOND, known, address, 8))
        return true;
    if (known->len > 0) {
        start = known->address < start ? known->address : start;
        end = known->address + known->len > end ? known->address + known->len : end;
    }
    if (end - start > CFRAMES_BYTES) {
        start = address;
        end = address + 8;
    }
    *known =
        (struct lw_snapshot_piece){ .address = start, .len = (uint32_t)(end - start) };
    return false;
}

void lw_snapshot_drop_cframes(struct lw_snapshot *snapshot)
{
    snapshot->cframes.len = snapshot->cframes.place = 0;
}

bool lw_snapshot_add_frame(struct lw_snapshot *snapshot, uint64_t address, uint32_t len)
{
    if (lw_map_find(&snapshot->by_address, lw_hash_u64(address), is_frame_at, snapshot,
                    &address))
        return true;
    if (!lw_grow(&snapshot->frames, &snapshot->frame_capacity,
                 snapshot->frame_count + 1, sizeof(*snapshot->frames), NULL) ||
        !lw_map_add(&snapshot->by_address, lw_hash_u64(address),
                    (uint32_t)snapshot->frame_count + 1, NULL))
        return false;
    snapshot->frames[snapshot->frame_count++] =
        (struct lw_snapshot_piece){ .address = address, .len = len };
    return true;
}

bool lw_snapshot_add_chunk(struct lw_snapshot *snapshot, uint64_t address, uint32_t len)
{
    if (!lw_grow(&snapshot->chunks, &snapshot->chunk_capacity,
                 snapshot->chunk_count + 1, sizeof(*snapshot->chunks), NULL))
        return false;
    snapshot->chunks[snapshot->chunk_count++] =
        (struct lw_snapshot_piece){ .address = address, .len = len };
    return true;
}

void lw_snapshot_drop_chunks(struct lw_snapshot *snapshot)
{
    snapshot->chunk_count = snapshot->last_chunk = 0;
}

void lw_snapshot_drop_frames(struct lw_snapshot *snapshot)
{
    snapshot->frame_count = 0;
    lw_map_reset(&snapshot->by_address);
}

/* For how many walks a frame is kept, so that not too many are. */
static uint32_t idle_limit(const struct lw_snapshot *snapshot)
{
    uint32_t limit = IDLE_MAX;

    for (; limit > 0; limit /= 2) {
        size_t idle = 0;

        for (size_t i = 0; i < snapshot->frame_count; i++)
            idle += snapshot->frames[i].idle > 0 && snapshot->frames[i].idle <= limit;
        if (idle <= IDLE_FRAMES)
            break;
    }
    return limit;
}

bool lw_snapshot_drop_idle(struct lw_snapshot *snapshot)
{
    uint32_t limit = idle_limit(snapshot);
    size_t kept = 0;

    for (size_t i = 0; i < snapshot->frame_count; i++) {
        if (snapshot->frames[i].idle > limit)
            continue;
        snapshot->frames[kept] = snapshot->frames[i];
        snapshot->frames[kept++].idle++;
    }
    if (kept == snapshot->frame_count)
        return true;
    snapshot->frame_count = kept;
    lw_map_reset(&snapshot->by_address);
    for (size_t i = 0; i < kept; i++) {
        if (!lw_map_add(&snapshot->by_address, lw_hash_u64(snapshot->frames[i].address),
                        (uint32_t)i + 1, NULL)) {
            lw_snapshot_drop_frames(snapshot);
            return false;
        }
    }
    return true;
}
