#include "readers/event_shape.h"

#include <string.h>

#define PLAIN_DIGITS 18 /* as many fit 64 bits whatever they are */

void lw_event_shape_begin(struct lw_event_shape *shape, const char *at)
{
    shape->count = 0;
    shape->piece[0] = at;
}

/* The piece that is open ends at AT; the next one begins at NEXT. */
static void cut(struct lw_event_shape *shape, unsigned piece, const char *at,
                const char *next)
{
    shape->piece_len[piece] = (size_t)(at - shape->piece[piece]);
    if (next)
        shape->piece[piece + 1] = next;
}

void lw_event_shape_value(struct lw_event_shape *shape, unsigned member,
                          const char *text, size_t len)
{
    if (shape->count < LW_SHAPED_MEMBERS) {
        cut(shape, shape->count, text, text + len);
        shape->order[shape->count] = member;
    }
    shape->count++;
}

void lw_event_shape_end(struct lw_event_shape *shape, const char *at)
{
    if (shape->count == LW_SHAPED_MEMBERS &&
        (1u << shape->order[0] | 1u << shape->order[1] | 1u << shape->order[2]) == 7)
        cut(shape, LW_SHAPED_MEMBERS, at, NULL);
    else
        shape->count = 0;
}

/* Digits at *P, as JSON has them; false: none, too many, or a zero before others. */
static bool take_digits(const char **p, const char *end, uint64_t *value,
                        unsigned *count)
{
    const char *start = *p;
    uint64_t sum = 0;

    while (*p < end && (unsigned char)(**p - '0') <= 9) {
        sum = sum * 10 + (uint64_t)(**p - '0'); /* wraps only if there are too many */
        ++*p;
    }
    *value = sum;
    *count = (unsigned)(*p - start);
    return *p > start && *p - start <= PLAIN_DIGITS;
}

static bool take_whole(const char **p, const char *end, uint64_t *value,
                       unsigned *count)
{
    const char *start = *p;

    return take_digits(p, end, value, count) && (*start != '0' || *count == 1);
}

static bool take_at(const char **p, const char *end, unsigned digits, uint64_t *value)
{
    unsigned whole, places = 0;
    uint64_t part = 0;

    if (!take_whole(p, end, value, &whole))
        return false;
    if (*p < end && **p == '.') {
        ++*p;
        if (!take_digits(p, end, &part, &places))
            return false;
    }
    if (places > digits || whole + digits > PLAIN_DIGITS)
        return false;
    for (unsigned i = 0; i < places; i++)
        *value *= 10;
    *value += part;
    for (unsigned i = places; i < digits; i++)
        *value *= 10;
    return true;
}

static bool take_value(const char **p, const char *end, unsigned member,
                       unsigned digits, struct lw_shaped_event *event)
{
    uint64_t frame;
    unsigned count;

    switch (member) {
    case LW_SHAPED_TYPE:
        event->type = **p;
        ++*p;
        return event->type == 'O' || event->type == 'C';
    case LW_SHAPED_FRAME:
        if (!take_whole(p, end, &frame, &count) || frame >= UINT32_MAX)
            return false;
        event->frame = (uint32_t)frame;
        return true;
    default: return take_at(p, end, digits, &event->at_ns);
    }
}

/* Pieces are a few bytes: a loop is sooner done than a call. */
static bool take_piece(const char **p, const char *end, const char *piece, size_t len)
{
    if ((size_t)(end - *p) <= len) /* there is always more behind it */
        return false;
    for (size_t i = 0; i < len; i++)
        if ((*p)[i] != piece[i])
            return false;
    *p += len;
    return true;
}

bool lw_event_shape_match(const struct lw_event_shape *shape, const char *at,
                          const char *end, unsigned digits,
                          struct lw_shaped_event *event, const char **bracket)
{
    if (shape->count != LW_SHAPED_MEMBERS)
        return false;
    for (unsigned i = 0; i < LW_SHAPED_MEMBERS; i++)
        if (!take_piece(&at, end, shape->piece[i], shape->piece_len[i]) ||
            !take_value(&at, end, shape->order[i], digits, event))
            return false;
    if (!take_piece(&at, end, shape->piece[LW_SHAPED_MEMBERS],
                    shape->piece_len[LW_SHAPED_MEMBERS]) ||
        *at != '}')
        return false;
    *bracket = at;
    return true;
}
