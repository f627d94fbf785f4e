/* The scan runs over the window without asking where it ends: there is a NUL. Whoever meets
 * it asks for more, and the event is scanned again from its beginning, which happens once
 * in a thousand events. */

#include "readers/trace_events.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/alloc.h"
#include "base/text.h"

/* An event or a member larger than this is passed over. The longest seen: 60 KB of a
 * Python stack. */
#define LONGEST_BYTES ((size_t)16 << 20)
#define WASTED_BYTES ((uint64_t)256 << 20) /* on broken events, beside what was read */
#define LOOK_BYTES 128 /* around a bracket, to know whether an event begins there */
#define LATEST_NS ((int64_t)1 << 62) /* 2116 */
#define DEEPEST 64                   /* brackets in brackets: bits of a word */

#define INLINE inline __attribute__((always_inline))

enum state {
    AT_START,
    IN_OBJECT, /* where a key or its end comes next */
    IN_EVENTS, /* in the list of an object */
    IN_LIST,   /* in the list alone */
    AT_END,
};

enum { PLAIN, SPACE, STOP, QUOTE, OPEN, CLOSE, ZERO };

/* What a byte is outside of a text. */
static const unsigned char kinds[256] = {
    [0] = ZERO,     [' '] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE,
    ['\t'] = SPACE, [','] = STOP,  [':'] = STOP,   ['"'] = QUOTE,
    ['['] = OPEN,   ['{'] = OPEN,  [']'] = CLOSE,  ['}'] = CLOSE,
};

static inline unsigned kind_at(const char *p)
{
    return kinds[(unsigned char)*p];
}

void lw_trace_events_init(struct lw_trace_events *in, struct lw_stream *stream)
{
    memset(in, 0, sizeof(*in));
    in->stream = stream;
}

void lw_trace_events_release(struct lw_trace_events *in)
{
    lw_free(in->memory);
    memset(in, 0, sizeof(*in));
}

/* Scanning. Each takes where it begins and returns where it ends; NULL: it does not, and
 * wants_more says whether that is for the window's end. */

static inline const char *window_end(const struct lw_trace_events *in)
{
    return in->stream->window + in->stream->len;
}

static const char *stop_at(struct lw_trace_events *in, const char *p)
{
    in->wants_more = p >= window_end(in);
    return NULL;
}

static INLINE const char *skip_space(const char *p)
{
    if ((unsigned char)*p > ' ')
        return p;
    while (kind_at(p) == SPACE)
        p++;
    return p;
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
    const char *next = skip_space(quote + 1);

    return *next == '\0' || strchr(",:}]", *next);
}

/* The end of the text whose first byte is P: its quote. */
static INLINE const char *scan_text(struct lw_trace_events *in, const char *p,
                                    bool *escaped)
{
    const char *end = window_end(in);

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
        while (kind_at(p) <= STOP)
            p++;
        switch (kind_at(p)) {
        case QUOTE:
            p = scan_text(in, p + 1, &escaped);
            if (!p)
                return NULL;
            break;
        case OPEN:
            if (depth++ == DEEPEST)
                return stop_at(in, p);
            is_object = is_object << 1 | (*p == '{');
            break;
        case CLOSE:
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
    switch (kind_at(p)) {
    case QUOTE:
        value->form = LW_VALUE_TEXT;
        value->text = p + 1;
        end = scan_text(in, p + 1, &value->escaped);
        if (!end)
            return NULL;
        value->len = (size_t)(end - value->text);
        return end + 1;
    case OPEN:
        value->form = LW_VALUE_NESTED;
        end = scan_nested(in, p);
        if (!end)
            return NULL;
        break;
    case PLAIN:
        value->form = LW_VALUE_WORD;
        for (end = p + 1; kind_at(end) == PLAIN; end++)
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
    p = skip_space(end + 1);
    if (*p != ':')
        return stop_at(in, p);
    return skip_space(p + 1);
}

/* Behind a value of an object: its end (*DONE), or the next key. A comma too many is
 * let pass. */
static INLINE const char *scan_next(struct lw_trace_events *in, const char *p,
                                    bool *done)
{
    p = skip_space(p);
    if (*p == ',')
        p = skip_space(p + 1);
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
    p = skip_space(p + 1);
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
static const char *scan_event(struct lw_trace_events *in, const char *p,
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
    p = skip_space(p + 1);
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

/* The window */

static const char *here(const struct lw_trace_events *in)
{
    return in->stream->window + in->at;
}

static bool fail_here(const struct lw_trace_events *in, const char *what,
                      struct lw_error *err)
{
    if (in->stream->damage.code != LW_OK && in->at == in->stream->len)
        return lw_fail(err, in->stream->damage.code, "%s", in->stream->damage.text);
    return lw_fail(err, LW_ERR_FORMAT, "at byte %llu: %s",
                   (unsigned long long)(in->stream->before + in->at), what);
}

/* Have more behind what is at `at`. */
static bool slide(struct lw_trace_events *in, struct lw_error *err)
{
    size_t keep_from = in->at;

    in->at = 0;
    return lw_stream_slide(in->stream, keep_from, err);
}

/* Move to the next byte that is no space, nor one of PASSED; it is a NUL at the end. */
static bool move_on(struct lw_trace_events *in, const char *passed,
                    struct lw_error *err)
{
    for (;;) {
        const char *p = here(in);

        while (kind_at(p) == SPACE || (*p && strchr(passed, *p)))
            p++;
        in->at = (size_t)(p - in->stream->window);
        if (in->at < in->stream->len || in->stream->is_at_end)
            return true;
        if (!slide(in, err))
            return false;
    }
}

/* After a scan from `at` ended early: is there more to have for it? */
static bool can_have_more(const struct lw_trace_events *in)
{
    return in->wants_more && !in->stream->is_at_end &&
           in->stream->len - in->at < LONGEST_BYTES;
}

/* Going on after something broken */

/* Does an event begin with KEY? */
static bool is_event_key(const char *key, size_t len)
{
    static const char keys[] = " ph cat name pid tid ts dur id args bp s ";
    char word[8];

    if (len == 0 || len > 4)
        return false;
    word[0] = ' ';
    memcpy(word + 1, key, len);
    word[len + 1] = ' ';
    word[len + 2] = '\0';
    return strstr(keys, word) != NULL;
}

/* Does P, a bracket, begin an event, and is one expected there? */
static bool begins_event(struct lw_trace_events *in, const char *p, const char *from)
{
    const char *before = p - 1, *key;
    size_t len;

    while (before > from && kind_at(before) == SPACE)
        before--;
    if (before < from || (*before != ',' && *before != '['))
        return false;
    p = skip_space(p + 1);
    return *p == '"' && scan_key(in, p, &key, &len) && is_event_key(key, len);
}

/* Does P, a bracket, end the list of events? What is behind an event's own list is a member
 * of its args, so the keys that Kineto writes behind its events are known here. */
static bool ends_events(struct lw_trace_events *in, const char *p)
{
    static const char *const keys[] = { "traceName", "displayTimeUnit",
                                        "baseTimeNanoseconds", "schemaVersion",
                                        "deviceProperties" };
    const char *key;
    size_t len;

    p = skip_space(p + 1);
    if (*p == '}')
        return in->stream->is_at_end && skip_space(p + 1) >= window_end(in);
    if (*p != ',')
        return in->state == IN_LIST && in->stream->is_at_end && p >= window_end(in);
    p = skip_space(p + 1);
    if (*p != '"' || !scan_key(in, p, &key, &len))
        return false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (len == strlen(keys[i]) && memcmp(key, keys[i], len) == 0)
            return true;
    return false;
}

/* Pass over the broken event at `at`: to the bracket of the next, or of the list's end. */
static bool resynchronise(struct lw_trace_events *in, struct lw_error *err)
{
    size_t from = 1;

    in->is_mending = false;
    for (;;) {
        const char *start = here(in), *end = window_end(in), *limit = end;

        if (!in->stream->is_at_end)
            limit = end - start > LOOK_BYTES ? end - LOOK_BYTES : start;
        for (const char *p = start + from; p < limit; p++)
            if ((*p == '{' && begins_event(in, p, start)) ||
                (*p == ']' && ends_events(in, p))) {
                in->at = (size_t)(p - in->stream->window);
                return true;
            }
        if (in->stream->is_at_end) {
            in->at = in->stream->len;
            return true;
        }
        /* What is before a bracket is looked at as well. */
        if (limit - start > (ptrdiff_t)(from + LOOK_BYTES)) {
            in->at = (size_t)(limit - in->stream->window) - LOOK_BYTES;
            from = LOOK_BYTES;
        }
        if (!slide(in, err))
            return false;
    }
}

static bool pass_broken(struct lw_trace_events *in, struct lw_error *err)
{
    bool is_cut = in->wants_more && in->stream->is_at_end;
    size_t before = in->at;

    in->wasted_bytes += in->stream->len - in->at < LONGEST_BYTES
                            ? in->stream->len - in->at
                            : LONGEST_BYTES;
    if (in->wasted_bytes > WASTED_BYTES + 8 * (in->stream->before + in->at))
        return fail_here(in, "too many events are broken", err);
    in->broken_count++;
    in->event_count++;
    if (!resynchronise(in, err))
        return false;
    if (is_cut && in->at == in->stream->len && in->at > before) {
        in->is_cut = true;
        in->cut_count = 1;
        in->broken_count--;
    }
    return true;
}

/* Something follows what ended the list or the file: more events, if a bracket was too
 * many; else it is a rest that cannot be read. */
static bool go_on(struct lw_trace_events *in, enum state list, struct lw_error *err)
{
    in->state = (uint8_t)list;
    if (*here(in) == '{')
        return true;
    in->wants_more = false;
    if (!pass_broken(in, err))
        return false;
    if (in->at == in->stream->len) {
        in->broken_count--;
        in->event_count--;
        in->has_rest = true;
        in->state = AT_END;
    }
    return true;
}

/* Items */

/* At a bracket of an event. *GIVEN: there is one. */
static bool next_event(struct lw_trace_events *in, bool *given, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    const char *end;

    while (!(end = scan_event(in, here(in), &why))) {
        if (why.code != LW_OK)
            return lw_fail(err, why.code, "%s", why.text);
        if (can_have_more(in)) {
            if (!slide(in, err))
                return false;
        } else if (!in->is_mending) {
            in->is_mending = true;
        } else {
            return pass_broken(in, err);
        }
    }
    in->mended_count += in->is_mending;
    in->is_mending = false;
    in->event_count++;
    in->at = (size_t)(end - in->stream->window);
    *given = true;
    return true;
}

/* Behind the last bracket, where nothing should be. */
static bool at_end(struct lw_trace_events *in, enum state list, struct lw_error *err)
{
    if (!move_on(in, ",", err))
        return false;
    if (in->at < in->stream->len && in->event_count > 0)
        return go_on(in, list, err);
    in->has_rest = in->at < in->stream->len;
    in->state = AT_END;
    return true;
}

static bool next_of_list(struct lw_trace_events *in, bool *given, struct lw_error *err)
{
    if (!move_on(in, ",", err))
        return false;
    if (*here(in) == '{')
        return next_event(in, given, err);
    if (*here(in) == ']' && in->state == IN_EVENTS) {
        in->at++;
        in->state = IN_OBJECT;
        return true;
    }
    if (*here(in) == ']') {
        in->at++;
        return at_end(in, IN_LIST, err);
    }
    if (in->at == in->stream->len) {
        in->is_cut |= in->state == IN_EVENTS;
        in->state = AT_END;
        return true;
    }
    in->wants_more = false;
    return pass_broken(in, err);
}

/* A value that is too large to be held: to behind it, window by window. */
static bool skip_large(struct lw_trace_events *in, struct lw_error *err)
{
    size_t depth = 0;
    bool in_text = false;

    for (;;) {
        const char *end = window_end(in);

        for (const char *p = here(in); p < end; p++) {
            if (*p == '\\' && in_text && p + 1 < end)
                p++;
            else if (*p == '"')
                in_text = !in_text;
            else if (!in_text && kind_at(p) == OPEN)
                depth++;
            else if (!in_text && kind_at(p) == CLOSE && depth > 0)
                depth--;
            else
                continue;
            if (depth == 0 && !in_text) {
                in->at = (size_t)(p - in->stream->window) + 1;
                return true;
            }
        }
        in->at = in->stream->len;
        if (in->stream->is_at_end || !slide(in, err))
            return in->stream->is_at_end;
    }
}

/* What cannot be read beside the events: before them there is nothing to have. */
static bool leave_object(struct lw_trace_events *in, const char *what,
                         struct lw_error *err)
{
    if (in->event_count == 0)
        return fail_here(in, what, err);
    if (in->at < in->stream->len)
        return go_on(in, IN_EVENTS, err);
    in->is_cut = true;
    in->state = AT_END;
    return true;
}

/* At the quote of a key. */
static bool next_member(struct lw_trace_events *in, bool *given, struct lw_error *err)
{
    for (;;) {
        const char *p, *value;

        in->wants_more = false;
        value = scan_key(in, here(in), &in->member.key, &in->member.key_len);
        if (value && lw_member_is(&in->member, "traceEvents") && *value == '[') {
            in->at = (size_t)(value - in->stream->window) + 1;
            in->state = IN_EVENTS;
            return true;
        }
        p = value ? scan_value(in, value, &in->member.value) : NULL;
        if (p && (p < window_end(in) || in->stream->is_at_end)) {
            in->at = (size_t)(p - in->stream->window);
            *given = true;
            return true;
        }
        in->wants_more |= p != NULL;
        if (can_have_more(in)) {
            if (!slide(in, err))
                return false;
        } else if (value && in->wants_more && !in->stream->is_at_end) {
            in->at = (size_t)(value - in->stream->window);
            return skip_large(in, err);
        } else {
            if (in->wants_more)
                in->at = in->stream->len;
            return leave_object(in,
                                in->wants_more ? "the text ends too early"
                                               : "a member that cannot be read",
                                err);
        }
    }
}

static bool next_of_object(struct lw_trace_events *in, bool *given,
                           struct lw_error *err)
{
    if (!move_on(in, ",", err))
        return false;
    if (*here(in) == '"')
        return next_member(in, given, err);
    if (*here(in) == '}') {
        in->at++;
        return at_end(in, IN_EVENTS, err);
    }
    return leave_object(in,
                        in->at == in->stream->len ? "the text ends too early"
                                                  : "no key where one should be",
                        err);
}

static bool start(struct lw_trace_events *in, struct lw_error *err)
{
    if (in->stream->len >= 3 && memcmp(in->stream->window, "\xef\xbb\xbf", 3) == 0)
        in->at = 3; /* a mark of UTF-8 */
    if (!move_on(in, "", err))
        return false;
    if (*here(in) != '{' && *here(in) != '[')
        return fail_here(in, "no list of events", err);
    in->state = *here(in) == '{' ? IN_OBJECT : IN_LIST;
    in->at++;
    return true;
}

bool lw_trace_events_next(struct lw_trace_events *in, enum lw_trace_item *item,
                          struct lw_error *err)
{
    bool given = false, done = true;

    while (done && !given && in->state != AT_END) {
        switch (in->state) {
        case AT_START: done = start(in, err); break;
        case IN_OBJECT:
            *item = LW_TRACE_MEMBER;
            done = next_of_object(in, &given, err);
            break;
        default:
            *item = LW_TRACE_EVENT;
            done = next_of_list(in, &given, err);
            break;
        }
    }
    if (!given)
        *item = LW_TRACE_END;
    return done;
}

/* Values */

/* Digits alone, as nearly all numbers are. */
static inline bool take_digits(const char *text, size_t len, uint64_t *number)
{
    uint64_t sum = 0;

    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';

        if (digit > 9)
            return false;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return true;
}

static bool is_scalar(const struct lw_value *value)
{
    return value->form == LW_VALUE_TEXT || value->form == LW_VALUE_WORD;
}

bool lw_value_u64(const struct lw_value *value, uint64_t *number)
{
    int64_t scaled;

    if (!is_scalar(value))
        return false;
    if (take_digits(value->text, value->len, number) ||
        lw_text_u64(value->text, value->len, number))
        return true;
    if (!lw_text_scaled(value->text, value->len, 0, &scaled) || scaled < 0)
        return false;
    *number = (uint64_t)scaled;
    return true;
}

bool lw_value_i64(const struct lw_value *value, int64_t *number)
{
    uint64_t plain;

    if (!is_scalar(value))
        return false;
    if (take_digits(value->text, value->len, &plain)) {
        *number = (int64_t)plain;
        return true;
    }
    return lw_text_scaled(value->text, value->len, 0, number);
}

bool lw_value_double(const struct lw_value *value, double *number)
{
    return is_scalar(value) && lw_text_double(value->text, value->len, number);
}

/* "1623142623460111", "3912000456701.402": all digits, at most three behind a point. */
static inline bool take_ns(const char *text, size_t len, int64_t *ns)
{
    uint64_t sum = 0;
    size_t i = 0, places = 0;

    if (len == 0 || len > 16 + 1 + 3)
        return false;
    for (; i < len && (unsigned char)(text[i] - '0') <= 9; i++)
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    if (i == 0 || i > 16)
        return false;
    if (i < len) {
        if (text[i++] != '.')
            return false;
        for (; i < len && (unsigned char)(text[i] - '0') <= 9; i++, places++)
            sum = sum * 10 + (uint64_t)(text[i] - '0');
        if (i < len || places == 0 || places > 3)
            return false;
    }
    for (; places < 3; places++)
        sum *= 10;
    *ns = (int64_t)sum; /* below 10^19: 16 digits and three */
    return *ns >= 0;
}

static bool value_ns(const struct lw_value *value, int64_t *ns)
{
    return is_scalar(value) && (take_ns(value->text, value->len, ns) ||
                                lw_text_scaled(value->text, value->len, 3, ns));
}

bool lw_trace_event_time(const struct lw_trace_event *event,
                         struct lw_trace_losses *losses, int64_t *ns)
{
    if (value_ns(&event->time, ns) && *ns >= 0 && *ns <= LATEST_NS)
        return true;
    losses->timeless++;
    return false;
}

uint64_t lw_trace_event_duration(const struct lw_trace_event *event,
                                 struct lw_trace_losses *losses)
{
    int64_t ns = 0;

    if (event->duration.form == LW_VALUE_NONE || lw_value_is(&event->duration, "null"))
        return 0;
    if (value_ns(&event->duration, &ns) && ns >= 0 && ns <= LATEST_NS)
        return (uint64_t)ns;
    losses->endless++;
    return 0;
}
