/* What kcachegrind, qcachegrind and callgrind_annotate open: for each function its own
 * time, and for each that it called how often and how long that took in all.
 *
 *     fl=(1) train.py          the file, and under it
 *     fn=(1) step              the function: (number) and, the first time, its name
 *     10 50000000              line and own nanoseconds
 *     cfi=(2) nn.py
 *     cfn=(2) forward          called:
 *     calls=3 7                so often, at its line 7
 *     10 140000000             from line 10, and took so many nanoseconds
 *
 * It is text, specified in Valgrind's manual, "Callgrind Format Specification". It holds
 * the call graph, which is just what a .prof holds, so those become it without a loss.
 * Tools tell functions apart by file and name alone; where two have both in common
 * (nested functions, lambdas), their line is put behind the name. */

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/callgraph.h"
#include "model/losses.h"
#include "model/measure.h"
#include "writers/writer.h"

struct writing {
    const struct lw_callgraph *graph;
    struct lw_map names; /* of functions + 1, by file and name */
    bool *is_double;     /* by function: another has its file and name */
    bool *is_named;      /* by function: its name was written */
    bool *has_file;      /* by string: that file's name was written */
    struct lw_buf *out;
};

static const struct lw_frame *frame_of(const struct lw_callgraph *graph,
                                       size_t function)
{
    return lw_profile_frame(graph->profile, graph->functions[function].frame);
}

static bool same_name(const void *owner, uint32_t number, const void *key)
{
    const struct lw_frame *a = frame_of(owner, number - 1), *b = key;

    return a->name == b->name && a->file == b->file;
}

static bool find_doubles(struct writing *w, struct lw_error *err)
{
    for (size_t i = 0; i < w->graph->function_count; i++) {
        const struct lw_frame *frame = frame_of(w->graph, i);
        uint64_t hash = lw_hash_u64((uint64_t)frame->file << 32 | frame->name);
        uint32_t other = lw_map_find(&w->names, hash, same_name, w->graph, frame);

        if (other)
            w->is_double[other - 1] = w->is_double[i] = true;
        else if (!lw_map_add(&w->names, hash, (uint32_t)i + 1, err))
            return false;
    }
    return true;
}

/* "KEY=(number) name"; the name only the first time. Numbers of files are those of
 * their strings. */
static void write_file(struct writing *w, const char *key, size_t function)
{
    lw_string_id file = frame_of(w->graph, function)->file;

    lw_buf_addf(w->out, "%s=(%" PRIu32 ")", key, file + 1);
    if (!w->has_file[file]) {
        lw_buf_add_char(w->out, ' ');
        lw_text_add_printable(w->out, w->graph->functions[function].file,
                              w->graph->functions[function].file_len);
        w->has_file[file] = true;
    }
    lw_buf_add_char(w->out, '\n');
}

static void write_name(struct writing *w, const char *key, size_t function)
{
    const struct lw_function *f = &w->graph->functions[function];

    lw_buf_addf(w->out, "%s=(%zu)", key, function + 1);
    if (!w->is_named[function]) {
        lw_buf_add_char(w->out, ' ');
        lw_text_add_printable(w->out, f->name, f->name_len);
        if (w->is_double[function])
            lw_buf_addf(w->out, ":%" PRIu32, f->line);
        w->is_named[function] = true;
    }
    lw_buf_add_char(w->out, '\n');
}

/* What is not known, or below zero in a file that somebody made, is no cost. */
static uint64_t cost_ns(double seconds)
{
    double ns = seconds * 1e9;

    return ns > 0 && ns < 1e19 ? (uint64_t)(ns + 0.5) : 0;
}

/* Readers take the cost behind "calls=0" for the caller's own, so where calls were not
 * counted there is one; the head says so. */
static void write_callee(struct writing *w, const struct lw_graph_edge *edge)
{
    uint32_t line = w->graph->functions[edge->caller].line;

    write_file(w, "cfi", edge->callee);
    write_name(w, "cfn", edge->callee);
    lw_buf_addf(w->out, "calls=%" PRId64 " %" PRIu32 "\n%" PRIu32 " %" PRIu64 "\n",
                edge->cost.calls > 0 ? edge->cost.calls : 1,
                w->graph->functions[edge->callee].line, line,
                cost_ns(edge->cost.total_s));
}

static void write_function(struct writing *w, size_t function)
{
    const struct lw_callgraph *graph = w->graph;
    const struct lw_function *f = &graph->functions[function];

    lw_buf_add_char(w->out, '\n');
    write_file(w, "fl", function);
    write_name(w, "fn", function);
    lw_buf_addf(w->out, "%" PRIu32 " %" PRIu64 "\n", f->line, cost_ns(f->cost.self_s));
    for (uint32_t i = graph->callees_start[function];
         i < graph->callees_start[function + 1]; i++)
        write_callee(w, &graph->edges[graph->callees[i]]);
}

/* "desc: NAME: TEXT", which callgrind_annotate prints and others pass over. */
static void write_remarks(struct writing *w)
{
    struct lw_buf text;

    if (!lw_callgraph_has_calls(w->graph))
        lw_buf_add_text(w->out, "desc: Calls: were not counted; where one function "
                                "called another, 1 is written\n");
    lw_buf_init(&text, 0);
    lw_losses_add_line(w->graph->profile, &text);
    if (text.failure)
        w->out->failure = text.failure;
    else if (text.len > 0)
        lw_buf_addf(w->out, "desc: Note: %s\n", text.bytes);
    lw_buf_release(&text);
}

static void write_head(struct writing *w)
{
    const struct lw_callgraph *graph = w->graph;
    const char *command = lw_profile_fact(graph->profile, "command");
    enum lw_unit unit = lw_measure_unit(graph->profile);
    uint64_t total_ns = 0;

    for (size_t i = 0; i < graph->function_count; i++)
        total_ns += cost_ns(graph->functions[i].cost.self_s);
    lw_buf_add_text(w->out, "# callgrind format\nversion: 1\ncreator: lapwing\n");
    if (command) {
        lw_buf_add_text(w->out, "cmd: ");
        lw_text_add_printable(w->out, command, strlen(command));
        lw_buf_add_char(w->out, '\n');
    }
    write_remarks(w);
    lw_buf_addf(w->out, "positions: line\nevents: %s\nsummary: %" PRIu64 "\n",
                unit == LW_UNIT_COUNT   ? "weights"
                : unit == LW_UNIT_BYTES ? "bytes"
                                        : "ns",
                total_ns);
}

static bool write_graph(struct writing *w, struct lw_error *err)
{
    const struct lw_callgraph *graph = w->graph;

    if (graph->listed_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no calls and no samples to write");
    w->is_double = lw_zalloc(graph->function_count, sizeof(bool), err);
    w->is_named = lw_zalloc(graph->function_count, sizeof(bool), err);
    w->has_file =
        lw_zalloc(lw_strings_count(graph->profile->strings), sizeof(bool), err);
    if (!w->is_double || !w->is_named || !w->has_file || !find_doubles(w, err))
        return false;
    write_head(w);
    for (size_t i = 0; i < graph->function_count; i++)
        write_function(w, i);
    return true;
}

static bool write_callgrind(const struct lw_profile *profile, struct lw_buf *out,
                            struct lw_error *err)
{
    struct lw_callgraph graph;
    struct writing w = { .graph = &graph, .out = out };
    bool done;

    lw_map_init(&w.names);
    done = lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, err) &&
           write_graph(&w, err);
    lw_map_release(&w.names);
    lw_free(w.is_double);
    lw_free(w.is_named);
    lw_free(w.has_file);
    lw_callgraph_release(&graph);
    return done;
}

const struct lw_writer lw_writer_callgrind = {
    .name = "callgrind",
    .summary = "what kcachegrind and callgrind_annotate open",
    .suffixes = ".callgrind",
    .lacks =
        "along which paths, in which thread and when functions were called; how often "
        "those that nobody called, and the totals of those that call each other; where "
        "calls were not counted, each pair has 1",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_callgrind,
};
