/* GNU habits without the guessing: --name VALUE, --name=VALUE, -n VALUE, -nVALUE,
 * clusters of flags, options after operands, `--`. getopt_long() is not used: it
 * takes any unique prefix of a name, prints its own messages, keeps its state in
 * globals, and would need the rows translated into two more tables. */

#include "cmd/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/text.h"

/* The words still to be read, and what was made of those before. */
struct parser {
    const struct lw_command *command;
    struct lw_parsed *parsed;
    char **argv;
    int argc;
    int next; /* the first word not yet read */
    struct lw_error *err;
};

int lw_usage(struct lw_error *err, const char *format, ...)
{
    char text[sizeof(err->text)];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    lw_fail(err, LW_ERR_USAGE, "%s", text);
    return LW_EXIT_USAGE;
}

/* A number with a unit; the unit may be absent if the table has an empty one. */
struct unit {
    const char *suffix;
    double factor;
};

static bool parse_with_unit(const char *text, const struct unit *units, size_t count,
                            uint64_t *value)
{
    size_t digits = strspn(text, "0123456789.");
    uint64_t whole;
    double number;

    if (!lw_text_double(text, digits, &number))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text + digits, units[i].suffix) != 0)
            continue;
        /* A whole number is kept exact: a double only holds 53 bits. */
        if (lw_text_u64(text, digits, &whole))
            return !__builtin_mul_overflow(whole, (uint64_t)units[i].factor, value);
        if (number * units[i].factor >= 0x1p64)
            return false;
        *value = (uint64_t)(number * units[i].factor);
        return true;
    }
    return false;
}

bool lw_parse_size(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {
        { "", 1 },         { "B", 1 },        { "K", 0x1p10 },   { "KB", 0x1p10 },
        { "KiB", 0x1p10 }, { "M", 0x1p20 },   { "MB", 0x1p20 },  { "MiB", 0x1p20 },
        { "G", 0x1p30 },   { "GB", 0x1p30 },  { "GiB", 0x1p30 }, { "T", 0x1p40 },
        { "TB", 0x1p40 },  { "TiB", 0x1p40 },
    };

    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), bytes);
}

bool lw_parse_duration(const char *text, uint64_t *ns)
{
    static const struct unit units[] = {
        { "", 1e9 },  { "ns", 1 },   { "us", 1e3 },   { "ms", 1e6 },
        { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
    };

    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), ns);
}

/* Which of WORDS ("text|json|csv", "shapes,stack") the LEN bytes at TEXT are, from 0;
 * -1: none. */
static int word_index(const char *words, const char *text, size_t len)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(words, "|,");

        if (n == len && memcmp(words, text, n) == 0)
            return i;
        if (words[n] == '\0')
            return -1;
        words += n + 1;
    }
}

bool lw_arg_may_be_bare(enum lw_arg_kind kind)
{
    return kind == LW_ARG_MODE || kind == LW_ARG_WORDS;
}

static bool needs_value(const struct lw_option *option)
{
    return option->kind != LW_ARG_FLAG && !lw_arg_may_be_bare(option->kind);
}

static bool add_to_list(struct parser *p, struct lw_arg_list *list, const char *text)
{
    /* Every value takes a word of the line, so there are never more than ARGC. */
    if (!list->texts) {
        list->texts = lw_zalloc((size_t)p->argc, sizeof(*list->texts), p->err);
        if (!list->texts)
            return false;
    }
    list->texts[list->count++] = text;
    return true;
}

static bool refuse(struct parser *p, const struct lw_option *option, const char *wanted,
                   const char *text)
{
    return lw_fail(p->err, LW_ERR_USAGE, "%s: --%s takes %s, not '%s'",
                   p->command->name, option->name, wanted, text);
}

/* Add the words of TEXT, parted by commas, to those that BITS has. */
static bool add_words(struct parser *p, const struct lw_option *option,
                      const char *text, unsigned *bits)
{
    *bits |= 1;
    while (text) {
        size_t len = strcspn(text, ",");
        int index = word_index(option->arg, text, len);

        if (index < 0)
            return lw_fail(p->err, LW_ERR_USAGE, "%s: --%s takes %s, not '%.*s'",
                           p->command->name, option->name, option->arg, (int)len, text);
        *bits |= 2u << index;
        text = text[len] ? text + len + 1 : NULL;
    }
    return true;
}

/* Put TEXT, or the fact that the option was given when TEXT is NULL, in its field. */
static bool set_field(struct parser *p, const struct lw_option *option,
                      const char *text)
{
    void *field = (char *)p->parsed->args + option->offset;
    int index;

    lw_assert(option->offset < p->command->args_size);
    switch (option->kind) {
    case LW_ARG_FLAG: *(bool *)field = true; return true;
    case LW_ARG_PATH:
        if (!*text)
            return lw_fail(p->err, LW_ERR_USAGE, "%s: --%s needs a name (%s), not ''",
                           p->command->name, option->name, option->arg);
        *(const char **)field = text;
        return true;
    case LW_ARG_TEXT: *(const char **)field = text; return true;
    case LW_ARG_COUNT:
        if (!lw_text_u64(text, strlen(text), field))
            return refuse(p, option, "a number", text);
        return true;
    case LW_ARG_SIZE:
        if (!lw_parse_size(text, field))
            return refuse(p, option, "a size such as 64K or 2G", text);
        return true;
    case LW_ARG_DURATION:
        if (!lw_parse_duration(text, field))
            return refuse(p, option, "a time such as 10us or 1.5s", text);
        return true;
    case LW_ARG_CHOICE:
        if ((index = word_index(option->arg, text, strlen(text))) < 0)
            return refuse(p, option, option->arg, text);
        *(unsigned *)field = (unsigned)index;
        return true;
    case LW_ARG_MODE:
        index = text ? word_index(option->arg, text, strlen(text)) : -1;
        if (index < 0 && text)
            return refuse(p, option, option->arg, text);
        *(unsigned *)field = (unsigned)index + 2;
        return true;
    case LW_ARG_WORDS: return add_words(p, option, text, field);
    case LW_ARG_LIST: return add_to_list(p, field, text);
    case LW_ARG_HEADING:
    case LW_ARG_END: break;
    }
    return true;
}

/* Set an option to TEXT or, when that is NULL and it needs a value, to the next
 * word. SPELLING is how the person wrote the option. */
static bool take_option(struct parser *p, const struct lw_option *option,
                        const char *spelling, const char *text)
{
    if (text && option->kind == LW_ARG_FLAG)
        return lw_fail(p->err, LW_ERR_USAGE, "%s: %s takes no value", p->command->name,
                       spelling);
    if (!text && needs_value(option)) {
        if (p->next == p->argc)
            return lw_fail(p->err, LW_ERR_USAGE, "%s: %s needs a value (%s)",
                           p->command->name, spelling, option->arg);
        text = p->argv[p->next++];
    }
    return set_field(p, option, text);
}

static bool no_such_option(struct parser *p, const char *spelling, const char *close)
{
    const struct lw_habit *habit = p->command->habits;

    for (; habit && habit->option; habit++)
        if (strcmp(habit->option, spelling) == 0)
            return lw_fail(p->err, LW_ERR_USAGE, "%s: there is no option %s; %s",
                           p->command->name, spelling, habit->instead);
    if (close)
        return lw_fail(p->err, LW_ERR_USAGE,
                       "%s: there is no option %s; did you mean --%s?",
                       p->command->name, spelling, close);
    return lw_fail(p->err, LW_ERR_USAGE, "%s: there is no option %s; see '%s%s --help'",
                   p->command->name, spelling, p->command->in_shell ? "" : "lapwing ",
                   p->command->name);
}

/* WORD is "--name" or "--name=value". */
static bool parse_long(struct parser *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    char spelling[64]; /* longer than any name we have, so a cut one matches none */
    const struct lw_option *row = p->command->options;
    struct lw_nearest near;

    snprintf(spelling, sizeof(spelling), "%.*s", (int)len, word);
    lw_nearest_init(&near, spelling + 2);
    for (; row && row->kind != LW_ARG_END; row++) {
        if (!row->name)
            continue;
        if (strcmp(row->name, spelling + 2) == 0)
            return take_option(p, row, spelling, equals ? equals + 1 : NULL);
        lw_nearest_offer(&near, row->name);
    }
    if (strcmp(spelling, "--help") == 0) {
        p->parsed->wants_help = true;
        return true;
    }
    return no_such_option(p, spelling, near.name);
}

/* WORD is "-abc": flags, the last of which may take the rest as its value. */
static bool parse_letters(struct parser *p, const char *word)
{
    for (const char *letter = word + 1; *letter; letter++) {
        const char spelling[] = { '-', *letter, '\0' };
        const struct lw_option *row = p->command->options;

        while (row && row->kind != LW_ARG_END && row->letter != *letter)
            row++;
        if (!row || row->kind == LW_ARG_END) {
            if (*letter != 'h')
                return no_such_option(p, spelling, NULL);
            p->parsed->wants_help = true;
            return true;
        }
        if (needs_value(row) && letter[1])
            return take_option(p, row, spelling, letter + 1);
        if (!take_option(p, row, spelling, NULL))
            return false;
        if (needs_value(row))
            return true;
    }
    return true;
}

static bool check_operands(const struct parser *p)
{
    const struct lw_command *command = p->command;
    int count = p->parsed->operand_count;
    int usage = (int)strcspn(command->usage, "\n"); /* of the first form */

    if (count < command->operands_min)
        return lw_fail(p->err, LW_ERR_USAGE, "%s: something is missing: %.*s",
                       command->name, usage, command->usage);
    if (count > command->operands_max)
        return lw_fail(p->err, LW_ERR_USAGE, "%s: '%s' is one word too many: %.*s",
                       command->name, p->parsed->operands[command->operands_max], usage,
                       command->usage);
    return true;
}

/* "-" is standard input, and -2 is the run before the latest (or a negative number). */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && word[1 + strspn(word + 1, "0123456789")];
}

static bool parse_words(const struct lw_command *command, int argc, char **argv,
                        struct lw_parsed *parsed, struct lw_error *err)
{
    struct parser p = { command, parsed, argv, argc, 0, err };
    bool options_ended = false;

    memset(parsed, 0, sizeof(*parsed));
    parsed->operands = argv;
    parsed->args = lw_zalloc(1, command->args_size ? command->args_size : 1, err);
    if (!parsed->args)
        return false;
    if (command->defaults)
        memcpy(parsed->args, command->defaults, command->args_size);

    while (p.next < argc) {
        char *word = argv[p.next++];

        if (options_ended || !is_option(word)) {
            argv[parsed->operand_count++] = word;
            options_ended |= command->operand_ends_options;
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (word[1] == '-' ? !parse_long(&p, word) : !parse_letters(&p, word)) {
            return false;
        }
        if (parsed->wants_help)
            return true;
    }
    argv[parsed->operand_count] = NULL;
    return check_operands(&p);
}

bool lw_options_parse(const struct lw_command *command, int argc, char **argv,
                      struct lw_parsed *parsed, struct lw_error *err)
{
    if (parse_words(command, argc, argv, parsed, err))
        return true;
    if (command->instead && err && err->code == LW_ERR_USAGE)
        lw_fail(err, LW_ERR_USAGE, "%s", command->instead);
    return false;
}

void lw_parsed_release(const struct lw_command *command, struct lw_parsed *parsed)
{
    const struct lw_option *row = command->options;

    for (; parsed->args && row && row->kind != LW_ARG_END; row++) {
        if (row->kind == LW_ARG_LIST) {
            struct lw_arg_list *list = (void *)((char *)parsed->args + row->offset);
            lw_free(list->texts);
        }
    }
    lw_free(parsed->args);
    parsed->args = NULL;
}
