/* What pstats.Stats, `python -m pstats` and snakeviz open: the dict that cProfile
 * saves, in marshal (readers/pstats.c draws it).
 *
 * A name or key that was written before is a reference to it, so the file is as small
 * as Python's own, and loads into as few objects. Times are the doubles of the graph,
 * so that what was read from such a file is written back equal.
 *
 * Of samples the counts are how many saw the function anywhere (as calls) and on top (as
 * primitive calls); the first row says so (model/pstats_marks.h). */

#include <string.h>

#include "base/alloc.h"
#include "base/marshal_out.h"
#include "model/callgraph.h"
#include "model/pstats_marks.h"
#include "writers/writer.h"

#define TEXT_MAX (INT32_MAX / 3) /* of lw_marshal_share_text() */

struct writing {
    struct lw_marshal_out marshal;
    const struct lw_callgraph *graph;
    uint32_t *string_refs; /* by string: 1 + its reference; 0: not written yet */
    uint32_t no_file_ref;  /* the same for "~", which may not be in the table */
    uint32_t *key_refs;    /* by function: 1 + its key's reference */
    const char *mark;      /* what the counts are; NULL: calls */
};

static void write_text(struct writing *w, uint32_t *ref, const char *text, size_t len)
{
    if (*ref)
        lw_marshal_add_ref(&w->marshal, *ref - 1);
    else
        *ref = 1 + lw_marshal_share_text(&w->marshal, text, len);
}

static void write_key(struct writing *w, uint32_t index)
{
    const struct lw_function *function = &w->graph->functions[index];
    const struct lw_frame *frame = lw_profile_frame(w->graph->profile, function->frame);
    bool has_file = function->file == lw_profile_text(w->graph->profile, frame->file);

    if (w->key_refs[index]) {
        lw_marshal_add_ref(&w->marshal, w->key_refs[index] - 1);
        return;
    }
    w->key_refs[index] = 1 + lw_marshal_share_tuple(&w->marshal, 3);
    write_text(w, has_file ? &w->string_refs[frame->file] : &w->no_file_ref,
               function->file, function->file_len);
    lw_marshal_add_int(&w->marshal, function->line);
    write_text(w, &w->string_refs[frame->name], function->name, function->name_len);
}

static void write_counts(struct writing *w, int64_t first, int64_t second)
{
    lw_marshal_add_int(&w->marshal, first);
    lw_marshal_add_int(&w->marshal, second);
}

/* What stands for calls: samples where they were counted, else 1 for as long as something
 * was seen at all. */
static int64_t calls_of(const struct writing *w, const struct lw_graph_cost *cost)
{
    if (!w->mark)
        return cost->calls;
    return w->graph->samples > 0 && cost->total_samples > 0 ? cost->total_samples : 1;
}

static int64_t primitive_calls_of(const struct writing *w,
                                  const struct lw_graph_cost *cost)
{
    if (!w->mark)
        return cost->primitive_calls;
    return w->graph->samples > 0 ? cost->self_samples : 1;
}

/* A row of its own, which is no function. */
static void write_mark(struct writing *w)
{
    if (!w->mark)
        return;
    (void)lw_marshal_share_tuple(&w->marshal, 3);
    write_text(w, &w->no_file_ref, "~", 1);
    lw_marshal_add_int(&w->marshal, 0);
    (void)lw_marshal_share_text(&w->marshal, w->mark, strlen(w->mark));
    lw_marshal_add_tuple(&w->marshal, 5);
    write_counts(w, 0, 0);
    lw_marshal_add_float(&w->marshal, 0);
    lw_marshal_add_float(&w->marshal, 0);
    lw_marshal_add_dict(&w->marshal);
    lw_marshal_add_null(&w->marshal);
}

static void write_callers(struct writing *w, size_t callee)
{
    const struct lw_callgraph *graph = w->graph;

    lw_marshal_add_dict(&w->marshal);
    for (uint32_t i = graph->callers_start[callee];
         i < graph->callers_start[callee + 1]; i++) {
        const struct lw_graph_cost *cost = &graph->edges[i].cost;

        write_key(w, graph->edges[i].caller);
        if (lw_graph_cost_is_known(cost)) {
            lw_marshal_add_tuple(&w->marshal, 4);
            write_counts(w, calls_of(w, cost),
                         w->mark ? calls_of(w, cost) : cost->primitive_calls);
            lw_marshal_add_float(&w->marshal, cost->self_s);
            lw_marshal_add_float(&w->marshal, cost->total_s);
        } else { /* as profile.py has it */
            lw_marshal_add_int(&w->marshal, calls_of(w, cost));
        }
    }
    lw_marshal_add_null(&w->marshal);
}

static void write_function(struct writing *w, size_t index)
{
    const struct lw_graph_cost *cost = &w->graph->functions[index].cost;

    write_key(w, (uint32_t)index);
    lw_marshal_add_tuple(&w->marshal, 5);
    write_counts(w, primitive_calls_of(w, cost), calls_of(w, cost));
    lw_marshal_add_float(&w->marshal, cost->self_s);
    lw_marshal_add_float(&w->marshal, cost->total_s);
    write_callers(w, index);
}

/* What pstats would refuse: nothing at all, or a name longer than marshal can say. */
static bool check_graph(const struct lw_callgraph *graph, struct lw_error *err)
{
    if (graph->listed_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no calls and no samples to write");
    for (size_t i = 0; i < graph->function_count; i++)
        if (graph->functions[i].file_len > TEXT_MAX ||
            graph->functions[i].name_len > TEXT_MAX)
            return lw_fail(err, LW_ERR_UNSUPPORTED,
                           "a name is longer than the format allows");
    return true;
}

static bool write_graph(const struct lw_callgraph *graph, struct lw_buf *out,
                        struct lw_error *err)
{
    struct writing w = { .graph = graph };
    size_t string_count = lw_strings_count(graph->profile->strings);
    bool done;

    if (graph->samples > 0)
        w.mark = LW_PSTATS_SAMPLES;
    else if (graph->source == LW_GRAPH_SAMPLES)
        w.mark = LW_PSTATS_NO_COUNTS;
    lw_marshal_start(&w.marshal, out);
    w.string_refs = lw_zalloc(string_count, sizeof(*w.string_refs), err);
    w.key_refs = lw_zalloc(graph->function_count, sizeof(*w.key_refs), err);
    done = w.string_refs && w.key_refs;
    if (done) {
        lw_marshal_add_dict(&w.marshal);
        write_mark(&w);
        for (size_t i = 0; i < graph->listed_count; i++)
            write_function(&w, i);
        lw_marshal_add_null(&w.marshal);
    }
    lw_free(w.string_refs);
    lw_free(w.key_refs);
    return done;
}

static bool write_pstats(const struct lw_profile *profile, struct lw_buf *out,
                         struct lw_error *err)
{
    struct lw_callgraph graph;
    bool done = lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, err) &&
                check_graph(&graph, err) && write_graph(&graph, out, err);

    lw_callgraph_release(&graph);
    return done;
}

const struct lw_writer lw_writer_pstats = {
    .name = "pstats",
    .summary = "what pstats and snakeviz open, as cProfile saves it",
    .suffixes = ".prof .pstats",
    .lacks = "along which paths, in which thread and when functions were called; what "
             "the recording misses; of samples, ncalls are how many saw the function "
             "(anywhere/on top), and a row says so",
    .is_binary = true,
    .holds_changes = true,
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_pstats,
};
