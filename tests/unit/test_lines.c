#include "test.h"

#include <stdio.h>

#include "sampler/lines.h"

#include "lines_fixture.h"

#define CAPTURED_COUNT (sizeof(captured) / sizeof(*captured))
#define ROWS_MAX (sizeof(captured->rows) / sizeof(*captured->rows))

/* Each test gives the bytes in a block of their own length, where ASan sees any look
 * beyond it. */
static unsigned char *from_hex(const char *text, size_t *len)
{
    unsigned char *bytes;

    *len = strlen(text) / 2;
    bytes = test_malloc(*len + !*len);
    for (size_t i = 0; i < *len; i++) {
        unsigned value = 0;

        CHECK_EQ(sscanf(text + 2 * i, "%2x", &value), 1);
        bytes[i] = (unsigned char)value;
    }
    return bytes;
}

static bool find(enum lw_line_format format, const char *hex, int32_t first_line,
                 int64_t offset, struct lw_position *position)
{
    size_t len;
    unsigned char *table = from_hex(hex, &len);
    bool found = lw_lines_find(format, table, len, first_line, offset, position);

    test_free(table);
    return found;
}

static void check_position(const struct lw_position *got,
                           const struct lw_position *want, const char *name,
                           int64_t offset)
{
    if (memcmp(got, want, sizeof(*got)) != 0) {
        print_error("%s at %lld: %d-%d:%d-%d is not %d-%d:%d-%d\n", name,
                    (long long)offset, got->line, got->end_line, got->column,
                    got->end_column, want->line, want->end_line, want->column,
                    want->end_column);
        fail();
    }
}

TEST(every_instruction_is_where_the_python_that_compiled_it_says)
{
    CHECK(CAPTURED_COUNT >= 2);
    for (size_t i = 0; i < CAPTURED_COUNT; i++) {
        size_t len, row = 0;
        unsigned char *table = from_hex(captured[i].table, &len);

        for (int64_t at = 0; at < captured[i].code_bytes; at += 2) {
            struct lw_position got;
            bool found;

            if (row + 1 < ROWS_MAX && captured[i].rows[row + 1].offset == at)
                row++;
            found = lw_lines_find(captured[i].format, table, len,
                                  captured[i].first_line, at, &got);
            check_position(&got, &captured[i].rows[row].position, captured[i].name, at);
            CHECK_EQ(found, got.line >= 0);
        }
        test_free(table);
    }
}

TEST(a_frame_that_has_not_begun_is_at_the_first_line)
{
    struct lw_position p;

    for (int format = LW_LINES_LNOTAB; format <= LW_LINES_LOCATIONS; format++) {
        CHECK(find((enum lw_line_format)format, "", 7, -1, &p));
        CHECK_EQ(p.line, 7);
        CHECK_EQ(p.end_line, 7);
        CHECK_EQ(p.column, -1);
    }
}

TEST(an_instruction_behind_the_table_has_no_line_but_in_3_9)
{
    struct lw_position p;

    CHECK(find(LW_LINES_LNOTAB, "0401", 7, 1000, &p));
    CHECK_EQ(p.line, 8);
    CHECK(find(LW_LINES_LINETABLE, "0401", 7, 2, &p));
    CHECK_EQ(p.line, 8);
    CHECK(!find(LW_LINES_LINETABLE, "0401", 7, 4, &p));
    CHECK_EQ(p.line, -1);
    CHECK(find(LW_LINES_LOCATIONS, "8012", 7, 0, &p));
    CHECK_EQ(p.column, 1);
    CHECK_EQ(p.end_column, 3);
    CHECK(!find(LW_LINES_LOCATIONS, "8012", 7, 2, &p));
    CHECK_EQ(p.line, -1);
    CHECK_EQ(p.column, -1);
}

TEST(a_table_that_ends_within_an_entry_gives_no_line)
{
    static const char *const cut[] = { "",         "80",         "d0",       "d001",
                                       "e8",       "e840",       "f0",       "f002",
                                       "f00200",   "f0020001",   "f0020041", "f00240",
                                       "f0404040", "f040404040", "e87f7f7f" };
    struct lw_position p;

    for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++)
        CHECK(!find(LW_LINES_LOCATIONS, cut[i], 1, 0, &p));
    CHECK(find(LW_LINES_LOCATIONS, "f002000102", 1, 0, &p));
    CHECK_EQ(p.line, 2);
    CHECK_EQ(p.column, 0);
    CHECK_EQ(p.end_column, 1);
}

TEST(an_entry_must_begin_with_its_mark)
{
    struct lw_position p;

    CHECK(!find(LW_LINES_LOCATIONS, "0012", 1, 0, &p));
    CHECK(!find(LW_LINES_LOCATIONS, "80127012", 1, 2, &p));
    CHECK(find(LW_LINES_LOCATIONS, "80127012", 1, 0, &p));
}

TEST(a_number_without_end_is_no_number)
{
    struct lw_position p;

    CHECK(!find(LW_LINES_LOCATIONS, "e87f7f7f7f7f7f7f7f7f7f00", 1, 0, &p));
    CHECK(find(LW_LINES_LOCATIONS, "e87e7f7f7f7f01", 0, 0, &p)); /* 2^31 - 2, signed */
    CHECK_EQ(p.line, INT32_MAX / 2);
}

TEST(lines_out_of_range_are_unknown)
{
    struct lw_position p;

    CHECK(!find(LW_LINES_LNOTAB, "00ff", 0, 0, &p));
    CHECK(!find(LW_LINES_LINETABLE, "02ff", INT32_MIN, 0, &p));
    CHECK(!find(LW_LINES_LOCATIONS, "e803", 0, 0, &p));
    CHECK(!find(LW_LINES_LOCATIONS, "e802", INT32_MAX, 0, &p));
    CHECK(find(LW_LINES_LOCATIONS, "f0007f7f7f7f7f1f0000", 5, 0, &p));
    CHECK_EQ(p.line, 5);
    CHECK_EQ(p.end_line, -1); /* that one is too far away */
    CHECK_EQ(p.column, -1);
}
