/* The calling-context tree: along which paths the time was spent.
 *
 * What is shown is cut by share, depth and number of rows. A node never has more time
 * than its parent, so keeping the largest nodes never keeps a node without its parent,
 * and neither does a limit on depth. */

#include <stdlib.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "model/calltree.h"
#include "model/measure.h"
#include "model/mine.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false }, /* not known of samples */
    { "self_ns", "self", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

/* The same, where there are samples and no calls. */
/* clang-format off */
static const struct lw_column sample_columns[] = {
    { "total_samples", "samples", LW_UNIT_COUNT, false },
    { "self_ns", "self", LW_UNIT_NS, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "place", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define CALLS_COLUMNS 1

enum kept {
    KEPT_NOT = 0,
    KEPT_ABOVE = 1, /* leads to one that was asked for */
    KEPT_ASKED = 2,
    KEPT_BELOW = 3, /* called by one that was asked for */
};

enum answer { ANSWER_NONE = 0, ANSWER_NO, ANSWER_YES };

struct drawing {
    const struct lw_profile *profile;
    const struct lw_query *query;
    struct lw_calltree tree;
    unsigned char *answers; /* by frame, of one restriction: enum answer */
    unsigned char *kept;    /* by node: enum kept; NULL: all are asked for */
    uint32_t *shown;        /* nodes to show, largest first */
    size_t shown_count;
    size_t kept_count;     /* nodes that no restriction took out */
    uint32_t *first_child; /* by node, among those shown; 0: none */
    uint32_t *next_sibling;
};

/* Choosing */

static bool frame_matches(const struct drawing *d, lw_frame_id frame,
                          const struct lw_restriction *restriction,
                          struct lw_mine *mine, struct lw_buf *text,
                          struct lw_error *err)
{
    struct lw_function function;

    lw_function_init(&function, d->profile, frame);
    if (restriction->kind == LW_RESTRICT_MINE)
        return lw_mine_has(mine, function.file, err);
    lw_buf_reset(text);
    lw_function_add_text(&function, text);
    return lw_buf_check(text, err) &&
           lw_pattern_search(&restriction->pattern, text->bytes, text->len);
}

/* Of the nodes kept so far only those stay that are asked for, lead there, or (for a
 * pattern: what a function calls belongs to it) are below. */
static bool apply_restriction(struct drawing *d,
                              const struct lw_restriction *restriction,
                              struct lw_mine *mine, struct lw_buf *text,
                              struct lw_error *err)
{
    struct lw_error failed = { LW_OK, "" };
    const struct lw_calltree_node *nodes = d->tree.nodes;
    bool keeps_below = restriction->kind == LW_RESTRICT_PATTERN;

    d->kept[0] = KEPT_ABOVE;
    for (uint32_t i = 1; i < d->tree.node_count; i++) {
        unsigned char above = d->kept[nodes[i].parent];
        unsigned char *answer = &d->answers[nodes[i].frame];

        if (d->kept[i] == KEPT_NOT)
            continue;
        if (*answer == ANSWER_NONE)
            *answer = frame_matches(d, nodes[i].frame, restriction, mine, text, &failed)
                          ? ANSWER_YES
                          : ANSWER_NO;
        if (*answer == ANSWER_YES)
            d->kept[i] = KEPT_ASKED;
        else if (keeps_below && (above == KEPT_ASKED || above == KEPT_BELOW))
            d->kept[i] = KEPT_BELOW;
        else
            d->kept[i] = KEPT_NOT;
        if (failed.code != LW_OK)
            return lw_fail(err, failed.code, "%s", failed.text);
    }
    for (size_t i = d->tree.node_count; i-- > 1;)
        if (d->kept[i] != KEPT_NOT && d->kept[nodes[i].parent] == KEPT_NOT)
            d->kept[nodes[i].parent] = KEPT_ABOVE;
    return true;
}

/* Before the first everything is asked for; of each, no frame has an answer yet. */
static bool start_restriction(struct drawing *d, struct lw_error *err)
{
    size_t frame_count;

    lw_stacks_frames(d->profile->stacks, &frame_count);
    if (!d->kept) {
        d->kept = lw_alloc(d->tree.node_count, err);
        if (!d->kept)
            return false;
        memset(d->kept, KEPT_ASKED, d->tree.node_count);
    }
    if (!d->answers)
        d->answers = lw_alloc(frame_count, err);
    if (d->answers)
        memset(d->answers, ANSWER_NONE, frame_count);
    return d->answers != NULL;
}

static bool apply_restrictions(struct drawing *d, struct lw_error *err)
{
    struct lw_mine mine = { 0 };
    struct lw_buf text;
    bool done = true;

    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < d->query->restriction_count; i++) {
        const struct lw_restriction *restriction = &d->query->restrictions[i];

        if (restriction->kind == LW_RESTRICT_COUNT)
            continue; /* on rows: below */
        if (restriction->kind == LW_RESTRICT_SHARE) {
            done = lw_fail(err, LW_ERR_USAGE,
                           "a tree is not restricted by a fraction of "
                           "its rows but by --min-share");
            break;
        }
        done = start_restriction(d, err);
        if (done && restriction->kind == LW_RESTRICT_MINE && !mine.folder)
            done = lw_mine_init(&mine, d->profile, err);
        done = done && apply_restriction(d, restriction, &mine, &text, err);
    }
    lw_buf_release(&text);
    lw_mine_release(&mine);
    return done;
}

static uint64_t rows_max(const struct lw_query *query)
{
    uint64_t most = UINT64_MAX;

    for (size_t i = 0; i < query->restriction_count; i++) {
        const struct lw_restriction *restriction = &query->restrictions[i];

        if (restriction->kind == LW_RESTRICT_COUNT && restriction->count >= 0 &&
            (uint64_t)restriction->count < most)
            most = (uint64_t)restriction->count;
    }
    return most;
}

/* The largest first; of equals the one nearer to the root. */
static int compare_nodes(const void *a_number, const void *b_number, void *context)
{
    const struct lw_calltree_node *nodes = context;
    uint32_t a = *(const uint32_t *)a_number, b = *(const uint32_t *)b_number;

    if (nodes[a].total_ns != nodes[b].total_ns)
        return nodes[a].total_ns > nodes[b].total_ns ? -1 : 1;
    return (a > b) - (a < b);
}

static bool choose_nodes(struct drawing *d, struct lw_error *err)
{
    const struct lw_calltree_node *nodes = d->tree.nodes;
    double least = d->query->min_share * (double)nodes[0].total_ns;
    uint64_t most = rows_max(d->query);

    d->shown = lw_alloc(d->tree.node_count * sizeof(*d->shown), err);
    if (!d->shown)
        return false;
    for (uint32_t i = 1; i < d->tree.node_count; i++) {
        if (d->kept && d->kept[i] == KEPT_NOT)
            continue;
        d->kept_count++;
        if ((double)nodes[i].total_ns >= least &&
            (!d->query->max_depth || nodes[i].depth <= d->query->max_depth))
            d->shown[d->shown_count++] = i;
    }
    if (d->shown_count > 0)
        qsort_r(d->shown, d->shown_count, sizeof(*d->shown), compare_nodes,
                d->tree.nodes);
    if (d->shown_count > most)
        d->shown_count = (size_t)most;
    return true;
}

/* Drawing */

/* From the smallest to the largest, each put before its siblings. */
static bool link_nodes(struct drawing *d, struct lw_error *err)
{
    d->first_child = lw_zalloc(d->tree.node_count, sizeof(*d->first_child), err);
    d->next_sibling = lw_zalloc(d->tree.node_count, sizeof(*d->next_sibling), err);
    if (!d->first_child || !d->next_sibling)
        return false;
    for (size_t i = d->shown_count; i-- > 0;) {
        uint32_t node = d->shown[i], parent = d->tree.nodes[node].parent;

        d->next_sibling[node] = d->first_child[parent];
        d->first_child[parent] = node;
    }
    return true;
}

static void add_node(const struct drawing *d, uint32_t number, struct lw_table *table)
{
    const struct lw_calltree_node *node = &d->tree.nodes[number];
    struct lw_function function;

    lw_function_init(&function, d->profile, node->frame);
    if (d->query->strip)
        lw_function_strip(&function);
    lw_table_row(table, node->depth - 1);
    if (d->tree.source != LW_GRAPH_SAMPLES)
        lw_table_add_integer(table, (int64_t)node->calls);
    else if (d->tree.nodes[0].samples > 0)
        lw_table_add_integer(table, (int64_t)node->samples);
    lw_table_add_integer(table, (int64_t)node->self_ns);
    lw_table_add_integer(table, (int64_t)node->total_ns);
    lw_analysis_add_share(table, (double)node->total_ns,
                          (double)d->tree.nodes[0].total_ns);
    lw_table_add_text(table, function.name, function.name_len);
    lw_analysis_add_place(table, &function);
}

static void add_nodes(const struct drawing *d, struct lw_table *table)
{
    uint32_t at = d->first_child[0];

    while (at) {
        add_node(d, at, table);
        if (d->first_child[at]) {
            at = d->first_child[at];
            continue;
        }
        while (at && !d->next_sibling[at])
            at = d->tree.nodes[at].parent;
        at = at ? d->next_sibling[at] : 0;
    }
}

static void text_of_node(const void *of, size_t index, bool name, struct lw_buf *out)
{
    const struct drawing *d = of;
    struct lw_function function;

    lw_function_init(&function, d->profile, d->tree.nodes[index + 1].frame);
    if (name)
        lw_buf_add(out, function.name, function.name_len);
    else
        lw_function_add_text(&function, out);
}

static void add_words(const struct drawing *d, struct lw_table *table)
{
    size_t path_count = d->tree.node_count - 1;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)path_count);
    lw_buf_add_text(&text, path_count == 1 ? " path of calls, " : " paths of calls, ");
    if (d->tree.source == LW_GRAPH_SAMPLES)
        lw_analysis_add_samples(&text, d->profile, (int64_t)d->tree.nodes[0].samples);
    lw_measure_add(&text, d->profile, (int64_t)d->tree.nodes[0].total_ns);
    if (path_count > 0)
        lw_table_set_title(table, "%s in all", lw_analysis_text(table, &text));
    lw_buf_reset(&text);
    lw_units_add_count(&text, (int64_t)(d->kept_count - d->shown_count));
    if (path_count == 0)
        lw_analysis_note_empty(d->profile, table);
    if (d->kept_count == 0)
        lw_analysis_note_none(d->query, path_count, text_of_node, d, "function", table);
    else if (d->kept_count > d->shown_count)
        lw_table_note(table, "%s more; --min-share 0 --limit 0 shows all.",
                      lw_analysis_text(table, &text));
    lw_buf_release(&text);
    lw_analysis_note_losses(d->profile, table);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct drawing d = { .profile = profile, .query = query };
    bool *threads;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    if (!lw_query_threads(query, profile, &threads, err))
        return false;
    done = lw_calltree_init(&d.tree, profile, query->source, threads, err) &&
           apply_restrictions(&d, err) && choose_nodes(&d, err) && link_nodes(&d, err);
    if (done) {
        if (d.tree.source == LW_GRAPH_SAMPLES && d.tree.nodes[0].samples > 0)
            lw_table_init(table, sample_columns, COLUMN_COUNT);
        else if (d.tree.source == LW_GRAPH_SAMPLES)
            lw_table_init(table, columns + CALLS_COLUMNS, COLUMN_COUNT - CALLS_COLUMNS);
        add_nodes(&d, table);
        add_words(&d, table);
    }
    lw_free(threads);
    lw_calltree_release(&d.tree);
    lw_free(d.answers);
    lw_free(d.kept);
    lw_free(d.shown);
    lw_free(d.first_child);
    lw_free(d.next_sibling);
    return done;
}

const struct lw_analysis lw_analysis_tree = {
    .name = "tree",
    .summary = "along which paths of calls the time was spent",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .takes_restrictions = true,
    .usual_rows = 60,
    .run = run,
};
