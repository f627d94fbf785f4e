/* The keys of a file's events, each with the bytes around it, and which follow which.
 *
 *     {"ph": "X", "cat": "cpu_op", "name": "aten::mm"}
 *     ~~~~~~~   ~~~~~~~~~        ~~~~~~~~~~          ~
 *
 * Who writes a trace puts the same bytes between the values of each event: a comma, spaces, a
 * key, its quotes and colon. So what is behind a value is first held against what came
 * there before: one comparison instead of a scan, and what the key means is known. What
 * does not match is scanned, and known from then on. */
#ifndef LW_READERS_TRACE_KEYS_H
#define LW_READERS_TRACE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LW_TRACE_KEY_BYTES 48 /* what is longer is scanned each time */

/* What is to be done with what a key says. */
enum lw_key_use {
    LW_KEY_VALUE,  /* into a field of the event, at `offset` */
    LW_KEY_PHASE,  /* "ph" */
    LW_KEY_ARGS,   /* its value's keys are members */
    LW_KEY_MEMBER, /* of the arguments */
    LW_KEY_OTHER,  /* nothing */
    LW_KEY_END,    /* no key: the end of the object */
};

struct lw_trace_key {
    char text[LW_TRACE_KEY_BYTES]; /* from behind the value before to its own value */
    uint32_t others;               /* a bit for each of 32 bytes that are not in it */
    uint16_t offset;               /* in struct lw_trace_event */
    uint8_t len;                   /* of `text`; 0: not in use */
    uint8_t name_at, name_len;     /* the key itself, in `text` */
    uint8_t use;                   /* enum lw_key_use */
    uint8_t code;    /* of a member: what `code_of` of the events says of it */
    uint8_t next[2]; /* what followed it lately, and before that; 0: nothing */
};

/* Numbers of what is no key, but is followed by some. */
enum {
    LW_KEY_NONE,       /* of which nothing is known */
    LW_KEY_OF_EVENT,   /* the beginning of an event */
    LW_KEY_OF_ARGS,    /* the beginning of its arguments */
    LW_KEY_UNKNOWN,    /* a key that is not kept */
    LW_KEY_UNKNOWN_OF, /* the same of a member */
    LW_KEY_FIRST,
};

#define LW_TRACE_KEYS 256   /* traces of Kineto have 70; a number fits a byte */
#define LW_TRACE_PLACES 512 /* to find them by: a power of two, twice as many */

struct lw_trace_keys {
    struct lw_trace_key list[LW_TRACE_KEYS];
    unsigned count;                  /* 0: there is not even LW_KEY_NONE */
    uint8_t places[LW_TRACE_PLACES]; /* numbers by hash; 0: none */
};

#ifdef __SSE2__
/* A bit for each of 16 bytes that is the same at A and B. */
static inline unsigned lw_trace_same_bytes(const char *a, const char *b)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)a);
    __m128i y = _mm_loadu_si128((const __m128i *)(const void *)b);

    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y));
}
#endif

/* Is KEY, which is in use, at P, from where on LW_TRACE_KEY_BYTES may be read? */
static inline bool lw_trace_key_is_at(const struct lw_trace_key *key, const char *p)
{
#ifdef __SSE2__
    unsigned same = lw_trace_same_bytes(key->text, p) |
                    lw_trace_same_bytes(key->text + 16, p + 16) << 16;

    return (same | key->others) == UINT32_MAX &&
           (key->len <= 32 || memcmp(key->text + 32, p + 32, key->len - 32u) == 0);
#else
    return memcmp(key->text, p, key->len) == 0;
#endif
}

/* The number of the key at P, behind the value of key BEFORE, if it followed that lately;
 * else 0. */
static inline unsigned lw_trace_keys_guess(const struct lw_trace_keys *keys,
                                           struct lw_trace_key *before, const char *p)
{
    uint8_t *next = before->next;
    uint8_t last = next[0], other = next[1];

    if (last && lw_trace_key_is_at(&keys->list[last], p))
        return last;
    if (!other || !lw_trace_key_is_at(&keys->list[other], p))
        return 0;
    next[0] = other;
    next[1] = last;
    return other;
}

/* Note that KEY, whose `others` need not be set, followed key BEFORE. Its number, or
 * LW_KEY_NONE: it is not kept. */
unsigned lw_trace_keys_add(struct lw_trace_keys *keys, unsigned before,
                           const struct lw_trace_key *key);

#endif
