/* Command lines, well-formed and not. */

#include "test.h"

#include "cmd/command.h"
#include "cmd/options.h"

struct args {
    bool json;
    bool strip;
    const char *output;
    uint64_t limit;
    uint64_t max_bytes;
    uint64_t min_ns;
    unsigned style;
    unsigned calls;
    unsigned torch;
    struct lw_arg_list match;
};

#define OPT(letter, name, kind, field, arg) \
    { \
        letter, name, kind, offsetof(struct args, field), arg, "" \
    }

static const struct lw_option options[] = {
    OPT('j', "json", LW_ARG_FLAG, json, NULL),
    LW_OPT_HEADING("A heading"),
    OPT('s', "strip", LW_ARG_FLAG, strip, NULL),
    OPT('o', "output", LW_ARG_TEXT, output, "FILE"),
    OPT('n', "limit", LW_ARG_COUNT, limit, "N"),
    OPT(0, "max-size", LW_ARG_SIZE, max_bytes, "SIZE"),
    OPT(0, "min-span", LW_ARG_DURATION, min_ns, "TIME"),
    OPT(0, "style", LW_ARG_CHOICE, style, "plain|pstats"),
    OPT('c', "calls", LW_ARG_MODE, calls, "timeline|tree"),
    OPT(0, "torch", LW_ARG_WORDS, torch, "shapes,memory,stack"),
    OPT('m', "match", LW_ARG_LIST, match, "REGEX"),
    LW_OPT_END
};

static const struct args defaults = { .limit = 20 };

static const struct lw_command command = {
    .name = "toy",
    .usage = "lapwing toy [OPTIONS] FILE [FILE]",
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .operands_min = 1,
    .operands_max = 2,
};

static const struct lw_command stopping = {
    .name = "run",
    .usage = "lapwing run [OPTIONS] PROGRAM [ARGUMENTS]",
    .args_size = sizeof(struct args),
    .options = options,
    .operands_min = 1,
    .operands_max = LW_ANY_NUMBER,
    .operand_ends_options = true,
};

/* A parsed line; release it with finish(). */
struct line {
    char text[200]; /* the words, cut apart in place */
    char *argv[20];
    struct lw_parsed parsed;
    const struct args *args;
    const struct lw_command *command;
    struct lw_error err;
    bool parses;
};

static void parse(struct line *line, const struct lw_command *with, const char *text)
{
    int argc = 0;

    memset(line, 0, sizeof(*line));
    CHECK(strlen(text) < sizeof(line->text));
    memcpy(line->text, text, strlen(text));
    for (char *p = line->text; *p; p += strspn(p, " ")) {
        line->argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    line->command = with;
    line->parses = lw_options_parse(with, argc, line->argv, &line->parsed, &line->err);
    line->args = line->parsed.args;
}

static void finish(struct line *line)
{
    lw_parsed_release(line->command, &line->parsed);
}

static void check_refused(const char *text, const char *sentence)
{
    struct line line;

    parse(&line, &command, text);
    CHECK(!line.parses);
    CHECK_EQ(line.err.code, LW_ERR_USAGE);
    CHECK_STR(line.err.text, sentence);
    finish(&line);
}

TEST(options_fill_their_fields)
{
    struct line line;

    parse(&line, &command,
          "--json --output=a.csv --limit 7 --max-size 1.5K --min-span 10us "
          "--style pstats in.prof");
    CHECK(line.parses);
    CHECK(line.args->json);
    CHECK(!line.args->strip);
    CHECK_STR(line.args->output, "a.csv");
    CHECK_EQ(line.args->limit, 7);
    CHECK_EQ(line.args->max_bytes, 1536);
    CHECK_EQ(line.args->min_ns, 10000);
    CHECK_EQ(line.args->style, 1);
    CHECK_EQ(line.parsed.operand_count, 1);
    CHECK_STR(line.parsed.operands[0], "in.prof");
    CHECK(line.parsed.operands[1] == NULL);
    finish(&line);
}

TEST(what_is_not_given_has_its_default)
{
    struct line line;

    parse(&line, &command, "a");
    CHECK(line.parses);
    CHECK_EQ(line.args->limit, 20);
    CHECK(line.args->output == NULL);
    CHECK_EQ(line.args->calls, 0);
    CHECK_EQ(line.args->match.count, 0);
    finish(&line);
}

TEST(letters_cluster_and_the_last_takes_the_rest)
{
    struct line line;

    parse(&line, &command, "-jsoout.txt -n 3 a");
    CHECK(line.parses);
    CHECK(line.args->json && line.args->strip);
    CHECK_STR(line.args->output, "out.txt");
    CHECK_EQ(line.args->limit, 3);
    finish(&line);
}

TEST(a_mode_may_be_given_bare_or_with_a_word)
{
    struct line line;

    parse(&line, &command, "--calls a");
    CHECK_EQ(line.args->calls, 1);
    CHECK_EQ(line.parsed.operand_count, 1);
    finish(&line);
    parse(&line, &command, "--calls=timeline a");
    CHECK_EQ(line.args->calls, 2);
    finish(&line);
    parse(&line, &command, "--calls=tree a");
    CHECK_EQ(line.args->calls, 3);
    finish(&line);
}

TEST(words_may_be_absent_or_any_of_a_list)
{
    struct line line;

    parse(&line, &command, "--torch a");
    CHECK_EQ(line.args->torch, 1);
    CHECK_EQ(line.parsed.operand_count, 1);
    finish(&line);
    parse(&line, &command, "--torch=stack,shapes a");
    CHECK_EQ(line.args->torch, 1 | 2 | 8);
    finish(&line);
    parse(&line, &command, "--torch=stack --torch=memory a");
    CHECK_EQ(line.args->torch, 1 | 4 | 8);
    finish(&line);
}

TEST(a_list_keeps_every_value_in_order)
{
    struct line line;

    parse(&line, &command, "--match=a -mb a --match c");
    CHECK(line.parses);
    CHECK_EQ(line.args->match.count, 3);
    CHECK_STR(line.args->match.texts[0], "a");
    CHECK_STR(line.args->match.texts[1], "b");
    CHECK_STR(line.args->match.texts[2], "c");
    finish(&line);
}

TEST(options_may_follow_operands_until_two_dashes)
{
    struct line line;

    parse(&line, &command, "a --json -- --strip");
    CHECK(line.parses);
    CHECK(line.args->json && !line.args->strip);
    CHECK_EQ(line.parsed.operand_count, 2);
    CHECK_STR(line.parsed.operands[1], "--strip");
    finish(&line);
}

TEST(a_lone_dash_is_an_operand)
{
    struct line line;

    parse(&line, &command, "-");
    CHECK(line.parses);
    CHECK_STR(line.parsed.operands[0], "-");
    finish(&line);
}

TEST(the_program_to_run_keeps_its_own_options)
{
    struct line line;

    parse(&line, &stopping, "--json train.py --strip -- -x");
    CHECK(line.parses);
    CHECK(line.args->json && !line.args->strip);
    CHECK_EQ(line.parsed.operand_count, 4);
    CHECK_STR(line.parsed.operands[1], "--strip");
    CHECK_STR(line.parsed.operands[2], "--");
    finish(&line);
    parse(&line, &stopping, "-j -- python -h");
    CHECK(line.parses && !line.parsed.wants_help);
    CHECK_STR(line.parsed.operands[0], "python");
    CHECK_STR(line.parsed.operands[1], "-h");
    finish(&line);
}

TEST(help_wins_over_what_is_missing)
{
    struct line line;

    parse(&line, &command, "--json --help --nonsense");
    CHECK(line.parses && line.parsed.wants_help);
    finish(&line);
    parse(&line, &command, "-jh");
    CHECK(line.parses && line.parsed.wants_help);
    finish(&line);
}

TEST(a_misspelt_option_suggests_the_closest)
{
    check_refused("--jsno a", "toy: there is no option --jsno; did you mean --json?");
    check_refused("--zzzzzz a",
                  "toy: there is no option --zzzzzz; see 'lapwing toy --help'");
    check_refused("-x a", "toy: there is no option -x; see 'lapwing toy --help'");
}

TEST(a_prefix_is_not_the_option)
{
    check_refused("--outp x a",
                  "toy: there is no option --outp; did you mean --output?");
}

TEST(bad_values_are_named)
{
    check_refused("--json=yes a", "toy: --json takes no value");
    check_refused("a --output", "toy: --output needs a value (FILE)");
    check_refused("a -o", "toy: -o needs a value (FILE)");
    check_refused("--limit ten a", "toy: --limit takes a number, not 'ten'");
    check_refused("--limit -1 a", "toy: --limit takes a number, not '-1'");
    check_refused("--max-size 3X a",
                  "toy: --max-size takes a size such as 64K or 2G, not '3X'");
    check_refused("--min-span 1e3 a",
                  "toy: --min-span takes a time such as 10us or 1.5s, not '1e3'");
    check_refused("--style none a", "toy: --style takes plain|pstats, not 'none'");
    check_refused("--calls=tim a", "toy: --calls takes timeline|tree, not 'tim'");
    check_refused("--torch=stack,tim a",
                  "toy: --torch takes shapes,memory,stack, not 'tim'");
    check_refused("--torch= a", "toy: --torch takes shapes,memory,stack, not ''");
}

TEST(operands_are_counted)
{
    check_refused("--json",
                  "toy: something is missing: lapwing toy [OPTIONS] FILE [FILE]");
    check_refused("a b c", "toy: 'c' is one word too many: lapwing toy [OPTIONS] FILE "
                           "[FILE]");
}

TEST(sizes_and_durations_are_exact_or_refused)
{
    uint64_t value = 0;

    CHECK(lw_parse_size("18446744073709551615", &value));
    CHECK_EQ(value, UINT64_MAX);
    CHECK(!lw_parse_size("18446744073709551616", &value));
    CHECK(!lw_parse_size("16777216T", &value));
    CHECK(!lw_parse_size("99999999.5T", &value));
    CHECK(lw_parse_size("2GiB", &value));
    CHECK_EQ(value, (uint64_t)2 << 30);
    CHECK(!lw_parse_size("", &value));
    CHECK(!lw_parse_size("K", &value));
    CHECK(!lw_parse_size("1.2.3", &value));
    CHECK(!lw_parse_size("-1", &value));
    CHECK(lw_parse_duration("1.5", &value));
    CHECK_EQ(value, 1500000000);
    CHECK(lw_parse_duration("3m", &value));
    CHECK_EQ(value, (uint64_t)180 * 1000000000);
    CHECK(!lw_parse_duration("3 m", &value));
}
