#include "test.h"

#include <math.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/varint.h"

TEST(what_is_added_stands_one_behind_the_other)
{
    struct lw_buf buf;
    struct lw_error err;

    lw_buf_init(&buf, 0);
    lw_buf_add(&buf, "a\0b", 3);
    lw_buf_add_text(&buf, "cd");
    lw_buf_add_char(&buf, 'e');
    lw_buf_add_repeat(&buf, '-', 3);
    lw_buf_addf(&buf, "%d", 7);
    lw_buf_add(&buf, NULL, 0);
    CHECK(lw_buf_check(&buf, &err));
    CHECK_EQ(buf.len, 10);
    CHECK_BYTES(buf.bytes, "a\0bcde---7", 11); /* with the NUL */
    lw_buf_release(&buf);
}

TEST(formatted_text_may_be_longer_than_any_guess)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_buf_add_char(&buf, '<');
    lw_buf_addf(&buf, "%*d", 5000, 1);
    lw_buf_add_char(&buf, '>');
    CHECK_EQ(buf.len, 5002);
    CHECK_EQ(buf.bytes[5000], '1');
    CHECK_EQ(buf.bytes[5001], '>');
    CHECK_EQ(buf.bytes[5002], 0);
    lw_buf_release(&buf);
}

TEST(the_limit_is_exact_and_failure_sticks)
{
    struct lw_buf buf;
    struct lw_error err;

    lw_buf_init(&buf, 10);
    lw_buf_add_repeat(&buf, 'x', 10);
    CHECK(lw_buf_check(&buf, &err));
    lw_buf_add_char(&buf, 'y');
    lw_buf_add(&buf, "", 0);
    CHECK(!lw_buf_check(&buf, &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK_EQ(buf.len, 10);
    CHECK_STR(buf.bytes, "xxxxxxxxxx");

    lw_buf_reset(&buf);
    lw_buf_add_text(&buf, "again");
    CHECK(lw_buf_check(&buf, &err));
    CHECK_STR(buf.bytes, "again");
    lw_buf_release(&buf);
}

TEST(running_out_of_memory_is_said_once_at_the_end)
{
    struct lw_buf buf;
    struct lw_error err;

    lw_buf_init(&buf, 0);
    lw_buf_add_text(&buf, "kept");
    lw_alloc_fail_in(1);
    lw_buf_addf(&buf, "%*d", 5000, 1);
    lw_buf_add_text(&buf, "not added");
    CHECK(lw_buf_extend(&buf, 1) == NULL);
    CHECK(!lw_buf_check(&buf, &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    CHECK_STR(buf.bytes, "kept");
    lw_buf_release(&buf);
}

TEST(a_length_that_wraps_around_is_refused)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_buf_add_text(&buf, "1234");
    CHECK(lw_buf_extend(&buf, SIZE_MAX - 3) == NULL);
    CHECK_EQ(buf.failure, LW_ERR_NOMEM);
    lw_buf_release(&buf);
}

TEST(numbers_of_fixed_size_are_little_endian)
{
    struct lw_buf buf;
    struct lw_cursor c;

    lw_buf_init(&buf, 0);
    lw_buf_add_u32(&buf, 0x04030201);
    lw_buf_add_u64(&buf, 0x0c0b0a0908070605);
    CHECK_BYTES(buf.bytes, "\1\2\3\4\5\6\7\10\11\12\13\14", 12);
    c = lw_cursor_make(buf.bytes, buf.len);
    CHECK_EQ(lw_cursor_u32(&c), 0x04030201);
    CHECK_EQ(lw_cursor_u64(&c), 0x0c0b0a0908070605);
    CHECK(!c.failed);
    CHECK_EQ(lw_cursor_u32(&c), 0);
    CHECK(c.failed);
    lw_buf_release(&buf);
}

TEST(a_double_is_written_as_short_as_reads_back_equal)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        { 0, "0" },          { -0.0, "-0" },
        { 0.1, "0.1" },      { 1.0 / 3, "0.3333333333333333" },
        { 1e22, "1e+22" },   { 5e-324, "4.94065645841247e-324" },
        { 100, "100" },      { 0.1 + 0.2, "0.30000000000000004" },
        { INFINITY, "inf" },
    };
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lw_buf_reset(&buf);
        lw_buf_add_double(&buf, cases[i].value);
        CHECK_STR(buf.bytes, cases[i].text);
    }
    lw_buf_release(&buf);
}

TEST(every_length_of_varint_comes_back)
{
    struct lw_buf buf;
    struct lw_cursor c;

    lw_buf_init(&buf, 0);
    for (unsigned bit = 0; bit < 64; bit++)
        for (int off = -1; off <= 1; off++)
            lw_buf_add_varint(&buf, ((uint64_t)1 << bit) + (uint64_t)off);
    c = lw_cursor_make(buf.bytes, buf.len);
    for (unsigned bit = 0; bit < 64; bit++)
        for (int off = -1; off <= 1; off++)
            CHECK_EQ(lw_cursor_varint(&c), ((uint64_t)1 << bit) + (uint64_t)off);
    CHECK(!c.failed);
    CHECK_EQ(lw_cursor_left(&c), 0);
    lw_buf_release(&buf);
}

TEST(a_varint_reads_the_same_near_the_end_of_the_bytes_as_far_from_it)
{
    unsigned char bytes[LW_VARINT_MAX_BYTES + 8];

    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = UINT64_MAX >> bit;
        size_t len;
        struct lw_cursor near, far;

        memset(bytes, 0xff, sizeof(bytes));
        len = lw_varint_put(bytes, value);
        near = lw_cursor_make(bytes, len);
        far = lw_cursor_make(bytes, sizeof(bytes));
        CHECK_EQ(lw_cursor_varint(&near), value);
        CHECK_EQ(lw_cursor_varint(&far), value);
        CHECK_EQ(lw_cursor_left(&near), 0);
        CHECK_EQ(lw_cursor_left(&far), sizeof(bytes) - len);
    }
}

TEST(a_column_of_varints_reads_as_its_numbers_one_by_one)
{
    struct lw_buf buf;
    uint64_t got[300];

    lw_buf_init(&buf, 0);
    for (uint64_t i = 0; i < 300; i++)
        lw_buf_add_varint(&buf, i % 3 ? i : UINT64_MAX >> i % 64);
    for (size_t cut = 0; cut <= buf.len; cut += 7) {
        struct lw_cursor column = lw_cursor_make(buf.bytes, cut);
        struct lw_cursor one = column;

        lw_cursor_varints(&column, got, 300);
        for (uint64_t i = 0; i < 300; i++)
            CHECK_EQ(got[i], lw_cursor_varint(&one));
        CHECK_EQ(column.failed, one.failed);
        CHECK(column.next == one.next);
    }
    lw_buf_release(&buf);
}

TEST(small_negative_numbers_are_short)
{
    struct lw_buf buf;
    struct lw_cursor c;

    lw_buf_init(&buf, 0);
    lw_buf_add_zigzag(&buf, -1);
    lw_buf_add_zigzag(&buf, 1);
    CHECK_EQ(buf.len, 2);
    lw_buf_add_zigzag(&buf, INT64_MIN);
    lw_buf_add_zigzag(&buf, INT64_MAX);
    c = lw_cursor_make(buf.bytes, buf.len);
    CHECK_EQ(lw_cursor_zigzag(&c), -1);
    CHECK_EQ(lw_cursor_zigzag(&c), 1);
    CHECK_EQ(lw_cursor_zigzag(&c), INT64_MIN);
    CHECK_EQ(lw_cursor_zigzag(&c), INT64_MAX);
    lw_buf_release(&buf);
}

TEST(a_varint_cut_short_fails_once_and_for_all)
{
    struct lw_cursor c = lw_cursor_make("\x85", 1);

    CHECK_EQ(lw_cursor_varint(&c), 0);
    CHECK(c.failed);
    CHECK_EQ(lw_cursor_varint(&c), 0);
    CHECK(lw_cursor_bytes(&c, 0) == NULL);
    CHECK_EQ(lw_cursor_left(&c), 0);
}

TEST(a_varint_of_more_than_64_bits_fails)
{
    struct lw_cursor eleven =
        lw_cursor_make("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11);
    struct lw_cursor large =
        lw_cursor_make("\xff\xff\xff\xff\xff\xff\xff\xff\xff\2", 10);
    struct lw_cursor most =
        lw_cursor_make("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 10);

    lw_cursor_varint(&eleven);
    CHECK(eleven.failed);
    lw_cursor_varint(&large);
    CHECK(large.failed);
    CHECK_EQ(lw_cursor_varint(&most), UINT64_MAX);
    CHECK(!most.failed);
}

TEST(bytes_are_borrowed_and_never_past_the_end)
{
    struct lw_cursor c = lw_cursor_make("abcdef", 6);

    CHECK_BYTES(lw_cursor_bytes(&c, 4), "abcd", 4);
    CHECK(lw_cursor_bytes(&c, 3) == NULL);
    CHECK(c.failed);
    c = lw_cursor_make("abcdef", 6);
    CHECK(lw_cursor_bytes(&c, UINT64_MAX) == NULL);
}

TEST(decimals_are_what_printf_prints)
{
    static const uint64_t values[] = { 0, 9, 10, 99, 100, 1234567890, UINT64_MAX };
    struct lw_buf ours, theirs;

    lw_buf_init(&ours, 0);
    lw_buf_init(&theirs, 0);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        lw_buf_add_decimal(&ours, values[i]);
        lw_buf_add_char(&ours, ' ');
        lw_buf_addf(&theirs, "%llu ", (unsigned long long)values[i]);
    }
    CHECK_STR(ours.bytes, theirs.bytes);
    lw_buf_release(&ours);
    lw_buf_release(&theirs);
}

struct taken {
    size_t bytes;
    bool is_full;
};

static bool take(void *to, const void *bytes, size_t len)
{
    struct taken *taken = to;

    if (taken->is_full)
        return false;
    CHECK_EQ(((const char *)bytes)[len - 1], 'x');
    taken->bytes += len;
    return true;
}

TEST(a_drain_takes_what_is_much_and_leaves_what_is_little)
{
    struct taken taken = { 0 };
    struct lw_buf buf;
    struct lw_error err;

    lw_buf_init(&buf, 0);
    buf.drain = take;
    buf.drain_to = &taken;
    lw_buf_add_text(&buf, "little");
    lw_buf_drain(&buf);
    CHECK_STR(buf.bytes, "little");
    lw_buf_add_repeat(&buf, 'x', 5 << 20);
    lw_buf_drain(&buf);
    CHECK_EQ(buf.len, 0);
    CHECK_EQ(taken.bytes, (5 << 20) + 6);
    CHECK_EQ(buf.drained, taken.bytes);
    CHECK(lw_buf_check(&buf, &err));

    taken.is_full = true;
    lw_buf_add_repeat(&buf, 'x', 5 << 20);
    lw_buf_drain(&buf);
    CHECK(!lw_buf_check(&buf, &err));
    CHECK_EQ(err.code, LW_ERR_IO);
    lw_buf_release(&buf);
}
