/* pstats' own text, after Lib/pstats.py of CPython 3.11. */

#include "writers/pstats_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

struct printing {
    const struct lw_callgraph *graph;
    const struct lw_query *query;
    const struct lw_selection *selection;
    struct lw_buf *out;
    struct lw_buf raw; /* scratch */
    size_t width;      /* of the column of names */
};

/* Append the function's standard name and return its length in characters. */
static size_t print_function(struct printing *p, uint32_t index)
{
    size_t start = p->out->len;

    lw_buf_reset(&p->raw);
    lw_function_add_text(&p->graph->functions[index], &p->raw);
    if (p->raw.failure) /* the next reset would forget it */
        p->out->failure = p->raw.failure;
    lw_text_add_printable(p->out, p->raw.bytes, p->raw.len);
    if (p->out->failure)
        return 0;
    return lw_text_characters(p->out->bytes + start, p->out->len - start);
}

static size_t function_width(struct printing *p, uint32_t index)
{
    size_t start = p->out->len;
    size_t width = print_function(p, index);

    if (!p->out->failure)
        p->out->len = start;
    return width;
}

/* As print() of a column: at least WIDTH wide, to the right. */
static void print_calls(struct lw_buf *out, int width, int64_t calls,
                        int64_t primitive_calls)
{
    char text[48]; /* two numbers of at most 20 digits, and '/' */

    if (calls != primitive_calls)
        snprintf(text, sizeof(text), "%" PRId64 "/%" PRId64, calls, primitive_calls);
    else
        snprintf(text, sizeof(text), "%" PRId64, calls);
    lw_buf_addf(out, "%*s", width, text);
}

void lw_pstats_add_repr(struct lw_buf *out, const char *text)
{
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';

    lw_buf_add_char(out, quote);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == (unsigned char)quote || c == '\\')
            lw_buf_addf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            lw_buf_addf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < ' ' || c == 0x7f)
            lw_buf_addf(out, "\\x%02x", c);
        else
            lw_buf_add_char(out, (char)c);
    }
    lw_buf_add_char(out, quote);
}

/* repr() of a float from 0 to 1: the fewest digits that read back equal. */
static void print_share(struct lw_buf *out, double share)
{
    char text[32];

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, share);
        if (strtod(text, NULL) == share)
            break;
    }
    lw_buf_add_text(out, text);
    if (!strpbrk(text, ".e"))
        lw_buf_add_text(out, ".0");
}

static void print_restriction(struct lw_buf *out,
                              const struct lw_restriction *restriction)
{
    switch (restriction->kind) {
    case LW_RESTRICT_COUNT: lw_buf_addf(out, "%" PRId64, restriction->count); break;
    case LW_RESTRICT_SHARE: print_share(out, restriction->share); break;
    case LW_RESTRICT_PATTERN: lw_pstats_add_repr(out, restriction->text); break;
    case LW_RESTRICT_MINE: lw_buf_add_text(out, "mine"); break;
    case LW_RESTRICT_INVALID: break; /* reduces nothing */
    }
}

static void print_order(struct printing *p)
{
    const struct lw_query *query = p->query;
    const size_t *counts = p->selection->counts;

    if (query->key_count > 0) {
        lw_buf_add_text(p->out, "   Ordered by: ");
        for (size_t i = 0; i < query->key_count; i++)
            lw_buf_addf(p->out, "%s%s", i ? ", " : "", query->keys[i]->title);
        lw_buf_add_char(p->out, '\n');
    } else {
        lw_buf_add_text(p->out, "   Random listing order was used\n");
    }
    for (size_t i = 0; i < query->restriction_count; i++) {
        if (query->restrictions[i].kind == LW_RESTRICT_INVALID) {
            lw_buf_add_text(p->out, "   <Invalid regular expression ");
            lw_pstats_add_repr(p->out, query->restrictions[i].text);
            lw_buf_add_text(p->out, ">\n");
        }
        if (counts[i] == counts[i + 1])
            continue;
        lw_buf_addf(p->out, "   List reduced from %zu to %zu due to restriction <",
                    counts[i], counts[i + 1]);
        print_restriction(p->out, &query->restrictions[i]);
        lw_buf_add_text(p->out, ">\n");
    }
    lw_buf_add_char(p->out, '\n');
}

static void print_seconds(struct lw_buf *out, double seconds)
{
    lw_buf_addf(out, "%8.3f", seconds);
}

static void print_per_call(struct lw_buf *out, double seconds, int64_t calls)
{
    if (calls == 0)
        lw_buf_add_repeat(out, ' ', 8);
    else
        print_seconds(out, seconds / (double)calls);
}

/* Of a sampled profile, in the place of calls: samples with it on top, and with it
 * anywhere. */
static void print_counts(struct printing *p, int width,
                         const struct lw_graph_cost *cost)
{
    if (p->graph->samples > 0)
        print_calls(p->out, width, cost->self_samples, cost->total_samples);
    else
        print_calls(p->out, width, cost->calls, cost->primitive_calls);
}

static void print_line(struct printing *p, uint32_t index)
{
    const struct lw_graph_cost *cost = &p->graph->functions[index].cost;

    print_counts(p, 9, cost);
    lw_buf_add_char(p->out, ' ');
    print_seconds(p->out, cost->self_s);
    lw_buf_add_char(p->out, ' ');
    print_per_call(p->out, cost->self_s, cost->calls);
    lw_buf_add_char(p->out, ' ');
    print_seconds(p->out, cost->total_s);
    lw_buf_add_char(p->out, ' ');
    print_per_call(p->out, cost->total_s, cost->primitive_calls);
    lw_buf_add_char(p->out, ' ');
    print_function(p, index);
    lw_buf_add_char(p->out, '\n');
}

/* Functions called by the old profiler itself are named above the rest. */
static void print_top_level(struct printing *p)
{
    const struct lw_callgraph *graph = p->graph;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lw_function *caller = &graph->functions[graph->edges[i].caller];
        const struct lw_function *callee = &graph->functions[graph->edges[i].callee];

        if (caller->line != 0 || caller->file_len != 8 || caller->name_len != 8 ||
            memcmp(caller->file, "jprofile", 8) != 0 ||
            memcmp(caller->name, "profiler", 8) != 0)
            continue;
        lw_buf_add_repeat(p->out, ' ', 9);
        lw_text_add_printable(p->out, callee->name, callee->name_len);
        lw_buf_add_char(p->out, '\n');
    }
}

static void print_stats(struct printing *p, const char *head)
{
    const struct lw_callgraph *graph = p->graph;

    if (head)
        lw_buf_addf(p->out, "%s\n\n", head);
    print_top_level(p);
    if (graph->samples > 0)
        lw_buf_addf(p->out, "         %" PRId64 " samples%s ", graph->samples,
                    lw_states_phrase((enum lw_states)graph->profile->states));
    else
        lw_buf_addf(p->out, "         %" PRId64 " function calls ", graph->calls);
    if (graph->calls != graph->primitive_calls)
        lw_buf_addf(p->out, "(%" PRId64 " primitive calls) ", graph->primitive_calls);
    lw_buf_addf(p->out, "in %.3f seconds\n\n", graph->total_s);
    if (p->selection->count == 0)
        return;
    print_order(p);
    lw_buf_addf(p->out,
                "%9s  tottime  percall  cumtime  percall filename:lineno(function)\n",
                graph->samples > 0 ? "nsamples" : "ncalls");
    for (size_t i = 0; i < p->selection->count; i++)
        print_line(p, p->selection->functions[i]);
    lw_buf_add_text(p->out, "\n\n");
}

/* pstats looks at the first function that has callers to see whether they have times. */
static bool has_caller_times(const struct lw_callgraph *graph)
{
    return graph->edge_count > 0 && lw_graph_cost_is_known(&graph->edges[0].cost);
}

struct neighbour {
    const struct lw_function *function; /* the other end of the edge */
    const struct lw_graph_edge *edge;
};

static int compare_neighbours(const void *a, const void *b)
{
    return lw_function_compare(((const struct neighbour *)a)->function,
                               ((const struct neighbour *)b)->function);
}

static void print_neighbour(struct printing *p, const struct neighbour *neighbour,
                            bool is_first)
{
    const struct lw_graph_cost *cost = &neighbour->edge->cost;
    uint32_t index = (uint32_t)(neighbour->function - p->graph->functions);
    double total_s = neighbour->function->cost.total_s;

    if (lw_graph_cost_is_known(cost)) {
        lw_buf_add_repeat(p->out, ' ', is_first ? 0 : p->width + 1);
        print_counts(p, is_first ? 7 : 9, cost);
        lw_buf_add_char(p->out, ' ');
        print_seconds(p->out, cost->self_s);
        lw_buf_add_char(p->out, ' ');
        print_seconds(p->out, cost->total_s);
        lw_buf_add_text(p->out, "  ");
        print_function(p, index);
    } else {
        lw_buf_add_repeat(p->out, ' ', is_first ? 0 : p->width + 3);
        print_function(p, index);
        lw_buf_addf(p->out, "(%" PRId64 ") ", cost->calls);
        print_seconds(p->out, isnan(total_s) ? 0 : total_s);
    }
    lw_buf_add_char(p->out, '\n');
}

static void print_call_line(struct printing *p, uint32_t index, bool callers,
                            struct neighbour *neighbours)
{
    const struct lw_callgraph *graph = p->graph;
    const uint32_t *start = callers ? graph->callers_start : graph->callees_start;
    size_t count = start[index + 1] - start[index];
    size_t width;

    for (size_t i = 0; i < count; i++) {
        size_t at = start[index] + i;
        const struct lw_graph_edge *edge =
            &graph->edges[callers ? at : graph->callees[at]];

        neighbours[i].edge = edge;
        neighbours[i].function =
            &graph->functions[callers ? edge->caller : edge->callee];
    }
    if (count > 0)
        qsort(neighbours, count, sizeof(*neighbours), compare_neighbours);

    width = print_function(p, index);
    lw_buf_add_repeat(p->out, ' ', width < p->width ? p->width - width : 0);
    lw_buf_add_text(p->out, callers ? "<- " : "-> ");
    if (count == 0)
        lw_buf_add_char(p->out, '\n');
    for (size_t i = 0; i < count; i++)
        print_neighbour(p, &neighbours[i], i == 0);
}

static void measure_width(struct printing *p)
{
    for (size_t i = 0; i < p->selection->count; i++) {
        size_t width = function_width(p, p->selection->functions[i]);

        p->width = width > p->width ? width : p->width;
    }
    p->width += 2;
}

static bool print_calls_of(struct printing *p, bool callers, struct lw_error *err)
{
    static const char function[] = "Function ";
    struct neighbour *neighbours;

    if (p->selection->count == 0)
        return true;
    neighbours = lw_alloc((p->graph->edge_count + 1) * sizeof(*neighbours), err);
    if (!neighbours)
        return false;
    print_order(p);
    measure_width(p);
    lw_buf_add_text(p->out, function);
    lw_buf_add_repeat(p->out, ' ',
                      p->width >= sizeof(function) ? p->width + 1 - sizeof(function)
                                                   : 0);
    lw_buf_add_text(p->out, callers ? "was called by...\n" : "called...\n");
    if (has_caller_times(p->graph)) {
        lw_buf_add_repeat(p->out, ' ', p->width);
        lw_buf_addf(p->out, "%10s  tottime  cumtime\n",
                    p->graph->samples > 0 ? "nsamples" : "ncalls");
    }
    for (size_t i = 0; i < p->selection->count; i++)
        print_call_line(p, p->selection->functions[i], callers, neighbours);
    lw_buf_add_text(p->out, "\n\n");
    lw_free(neighbours);
    return true;
}

bool lw_pstats_print(enum lw_pstats_part part, const struct lw_callgraph *graph,
                     const struct lw_query *query, const struct lw_selection *selection,
                     const char *head, struct lw_buf *out, struct lw_error *err)
{
    struct printing p = {
        .graph = graph, .query = query, .selection = selection, .out = out
    };
    bool done = true;

    lw_buf_init(&p.raw, 0);
    if (part == LW_PSTATS_STATS)
        print_stats(&p, head);
    else
        done = print_calls_of(&p, part == LW_PSTATS_CALLERS, err);
    done = done && lw_buf_check(out, err);
    lw_buf_release(&p.raw);
    return done;
}
