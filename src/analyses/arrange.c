/* Order, patterns and a limit for tables whose rows are no functions: the same words for
 * every one, whatever its columns are. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "base/nearest.h"
#include "model/units.h"

/* A row of depth 0, with those below it. */
struct block {
    size_t first, count;
    bool kept;
};

/* What the rows of a table are called. */
struct naming {
    const struct lw_table *table;
    const struct block *blocks;
};

struct arranging {
    const struct lw_table *table;
    size_t columns[LW_QUERY_KEYS_MAX];
    size_t column_count;
    bool reverse;
};

static bool find_column(const struct lw_table *table, const char *name, size_t *column,
                        struct lw_error *err)
{
    struct lw_nearest near;
    struct lw_buf names;

    lw_nearest_init(&near, name);
    for (size_t i = 0; i < table->column_count; i++) {
        lw_nearest_offer(&near, table->columns[i].name);
        lw_nearest_offer(&near, table->columns[i].title);
    }
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0 ||
            strcmp(table->columns[i].title, name) == 0) {
            *column = i;
            return true;
        }
    if (near.name)
        return lw_fail(err, LW_ERR_USAGE,
                       "there is no column %s to sort by; did you mean %s?", name,
                       near.name);
    lw_buf_init(&names, 0);
    for (size_t i = 0; i < table->column_count; i++) {
        lw_buf_add_text(&names, i ? ", " : "");
        lw_buf_add_text(&names, table->columns[i].name);
    }
    lw_buf_add_char(&names, '\0');
    if (lw_buf_check(&names, err))
        lw_fail(err, LW_ERR_USAGE, "there is no column %s to sort by, only: %s", name,
                names.bytes);
    lw_buf_release(&names);
    return false;
}

static bool is_integer(enum lw_unit unit)
{
    return unit == LW_UNIT_COUNT || unit == LW_UNIT_NS || unit == LW_UNIT_BYTES ||
           unit == LW_UNIT_TIME;
}

static int compare_texts(const struct lw_value *a, const struct lw_value *b)
{
    size_t len = a->as.text.len < b->as.text.len ? a->as.text.len : b->as.text.len;
    int order = len ? memcmp(a->as.text.bytes, b->as.text.bytes, len) : 0;

    return order ? order : (a->as.text.len > len) - (b->as.text.len > len);
}

/* Texts upwards, numbers downwards. */
static int compare_cells(const struct lw_value *a, const struct lw_value *b,
                         enum lw_unit unit)
{
    if (unit == LW_UNIT_TEXT)
        return compare_texts(a, b);
    if (is_integer(unit))
        return (a->as.integer < b->as.integer) - (a->as.integer > b->as.integer);
    return (a->as.number < b->as.number) - (a->as.number > b->as.number);
}

static bool is_there(const struct lw_value *value, enum lw_unit unit)
{
    return value->present &&
           (unit == LW_UNIT_TEXT || is_integer(unit) || !isnan(value->as.number));
}

/* Equal ones stay as they were; what is absent comes last, in either direction. */
static int compare_blocks(const void *x, const void *y, void *context)
{
    const struct arranging *a = context;
    const struct block *left = x, *right = y;

    for (size_t i = 0; i < a->column_count; i++) {
        const struct lw_value *u = lw_table_value(a->table, left->first, a->columns[i]);
        const struct lw_value *v =
            lw_table_value(a->table, right->first, a->columns[i]);
        enum lw_unit unit = a->table->columns[a->columns[i]].unit;
        int order;

        if (!is_there(u, unit) || !is_there(v, unit))
            order = is_there(v, unit) - is_there(u, unit);
        else
            order = (a->reverse ? -1 : 1) * compare_cells(u, v, unit);
        if (order)
            return order;
    }
    return left->first < right->first ? -1 : left->first > right->first;
}

static bool matches(const struct lw_table *table, size_t row,
                    const struct lw_pattern *pattern)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct lw_value *value = lw_table_value(table, row, i);

        if (table->columns[i].unit == LW_UNIT_TEXT && value->present)
            return lw_pattern_search(pattern, value->as.text.bytes, value->as.text.len);
    }
    return false;
}

static void keep_first(struct block *blocks, size_t count, size_t limit)
{
    for (size_t i = 0, kept = 0; i < count; i++)
        if (blocks[i].kept && kept++ >= limit)
            blocks[i].kept = false;
}

static size_t count_kept(const struct block *blocks, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        kept += blocks[i].kept;
    return kept;
}

/* How many a number cut, which more of it would bring back, is returned. */
static size_t restrict_blocks(const struct lw_table *table,
                              const struct lw_query *query, struct block *blocks,
                              size_t count)
{
    size_t cut = 0;

    for (size_t r = 0; r < query->restriction_count; r++) {
        const struct lw_restriction *by = &query->restrictions[r];
        size_t before = count_kept(blocks, count);

        if (by->kind == LW_RESTRICT_COUNT && by->count >= 0)
            keep_first(blocks, count, (size_t)by->count);
        if (by->kind == LW_RESTRICT_SHARE)
            keep_first(blocks, count, (size_t)(by->share * (double)before + 0.5));
        cut += before - count_kept(blocks, count);
        if (by->kind == LW_RESTRICT_PATTERN)
            for (size_t i = 0; i < count; i++)
                blocks[i].kept =
                    blocks[i].kept && matches(table, blocks[i].first, &by->pattern);
    }
    return cut;
}

/* The first cell of text, which is what a row is called. */
static void text_of_block(const void *of, size_t index, bool name, struct lw_buf *out)
{
    const struct naming *naming = of;
    const struct lw_table *table = naming->table;

    (void)name;
    for (size_t i = 0; i < table->column_count; i++) {
        const struct lw_value *value =
            lw_table_value(table, naming->blocks[index].first, i);

        if (table->columns[i].unit != LW_UNIT_TEXT || !value->present)
            continue;
        lw_buf_add(out, value->as.text.bytes, value->as.text.len);
        return;
    }
}

static void note_cut(struct lw_table *table, size_t cut)
{
    struct lw_buf count;

    lw_buf_init(&count, 0);
    lw_units_add_count(&count, (int64_t)cut);
    if (cut)
        lw_table_note(table, "%s more row%s; --limit 0 shows all.",
                      lw_analysis_text(table, &count), cut == 1 ? "" : "s");
    lw_buf_release(&count);
}

/* Put the rows of the blocks that are kept where they belong. */
static bool move_rows(struct lw_table *table, const struct block *blocks, size_t count,
                      struct lw_error *err)
{
    size_t width = table->column_count, rows = 0;
    struct lw_value *values =
        lw_alloc(table->row_count * width * sizeof(*values) + 1, err);
    uint32_t *depths =
        values ? lw_alloc(table->row_count * sizeof(*depths) + 1, err) : NULL;

    if (!depths) {
        lw_free(values);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!blocks[i].kept)
            continue;
        memcpy(values + rows * width, table->values + blocks[i].first * width,
               blocks[i].count * width * sizeof(*values));
        memcpy(depths + rows, table->depths + blocks[i].first,
               blocks[i].count * sizeof(*depths));
        rows += blocks[i].count;
    }
    memcpy(table->values, values, rows * width * sizeof(*values));
    memcpy(table->depths, depths, rows * sizeof(*depths));
    table->row_count = rows;
    lw_free(values);
    lw_free(depths);
    return true;
}

static size_t find_blocks(const struct lw_table *table, struct block *blocks)
{
    size_t count = 0;

    for (size_t row = 0; row < table->row_count; row++) {
        if (count == 0 || table->depths[row] == 0) {
            struct block block = { .first = row, .kept = true };

            blocks[count++] = block;
        }
        blocks[count - 1].count++;
    }
    return count;
}

bool lw_analysis_arrange(struct lw_table *table, const struct lw_query *query,
                         struct lw_error *err)
{
    struct arranging a = { .table = table, .reverse = query->reverse };
    struct block *blocks;
    size_t count, cut;
    bool done;

    for (; a.column_count < query->column_count; a.column_count++)
        if (!find_column(table, query->columns[a.column_count],
                         &a.columns[a.column_count], err))
            return false;
    if (!lw_table_check(table, err))
        return false;
    blocks = lw_alloc(table->row_count * sizeof(*blocks) + 1, err);
    if (!blocks)
        return false;
    count = find_blocks(table, blocks);
    if (a.column_count > 0)
        qsort_r(blocks, count, sizeof(*blocks), compare_blocks, &a);
    cut = restrict_blocks(table, query, blocks, count);
    if (count_kept(blocks, count) == 0)
        lw_analysis_note_none(query, count, text_of_block,
                              &(struct naming){ table, blocks }, "row", table);
    else
        note_cut(table, cut);
    done = table->row_count == 0 || move_rows(table, blocks, count, err);
    lw_free(blocks);
    return done;
}
