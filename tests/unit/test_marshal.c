#include <math.h>

#include "base/alloc.h"
#include "base/marshal_code.h"
#include "base/marshal_out.h"
#include "test.h"

static struct lw_marshal_in open_bytes(const char *bytes, size_t len)
{
    struct lw_marshal_in in;

    lw_marshal_init(&in, bytes, len);
    return in;
}

#define OPEN(literal) open_bytes(literal, sizeof(literal) - 1)

static struct lw_marshal_value next(struct lw_marshal_in *in, enum lw_marshal_kind kind)
{
    struct lw_marshal_value value;
    struct lw_error err = { LW_OK, "" };

    if (!lw_marshal_next(in, &value, &err))
        CHECK_STR(err.text, "");
    CHECK_EQ(value.kind, kind);
    return value;
}

static void check_text(const struct lw_marshal_value *value, const char *text)
{
    CHECK_EQ(value->kind, LW_MARSHAL_TEXT);
    CHECK_EQ(value->len, strlen(text));
    CHECK_BYTES(value->text, text, value->len);
}

/* The whole input is read until it fails, with this sentence. */
static void check_failure(const char *bytes, size_t len, const char *sentence)
{
    struct lw_marshal_in in = open_bytes(bytes, len);
    struct lw_marshal_value value;
    struct lw_error err = { LW_OK, "" };

    while (lw_marshal_next(&in, &value, &err))
        CHECK(in.next <= len);
    CHECK_STR(err.text, sentence);
    lw_marshal_release(&in);
}

#define CHECK_FAILURE(literal, sentence) \
    check_failure(literal, sizeof(literal) - 1, sentence)

TEST(numbers_of_every_kind_are_read)
{
    struct lw_marshal_in in = OPEN("i\xfe\xff\xff\xff"         /* -2 */
                                   "I\1\0\0\0\0\0\0\200"       /* -2^63 + 1 */
                                   "l\2\0\0\0\1\0\1\0"         /* 2^15 + 1 */
                                   "l\376\377\377\377\1\0\1\0" /* the same, negative */
                                   "f\4-1.5"
                                   "g\0\0\0\0\0\0\370?"
                                   "T"
                                   "F"
                                   "N");

    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, -2);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, INT64_MIN + 1);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, 32769);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, -32769);
    CHECK(next(&in, LW_MARSHAL_FLOAT).number == -1.5);
    CHECK(next(&in, LW_MARSHAL_FLOAT).number == 1.5);
    CHECK_EQ(next(&in, LW_MARSHAL_BOOL).integer, 1);
    CHECK_EQ(next(&in, LW_MARSHAL_BOOL).integer, 0);
    next(&in, LW_MARSHAL_NONE);
    lw_marshal_release(&in);
}

TEST(an_int_that_does_not_fit_is_clamped_and_still_a_number)
{
    struct lw_marshal_in in =
        OPEN("l\5\0\0\0\0\0\0\0\0\0\0\0\10\0"                        /* 2^63 */
             "l\373\377\377\377\377\177\377\177\377\177\377\177\7\0" /* -(2^63 - 1) */
             "l\5\0\0\0\377\177\377\177\377\177\377\177\7\0");       /* 2^63 - 1 */
    struct lw_marshal_value value = next(&in, LW_MARSHAL_INT);

    CHECK_EQ(value.integer, INT64_MAX);
    CHECK(value.number == 0x1p63);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, -INT64_MAX);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, INT64_MAX);
    lw_marshal_release(&in);
}

TEST(text_of_every_kind_is_read)
{
    struct lw_marshal_in in = OPEN("s\1\0\0\0a"
                                   "t\1\0\0\0b"
                                   "u\2\0\0\0\303\266"
                                   "a\1\0\0\0c"
                                   "A\1\0\0\0d"
                                   "z\1e"
                                   "Z\1f");
    static const char *const texts[] = { "a", "b", "\303\266", "c", "d", "e", "f" };

    for (size_t i = 0; i < 7; i++) {
        struct lw_marshal_value value = next(&in, LW_MARSHAL_TEXT);

        check_text(&value, texts[i]);
    }
    lw_marshal_release(&in);
}

TEST(references_count_flagged_values_containers_first)
{
    struct lw_marshal_in in = OPEN("\251\2"
                                   "\372\1x"
                                   "N" /* 0: (1: "x", None) */
                                   "r\1\0\0\0"
                                   "\351\7\0\0\0"
                                   "r\2\0\0\0");
    struct lw_marshal_value tuple = next(&in, LW_MARSHAL_TUPLE), value;

    CHECK_EQ(tuple.count, 2);
    CHECK_EQ(tuple.reference, 1);
    CHECK_EQ(next(&in, LW_MARSHAL_TEXT).reference, 2);
    next(&in, LW_MARSHAL_NONE);
    lw_marshal_end(&in, &tuple);
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "x");
    CHECK_EQ(value.reference, 2);
    next(&in, LW_MARSHAL_INT);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, 7);
    lw_marshal_release(&in);
}

TEST(a_container_met_again_is_read_again)
{
    struct lw_marshal_in in = OPEN("\251\2\351\5\0\0\0i\6\0\0\0"
                                   "r\0\0\0\0"
                                   "r\1\0\0\0");
    struct lw_marshal_value first = next(&in, LW_MARSHAL_TUPLE), again;

    next(&in, LW_MARSHAL_INT);
    next(&in, LW_MARSHAL_INT);
    lw_marshal_end(&in, &first);
    again = next(&in, LW_MARSHAL_TUPLE);
    CHECK(again.again);
    CHECK_EQ(again.count, 2);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, 5);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, 6);
    lw_marshal_end(&in, &again);
    CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, 5); /* still number 1 */
    CHECK_EQ(in.next, in.len);
    lw_marshal_release(&in);
}

TEST(what_the_caller_made_of_a_value_is_noted_with_it)
{
    struct lw_marshal_in in = OPEN("\372\1x"
                                   "r\0\0\0\0"
                                   "z\1y");
    struct lw_marshal_value value = next(&in, LW_MARSHAL_TEXT);

    CHECK_EQ(lw_marshal_made(&in, &value), 0);
    lw_marshal_note(&in, &value, 42);
    value = next(&in, LW_MARSHAL_TEXT);
    CHECK_EQ(lw_marshal_made(&in, &value), 42);
    value = next(&in, LW_MARSHAL_TEXT);
    lw_marshal_note(&in, &value, 7); /* nothing can refer to it: nothing to note */
    CHECK_EQ(lw_marshal_made(&in, &value), 0);
    lw_marshal_release(&in);
}

TEST(python_2_refers_to_interned_strings)
{
    struct lw_marshal_in in = OPEN("t\1\0\0\0a"
                                   "t\1\0\0\0b"
                                   "R\1\0\0\0"
                                   "R\0\0\0\0");
    struct lw_marshal_value value;

    next(&in, LW_MARSHAL_TEXT);
    next(&in, LW_MARSHAL_TEXT);
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "b");
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "a");
    lw_marshal_release(&in);
}

TEST(bad_bytes_are_refused_with_their_place)
{
    CHECK_FAILURE("", "at byte 0: the file ends in the middle of a value; it was cut "
                      "short");
    CHECK_FAILURE("Ni\1\0", "at byte 4: the file ends in the middle of a value; it was "
                            "cut short");
    CHECK_FAILURE("NNq", "at byte 2: 0x71 begins no value");
    CHECK_FAILURE("u\377\377\377\377", "at byte 0: a length of -1");
    CHECK_FAILURE("(\377\377\377\177",
                  "at byte 0: a tuple of 2147483647 items with only "
                  "0 bytes left; the file is damaged or cut short");
    CHECK_FAILURE("r\0\0\0\0", "at byte 0: refers to value 0 of only 0 so far");
    CHECK_FAILURE("\251\1r\0\0\0\0", "at byte 2: a container that holds itself");
    CHECK_FAILURE("R\0\0\0\0",
                  "at byte 0: refers to interned string 0 of only 0 so far");
    CHECK_FAILURE("l\1\0\0\0\377\377",
                  "at byte 0: an int with a digit that is too large");
    CHECK_FAILURE("f\3nan", "at byte 0: a float that is not a number");
    CHECK_FAILURE("l\0\0\0\200",
                  "at byte 5: the file ends in the middle of a value; it "
                  "was cut short");
}

TEST(what_no_profile_holds_can_be_passed_over)
{
    struct lw_marshal_in in = OPEN("y\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                   "x\0011\0012"
                                   "S"
                                   "."
                                   "<\1\0\0\0N"
                                   ">\0\0\0\0"
                                   ":NNN"
                                   "c");

    next(&in, LW_MARSHAL_OTHER);
    next(&in, LW_MARSHAL_OTHER);
    next(&in, LW_MARSHAL_OTHER);
    next(&in, LW_MARSHAL_OTHER);
    CHECK_EQ(next(&in, LW_MARSHAL_SET).count, 1);
    next(&in, LW_MARSHAL_NONE);
    CHECK_EQ(next(&in, LW_MARSHAL_SET).count, 0);
    CHECK_EQ(next(&in, LW_MARSHAL_SET).count, 3);
    for (int i = 0; i < 3; i++)
        next(&in, LW_MARSHAL_NONE);
    next(&in, LW_MARSHAL_CODE);
    lw_marshal_release(&in);
}

/* A tuple of tuples of ... that doubles with each level: 2^40 values from 400 bytes. */
TEST(references_cannot_unfold_without_end)
{
    struct lw_marshal_in in;
    struct lw_marshal_value value;
    struct lw_error err = { LW_OK, "" };
    struct lw_marshal_value open[64];
    uint32_t left[64];
    struct lw_buf bytes;
    size_t depth = 0;
    uint64_t steps = 0;

    lw_buf_init(&bytes, 0);
    lw_buf_add(&bytes, "(\51\0\0\0", 5);
    lw_buf_add(&bytes, "\251\2NN", 4);
    for (uint32_t i = 0; i < 40; i++) {
        lw_buf_add(&bytes, "\251\2", 2);
        for (int twice = 0; twice < 2; twice++) {
            lw_buf_add_char(&bytes, 'r');
            lw_buf_add_u32(&bytes, i);
        }
    }
    lw_marshal_init(&in, bytes.bytes, bytes.len);
    for (;; steps++) {
        while (depth > 0 && left[depth - 1] == 0)
            lw_marshal_end(&in, &open[--depth]);
        if (!lw_marshal_next(&in, &value, &err))
            break;
        if (depth > 0)
            left[depth - 1]--;
        if (value.kind == LW_MARSHAL_TUPLE) {
            open[depth] = value;
            left[depth++] = value.count;
        }
    }
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK(steps < 3000000);
    lw_marshal_release(&in);
    lw_buf_release(&bytes);
}

/* compile("x", "deep.py", "exec") of 3.8 (six ints) and 3.11 (five, and other names). */
#define CODE_3_8 \
    "c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0@\0\0\0" \
    "s\2\0\0\0d\0" \
    ")\1N" \
    ")\1\332\1x" \
    ")\0" \
    ")\0" \
    ")\0" \
    "\372\7deep.py" \
    "\332\10<module>" \
    "\3\0\0\0" \
    "s\0\0\0\0"
#define CODE_3_11 \
    "c\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" \
    "\363\2\0\0\0d\0" \
    ")\1N" \
    ")\1\332\1x" \
    ")\0" \
    "s\0\0\0\0" \
    "\372\7deep.py" \
    "\332\10<module>" \
    "\332\4qual" \
    "\4\0\0\0" \
    "s\0\0\0\0" \
    "s\0\0\0\0"

static void check_code(const char *bytes, size_t len, uint32_t line)
{
    struct lw_marshal_in in = open_bytes(bytes, len);
    struct lw_marshal_value value = next(&in, LW_MARSHAL_CODE);
    struct lw_marshal_code code;

    CHECK(lw_marshal_read_code(&in, &value, &code, NULL));
    CHECK_EQ(code.name_len, 8);
    CHECK_BYTES(code.name, "<module>", 8);
    CHECK_EQ(code.file_len, 7);
    CHECK_BYTES(code.file, "deep.py", 7);
    CHECK_EQ(code.first_line, line);
    CHECK_EQ(in.next, len);
    lw_marshal_release(&in);
}

TEST(code_objects_of_old_and_new_pythons_give_their_names)
{
    check_code(CODE_3_8, sizeof(CODE_3_8) - 1, 3);
    check_code(CODE_3_11, sizeof(CODE_3_11) - 1, 4);
}

TEST(a_code_object_cut_anywhere_is_refused)
{
    for (size_t len = 1; len < sizeof(CODE_3_11) - 1; len++) {
        struct lw_marshal_in in = open_bytes(CODE_3_11, len);
        struct lw_marshal_value value = next(&in, LW_MARSHAL_CODE);
        struct lw_error err = { LW_OK, "" };
        struct lw_marshal_code code;

        CHECK(!lw_marshal_read_code(&in, &value, &code, &err));
        CHECK_EQ(err.code, LW_ERR_FORMAT);
        lw_marshal_release(&in);
    }
}

TEST(constants_may_be_as_deep_as_they_like)
{
    enum { DEPTH = 200000 };
    static const char head[] = "c\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0s\0\0\0\0";
    static const char tail[] = "{NN0"
                               ")\0"
                               ")\0"
                               "s\0\0\0\0"
                               "z\1f"
                               "z\1n"
                               "z\1q"
                               "\1\0\0\0"
                               "NN";
    struct lw_marshal_value value;
    struct lw_marshal_code code;
    struct lw_marshal_in in;
    struct lw_buf bytes;

    lw_buf_init(&bytes, 0);
    lw_buf_add(&bytes, head, sizeof(head) - 1);
    for (int i = 0; i < DEPTH; i++)
        lw_buf_add(&bytes, i % 2 ? "[\1\0\0\0" : "(\1\0\0\0", 5);
    lw_buf_add(&bytes, tail, sizeof(tail) - 1);
    lw_marshal_init(&in, bytes.bytes, bytes.len);
    value = next(&in, LW_MARSHAL_CODE);
    CHECK(lw_marshal_read_code(&in, &value, &code, NULL));
    CHECK_BYTES(code.name, "n", 1);
    lw_marshal_release(&in);
    lw_buf_release(&bytes);
}

TEST(what_is_written_reads_back)
{
    static const int64_t ints[] = { 0,         -1,        INT32_MAX, INT32_MIN,
                                    1ll << 31, 1ll << 45, INT64_MAX, INT64_MIN + 1 };
    struct lw_marshal_out out;
    struct lw_marshal_in in;
    struct lw_marshal_value value, tuple;
    struct lw_buf bytes;
    char large[300];

    memset(large, 'x', sizeof(large));
    lw_buf_init(&bytes, 0);
    lw_marshal_start(&out, &bytes);
    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
        lw_marshal_add_int(&out, ints[i]);
    lw_marshal_add_float(&out, -0.1);
    CHECK_EQ(lw_marshal_share_tuple(&out, 3), 0);
    CHECK_EQ(lw_marshal_share_text(&out, "plain", 5), 1);
    CHECK_EQ(lw_marshal_share_text(&out, large, sizeof(large)), 2);
    CHECK_EQ(lw_marshal_share_text(&out, "\303\266", 2), 3);
    lw_marshal_add_ref(&out, 1);
    lw_marshal_add_dict(&out);
    lw_marshal_add_null(&out);
    lw_marshal_add_tuple(&out, 0);
    CHECK(lw_buf_check(&bytes, NULL));

    lw_marshal_init(&in, bytes.bytes, bytes.len);
    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
        CHECK_EQ(next(&in, LW_MARSHAL_INT).integer, ints[i]);
    CHECK(next(&in, LW_MARSHAL_FLOAT).number == -0.1);
    tuple = next(&in, LW_MARSHAL_TUPLE);
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "plain");
    CHECK_EQ(next(&in, LW_MARSHAL_TEXT).len, sizeof(large));
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "\303\266");
    lw_marshal_end(&in, &tuple);
    value = next(&in, LW_MARSHAL_TEXT);
    check_text(&value, "plain");
    next(&in, LW_MARSHAL_DICT);
    next(&in, LW_MARSHAL_NULL);
    CHECK_EQ(next(&in, LW_MARSHAL_TUPLE).count, 0);
    CHECK_EQ(in.next, in.len);
    lw_marshal_release(&in);
    lw_buf_release(&bytes);
}

/* As os.fsdecode() does: U+DC80 to U+DCFF, in three bytes each. */
TEST(bytes_that_are_no_utf_8_become_surrogates)
{
    static const struct {
        const char *text;
        const char *written;
    } cases[] = {
        { "\200", "\355\262\200" },
        { "a\377b", "a\355\263\277b" },
        { "\303", "\355\263\203" },
        { "\300\200", "\355\263\200\355\262\200" }, /* overlong */
        { "\355\262\200", "\355\262\200" },         /* a surrogate already */
        { "\364\220\200\200", "\355\263\264\355\262\220\355\262\200\355\262\200" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lw_marshal_value value;
        struct lw_marshal_out out;
        struct lw_marshal_in in;
        struct lw_buf bytes;

        lw_buf_init(&bytes, 0);
        lw_marshal_start(&out, &bytes);
        lw_marshal_share_text(&out, cases[i].text, strlen(cases[i].text));
        lw_marshal_init(&in, bytes.bytes, bytes.len);
        value = next(&in, LW_MARSHAL_TEXT);
        check_text(&value, cases[i].written);
        CHECK_EQ(in.next, in.len);
        lw_marshal_release(&in);
        lw_buf_release(&bytes);
    }
}

TEST(running_out_of_memory_is_said)
{
    struct lw_marshal_in in = OPEN("\372\1x"
                                   "t\1\0\0\0y");
    struct lw_marshal_value value;
    struct lw_error err = { LW_OK, "" };

    lw_alloc_fail_in(1);
    CHECK(!lw_marshal_next(&in, &value, &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    lw_alloc_fail_in(0);
    lw_marshal_release(&in);
}
