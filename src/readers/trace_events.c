/* An event that does not end in the window is scanned again from its beginning when there is
 * more, which happens once in a thousand events. One that is broken is scanned again with
 * an eye on its quotes; after one that is beyond help, the next is looked for by what
 * events begin with. */

#include "readers/trace_events.h"

#include <string.h>

#include "base/alloc.h"
#include "readers/trace_scan.h"

/* An event or a member larger than this is passed over. The longest seen: 60 KB of a
 * Python stack. */
#define LONGEST_BYTES ((size_t)16 << 20)
#define LOOK_BYTES 128 /* around a bracket, to know whether an event begins there */

enum state {
    AT_START,
    IN_OBJECT, /* where a key or its end comes next */
    IN_EVENTS, /* in the list of an object */
    IN_LIST,   /* in the list alone */
    AT_END,
};

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

/* Move to the next byte that is no space, nor PASSED; it is a NUL at the end. */
static bool move_on(struct lw_trace_events *in, char passed, struct lw_error *err)
{
    for (;;) {
        const char *p = here(in);

        while (lw_trace_byte(p) == LW_BYTE_SPACE || *p == passed)
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

    while (before > from && lw_trace_byte(before) == LW_BYTE_SPACE)
        before--;
    if (before < from || (*before != ',' && *before != '['))
        return false;
    p = lw_trace_skip_space(p + 1);
    return *p == '"' && lw_trace_scan_key(in, p, &key, &len) && is_event_key(key, len);
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

    p = lw_trace_skip_space(p + 1);
    if (*p == '}')
        return in->stream->is_at_end &&
               lw_trace_skip_space(p + 1) >= lw_trace_window_end(in);
    if (*p != ',')
        return in->state == IN_LIST && in->stream->is_at_end &&
               p >= lw_trace_window_end(in);
    p = lw_trace_skip_space(p + 1);
    if (*p != '"' || !lw_trace_scan_key(in, p, &key, &len))
        return false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (len == strlen(keys[i]) && memcmp(key, keys[i], len) == 0)
            return true;
    return false;
}

/* Pass over the broken event at `at`: to the bracket of the next, or of the list's end. What
 * it had looked at is scanned again, but not without end: DEEPEST brackets that nobody
 * closes are soon met. */
static bool resynchronise(struct lw_trace_events *in, struct lw_error *err)
{
    size_t from = 1;

    in->is_mending = false;
    for (;;) {
        const char *start = here(in), *end = lw_trace_window_end(in), *limit = end;

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

/* What is here is no event at all. */
static bool pass_junk(struct lw_trace_events *in, struct lw_error *err)
{
    in->wants_more = false;
    return pass_broken(in, err);
}

/* Something follows what ended the list or the file: more events, if a bracket was too
 * many; else it is a rest that cannot be read. */
static bool go_on(struct lw_trace_events *in, enum state list, struct lw_error *err)
{
    in->state = (uint8_t)list;
    if (*here(in) == '{')
        return true;
    if (!pass_junk(in, err))
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
    struct lw_error why; /* a thousand bytes: to clear all takes as long as an event */
    const char *end;

    why.code = LW_OK;
    while (!(end = lw_trace_scan_event(in, here(in), &why))) {
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
    if (!move_on(in, ',', err))
        return false;
    if (in->at < in->stream->len && in->event_count > 0)
        return go_on(in, list, err);
    in->has_rest = in->at < in->stream->len;
    in->state = AT_END;
    return true;
}

static bool next_of_list(struct lw_trace_events *in, bool *given, struct lw_error *err)
{
    if (!move_on(in, ',', err))
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
    return pass_junk(in, err);
}

/* A value that is too large to be held: to behind it, window by window. */
static bool skip_large(struct lw_trace_events *in, struct lw_error *err)
{
    size_t depth = 0;
    bool in_text = false;

    for (;;) {
        const char *end = lw_trace_window_end(in);

        for (const char *p = here(in); p < end; p++) {
            if (*p == '\\' && in_text && p + 1 < end)
                p++;
            else if (*p == '"')
                in_text = !in_text;
            else if (!in_text && lw_trace_byte(p) == LW_BYTE_OPEN)
                depth++;
            else if (!in_text && lw_trace_byte(p) == LW_BYTE_CLOSE && depth > 0)
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
        value = lw_trace_scan_key(in, here(in), &in->member.key, &in->member.key_len);
        if (value && lw_member_is(&in->member, "traceEvents") && *value == '[') {
            in->at = (size_t)(value - in->stream->window) + 1;
            in->state = IN_EVENTS;
            return true;
        }
        p = value ? lw_trace_scan_value(in, value, &in->member.value) : NULL;
        if (p && (p < lw_trace_window_end(in) || in->stream->is_at_end)) {
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
    if (!move_on(in, ',', err))
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
    if (!move_on(in, ' ', err))
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
