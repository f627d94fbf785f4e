#include "test.h"

#include "base/text.h"

static bool parse_u64(const char *text, uint64_t *value)
{
    return lw_text_u64(text, strlen(text), value);
}

TEST(a_number_is_parsed_whole_or_not_at_all)
{
    uint64_t value = 7;

    CHECK(!parse_u64("", &value));
    CHECK(!parse_u64(" 1", &value));
    CHECK(!parse_u64("1 ", &value));
    CHECK(!parse_u64("+1", &value));
    CHECK(!parse_u64("-1", &value));
    CHECK(!parse_u64("0x10", &value));
    CHECK(!parse_u64("18446744073709551616", &value));
    CHECK(!parse_u64("99999999999999999999", &value));
    CHECK_EQ(value, 7);
    CHECK(parse_u64("18446744073709551615", &value));
    CHECK_EQ(value, UINT64_MAX);
    CHECK(parse_u64("007", &value));
    CHECK_EQ(value, 7);
    CHECK(lw_text_u64("123456", 3, &value)); /* only so many bytes are looked at */
    CHECK_EQ(value, 123);
}

TEST(a_signed_number_reaches_both_ends_of_its_range)
{
    int64_t value = 0;

    CHECK(lw_text_i64("-9223372036854775808", 20, &value));
    CHECK_EQ(value, INT64_MIN);
    CHECK(lw_text_i64("9223372036854775807", 19, &value));
    CHECK_EQ(value, INT64_MAX);
    CHECK(!lw_text_i64("9223372036854775808", 19, &value));
    CHECK(!lw_text_i64("-9223372036854775809", 20, &value));
    CHECK(!lw_text_i64("-", 1, &value));
    CHECK(!lw_text_i64("", 0, &value));
}

TEST(decimals_are_the_nearest_double)
{
    static const char *const texts[] = {
        "0",
        "-0.5",
        "1e3",
        "1.5E-3",
        ".5",
        "3.",
        "0.1",
        "1e22",
        "1e23",
        "1e-22",
        "1e308",
        "4.9e-324",
        "123456789012345678901234567890",
        "0.30000000000000004",
        "9007199254740993",
        "1e+5",
        "1000000.25",
        "0.000000000000000000000000000000000000000000000000001",
    };
    static const double values[] = {
        0,
        -0.5,
        1e3,
        1.5E-3,
        .5,
        3.,
        0.1,
        1e22,
        1e23,
        1e-22,
        1e308,
        4.9e-324,
        123456789012345678901234567890.0,
        0.30000000000000004,
        9007199254740993.0,
        1e+5,
        1000000.25,
        0.000000000000000000000000000000000000000000000000001,
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        double value = 77;

        CHECK(lw_text_double(texts[i], strlen(texts[i]), &value));
        CHECK(value == values[i]);
    }
}

TEST(what_is_no_finite_decimal_is_refused)
{
    static const char *const texts[] = {
        "",      "-",   ".",  "-.", "e5",    "1e",   "1e+", "nan", "inf",
        "1e999", "0x1", "1 ", " 1", "1.2.3", "1e5.", "--1", "+1",  "1e5x",
    };
    double value = 77;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        CHECK(!lw_text_double(texts[i], strlen(texts[i]), &value));
    CHECK(value == 77);
}

TEST(starts_and_ends_look_at_whole_texts)
{
    CHECK(lw_text_starts("lapwing", "lap"));
    CHECK(lw_text_starts("lapwing", ""));
    CHECK(!lw_text_starts("la", "lap"));
    CHECK(lw_text_ends("run.lap", ".lap"));
    CHECK(!lw_text_ends("lap", ".lap"));
    CHECK_STR(lw_text_basename("/a/b.py"), "b.py");
    CHECK_STR(lw_text_basename("b.py"), "b.py");
    CHECK_STR(lw_text_basename("/a/"), "");
}

static size_t utf8(const char *text)
{
    uint32_t code;

    return lw_text_utf8(text, strlen(text), &code);
}

TEST(only_well_formed_characters_are_utf8)
{
    uint32_t code;

    CHECK_EQ(utf8("a"), 1);
    CHECK_EQ(utf8("\xc3\xa9"), 2);         /* e with an accent */
    CHECK_EQ(utf8("\xe2\x82\xac"), 3);     /* euro */
    CHECK_EQ(utf8("\xf0\x9f\x90\xa6"), 4); /* a bird */
    CHECK_EQ(utf8("\xf4\x8f\xbf\xbf"), 4); /* the last there is */
    CHECK_EQ(utf8("\x80"), 0);             /* starts in the middle */
    CHECK_EQ(utf8("\xc3"), 0);             /* is cut short */
    CHECK_EQ(utf8("\xe2\x82"), 0);
    CHECK_EQ(utf8("\xc0\xaf"), 0); /* a slash in too long a form */
    CHECK_EQ(utf8("\xe0\x80\xaf"), 0);
    CHECK_EQ(utf8("\xed\xa0\x80"), 0);     /* half of a surrogate pair */
    CHECK_EQ(utf8("\xf4\x90\x80\x80"), 0); /* beyond the last */
    CHECK_EQ(utf8("\xff"), 0);
    CHECK_EQ(lw_text_utf8("x", 0, &code), 0);
    CHECK_EQ(lw_text_utf8("\xe2\x82\xac", 3, &code), 3);
    CHECK_EQ(code, 0x20ac);
}

static const char *printable(struct lw_buf *buf, const char *text, size_t len)
{
    lw_buf_reset(buf);
    lw_text_add_printable(buf, text, len);
    return buf->bytes;
}

TEST(no_name_can_steer_a_terminal)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    CHECK_STR(printable(&buf, "plain \xc3\xa9\xf0\x9f\x90\xa6", 12),
              "plain \xc3\xa9\xf0\x9f\x90\xa6");
    CHECK_STR(printable(&buf, "a\nb\033[2Jc\0d", 10), "a\\x0ab\\x1b[2Jc\\x00d");
    CHECK_STR(printable(&buf, "\xff\xfe", 2), "\\xff\\xfe");
    CHECK_STR(printable(&buf, "\xc2\x9b", 2), "\\xc2\\x9b"); /* CSI in one character */
    CHECK_STR(printable(&buf,
                        "a\xe2\x80\xae"
                        "b",
                        5),
              "a\\xe2\\x80\\xae"
              "b"); /* right-to-left override */
    CHECK_STR(printable(&buf, "\xe2\x82", 2), "\\xe2\\x82"); /* cut short */
    CHECK_STR(printable(&buf, "x", 0), "");
    lw_buf_release(&buf);
}

TEST(every_byte_comes_out_printable)
{
    struct lw_buf buf;
    char all[256];

    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    lw_buf_init(&buf, 0);
    printable(&buf, all, sizeof(all));
    for (size_t i = 0; i < buf.len; i++)
        CHECK(buf.bytes[i] >= 0x20 && buf.bytes[i] < 0x7f);
    lw_buf_release(&buf);
}

TEST(bytes_that_are_not_utf8_become_the_mark_for_them)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_text_add_utf8(&buf, "a\xff\xc3\xa9\xe2z", 6);
    CHECK_STR(buf.bytes, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbdz");
    lw_buf_release(&buf);
}

TEST(width_is_counted_in_columns)
{
    CHECK_EQ(lw_text_width("abc", 3), 3);
    CHECK_EQ(lw_text_width("\xc3\xa9", 2), 1);
    CHECK_EQ(lw_text_width("e\xcc\x81", 3), 1);        /* a combining accent */
    CHECK_EQ(lw_text_width("\xe4\xb8\xad", 3), 2);     /* a Chinese character */
    CHECK_EQ(lw_text_width("\xf0\x9f\x90\xa6", 4), 2); /* a bird */
    CHECK_EQ(lw_text_width("", 0), 0);
}

TEST(the_start_that_fits_never_ends_inside_a_character)
{
    const char *text = "a\xe4\xb8\xad\xe4\xb8\xad";

    CHECK_EQ(lw_text_fit(text, 7, 0), 0);
    CHECK_EQ(lw_text_fit(text, 7, 1), 1);
    CHECK_EQ(lw_text_fit(text, 7, 2), 1);
    CHECK_EQ(lw_text_fit(text, 7, 3), 4);
    CHECK_EQ(lw_text_fit(text, 7, 100), 7);
    CHECK_EQ(lw_text_fit("e\xcc\x81x", 4, 1), 3); /* the accent comes along */
}

TEST(distance_is_the_number_of_edits)
{
    char longest[200];

    CHECK_EQ(lw_text_distance("report", "report"), 0);
    CHECK_EQ(lw_text_distance("report", "reprot"), 1);
    CHECK_EQ(lw_text_distance("functoins", "functions"), 1);
    CHECK_EQ(lw_text_distance("ab", "ba"), 1);
    CHECK_EQ(lw_text_distance("ca", "abc"), 3);
    CHECK_EQ(lw_text_distance("report", "repor"), 1);
    CHECK_EQ(lw_text_distance("", "abc"), 3);
    CHECK_EQ(lw_text_distance("kitten", "sitting"), 3);
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    CHECK_EQ(lw_text_distance("run", longest), 199);
    CHECK_EQ(lw_text_distance(longest, "run"), 199);
}

static int64_t scaled(const char *text, unsigned digits)
{
    int64_t value = -12345;

    return lw_text_scaled(text, strlen(text), digits, &value) ? value : -12345;
}

TEST(a_decimal_becomes_whole_parts_without_losing_a_digit)
{
    CHECK_EQ(scaled("1699999999999999.123", 3), 1699999999999999123);
    CHECK_EQ(scaled("0.001", 3), 1);
    CHECK_EQ(scaled("-2.5", 3), -2500);
    CHECK_EQ(scaled("7", 0), 7);
    CHECK_EQ(scaled("1.5e3", 3), 1500000);
    CHECK_EQ(scaled("15e-1", 3), 1500);
    CHECK_EQ(scaled(".5", 9), 500000000);
    CHECK_EQ(scaled("0", 9), 0);
    CHECK_EQ(scaled("0.0000000000000000000000000001", 9), 0);
    CHECK_EQ(scaled("0e99999999", 9), 0);
    CHECK_EQ(scaled("1e-99999999", 9), 0);
    CHECK_EQ(scaled("9223372036854775807", 0), INT64_MAX);
    CHECK_EQ(scaled("1699999999999999.1234999", 3), 1699999999999999123);
}

TEST(what_is_finer_than_the_parts_is_rounded)
{
    CHECK_EQ(scaled("1.0004", 3), 1000);
    CHECK_EQ(scaled("1.0005", 3), 1001);
    CHECK_EQ(scaled("-1.0005", 3), -1001);
    CHECK_EQ(scaled("0.00000000049999", 9), 0);
}

TEST(what_is_no_decimal_or_does_not_fit_is_no_part)
{
    static const char *const bad[] = { "",   "-",  ".",   "1.2.3", "1e",  "e5",
                                       "0x", " 1", "1e+", "nan",   "1e30" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(scaled(bad[i], 3), -12345);
    CHECK_EQ(scaled("9300000000000000", 3), -12345); /* over 2^63 */
}

TEST(hexadecimal_numbers_have_up_to_sixteen_digits)
{
    uint64_t value = 0;

    CHECK(lw_text_hex("7F21ab", 6, &value));
    CHECK_EQ(value, 0x7f21ab);
    CHECK(lw_text_hex("ffffffffffffffff", 16, &value));
    CHECK_EQ(value, UINT64_MAX);
    CHECK(!lw_text_hex("10000000000000000", 17, &value));
    CHECK(!lw_text_hex("", 0, &value));
    CHECK(!lw_text_hex("1g", 2, &value));
    CHECK(!lw_text_hex("1:", 2, &value));
    CHECK(!lw_text_hex("@", 1, &value));
}

TEST(a_common_start_is_found_to_the_byte)
{
    const char *a = "main;train;forward;conv2d", *b = "main;train;forwards;x______";

    for (size_t len = 0; len <= 25; len++)
        CHECK_EQ(lw_text_same_start(a, b, len), len < 18 ? len : 18);
    CHECK_EQ(lw_text_same_start(a, a, 25), 25);
}

TEST(a_character_is_written_as_it_is_read)
{
    static const uint32_t codes[] = { 'a',   0x7f,   0x80,    0x7ff,
                                      0x800, 0xffff, 0x10000, 0x10ffff };
    struct lw_buf out;
    uint32_t back = 0;

    lw_buf_init(&out, 0);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        lw_buf_reset(&out);
        lw_text_add_code(&out, codes[i]);
        CHECK_EQ(lw_text_utf8(out.bytes, out.len, &back), out.len);
        CHECK_EQ(back, codes[i]);
    }
    lw_buf_release(&out);
}
