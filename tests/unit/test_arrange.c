#include "test.h"

#include <math.h>

#include "analyses/analysis.h"

enum { NAME, CALLS, SHARE, COLUMNS };

static const struct lw_column columns[COLUMNS] = {
    { "name", "op", LW_UNIT_TEXT, true },
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "share", "of all", LW_UNIT_SHARE, false },
};

static void add(struct lw_table *table, uint32_t depth, const char *name, int64_t calls,
                double share)
{
    lw_table_row(table, depth);
    lw_table_add_text(table, name, strlen(name));
    lw_table_add_integer(table, calls);
    if (share < 0)
        lw_table_add_none(table);
    else
        lw_table_add_number(table, share);
}

/* Four rows, of which the second has two below it. */
static void fill(struct lw_table *table)
{
    lw_table_init(table, columns, COLUMNS);
    add(table, 0, "mm", 3, 0.5);
    add(table, 0, "add", 7, -1);
    add(table, 1, "add of a", 5, 0.1);
    add(table, 1, "add of b", 2, 0.9);
    add(table, 0, "mm_out", 3, 0.25);
    add(table, 0, "conv", 1, NAN);
}

/* The names in order, each with its depth: "mm0 add0 ...". */
static void check_order(struct lw_table *table, const struct lw_query *query,
                        const char *wanted)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_buf found;

    CHECK(lw_analysis_arrange(table, query, &err));
    lw_buf_init(&found, 0);
    for (size_t i = 0; i < table->row_count; i++) {
        const struct lw_value *name = lw_table_value(table, i, NAME);

        lw_buf_addf(&found, "%s%.*s%u", i ? " " : "", (int)name->as.text.len,
                    name->as.text.bytes, table->depths[i]);
    }
    CHECK_STR(found.bytes ? found.bytes : "", wanted);
    lw_buf_release(&found);
}

static void check_sorted(const char *first, const char *second, bool reverse,
                         const char *wanted)
{
    struct lw_table table;
    struct lw_query query;

    fill(&table);
    lw_query_init(&query);
    query.columns[0] = first;
    query.columns[1] = second;
    query.column_count = second ? 2 : first ? 1 : 0;
    query.reverse = reverse;
    check_order(&table, &query, wanted);
    CHECK_EQ(table.note_count, 0);
    lw_query_release(&query);
    lw_table_release(&table);
}

TEST(without_columns_to_sort_by_rows_stay_as_they_are)
{
    check_sorted(NULL, NULL, true, "mm0 add0 add of a1 add of b1 mm_out0 conv0");
}

TEST(numbers_are_sorted_downwards_and_take_what_is_below_them_along)
{
    check_sorted("calls", NULL, false, "add0 add of a1 add of b1 mm0 mm_out0 conv0");
    check_sorted("calls", NULL, true, "conv0 mm0 mm_out0 add0 add of a1 add of b1");
}

TEST(texts_are_sorted_upwards_and_the_shorter_of_two_comes_first)
{
    check_sorted("name", NULL, false, "add0 add of a1 add of b1 conv0 mm0 mm_out0");
    check_sorted("op", NULL, true, "mm_out0 mm0 conv0 add0 add of a1 add of b1");
    check_sorted("calls", "name", true, "conv0 mm_out0 mm0 add0 add of a1 add of b1");
}

TEST(what_is_absent_or_no_number_is_last_in_either_direction)
{
    check_sorted("share", NULL, false, "mm0 mm_out0 add0 add of a1 add of b1 conv0");
    check_sorted("share", NULL, true, "mm_out0 mm0 add0 add of a1 add of b1 conv0");
}

TEST(a_column_that_is_not_there_is_said_with_those_that_are)
{
    struct lw_table table;
    struct lw_query query;
    struct lw_error err;

    fill(&table);
    lw_query_init(&query);
    CHECK(lw_query_add_column(&query, "time", &err));
    CHECK(!lw_analysis_arrange(&table, &query, &err));
    CHECK_EQ(err.code, LW_ERR_USAGE);
    CHECK_STR(err.text, "there is no column time to sort by, only: name, calls, share");
    lw_query_release(&query);
    lw_table_release(&table);
}

static void check_restricted(const char *pattern, int64_t count, const char *wanted,
                             const char *note)
{
    struct lw_table table;
    struct lw_query query;
    struct lw_error err;

    fill(&table);
    lw_query_init(&query);
    if (pattern)
        CHECK(lw_query_add_pattern(&query, pattern, &err));
    if (count >= 0)
        CHECK(lw_query_add_count(&query, count, &err));
    check_order(&table, &query, wanted);
    CHECK_EQ(table.note_count, note ? 1 : 0);
    if (note)
        CHECK_STR(table.notes[0], note);
    lw_query_release(&query);
    lw_table_release(&table);
}

TEST(what_a_number_cuts_is_noted_with_what_brings_it_back)
{
    check_restricted(NULL, 2, "mm0 add0 add of a1 add of b1",
                     "2 more rows; --limit 0 shows all.");
    check_restricted("mm", 1, "mm0", "1 more row; --limit 0 shows all.");
    check_restricted(NULL, 4, "mm0 add0 add of a1 add of b1 mm_out0 conv0", NULL);
}

TEST(a_pattern_is_of_the_top_rows_and_that_it_left_nothing_is_noted)
{
    check_restricted("^mm", -1, "mm0 mm_out0", NULL);
    check_restricted("of a", -1, "", "No row matches 'of a'.");
}

TEST(an_empty_table_stays_empty)
{
    struct lw_table table;
    struct lw_query query;
    struct lw_error err;

    lw_table_init(&table, columns, COLUMNS);
    lw_query_init(&query);
    CHECK(lw_query_add_count(&query, 3, &err));
    check_order(&table, &query, "");
    CHECK_EQ(table.note_count, 0);
    lw_query_release(&query);
    lw_table_release(&table);
}
