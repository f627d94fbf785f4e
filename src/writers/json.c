/* The whole profile as one JSON document, for jq, pandas and programs of one's own.
 *
 *     {"lapwing": 1,                         version of this layout
 *      "facts": {"command": ..., ...},       and "start_ns", "end_ns", "wall_start_ns"
 *      "processes": [{"pid": ...}, ...],
 *      "threads": [{"process": 0, "tid": ..., "name": ...}, ...],
 *      "functions": [{"name": ..., "file": ..., "line": ..., "calls": ...,
 *                     "self_ns": ..., "total_ns": ...}, ...],
 *      "callers": [{"caller": 3, "callee": 7, "calls": ..., ...}, ...],
 *      "tree": [{"thread": 0, "parent": null, "function": 3, "calls": ...}, ...],
 *      "spans": [{"function"|"mark"|"phase"|"op": ..., "thread": 0,
 *                 "start_ns": ...}, ...],    a phase's "class", if it has one
 *      "links": [{"forward": 3, "backward": 9, "name": ..., "file": ..., "line": ...},
 *                ...],                       spans: an op and a backward op that came of
 *                                            it; which line asked for the op
 *      "counters": [...], "losses": [...]}
 *
 * Everything refers by index into its list. The tree is a list whose rows name their
 * parent's index, for no depth of nesting is safe to read. One row a line, so that grep
 * and diff are of use. What a profile does not have is an empty list; a number that is
 * not known is null. */

#include <math.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "model/calltree.h"
#include "model/codes.h"
#include "model/op_links.h"
#include "writers/timeline.h"
#include "writers/writer.h"

#define LAYOUT_VERSION 1

struct writing {
    const struct lw_profile *profile;
    struct lw_callgraph graph;
    struct lw_codes codes;
    uint32_t *function_of; /* owned: by code; LW_NONE: it is not among the functions */
    struct lw_json_out json;
};

static void write_string(struct writing *w, const char *key, lw_string_id id)
{
    lw_json_key(&w->json, key);
    if (id)
        lw_json_text(&w->json, lw_profile_text(w->profile, id),
                     lw_strings_len(w->profile->strings, id));
    else
        lw_json_null(&w->json);
}

/* 0 stands for "not known" in the model. */
static void write_time(struct writing *w, const char *key, uint64_t time_ns)
{
    lw_json_key(&w->json, key);
    if (time_ns)
        lw_json_u64(&w->json, time_ns);
    else
        lw_json_null(&w->json);
}

/* Nanoseconds of seconds; of a file that holds fractions of them, with those. */
static void write_seconds(struct writing *w, const char *key, double seconds)
{
    double ns = seconds * 1e9;

    lw_json_key(&w->json, key);
    if (fabs(ns - nearbyint(ns)) < 0.01 && fabs(ns) < 9e18)
        lw_json_i64(&w->json, (int64_t)llround(ns));
    else
        lw_json_double(&w->json, ns);
}

static void open_list(struct writing *w, const char *key)
{
    lw_json_key(&w->json, key);
    lw_json_array(&w->json);
}

/* A row is an object on a line of its own. */
static void open_row(struct writing *w)
{
    w->json.pretty = true;
    lw_json_object(&w->json);
    w->json.pretty = false;
}

static void end_row(struct writing *w)
{
    lw_json_end(&w->json, '}');
}

/* In a row of which there may be millions: NAME brings its comma, quotes and colon. */
static void add_number(struct writing *w, const char *name, uint64_t value)
{
    lw_buf_add_text(w->json.out, name);
    lw_buf_add_decimal(w->json.out, value);
}

static void end_list(struct writing *w)
{
    w->json.pretty = true;
    lw_json_end(&w->json, ']');
}

static void write_head(struct writing *w)
{
    const struct lw_profile *profile = w->profile;

    lw_json_key_u64(&w->json, "lapwing", LAYOUT_VERSION);
    write_time(w, "start_ns", profile->start_ns);
    write_time(w, "end_ns", profile->end_ns);
    write_time(w, "wall_start_ns", profile->wall_start_ns);
    lw_json_key(&w->json, "facts");
    lw_json_object(&w->json);
    for (size_t i = 0; i < profile->fact_count; i++)
        write_string(w, lw_profile_text(profile, profile->facts[i].key),
                     profile->facts[i].value);
    lw_json_end(&w->json, '}');
}

static void write_processes(struct writing *w)
{
    open_list(w, "processes");
    for (size_t i = 0; i < w->profile->process_count; i++) {
        const struct lw_process *process = &w->profile->processes[i];

        open_row(w);
        lw_json_key_u64(&w->json, "pid", process->pid);
        write_time(w, "parent_pid", process->parent_pid);
        lw_json_key(&w->json, "rank");
        if (process->rank >= 0)
            lw_json_i64(&w->json, process->rank);
        else
            lw_json_null(&w->json);
        write_string(w, "command", process->command);
        write_string(w, "python", process->python);
        write_time(w, "start_ns", process->start_ns);
        write_time(w, "end_ns", process->end_ns);
        lw_json_key(&w->json, "exit_code");
        if (process->exit_code >= 0)
            lw_json_i64(&w->json, process->exit_code);
        else
            lw_json_null(&w->json);
        end_row(w);
    }
    end_list(w);
}

static void write_threads(struct writing *w)
{
    open_list(w, "threads");
    for (size_t i = 0; i < w->profile->thread_count; i++) {
        const struct lw_thread *thread = &w->profile->threads[i];

        open_row(w);
        lw_json_key_u64(&w->json, "process", thread->process);
        lw_json_key_u64(&w->json, "tid", thread->tid);
        write_string(w, "name", thread->name);
        write_time(w, "start_ns", thread->start_ns);
        write_time(w, "end_ns", thread->end_ns);
        end_row(w);
    }
    end_list(w);
}

static void write_cost(struct writing *w, const struct lw_graph_cost *cost)
{
    if (lw_callgraph_has_calls(&w->graph)) {
        lw_json_key_i64(&w->json, "calls", cost->calls);
        lw_json_key_i64(&w->json, "primitive_calls", cost->primitive_calls);
    }
    write_seconds(w, "self_ns", cost->self_s);
    write_seconds(w, "total_ns", cost->total_s);
}

static void write_functions(struct writing *w)
{
    open_list(w, "functions");
    for (size_t i = 0; i < w->graph.function_count; i++) {
        const struct lw_function *function = &w->graph.functions[i];
        const struct lw_frame *frame = lw_profile_frame(w->profile, function->frame);

        open_row(w);
        write_string(w, "name", frame->name);
        write_string(w, "file", frame->file);
        lw_json_key_u64(&w->json, "line", function->line);
        write_cost(w, &function->cost);
        end_row(w);
    }
    end_list(w);
    open_list(w, "callers");
    for (size_t i = 0; i < w->graph.edge_count; i++) {
        const struct lw_graph_edge *edge = &w->graph.edges[i];

        open_row(w);
        lw_json_key_u64(&w->json, "caller", edge->caller);
        lw_json_key_u64(&w->json, "callee", edge->callee);
        write_cost(w, &edge->cost);
        end_row(w);
    }
    end_list(w);
}

/* "function":3, or null. */
static void add_function_of(struct writing *w, lw_frame_id frame)
{
    uint32_t function = w->function_of[w->codes.code_of[frame]];

    if (function == LW_NONE)
        lw_buf_add_text(w->json.out, "\"function\":null");
    else
        add_number(w, "\"function\":", function);
}

/* The rows of one thread; row FIRST of the list is its node 1. */
static void write_nodes(struct writing *w, uint32_t thread,
                        const struct lw_calltree *tree, size_t first)
{
    for (size_t i = 1; i < tree->node_count; i++) {
        const struct lw_calltree_node *node = &tree->nodes[i];

        open_row(w);
        add_number(w, "\"thread\":", thread);
        if (node->parent)
            add_number(w, ",\"parent\":", first + node->parent - 1);
        else
            lw_buf_add_text(w->json.out, ",\"parent\":null");
        lw_buf_add_char(w->json.out, ',');
        add_function_of(w, node->frame);
        if (tree->source == LW_GRAPH_CALLS)
            add_number(w, ",\"calls\":", node->calls);
        add_number(w, ",\"self_ns\":", node->self_ns);
        add_number(w, ",\"total_ns\":", node->total_ns);
        end_row(w);
    }
}

static bool write_tree(struct writing *w, struct lw_error *err)
{
    const struct lw_profile *profile = w->profile;
    bool *threads = lw_zalloc(profile->thread_count, sizeof(bool), err);
    bool done = threads != NULL;
    size_t row_count = 0;

    open_list(w, "tree");
    for (uint32_t i = 0;
         done && w->graph.source != LW_GRAPH_GIVEN && i < profile->thread_count; i++) {
        struct lw_calltree tree;

        threads[i] = true;
        done = lw_calltree_init(&tree, profile, w->graph.source, threads, err);
        threads[i] = false;
        if (done) {
            write_nodes(w, i, &tree, row_count);
            row_count += tree.node_count - 1;
        }
        lw_calltree_release(&tree);
    }
    end_list(w);
    lw_free(threads);
    return done;
}

static void write_announced(struct writing *w, const struct lw_frame *frame)
{
    write_string(w,
                 frame->kind == LW_FRAME_PHASE ? "phase"
                 : frame->kind == LW_FRAME_OP  ? "op"
                                               : "mark",
                 frame->name);
    if (frame->kind == LW_FRAME_PHASE && frame->file)
        write_string(w, "class", frame->file);
}

static void write_spans(struct writing *w)
{
    open_list(w, "spans");
    for (size_t i = 0; i < w->profile->span_count; i++) {
        const struct lw_span *span = &w->profile->spans[i];
        lw_frame_id id = lw_span_frame(w->profile, span);
        const struct lw_frame *frame = lw_profile_frame(w->profile, id);

        open_row(w);
        if (w->function_of[w->codes.code_of[id]] == LW_NONE)
            write_announced(w, frame);
        else
            add_function_of(w, id);
        add_number(w, ",\"thread\":", span->thread);
        add_number(w, ",\"start_ns\":", span->start_ns);
        add_number(w, ",\"duration_ns\":", span->duration_ns);
        end_row(w);
    }
    end_list(w);
}

static bool write_links(struct writing *w, struct lw_error *err)
{
    struct lw_op_links links;
    bool done = lw_op_links_init(&links, w->profile, err);

    open_list(w, "links");
    for (size_t i = 0; done && i < links.count; i++) {
        const struct lw_op_link *link = &links.list[i];
        const struct lw_frame *frame = lw_profile_frame(w->profile, link->function);

        open_row(w);
        lw_json_key_u64(&w->json, "forward", link->forward);
        lw_json_key_u64(&w->json, "backward", link->backward);
        if (link->function != 0) {
            write_string(w, "name", frame->name);
            write_string(w, "file", frame->file);
            lw_json_key_u64(&w->json, "line", link->line);
        }
        end_row(w);
    }
    end_list(w);
    lw_op_links_release(&links);
    return done;
}

static void write_counters(struct writing *w)
{
    open_list(w, "counters");
    for (size_t i = 0; i < w->profile->counter_count; i++) {
        const struct lw_counter_point *point = &w->profile->counters[i];

        open_row(w);
        lw_json_key_u64(&w->json, "process", point->process);
        write_string(w, "name", point->name);
        lw_json_key_u64(&w->json, "time_ns", point->time_ns);
        lw_json_key_double(&w->json, "value", point->value);
        end_row(w);
    }
    end_list(w);
}

static void write_losses(struct writing *w)
{
    open_list(w, "losses");
    for (size_t i = 0; i < w->profile->loss_count; i++) {
        const struct lw_loss *loss = &w->profile->losses[i];

        open_row(w);
        lw_json_key(&w->json, "process");
        if (loss->process == LW_NONE)
            lw_json_null(&w->json);
        else
            lw_json_u64(&w->json, loss->process);
        write_string(w, "cause", loss->cause);
        write_string(w, "unit", loss->unit);
        lw_json_key_u64(&w->json, "count", loss->count);
        end_row(w);
    }
    end_list(w);
}

/* Which function each code is: the graph has one frame of each. */
static bool number_functions(struct writing *w, struct lw_error *err)
{
    if (!lw_codes_init(&w->codes, w->profile, LW_ALIKE_NAME, err))
        return false;
    w->function_of = lw_alloc(w->codes.count * sizeof(*w->function_of), err);
    if (!w->function_of)
        return false;
    for (size_t i = 0; i < w->codes.count; i++)
        w->function_of[i] = LW_NONE;
    for (size_t i = 0; i < w->graph.function_count; i++)
        w->function_of[w->codes.code_of[w->graph.functions[i].frame]] = (uint32_t)i;
    return true;
}

static bool write_document(struct writing *w, struct lw_buf *out, struct lw_error *err)
{
    bool done;

    lw_json_start(&w->json, out, true);
    lw_json_object(&w->json);
    write_head(w);
    write_processes(w);
    write_threads(w);
    write_functions(w);
    done = write_tree(w, err);
    write_spans(w);
    done = done && write_links(w, err);
    write_counters(w);
    write_losses(w);
    lw_json_end(&w->json, '}');
    return done;
}

static bool write_json(const struct lw_profile *profile, struct lw_buf *out,
                       struct lw_error *err)
{
    struct writing w = { .profile = profile };
    bool done = lw_callgraph_init(&w.graph, profile, LW_GRAPH_ANY, NULL, err) &&
                number_functions(&w, err) && write_document(&w, out, err);

    lw_callgraph_release(&w.graph);
    lw_codes_release(&w.codes);
    lw_free(w.function_of);
    return done;
}

const struct lw_writer lw_writer_json = {
    .name = "json",
    .summary = "the whole profile in one document, for jq and programs of one's own",
    .suffixes = ".json",
    .lacks = "the single samples of a sampler, of which it has the sums",
    .holds_changes = true,
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_SPANS | LW_WANT_ORIGINS |
            LW_WANT_COUNTERS,
    .write = write_json,
};
