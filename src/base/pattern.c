/* Translates Python's regular expressions to POSIX's, one construct at a time. */

#include "base/pattern.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define GROUPS_MAX 99 /* as Python before 3.5; only back-references need the numbers */

/* A class of bytes. */
struct set {
    uint64_t bits[4];
};

struct translation {
    const char *text; /* whole pattern, for sentences */
    const char *next;
    struct lw_buf out;
    unsigned depth;                     /* open groups */
    unsigned group_count;               /* Python's, so far */
    unsigned paren_count;               /* ours */
    unsigned char paren_of[GROUPS_MAX]; /* Python's number - 1 -> ours */
    bool ignore_case;
    bool can_repeat; /* what came last can be repeated */
};

static bool fail(const struct translation *t, const char *why, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_USAGE, "the pattern '%s' cannot be used: %s", t->text,
                   why);
}

static void set_add(struct set *set, unsigned char c)
{
    set->bits[c / 64] |= (uint64_t)1 << c % 64;
}

static bool set_has(const struct set *set, unsigned c)
{
    return set->bits[c / 64] >> c % 64 & 1;
}

static void set_invert(struct set *set)
{
    for (size_t i = 0; i < 4; i++)
        set->bits[i] = ~set->bits[i];
}

/* \d \D \w \W \s \S; false: LETTER is none of these. */
static bool set_class(struct set *set, char letter)
{
    struct set found = { { 0 } };

    if (!strchr("dDwWsS", letter))
        return false;
    for (unsigned c = 0; c < 128; c++) {
        bool is_in = false;

        switch (tolower(letter)) {
        case 'd': is_in = c >= '0' && c <= '9'; break;
        case 'w': is_in = isalnum((int)c) || c == '_'; break;
        case 's': is_in = c == ' ' || (c >= '\t' && c <= '\r'); break;
        }
        if (is_in)
            set_add(&found, (unsigned char)c);
    }
    if (isupper(letter))
        set_invert(&found);
    for (size_t i = 0; i < 4; i++)
        set->bits[i] |= found.bits[i];
    return true;
}

static void add_literal(struct lw_buf *out, unsigned char c)
{
    if (strchr("\\^$.[]|()*+?{}", c) && c)
        lw_buf_add_char(out, '\\');
    lw_buf_add_char(out, (char)c);
}

/* Characters that mean something in a bracket expression. */
static bool is_bracket_sign(unsigned c)
{
    return c == ']' || c == '[' || c == '^' || c == '-';
}

/* As a bracket expression, in which ']' must come first, '-' last, '^' not first, and
 * '[' not before '.', ':' or '='. No text we match holds a NUL, nor can a pattern. */
static void add_set(struct lw_buf *out, const struct set *set)
{
    unsigned plain_count = 0;

    for (unsigned c = 1; c < 256; c++)
        plain_count += set_has(set, c) && c != '^' && c != '-';
    if (plain_count == 0) { /* no bracket can begin with '^' */
        lw_buf_add_text(out, !set_has(set, '^')  ? "[-]"
                             : set_has(set, '-') ? "[-^]"
                                                 : "\\^");
        return;
    }
    lw_buf_add_char(out, '[');
    if (set_has(set, ']'))
        lw_buf_add_char(out, ']');
    for (unsigned c = 1, end; c < 256; c = end + 1) {
        end = c;
        if (!set_has(set, c) || is_bracket_sign(c))
            continue;
        while (end < 255 && set_has(set, end + 1) && !is_bracket_sign(end + 1))
            end++;
        lw_buf_add_char(out, (char)c);
        if (end > c + 1)
            lw_buf_add_char(out, '-');
        if (end > c)
            lw_buf_add_char(out, (char)end);
    }
    for (const char *sign = "[^-"; *sign; sign++)
        if (set_has(set, (unsigned char)*sign))
            lw_buf_add_char(out, *sign);
    lw_buf_add_char(out, ']');
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* A character written as \n, \x41 or \. ; t->next is behind the backslash. */
static bool take_escaped(struct translation *t, unsigned char *c, struct lw_error *err)
{
    static const char letters[] = "abfnrtv", means[] = "\a\b\f\n\r\t\v";
    const char *found = *t->next ? strchr(letters, *t->next) : NULL;

    if (!*t->next)
        return fail(t, "it ends in a backslash", err);
    if (found) {
        *c = (unsigned char)means[found - letters];
    } else if (*t->next == 'x') {
        int high = hex_value(t->next[1]);
        int low = high < 0 ? -1 : hex_value(t->next[2]);

        if (low < 0 || high * 16 + low == 0)
            return fail(t, "\\x needs two hexadecimal digits, not both 0", err);
        *c = (unsigned char)(high * 16 + low);
        t->next += 2;
    } else if (isalnum((unsigned char)*t->next)) {
        return fail(t, "it holds an escape that is not known here", err);
    } else {
        *c = (unsigned char)*t->next;
    }
    t->next++;
    return true;
}

/* One end of a range, or a whole class (then *IS_CLASS). */
static bool take_member(struct translation *t, struct set *set, unsigned char *c,
                        bool *is_class, struct lw_error *err)
{
    *is_class = false;
    if (!*t->next)
        return fail(t, "a [ is not closed", err);
    if (*t->next != '\\') {
        *c = (unsigned char)*t->next++;
        return true;
    }
    t->next++;
    if (*t->next && set_class(set, *t->next)) {
        t->next++;
        *is_class = true;
        return true;
    }
    return take_escaped(t, c, err);
}

/* [...]; t->next is behind the first bracket. A ']' is itself at the beginning. */
static bool translate_set(struct translation *t, struct lw_error *err)
{
    struct set set = { { 0 } };
    bool is_inverted = *t->next == '^';

    t->next += is_inverted;
    for (const char *start = t->next; *t->next != ']' || t->next == start;) {
        unsigned char first, last;
        bool is_class;

        if (!take_member(t, &set, &first, &is_class, err))
            return false;
        if (is_class)
            continue;
        last = first;
        if (t->next[0] == '-' && t->next[1] && t->next[1] != ']') {
            t->next++;
            if (!take_member(t, &set, &last, &is_class, err))
                return false;
            if (is_class || last < first)
                return fail(t, "a range in [] ends before it begins", err);
        }
        for (unsigned c = first; c <= last; c++)
            set_add(&set, (unsigned char)c);
    }
    t->next++;
    if (is_inverted)
        set_invert(&set);
    add_set(&t->out, &set);
    t->can_repeat = true;
    return true;
}

static bool translate_escape(struct translation *t, struct lw_error *err)
{
    struct set set = { { 0 } };
    unsigned char c;

    t->can_repeat = true;
    if (*t->next && set_class(&set, *t->next)) {
        add_set(&t->out, &set);
        t->next++;
        return true;
    }
    switch (*t->next) {
    case 'A': lw_buf_add_char(&t->out, '^'); break;
    case 'Z': lw_buf_add_char(&t->out, '$'); break;
    case 'b':
    case 'B':
        lw_buf_add_char(&t->out, '\\');
        lw_buf_add_char(&t->out, *t->next);
        break;
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': {
        unsigned group = (unsigned)(*t->next - '0');

        if (group > t->group_count || t->paren_of[group - 1] > 9 ||
            isdigit((unsigned char)t->next[1]))
            return fail(t, "it refers to a group that is not there", err);
        lw_buf_addf(&t->out, "\\%u", t->paren_of[group - 1]);
        break;
    }
    default:
        if (!take_escaped(t, &c, err))
            return false;
        add_literal(&t->out, c);
        return true;
    }
    t->next++;
    return true;
}

static bool open_group(struct translation *t, bool is_numbered, struct lw_error *err)
{
    if (t->group_count == GROUPS_MAX || t->paren_count == GROUPS_MAX)
        return fail(t, "it has more than 99 groups", err);
    t->paren_count++;
    if (is_numbered)
        t->paren_of[t->group_count++] = (unsigned char)t->paren_count;
    t->depth++;
    lw_buf_add_char(&t->out, '(');
    t->can_repeat = false;
    return true;
}

/* What begins with "(?"; t->next is behind that. */
static bool translate_extension(struct translation *t, struct lw_error *err)
{
    size_t flags = strspn(t->next, "aimsu");

    if (t->next[0] == ':') {
        t->next++;
        return open_group(t, false, err);
    }
    if (t->next[0] == 'P' && t->next[1] == '<') {
        const char *end = strchr(t->next, '>');

        if (!end)
            return fail(t, "the name of a group is not closed", err);
        t->next = end + 1;
        return open_group(t, true, err);
    }
    if (t->next[0] == '#') {
        const char *end = strchr(t->next, ')');

        if (!end)
            return fail(t, "a comment is not closed", err);
        t->next = end + 1;
        return true;
    }
    if (flags > 0 &&
        t->next[flags] == ')') { /* no name holds newlines: m, s are idle */
        t->ignore_case |= memchr(t->next, 'i', flags) != NULL;
        t->next += flags + 1;
        return true;
    }
    if (t->next[0] == '=' || t->next[0] == '!')
        return fail(t, "looking ahead is not possible here", err);
    if (t->next[0] == '<')
        return fail(t, "looking behind is not possible here", err);
    return fail(t, "a group of this kind is not possible here", err);
}

/* The length of {m}, {m,}, {,n} or {m,n} at TEXT; 0: it is none, but a brace. */
static size_t repeat_len(const char *text)
{
    size_t low = strspn(text + 1, "0123456789");
    size_t comma = text[1 + low] == ',';
    size_t high = comma ? strspn(text + 2 + low, "0123456789") : 0;

    if (low + high == 0 || text[1 + low + comma + high] != '}')
        return 0;
    return 2 + low + comma + high;
}

/* * + ? or {m,n}, LEN bytes. Lazy or greedy, there is a match or there is none. */
static bool translate_repeat(struct translation *t, size_t len, struct lw_error *err)
{
    if (!t->can_repeat)
        return fail(t, "there is nothing to repeat", err);
    if (len > 1 && t->next[1] == ',') {
        lw_buf_add_text(&t->out, "{0");
        lw_buf_add(&t->out, t->next + 1, len - 1);
    } else {
        lw_buf_add(&t->out, t->next, len);
    }
    t->next += len;
    if (*t->next == '+')
        return fail(t, "possessive repetition is not possible here", err);
    t->next += *t->next == '?';
    t->can_repeat = false;
    return true;
}

static bool translate_next(struct translation *t, struct lw_error *err)
{
    char c = *t->next;
    size_t repeat = c == '{' ? repeat_len(t->next) : strchr("*+?", c) ? 1 : 0;

    if (repeat)
        return translate_repeat(t, repeat, err);
    t->next++;
    switch (c) {
    case '\\': return translate_escape(t, err);
    case '[': return translate_set(t, err);
    case '(':
        if (*t->next != '?')
            return open_group(t, true, err);
        t->next++;
        return translate_extension(t, err);
    case ')':
        if (t->depth == 0)
            return fail(t, "a ) closes nothing", err);
        t->depth--;
        lw_buf_add_char(&t->out, ')');
        t->can_repeat = true;
        return true;
    case '|':
        lw_buf_add_char(&t->out, '|');
        t->can_repeat = false;
        return true;
    case '.':
    case '^':
    case '$':
        lw_buf_add_char(&t->out, c);
        t->can_repeat = c == '.';
        return true;
    default:
        add_literal(&t->out, (unsigned char)c);
        t->can_repeat = true;
        return true;
    }
}

static bool compile(struct lw_pattern *pattern, const struct translation *t,
                    struct lw_error *err)
{
    int flags = REG_EXTENDED | REG_NOSUB | (t->ignore_case ? REG_ICASE : 0);
    char why[100];
    int code = regcomp(&pattern->regex, t->out.bytes ? t->out.bytes : "", flags);

    pattern->is_compiled = code == 0;
    if (code == 0)
        return true;
    if (code == REG_ESPACE)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory for the pattern '%s'",
                       t->text);
    regerror(code, &pattern->regex, why, sizeof(why));
    why[0] = (char)tolower((unsigned char)why[0]);
    return fail(t, why, err);
}

bool lw_pattern_init(struct lw_pattern *pattern, const char *text, struct lw_error *err)
{
    struct translation t = { .text = text, .next = text };
    bool done = true;

    memset(pattern, 0, sizeof(*pattern));
    lw_buf_init(&t.out, 0);
    while (done && *t.next)
        done = translate_next(&t, err);
    if (done && t.depth > 0)
        done = fail(&t, "a ( is not closed", err);
    done = done && lw_buf_check(&t.out, err) && compile(pattern, &t, err);
    lw_buf_release(&t.out);
    return done;
}

void lw_pattern_release(struct lw_pattern *pattern)
{
    if (pattern->is_compiled)
        regfree(&pattern->regex);
    pattern->is_compiled = false;
}

bool lw_pattern_search(const struct lw_pattern *pattern, const char *text, size_t len)
{
    int end = len < INT_MAX ? (int)len : INT_MAX; /* as far as a regoff_t can say */
    regmatch_t range[1] = { { .rm_so = 0, .rm_eo = end } };

    return regexec(&pattern->regex, text, 1, range, REG_STARTEND) == 0;
}
