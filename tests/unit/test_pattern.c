#include <stdio.h>

#include "base/pattern.h"
#include "test.h"

static bool matches(const char *pattern, const char *text)
{
    struct lw_pattern p;
    struct lw_error err = { LW_OK, "" };
    bool found;

    if (!lw_pattern_init(&p, pattern, &err))
        CHECK_STR(err.text, "");
    found = lw_pattern_search(&p, text, strlen(text));
    lw_pattern_release(&p);
    return found;
}

static void check_refused(const char *pattern, const char *why)
{
    struct lw_pattern p;
    struct lw_error err = { LW_OK, "" };
    char sentence[200];

    snprintf(sentence, sizeof(sentence), "the pattern '%s' cannot be used: %s", pattern,
             why);
    CHECK(!lw_pattern_init(&p, pattern, &err));
    CHECK_EQ(err.code, LW_ERR_USAGE);
    CHECK_STR(err.text, sentence);
    lw_pattern_release(&p);
}

TEST(plain_words_are_found_anywhere)
{
    CHECK(matches("fib", "a/b.py:12(fib)"));
    CHECK(!matches("fob", "a/b.py:12(fib)"));
    CHECK(matches("", "anything"));
    CHECK(matches("^a/.*\\(fib\\)$", "a/b.py:12(fib)"));
}

TEST(pythons_escapes_are_known)
{
    CHECK(matches("\\d+\\(", "x.py:12(f)"));
    CHECK(!matches("\\D", "123"));
    CHECK(matches("\\bfib\\b", "(fib)"));
    CHECK(!matches("\\bfib\\b", "(fibs)"));
    CHECK(matches("\\w\\W\\w", "a-b"));
    CHECK(matches("\\s\\S", " x"));
    CHECK(matches("\\x41\\t", "A\t"));
    CHECK(matches("\\Aa\\Z", "a"));
    CHECK(matches("a\\-b\\/c", "a-b/c"));
}

TEST(a_brace_that_repeats_nothing_is_a_brace)
{
    CHECK(matches("{built-in", "{built-in method len}"));
    CHECK(matches("len}", "{built-in method len}"));
    CHECK(matches("a{2}", "aa"));
    CHECK(!matches("^a{2}$", "a"));
    CHECK(matches("^a{,2}$", "a"));
    CHECK(matches("a{x}", "a{x}"));
    CHECK(matches("a{,}", "a{,}"));
}

TEST(groups_of_every_kind_are_groups)
{
    CHECK(matches("^(?:ab)+$", "abab"));
    CHECK(matches("(?P<name>a)\\1", "aa"));
    CHECK(matches("(?:x)(a)(?:y)(b)\\2\\1", "xaybba"));
    CHECK(matches("a(?#a comment)b", "ab"));
    CHECK(matches("(?i)FIB", "fib"));
    CHECK(matches("a+?b*?c??", "a"));
}

TEST(classes_hold_what_python_says)
{
    CHECK(matches("^[\\w.]+$", "a_1.b"));
    CHECK(!matches("^[\\w.]+$", "a-b"));
    CHECK(matches("^[]a]+$", "a]"));
    CHECK(matches("^[^]a]+$", "b["));
    CHECK(matches("^[a\\]-]+$", "]-a"));
    CHECK(matches("^[\\^]$", "^"));
    CHECK(matches("^[\\^-]$", "-"));
    CHECK(matches("^[-]$", "-"));
    CHECK(!matches("[^\\S]", "x"));
    CHECK(matches("[\\d\\-x]", "-"));
    CHECK(matches("[[]", "["));
    CHECK(matches("^[.:=[]+$", "[:.="));
}

/* Every class of up to two bytes and its opposite, on every byte. */
TEST(any_set_of_bytes_makes_a_class)
{
    for (unsigned a = 1; a < 256; a += a < 128 ? 1 : 16)
        for (unsigned b = a; b < 128; b += 5)
            for (unsigned inverted = 0; inverted < 2; inverted++) {
                char pattern[32];
                struct lw_pattern p;

                snprintf(pattern, sizeof(pattern), "[%s\\x%02x\\x%02x]",
                         inverted ? "^" : "", a, b);
                CHECK(lw_pattern_init(&p, pattern, NULL));
                for (unsigned c = 1; c < 256; c++) {
                    char text[2] = { (char)c };

                    CHECK_EQ(lw_pattern_search(&p, text, 1),
                             (c == a || c == b) != (inverted == 1));
                }
                lw_pattern_release(&p);
            }
}

TEST(what_cannot_be_said_is_refused_by_name)
{
    check_refused("(?=a)", "looking ahead is not possible here");
    check_refused("(?!a)", "looking ahead is not possible here");
    check_refused("(?<=a)", "looking behind is not possible here");
    check_refused("(?>a)", "a group of this kind is not possible here");
    check_refused("a++", "possessive repetition is not possible here");
    check_refused("\\u0041", "it holds an escape that is not known here");
}

TEST(what_python_refuses_is_refused)
{
    check_refused("(", "a ( is not closed");
    check_refused("a)", "a ) closes nothing");
    check_refused("[a", "a [ is not closed");
    check_refused("*", "there is nothing to repeat");
    check_refused("a**", "there is nothing to repeat");
    check_refused("a\\", "it ends in a backslash");
    check_refused("[b-a]", "a range in [] ends before it begins");
    check_refused("\\2(a)", "it refers to a group that is not there");
    check_refused("(?P<n", "the name of a group is not closed");
    check_refused("(?#n", "a comment is not closed");
    check_refused("\\xg1", "\\x needs two hexadecimal digits, not both 0");
}
