/* The scan runs over the window without asking where it ends: there is a NUL. */

#include "readers/trace_scan.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/alloc.h"

#define DEEPEST 64 /* brackets in brackets: bits of a word */
#define INLINE inline __attribute__((always_inline)) /* of the hot path */

/* What is compared with a key may lie behind the window's end. */
_Static_assert(LW_TRACE_KEY_BYTES <= LW_STREAM_PADDING, "a key is within the padding");

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

/* The first byte from P on that a word does not hold. What may be one is looked for: what is
 * at most a comma, a colon, and what has the bits that all brackets have. */
static INLINE const char *find_word_end(const char *p)
{
#ifdef __SSE2__
    const __m128i comma = _mm_set1_epi8(','), colon = _mm_set1_epi8(':');
    const __m128i bits = _mm_set1_epi8(0x26), bracket = _mm_set1_epi8(0x7f);

    for (;;) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hits = _mm_cmpeq_epi8(_mm_min_epu8(bytes, comma), bytes);
        unsigned mask;

        hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, colon));
        hits = _mm_or_si128(hits, _mm_cmpeq_epi8(_mm_or_si128(bytes, bits), bracket));
        mask = (unsigned)_mm_movemask_epi8(hits);
        if (!mask) {
            p += 16;
            continue;
        }
        p += __builtin_ctz(mask);
        if (lw_trace_byte(p) != LW_BYTE_PLAIN)
            return p;
        p++;
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
                                    bool is_mending, bool *escaped)
{
    *escaped = false;
    for (;;) {
        p = find_quote(p);
        if (*p == '"' && (!is_mending || ends_text(p)))
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

#define NESTED_BYTES 16 /* that are looked at together */

/* Which of the NESTED_BYTES bytes at P are quotes, brackets or NULs: a bit each. */
static INLINE unsigned find_brackets(const char *p)
{
#ifdef __SSE2__
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i braces = _mm_or_si128(bytes, _mm_set1_epi8(' ')); /* of brackets too */
    __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(braces, _mm_set1_epi8('{')),
                                _mm_cmpeq_epi8(braces, _mm_set1_epi8('}')));

    hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_setzero_si128()));
    return (unsigned)_mm_movemask_epi8(hits);
#else
    unsigned hits = 0;

    for (unsigned i = 0; i < NESTED_BYTES; i++)
        hits |= (unsigned)(lw_trace_byte(p + i) > LW_BYTE_STOP) << i;
    return hits;
#endif
}

static const char *scan_nested(struct lw_trace_events *in, const char *p)
{
    uint64_t is_object = 0; /* a bit a level */
    unsigned depth = 0, hits = find_brackets(p);
    bool escaped;

    for (;;) {
        const char *at;

        while (!hits) {
            p += NESTED_BYTES;
            hits = find_brackets(p);
        }
        at = p + __builtin_ctz(hits);
        hits &= hits - 1;
        switch (lw_trace_byte(at)) {
        case LW_BYTE_QUOTE:
            p = scan_text(in, at + 1, in->is_mending, &escaped);
            if (!p)
                return NULL;
            hits = find_brackets(++p);
            break;
        case LW_BYTE_OPEN:
            if (depth++ == DEEPEST)
                return stop_at(in, at);
            is_object = is_object << 1 | (*at == '{');
            break;
        case LW_BYTE_CLOSE:
            if ((is_object & 1) != (*at == '}'))
                return stop_at(in, at);
            is_object >>= 1;
            if (--depth == 0)
                return at + 1;
            break;
        default: /* a NUL of the file is not taken outside of texts */
            return stop_at(in, at);
        }
    }
}

static INLINE const char *scan_value(struct lw_trace_events *in, const char *p,
                                     struct lw_value *value, bool is_mending)
{
    const char *end;

    value->escaped = false;
    value->text = p;
    switch (lw_trace_byte(p)) {
    case LW_BYTE_QUOTE:
        value->form = LW_VALUE_TEXT;
        value->text = p + 1;
        end = scan_text(in, p + 1, is_mending, &value->escaped);
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
    end = scan_text(in, p + 1, in->is_mending, &escaped);
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
                                struct lw_trace_key **at, struct lw_member *member)
{
    struct lw_trace_keys *keys = &in->keys;
    unsigned before = (unsigned)(*at - keys->list), added = LW_KEY_NONE;
    struct lw_trace_key key = { .len = 0 };
    const char *start = p, *name = p;
    size_t name_len = 0;
    bool is_end = false;

    if (before == LW_KEY_OF_EVENT || before == LW_KEY_OF_ARGS) {
        p = lw_trace_skip_space(p + 1);
        is_end = *p == '}';
        p += is_end;
    } else {
        p = scan_next(in, p, &is_end);
    }
    if (p && !is_end)
        p = scan_key(in, p, &name, &name_len);
    if (!p)
        return NULL;

    if (is_end) {
        key.use = LW_KEY_END;
    } else if (member) {
        key.use = LW_KEY_MEMBER;
        key.code = in->code_of ? in->code_of(name, name_len) : 0;
        member->key = name;
        member->key_len = name_len;
    } else {
        find_use(name, name_len, &key);
    }
    if (!in->is_mending && p - start <= LW_TRACE_KEY_BYTES) {
        key.len = (uint8_t)(p - start);
        memcpy(key.text, start, key.len);
        key.name_at = (uint8_t)(name - start);
        key.name_len = (uint8_t)name_len;
        added = lw_trace_keys_add(keys, before, &key);
    }
    if (!added) {
        added = member ? LW_KEY_UNKNOWN_OF : LW_KEY_UNKNOWN;
        keys->list[added].use = key.use;
        keys->list[added].code = key.code;
        keys->list[added].offset = key.offset;
    }
    *at = &keys->list[added];
    return p;
}

/* From P on, which is behind the value of key *AT or the bracket of an object: to where the
 * value of the next key begins, which goes to *AT, or behind the object. MEMBER gets its
 * name; NULL: it is one of an event. */
static INLINE const char *next_key(struct lw_trace_events *in, const char *p,
                                   struct lw_trace_key **at, struct lw_member *member,
                                   bool is_mending)
{
    unsigned guess = is_mending ? LW_KEY_NONE : lw_trace_keys_guess(&in->keys, *at, p);
    struct lw_trace_key *key = &in->keys.list[guess];

    if (!guess)
        return scan_new_key(in, p, at, member);
    *at = key;
    if (member) {
        member->key = p + key->name_at;
        member->key_len = key->name_len;
    }
    return p + key->len;
}

/* Events */

static INLINE const char *scan_members(struct lw_trace_events *in, const char *p,
                                       bool is_mending, struct lw_error *err)
{
    struct lw_trace_key *key = &in->keys.list[LW_KEY_OF_ARGS];
    size_t count = 0;

    for (;; count++) {
        struct lw_member *member;

        if (count == in->memory_capacity &&
            !lw_grow(&in->memory, &in->memory_capacity, count + 1, sizeof(*in->memory),
                     err))
            return NULL;
        member = &in->memory[count];
        p = next_key(in, p, &key, member, is_mending);
        if (!p)
            return NULL;
        if (key->use == LW_KEY_END)
            break;
        member->code = key->code;
        p = scan_value(in, lw_trace_skip_space(p), &member->value, is_mending);
        if (!p)
            return NULL;
    }
    in->memory_count = count;
    return p;
}

static INLINE void clear_event(struct lw_trace_event *event)
{
    static const struct lw_value none = { .text = "" };

    event->phase = 0;
    event->name = event->category = event->time = event->duration = none;
    event->pid = event->tid = event->id = event->scope = event->args = none;
}

/* Twice: without a look at whether quotes are mended, and with one. */
static INLINE const char *scan_event(struct lw_trace_events *in, const char *p,
                                     bool is_mending, struct lw_error *err)
{
    struct lw_trace_key *key = &in->keys.list[LW_KEY_OF_EVENT];
    struct lw_trace_event *event = &in->event;

    clear_event(event);
    in->memory_count = 0;
    in->wants_more = false;
    for (;;) {
        struct lw_value other, *value = &other;

        p = next_key(in, p, &key, NULL, is_mending);
        if (!p)
            return NULL;
        if (key->use == LW_KEY_END)
            break;
        p = lw_trace_skip_space(p); /* may be more than the key had before */
        if (key->use == LW_KEY_ARGS && *p == '{') {
            event->args.text = p;
            event->args.form = LW_VALUE_NESTED;
            p = scan_members(in, p, is_mending, err);
            if (!p)
                return NULL;
            event->args.len = (size_t)(p - event->args.text);
            continue;
        }
        if (key->use == LW_KEY_VALUE || key->use == LW_KEY_ARGS)
            value = (struct lw_value *)(void *)((char *)event + key->offset);
        p = scan_value(in, p, value, is_mending);
        if (!p)
            return NULL;
        if (key->use == LW_KEY_PHASE && value->len == 1)
            event->phase = *value->text;
    }
    event->members = in->memory;
    event->member_count = in->memory_count;
    return p;
}

/* The event whose '{' is at P. NULL without wants_more and an error in ERR: it is broken. */
const char *lw_trace_scan_event(struct lw_trace_events *in, const char *p,
                                struct lw_error *err)
{
    return in->is_mending ? scan_event(in, p, true, err)
                          : scan_event(in, p, false, err);
}

const char *lw_trace_scan_key(struct lw_trace_events *in, const char *p,
                              const char **key, size_t *len)
{
    return scan_key(in, p, key, len);
}

const char *lw_trace_scan_value(struct lw_trace_events *in, const char *p,
                                struct lw_value *value)
{
    return scan_value(in, p, value, in->is_mending);
}
