#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "model/table.h"
#include "model/units.h"

static const struct lw_column columns[] = {
    { "function", "function", LW_UNIT_TEXT, true },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "share", "share", LW_UNIT_SHARE, false },
};

TEST(cells_stand_in_the_order_of_the_columns)
{
    struct lw_table table;
    struct lw_error err;

    lw_table_init(&table, columns, 3);
    lw_table_set_title(&table, "%s by %s", "functions", "calls");
    lw_table_row(&table, 0);
    lw_table_add_text(&table, "a\0b", 3);
    lw_table_add_integer(&table, 7);
    lw_table_add_number(&table, 0.5);
    lw_table_row(&table, 1);
    lw_table_add_text(&table, "c", 1);
    lw_table_add_none(&table);
    lw_table_note(&table, "%d more", 3);
    CHECK(lw_table_check(&table, &err));
    CHECK_STR(table.title, "functions by calls");
    CHECK_STR(table.notes[0], "3 more");
    CHECK_EQ(table.row_count, 2);
    CHECK_EQ(lw_table_value(&table, 0, 0)->as.text.len, 3);
    CHECK_BYTES(lw_table_value(&table, 0, 0)->as.text.bytes, "a\0b", 4);
    CHECK_EQ(lw_table_value(&table, 0, 1)->as.integer, 7);
    CHECK(lw_table_value(&table, 0, 2)->as.number == 0.5);
    CHECK(!lw_table_value(&table, 1, 1)->present);
    CHECK(!lw_table_value(&table, 1, 2)->present); /* never added */
    CHECK_EQ(table.depths[1], 1);
    lw_table_release(&table);
}

TEST(a_row_is_at_most_one_deeper_than_the_one_before)
{
    struct lw_table table;

    lw_table_init(&table, columns, 3);
    lw_table_row(&table, 5);
    lw_table_row(&table, 5);
    lw_table_row(&table, 2);
    lw_table_row(&table, 0);
    CHECK_EQ(table.depths[0], 0);
    CHECK_EQ(table.depths[1], 1);
    CHECK_EQ(table.depths[2], 2);
    CHECK_EQ(table.depths[3], 0);
    lw_table_release(&table);
}

TEST(every_allocation_of_a_table_may_fail)
{
    struct lw_table table;
    struct lw_error err;
    unsigned n = 1;

    for (;; n++) {
        bool done;

        lw_alloc_fail_in(n);
        lw_table_init(&table, columns, 3);
        lw_table_set_title(&table, "title %d", 1);
        for (int i = 0; i < 1000; i++) {
            lw_table_row(&table, 0);
            lw_table_add_text(&table, "some function", 13);
            lw_table_add_integer(&table, i);
            lw_table_add_number(&table, 0.5);
        }
        lw_table_note(&table, "note %d", 2);
        done = lw_table_check(&table, &err);
        if (done)
            break;
        CHECK_EQ(err.code, LW_ERR_NOMEM);
        lw_table_release(&table);
    }
    lw_alloc_fail_in(0);
    CHECK(n > 20);
    CHECK_EQ(table.row_count, 1000);
    lw_table_release(&table);
}

typedef void add_integer(struct lw_buf *out, int64_t value);

static void check_shown(add_integer *add, int64_t value, const char *expected)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    add(&buf, value);
    CHECK_STR(buf.bytes, expected);
    lw_buf_release(&buf);
}

TEST(times_have_three_digits_and_the_unit_that_suits)
{
    check_shown(lw_units_add_ns, 0, "0 ns");
    check_shown(lw_units_add_ns, 999, "999 ns");
    check_shown(lw_units_add_ns, 1000, "1.00 us");
    check_shown(lw_units_add_ns, 45600000, "45.6 ms");
    check_shown(lw_units_add_ns, 1234567890, "1.23 s");
    check_shown(lw_units_add_ns, 119000000000, "119 s");
    check_shown(lw_units_add_ns, 120000000000, "2.00 min");
    check_shown(lw_units_add_ns, 7200000000000, "2.00 h");
    check_shown(lw_units_add_ns, INT64_MAX, "2562048 h");
    check_shown(lw_units_add_ns, -1500, "-1.50 us");
    check_shown(lw_units_add_ns, INT64_MIN, "-2562048 h");
}

TEST(rounding_never_shows_a_thousand_of_a_unit)
{
    check_shown(lw_units_add_ns, 999499, "999 us");
    check_shown(lw_units_add_ns, 999500, "1.00 ms");
    check_shown(lw_units_add_ns, 999999, "1.00 ms");
    check_shown(lw_units_add_ns, 9994999, "9.99 ms");
    check_shown(lw_units_add_ns, 9996000, "10.0 ms");
    check_shown(lw_units_add_ns, 99960000, "100 ms");
    check_shown(lw_units_add_bytes, 1023, "1.00 KB");
}

TEST(bytes_are_in_powers_of_1024)
{
    check_shown(lw_units_add_bytes, 0, "0 B");
    check_shown(lw_units_add_bytes, 512, "512 B");
    check_shown(lw_units_add_bytes, 1536, "1.50 KB");
    check_shown(lw_units_add_bytes, 1258291, "1.20 MB");
    check_shown(lw_units_add_bytes, (int64_t)3 << 30, "3.00 GB");
    check_shown(lw_units_add_bytes, -2048, "-2.00 KB");
}

TEST(counts_have_commas)
{
    check_shown(lw_units_add_count, 0, "0");
    check_shown(lw_units_add_count, 999, "999");
    check_shown(lw_units_add_count, 1000, "1,000");
    check_shown(lw_units_add_count, -1234567, "-1,234,567");
    check_shown(lw_units_add_count, INT64_MIN, "-9,223,372,036,854,775,808");
}

TEST(times_of_day_are_local)
{
    setenv("TZ", "UTC", 1);
    tzset();
    check_shown(lw_units_add_time, 0, "1970-01-01 00:00:00");
    check_shown(lw_units_add_time, 1794773251999999999, "2026-11-15 20:07:31");
}

static void check_value(enum lw_unit unit, struct lw_value value, const char *expected)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_buf_add_text(&buf, "");
    lw_units_add_value(&buf, unit, &value);
    CHECK_STR(buf.bytes, expected);
    lw_buf_release(&buf);
}

TEST(any_value_is_shown_as_its_unit_says)
{
    struct lw_value text = { true, .as.text = { "a\033b", 3 } };
    struct lw_value integer = { true, .as.integer = 1500000 };
    struct lw_value half = { true, .as.number = 0.5 };
    struct lw_value nothing = { true, .as.number = NAN };
    struct lw_value absent = { .present = false };

    check_value(LW_UNIT_TEXT, text, "a\\x1bb");
    check_value(LW_UNIT_COUNT, integer, "1,500,000");
    check_value(LW_UNIT_NS, integer, "1.50 ms");
    check_value(LW_UNIT_BYTES, integer, "1.43 MB");
    check_value(LW_UNIT_SECONDS, half, "0.500");
    check_value(LW_UNIT_SHARE, half, "50.0 %");
    check_value(LW_UNIT_SHARE, nothing, "-");
    check_value(LW_UNIT_NUMBER, half, "0.5");
    check_value(LW_UNIT_COUNT, absent, "");
}

static void check_counted(int64_t count, const char *noun, const char *wanted)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_units_add_counted(&buf, count, noun);
    lw_buf_add_char(&buf, '\0');
    CHECK_STR(buf.bytes, wanted);
    lw_buf_release(&buf);
}

TEST(a_count_has_its_noun_in_the_right_number)
{
    check_counted(1, "process", "1 process");
    check_counted(1234, "process", "1,234 processes");
    check_counted(0, "sample", "0 samples");
    check_counted(2, "batch", "2 batches");
    check_counted(2, "copy", "2 copies");
    check_counted(2, "day", "2 days");
}

static void check_noun(int64_t count, const char *plural, const char *wanted)
{
    struct lw_buf buf;

    lw_buf_init(&buf, 0);
    lw_units_add_noun(&buf, count, plural);
    lw_buf_add_char(&buf, '\0');
    CHECK_STR(buf.bytes, wanted);
    lw_buf_release(&buf);
}

TEST(one_of_a_plural_is_its_singular)
{
    check_noun(1, "processes", "process");
    check_noun(2, "processes", "processes");
    check_noun(1, "samples", "sample");
    check_noun(1, "branches", "branch");
    check_noun(1, "copies", "copy");
    check_noun(1, "times", "time");
    check_noun(1, "files cut short", "file cut short");
    check_noun(1, "ends of spans", "end of spans");
    check_noun(1, "open spans", "open span");
    check_noun(1, "", "");
}
