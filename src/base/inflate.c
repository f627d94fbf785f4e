/* ISA-L's igzip does the work; here are the limits, the members and the sentences. */

#include "base/inflate.h"

#include <isa-l/igzip_lib.h>
#include <string.h>

#include "base/alloc.h"

#define PIECE_BYTES ((size_t)1 << 30) /* igzip counts in 32 bits */
#define FIRST_BYTES ((size_t)64 << 10)

bool lw_inflate_is_gzip(const void *bytes, size_t len)
{
    return len >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static size_t most_bytes(size_t len)
{
    size_t most;

    if (__builtin_mul_overflow(len, LW_INFLATE_RATIO, &most) ||
        __builtin_add_overflow(most, LW_INFLATE_FREE_BYTES, &most) ||
        most > LW_INFLATE_MAX_BYTES)
        most = LW_INFLATE_MAX_BYTES;
    return most;
}

static bool fail_at(size_t at, int code, struct lw_error *err)
{
    const char *why = "what is compressed there is damaged";

    if (code == ISAL_INCORRECT_CHECKSUM)
        why = "the checksum does not fit what was unpacked";
    else if (code == ISAL_INVALID_WRAPPER || code == ISAL_UNSUPPORTED_METHOD)
        why = "this is not the head of a gzip member";
    return lw_fail(err, LW_ERR_FORMAT, "gzip, at byte %zu: %s", at, why);
}

/* One call of igzip: as much as fits what OUT has room for, which grows. */
static bool inflate_some(struct inflate_state *state, size_t packed_len, size_t most,
                         struct lw_buf *out, int *code, struct lw_error *err)
{
    size_t room = out->len ? out->len / 2 : FIRST_BYTES;
    size_t before = out->len;
    unsigned char *place;

    if (room > PIECE_BYTES)
        room = PIECE_BYTES;
    if (room > most - out->len)
        room = most - out->len;
    if (room == 0)
        return lw_fail(
            err, LW_ERR_LIMIT,
            "gzip: %zu bytes unpack to more than %zu, the most that is taken",
            packed_len, most);
    place = lw_buf_extend(out, room);
    if (!place)
        return lw_buf_check(out, err);
    state->next_out = place;
    state->avail_out = (uint32_t)room;
    *code = isal_inflate(state);
    out->len = before + room - state->avail_out;
    out->bytes[out->len] = '\0';
    return true;
}

/* Behind a member: another one (true), or nothing more. */
static bool next_member(struct inflate_state *state, const unsigned char *next,
                        const unsigned char *end)
{
    while (next < end && *next == 0)
        next++;
    if (!lw_inflate_is_gzip(next, (size_t)(end - next)))
        return false;
    isal_inflate_reset(state);
    state->crc_flag = ISAL_GZIP;
    state->next_in = (uint8_t *)(uintptr_t)next;
    state->avail_in = 0;
    return true;
}

bool lw_inflate(const void *bytes, size_t len, struct lw_buf *out, struct lw_error *err)
{
    const unsigned char *start = bytes, *end = start + len;
    struct inflate_state *state = lw_alloc(sizeof(*state), err);
    size_t most = most_bytes(len);
    bool done = false;

    if (!state)
        return false;
    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
    state->next_in = (uint8_t *)(uintptr_t)start;
    for (;;) {
        size_t left = (size_t)(end - state->next_in);
        int code = ISAL_DECOMP_OK;

        state->avail_in = (uint32_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
        if (!inflate_some(state, len, most, out, &code, err))
            break;
        if (code < 0 || code > ISAL_OUT_OVERFLOW) {
            fail_at((size_t)(state->next_in - start), code, err);
            break;
        }
        if (state->block_state == ISAL_BLOCK_FINISH) {
            if (next_member(state, state->next_in, end))
                continue;
            done = true;
            break;
        }
        if (state->next_in == end && state->avail_out > 0) {
            lw_fail(err, LW_ERR_FORMAT, "gzip: the file ends too early, at byte %zu",
                    len);
            break;
        }
    }
    lw_free(state);
    return done;
}

void lw_inflate_head(const void *bytes, size_t len, void *head, size_t *head_len)
{
    struct inflate_state *state = lw_alloc(sizeof(*state), NULL);
    size_t room = *head_len;

    *head_len = 0;
    if (!state)
        return;
    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
    state->next_in = (uint8_t *)(uintptr_t)bytes;
    state->avail_in = (uint32_t)(len < PIECE_BYTES ? len : PIECE_BYTES);
    state->next_out = head;
    state->avail_out = (uint32_t)(room < PIECE_BYTES ? room : PIECE_BYTES);
    isal_inflate(state);
    *head_len = (size_t)(state->next_out - (uint8_t *)head);
    lw_free(state);
}
