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

/* The first byte from P on that a word does not hold. */
static INLINE const char *find_word_end(const char *p)
{
#ifdef __SSE2__
    const __m128i space = _mm_set1_epi8(' '), quote = _mm_set1_epi8('"');
    const __m128i comma = _mm_set1_epi8(','), colon = _mm_set1_epi8(':');
    const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');

    for (;;) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i braces = _mm_or_si128(bytes, space); /* brackets become braces */
        __m128i hits = _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes);
        unsigned mask;

        hits = _mm_or_si128(hits, _mm_or_si128(_mm_cmpeq_epi8(bytes, comma),
                                               _mm_cmpeq_epi8(bytes, colon)));
        hits = _mm_or_si128(hits, _mm_or_si128(_mm_cmpeq_epi8(braces, open),
                                               _mm_cmpeq_epi8(braces, close)));
        hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, quote));
        mask = (unsigned)_mm_movemask_epi8(hits);
        if (!mask) {
            p += 16;
            continue;
        }
        p += __builtin_ctz(mask);
        if (lw_trace_byte(p) != LW_BYTE_PLAIN)
            return p;
        p++; /* a control character is taken as it is */
    }
#else
    while (lw_trace_byte(p) == LW_BYTE_PLAIN)
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
    *escaped = false;
    for (;;) {
        p = find_quote(p);
        if (*p == '"' && (!in->is_mending || ends_text(p)))
            return p;
        if (p >= lw_trace_window_end(in))
            return stop_at(in, p);
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
        end = find_word_end(p + 1);
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

/* Keys */

#define FIELD(name, field) \
    { \
        name, LW_KEY_VALUE, offsetof(struct lw_trace_event, field) \
    }

/* What a key of an event, LEN bytes at NAME, is for: `use` and `offset` of KEY. */
static void find_use(const char *name, size_t len, struct lw_trace_key *key)
{
    static const struct {
        char name[5];
        uint8_t use;
        uint16_t offset;
    } uses[] = {
        FIELD("ts", time),
        FIELD("dur", duration),
        FIELD("name", name),
        FIELD("cat", category),
        FIELD("pid", pid),
        FIELD("tid", tid),
        FIELD("id", id),
        FIELD("s", scope),
        { "ph", LW_KEY_PHASE, 0 },
        { "args", LW_KEY_ARGS, offsetof(struct lw_trace_event, args) },
    };

    key->use = LW_KEY_OTHER;
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        if (len == strlen(uses[i].name) && memcmp(name, uses[i].name, len) == 0) {
            key->use = uses[i].use;
            key->offset = uses[i].offset;
        }
}

/* As next_key(), of one that was not met there lately. */
static const char *scan_new_key(struct lw_trace_events *in, const char *p,
                                unsigned *number, bool is_member, const char **name,
                                size_t *name_len)
{
    struct lw_trace_key key = { .len = 0 };
    bool is_first = *number == LW_KEY_OF_EVENT || *number == LW_KEY_OF_ARGS;
    bool is_end = false;
    const char *start = p;
    unsigned added = LW_KEY_NONE;

    if (is_first) {
        p = lw_trace_skip_space(p + 1);
        is_end = *p == '}';
        p += is_end;
    } else {
        p = scan_next(in, p, &is_end);
    }
    if (p && !is_end)
        p = scan_key(in, p, name, name_len);
    if (!p)
        return NULL;

    if (is_end) {
        key.use = LW_KEY_END;
    } else if (is_member) {
        key.use = LW_KEY_MEMBER;
        key.code = in->code_of ? in->code_of(*name, *name_len) : 0;
    } else {
        find_use(*name, *name_len, &key);
    }
    if (!in->is_mending && p - start <= LW_TRACE_KEY_BYTES) {
        key.len = (uint8_t)(p - start);
        memcpy(key.text, start, key.len);
        if (!is_end) {
            key.name_at = (uint8_t)(*name - start);
            key.name_len = (uint8_t)*name_len;
        }
        added = lw_trace_keys_add(&in->keys, *number, &key);
    }
    if (!added) {
        added = is_member ? LW_KEY_UNKNOWN_OF : LW_KEY_UNKNOWN;
        in->keys.list[added].use = key.use;
        in->keys.list[added].code = key.code;
        in->keys.list[added].offset = key.offset;
    }
    *number = added;
    return p;
}

/* From P on, which is behind the value of key *NUMBER or the bracket of an object: where the
 * value of the next key begins, whose number goes to *NUMBER; or behind the object. */
static INLINE const char *next_key(struct lw_trace_events *in, const char *p,
                                   unsigned *number, bool is_member, const char **name,
                                   size_t *name_len)
{
    unsigned guess =
        in->is_mending ? LW_KEY_NONE : lw_trace_keys_guess(&in->keys, *number, p);
    const struct lw_trace_key *key = &in->keys.list[guess];

    if (!guess)
        return scan_new_key(in, p, number, is_member, name, name_len);
    *number = guess;
    *name = p + key->name_at;
    *name_len = key->name_len;
    return p + key->len;
}

/* Events */

static const char *scan_members(struct lw_trace_events *in, const char *p,
                                struct lw_error *err)
{
    unsigned number = LW_KEY_OF_ARGS;

    in->memory_count = 0;
    for (;;) {
        struct lw_member *member;

        if (in->memory_count == in->memory_capacity &&
            !lw_grow(&in->memory, &in->memory_capacity, in->memory_count + 1,
                     sizeof(*in->memory), err))
            return NULL;
        member = &in->memory[in->memory_count];
        p = next_key(in, p, &number, true, &member->key, &member->key_len);
        if (!p || in->keys.list[number].use == LW_KEY_END)
            return p;
        member->code = in->keys.list[number].code;
        p = scan_value(in, lw_trace_skip_space(p), &member->value);
        if (!p)
            return NULL;
        in->memory_count++;
    }
}

static INLINE void clear_event(struct lw_trace_event *event)
{
    static const struct lw_value none = { .text = "" };

    event->phase = 0;
    event->name = event->category = event->time = event->duration = none;
    event->pid = event->tid = event->id = event->scope = event->args = none;
}

/* The event whose '{' is at P. NULL without wants_more and an error in ERR: it is broken. */
const char *lw_trace_scan_event(struct lw_trace_events *in, const char *p,
                                struct lw_error *err)
{
    struct lw_trace_event *event = &in->event;
    unsigned number = LW_KEY_OF_EVENT;

    clear_event(event);
    in->memory_count = 0;
    in->wants_more = false;
    for (;;) {
        struct lw_value other, *value = &other;
        const struct lw_trace_key *key;
        const char *name;
        size_t name_len;

        p = next_key(in, p, &number, false, &name, &name_len);
        if (!p)
            return NULL;
        key = &in->keys.list[number];
        if (key->use == LW_KEY_END)
            break;
        p = lw_trace_skip_space(p); /* may be more than the key had before */
        if (key->use == LW_KEY_ARGS && *p == '{') {
            event->args.text = p;
            event->args.form = LW_VALUE_NESTED;
            p = scan_members(in, p, err);
            if (!p)
                return NULL;
            event->args.len = (size_t)(p - event->args.text);
            continue;
        }
        if (key->use == LW_KEY_VALUE || key->use == LW_KEY_ARGS)
            value = (struct lw_value *)(void *)((char *)event + key->offset);
        p = scan_value(in, p, value);
        if (!p)
            return NULL;
        if (key->use == LW_KEY_PHASE && value->len == 1)
            event->phase = *value->text;
    }
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
