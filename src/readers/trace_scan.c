/* The scan runs over the window without asking where it ends: there is a NUL. */

#include "readers/trace_scan.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/alloc.h"

#define DEEPEST 64 /* brackets in brackets: bits of a word */
#define INLINE inline __attribute__((always_inline)) /* of the hot path */

const unsigned char lw_trace_bytes[256] = {
    [0] = LW_BYTE_ZERO,     [' '] = LW_BYTE_SPACE,  ['\n'] = LW_BYTE_SPACE,
    ['\r'] = LW_BYTE_SPACE, ['\t'] = LW_BYTE_SPACE, [','] = LW_BYTE_STOP,
    [':'] = LW_BYTE_STOP,   ['"'] = LW_BYTE_QUOTE,  ['['] = LW_BYTE_OPEN,
    ['{'] = LW_BYTE_OPEN,   [']'] = LW_BYTE_CLOSE,  ['}'] = LW_BYTE_CLOSE,
};

static const char *stop_at(struct lw_trace_events *in, const char *p)
{
    in->wants_more = p >= lw_trace_window_end(in);
    return NULL;
}

/* The first quote, backslash or NUL from P on. */
static INLINE const char *find_quote(const char *p)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');

    for (;; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()),
                                    _mm_or_si128(_mm_cmpeq_epi8(bytes, quote),
                                                 _mm_cmpeq_epi8(bytes, backslash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(hits);

        if (mask)
            return p + __builtin_ctz(mask);
    }
#else
    while (*p != '"' && *p != '\\' && *p)
        p++;
    return p;
#endif
}

/* A quote that ends a text is followed by what can follow one. */
static bool ends_text(const char *quote)
{
    const char *next = lw_trace_skip_space(quote + 1);

    return *next == '\0' || strchr(",:}]", *next);
}

/* The end of the text whose first byte is P: its quote. */
static INLINE const char *scan_text(struct lw_trace_events *in, const char *p,
                                    bool *escaped)
{
    const char *end = lw_trace_window_end(in);

    *escaped = false;
    for (;;) {
        p = find_quote(p);
        if (p >= end)
            return stop_at(in, end);
        if (*p == '"' && (!in->is_mending || ends_text(p)))
            return p;
        if (*p == '\\') {
            *escaped = true;
            p++;
        }
        p++;
    }
}

static const char *scan_nested(struct lw_trace_events *in, const char *p)
{
    uint64_t is_object = 0; /* a bit a level */
    unsigned depth = 0;
    bool escaped;

    for (;; p++) {
        while (lw_trace_byte(p) <= LW_BYTE_STOP)
            p++;
        switch (lw_trace_byte(p)) {
        case LW_BYTE_QUOTE:
            p = scan_text(in, p + 1, &escaped);
            if (!p)
                return NULL;
            break;
        case LW_BYTE_OPEN:
            if (depth++ == DEEPEST)
                return stop_at(in, p);
            is_object = is_object << 1 | (*p == '{');
            break;
        case LW_BYTE_CLOSE:
            if ((is_object & 1) != (*p == '}'))
                return stop_at(in, p);
            is_object >>= 1;
            if (--depth == 0)
                return p + 1;
            break;
        default: /* a NUL of the file is not taken outside of texts */
            return stop_at(in, p);
        }
    }
}

static INLINE const char *scan_value(struct lw_trace_events *in, const char *p,
                                     struct lw_value *value)
{
    const char *end;

    value->escaped = false;
    value->text = p;
    switch (lw_trace_byte(p)) {
    case LW_BYTE_QUOTE:
        value->form = LW_VALUE_TEXT;
        value->text = p + 1;
        end = scan_text(in, p + 1, &value->escaped);
        if (!end)
            return NULL;
        value->len = (size_t)(end - value->text);
        return end + 1;
    case LW_BYTE_OPEN:
        value->form = LW_VALUE_NESTED;
        end = scan_nested(in, p);
        if (!end)
            return NULL;
        break;
    case LW_BYTE_PLAIN:
        value->form = LW_VALUE_WORD;
        for (end = p + 1; lw_trace_byte(end) == LW_BYTE_PLAIN; end++)
            continue;
        break;
    default: return stop_at(in, p);
    }
    value->len = (size_t)(end - p);
    return end;
}

/* "key": and what is before its value. */
static INLINE const char *scan_key(struct lw_trace_events *in, const char *p,
                                   const char **key, size_t *len)
{
    const char *end;
    bool escaped;

    if (*p != '"')
        return stop_at(in, p);
    *key = p + 1;
    end = scan_text(in, p + 1, &escaped);
    if (!end)
        return NULL;
    *len = (size_t)(end - *key);
    p = lw_trace_skip_space(end + 1);
    if (*p != ':')
        return stop_at(in, p);
    return lw_trace_skip_space(p + 1);
}

/* Behind a value of an object: its end (*DONE), or the next key. A comma too many is
 * let pass. */
static INLINE const char *scan_next(struct lw_trace_events *in, const char *p,
                                    bool *done)
{
    p = lw_trace_skip_space(p);
    if (*p == ',')
        p = lw_trace_skip_space(p + 1);
    else if (*p != '}')
        return stop_at(in, p);
    *done = *p == '}';
    return p + *done;
}

static const char *scan_members(struct lw_trace_events *in, const char *p,
                                struct lw_error *err)
{
    bool done;

    in->memory_count = 0;
    p = lw_trace_skip_space(p + 1);
    if (*p == '}')
        return p + 1;
    do {
        struct lw_member *member;

        if (in->memory_count == in->memory_capacity &&
            !lw_grow(&in->memory, &in->memory_capacity, in->memory_count + 1,
                     sizeof(*in->memory), err))
            return NULL;
        member = &in->memory[in->memory_count];
        p = scan_key(in, p, &member->key, &member->key_len);
        if (!p)
            return NULL;
        p = scan_value(in, p, &member->value);
        if (!p)
            return NULL;
        in->memory_count++;
        p = scan_next(in, p, &done);
    } while (p && !done);
    return p;
}

static struct lw_value *find_slot(struct lw_trace_event *event, const char *key,
                                  size_t len)
{
    switch (len) {
    case 1: return key[0] == 's' ? &event->scope : NULL;
    case 2:
        if (key[0] == 't' && key[1] == 's')
            return &event->time;
        return key[0] == 'i' && key[1] == 'd' ? &event->id : NULL;
    case 3:
        if (key[1] == 'i' && key[2] == 'd')
            return key[0] == 'p' ? &event->pid : key[0] == 't' ? &event->tid : NULL;
        if (memcmp(key, "dur", 3) == 0)
            return &event->duration;
        return memcmp(key, "cat", 3) == 0 ? &event->category : NULL;
    case 4:
        if (memcmp(key, "name", 4) == 0)
            return &event->name;
        return memcmp(key, "args", 4) == 0 ? &event->args : NULL;
    default: return NULL;
    }
}

/* The event whose '{' is at P. NULL without wants_more and an error in ERR: it is broken. */
const char *lw_trace_scan_event(struct lw_trace_events *in, const char *p,
                                struct lw_error *err)
{
    static const struct lw_trace_event blank = {
        .name.text = "",
        .category.text = "",
        .time.text = "",
        .duration.text = "",
        .pid.text = "",
        .tid.text = "",
        .id.text = "",
        .scope.text = "",
        .args.text = "",
    };
    struct lw_trace_event *event = &in->event;
    bool done;

    *event = blank;
    in->memory_count = 0;
    in->wants_more = false;
    p = lw_trace_skip_space(p + 1);
    if (*p == '}')
        return p + 1;
    do {
        struct lw_value other, *slot;
        const char *key;
        size_t len;

        p = scan_key(in, p, &key, &len);
        if (!p)
            return NULL;
        slot = find_slot(event, key, len);
        if (slot == &event->args && *p == '{') {
            slot->text = p;
            slot->form = LW_VALUE_NESTED;
            p = scan_members(in, p, err);
            if (!p)
                return NULL;
            slot->len = (size_t)(p - slot->text);
        } else {
            p = scan_value(in, p, slot ? slot : &other);
            if (!p)
                return NULL;
            if (!slot && len == 2 && key[0] == 'p' && key[1] == 'h' && other.len == 1)
                event->phase = *other.text;
        }
        p = scan_next(in, p, &done);
    } while (p && !done);
    event->members = in->memory;
    event->member_count = in->memory_count;
    return p;
}

const char *lw_trace_scan_key(struct lw_trace_events *in, const char *p,
                              const char **key, size_t *len)
{
    return scan_key(in, p, key, len);
}

const char *lw_trace_scan_value(struct lw_trace_events *in, const char *p,
                                struct lw_value *value)
{
    return scan_value(in, p, value);
}
