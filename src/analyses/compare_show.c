/* Rows as a table: the biggest changes first; of a tree, in each place. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/compare.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "host_before_ns", "host", LW_UNIT_NS, false },
    { "host_after_ns", "after", LW_UNIT_NS, false },
    { "host_change_ns", "change", LW_UNIT_NS, false },
    { "device_before_ns", "device", LW_UNIT_NS, false },
    { "device_after_ns", "after", LW_UNIT_NS, false },
    { "device_change_ns", "change", LW_UNIT_NS, false },
    { "calls_before", "calls", LW_UNIT_NUMBER, false },
    { "calls_after", "after", LW_UNIT_NUMBER, false },
    { "share", "of all changes", LW_UNIT_SHARE, false },
    { "name", "name", LW_UNIT_TEXT, true },
    { "only", "only", LW_UNIT_TEXT, false },
};
/* clang-format on */

/* Names of kernels are longer than a sentence may be. */
#define NAME_WIDTH 60

/* Rows in the order in which they are shown. */
struct showing {
    const struct lw_compare *compare;
    double *sizes;        /* owned: of each row its change */
    uint32_t *order;      /* owned: rows by parent, the largest first */
    uint32_t *first;      /* owned: where in `order` a row's children are; the last is
                             that of the rows without a parent */
    size_t *left_to_show; /* owned: of the rows above the current one */
    double whole;         /* of the rows without a parent */
    size_t hidden;
};

static int by_place(const void *x, const void *y, void *context)
{
    const struct showing *s = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t above = s->compare->rows[a].parent, other = s->compare->rows[b].parent;

    if (above != other)
        return above < other ? -1 : 1;
    if (s->sizes[a] != s->sizes[b])
        return s->sizes[a] > s->sizes[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void add_time(struct lw_table *table, bool is_known, double ns)
{
    if (is_known)
        lw_table_add_integer(table, llround(ns));
    else
        lw_table_add_none(table);
}

static void add_change(struct lw_table *table, const struct lw_compare *compare,
                       const struct lw_compare_row *row, bool of_device)
{
    double ns[LW_SIDES];
    bool is_known = of_device; /* of kernels there is no time of the host */

    for (int i = 0; i < LW_SIDES; i++) {
        const struct lw_compare_figures *figures = &row->sides[i];

        ns[i] = lw_compare_a_step(
            &compare->sides[i],
            (double)(of_device ? figures->device_ns : figures->host_ns));
        is_known = is_known || figures->host_ns != 0;
    }
    for (int i = 0; i < LW_SIDES; i++)
        add_time(table, is_known && row->names[i], ns[i]);
    add_time(table, is_known, ns[LW_AFTER] - ns[LW_BEFORE]);
}

static void add_row(const struct showing *s, uint32_t index, uint32_t depth,
                    struct lw_table *table)
{
    const struct lw_compare *compare = s->compare;
    const struct lw_compare_row *row = &compare->rows[index];
    const char *name = lw_compare_name(compare, row);

    lw_table_row(table, depth);
    add_change(table, compare, row, false);
    add_change(table, compare, row, true);
    for (int i = 0; i < LW_SIDES; i++) {
        if (row->names[i])
            lw_table_add_number(table, lw_compare_a_step(&compare->sides[i],
                                                         (double)row->sides[i].calls));
        else
            lw_table_add_none(table);
    }
    lw_analysis_add_share(table, s->sizes[index], s->whole);
    lw_table_add_text(table, name, strlen(name));
    if (!row->names[LW_AFTER])
        lw_table_add_text(table, "before", 6);
    else if (!row->names[LW_BEFORE])
        lw_table_add_text(table, "after", 5);
    else
        lw_table_add_none(table);
}

static bool showing_init(struct showing *s, const struct lw_compare *compare,
                         struct lw_error *err)
{
    size_t count = compare->row_count;

    s->compare = compare;
    s->sizes = lw_alloc(count * sizeof(*s->sizes) + 1, err);
    s->order = s->sizes ? lw_alloc(count * sizeof(*s->order) + 1, err) : NULL;
    s->first = s->order ? lw_zalloc(count + 2, sizeof(*s->first), err) : NULL;
    s->left_to_show =
        s->first ? lw_zalloc(count + 1, sizeof(*s->left_to_show), err) : NULL;
    if (!s->left_to_show)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        s->sizes[i] = lw_compare_size(compare, &compare->rows[i]);
        s->order[i] = i;
        if (compare->rows[i].parent == LW_NONE)
            s->whole += s->sizes[i];
    }
    if (count > 0)
        qsort_r(s->order, count, sizeof(*s->order), by_place, s);
    for (size_t i = count; i-- > 0;) { /* each ends up at the first of its kind */
        uint32_t parent = compare->rows[s->order[i]].parent;

        s->first[parent == LW_NONE ? count : parent] = (uint32_t)i;
    }
    return true;
}

static void showing_release(struct showing *s)
{
    lw_free(s->sizes);
    lw_free(s->order);
    lw_free(s->first);
    lw_free(s->left_to_show);
}

static bool is_child(const struct showing *s, size_t at, uint32_t parent)
{
    return at < s->compare->row_count &&
           s->compare->rows[s->order[at]].parent == parent;
}

/* From the rows without a parent down, each before the next one beside it; what is small
 * or deep is left out with all below it. */
static void add_rows(struct showing *s, struct lw_table *table)
{
    const struct lw_query *query = s->compare->query;
    uint32_t parent = LW_NONE, depth = 0;
    size_t at = s->first[s->compare->row_count];

    for (;;) {
        uint32_t row;
        bool is_deep;

        if (!is_child(s, at, parent)) {
            if (parent == LW_NONE)
                return;
            parent = s->compare->rows[parent].parent;
            at = s->left_to_show[--depth];
            continue;
        }
        row = s->order[at];
        if (s->sizes[row] < query->min_share * s->whole) {
            s->hidden++;
            at++;
            continue;
        }
        add_row(s, row, depth, table);
        is_deep = query->max_depth && depth + 1 >= query->max_depth;
        s->left_to_show[depth] = at + 1;
        if (!is_deep && is_child(s, s->first[row], row)) {
            parent = row;
            at = s->first[row];
            depth++;
        } else {
            at++;
        }
    }
}

/* "DataLoader: 119 ms less a step on the host, 81.0 % of all changes." */
static void note_biggest(const struct showing *s, struct lw_table *table)
{
    const struct lw_compare *compare = s->compare;
    size_t at = s->first[compare->row_count];
    const struct lw_compare_row *row;
    const struct lw_compare_figures *b, *a;
    const char *name;
    double host, device, change;
    struct lw_buf text;
    size_t len;

    if (compare->row_count == 0 || s->whole <= 0 || s->sizes[s->order[at]] <= 0)
        return;
    row = &compare->rows[s->order[at]];
    b = &row->sides[LW_BEFORE];
    a = &row->sides[LW_AFTER];
    name = lw_compare_name(compare, row);
    host = lw_compare_a_step(&compare->sides[LW_AFTER], (double)a->host_ns) -
           lw_compare_a_step(&compare->sides[LW_BEFORE], (double)b->host_ns);
    device = lw_compare_a_step(&compare->sides[LW_AFTER], (double)a->device_ns) -
             lw_compare_a_step(&compare->sides[LW_BEFORE], (double)b->device_ns);
    change = fabs(host) >= fabs(device) ? host : device;
    lw_buf_init(&text, 0);
    len = lw_text_fit(name, strlen(name), NAME_WIDTH);
    lw_text_add_printable(&text, name, len);
    lw_buf_addf(&text, "%s changed most: ", name[len] ? "..." : "");
    lw_units_add_ns(&text, llround(fabs(change)));
    lw_buf_addf(&text, " %s a step on the %s, ", change < 0 ? "less" : "more",
                fabs(host) >= fabs(device) ? "host" : "device");
    lw_units_add_share(&text, s->sizes[s->order[at]] / s->whole);
    lw_table_note(table, "%s of all changes.", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

bool lw_compare_show(struct lw_compare *compare, struct lw_table *table,
                     struct lw_error *err)
{
    struct showing s = { 0 };
    bool done;

    lw_table_init(table, columns, sizeof(columns) / sizeof(columns[0]));
    done = showing_init(&s, compare, err);
    if (done) {
        note_biggest(&s, table);
        add_rows(&s, table);
        if (s.hidden > 0)
            lw_table_note(table,
                          "Left out: %zu row%s with less than %.3g %% of all changes; "
                          "--min-share 0 shows all.",
                          s.hidden, s.hidden == 1 ? "" : "s",
                          compare->query->min_share * 100);
    }
    showing_release(&s);
    return done;
}
