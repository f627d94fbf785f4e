/* Functions and caller-callee pairs with call counts and times, as pstats thinks.
 *
 * Made from a profile's call tree, from its samples, or from the graph it was given;
 * the same questions are then asked of all three.
 *
 *     main                    function  calls  primitive  total
 *      `- fib  3 calls        main          1          1   all
 *          `- fib  4 calls    fib           7          3   of the 3 outer calls
 *
 * Totals count a recursion once: a node of the tree adds to its function's total, and
 * its calls are primitive, only where no ancestor is the same function. A pair adds to
 * its total only where no ancestor is the same pair, which is what cProfile's
 * subentries do. Each thread is computed apart, then they are added. Functions that
 * print alike (two lambdas on a line) are told apart in the tree and added afterwards.
 *
 * The graph borrows names from the profile, which must outlive it. */
#ifndef LW_MODEL_CALLGRAPH_H
#define LW_MODEL_CALLGRAPH_H

#include <math.h>

#include "base/buf.h"
#include "model/profile.h"

/* What a graph is made from. */
enum lw_graph_source {
    LW_GRAPH_ANY,     /* the first of these that the profile has */
    LW_GRAPH_CALLS,   /* exact counts and times */
    LW_GRAPH_SAMPLES, /* times are weights; no calls were counted */
    LW_GRAPH_GIVEN,   /* a file that holds nothing but the graph */
};

/* One function as pstats names it: (file, line, name). */
struct lw_function {
    const char *file; /* borrowed from the profile; "~": none */
    const char *name;
    size_t file_len;
    size_t name_len;
    uint32_t line;
    lw_frame_id frame; /* of the profile; one of those that were added up */
    struct lw_graph_cost cost;
};

struct lw_callgraph {
    const struct lw_profile *profile; /* borrowed */
    enum lw_graph_source source;      /* never LW_GRAPH_ANY */
    bool by_line;                     /* its functions are single lines of such */

    /* First those that have figures of their own, in the order of the profile. Behind
     * them those that a file only names as callers: their costs are not known. */
    struct lw_function *functions;
    size_t function_count;
    size_t listed_count;

    struct lw_graph_edge *edges; /* sorted by callee; of one in order of meeting */
    size_t edge_count;
    uint32_t *callers_start; /* callee -> its first edge; function_count + 1 of them */
    uint32_t *callees;       /* numbers of edges, sorted by caller */
    uint32_t *callees_start; /* caller -> first in `callees`; function_count + 1 */

    double total_s; /* sum of self times */
    int64_t calls;  /* sums of all listed functions */
    int64_t primitive_calls;
    int64_t samples;        /* 0: from calls, or they were not counted */
    bool has_changed_calls; /* it is a difference (model/merge.h), of calls too */
};

/* PROFILE's graph from SOURCE (if it has none of that: an empty graph). THREADS, if not
 * NULL, has a flag for each thread of the profile: only those are counted; a given
 * graph does not know its threads and is taken whole. Release in any case. */
bool lw_callgraph_init(struct lw_callgraph *graph, const struct lw_profile *profile,
                       enum lw_graph_source source, const bool *threads,
                       struct lw_error *err) LW_MUST_CHECK;
/* The same of the lines that samples were on, each as if it were a function. */
bool lw_callgraph_init_lines(struct lw_callgraph *graph,
                             const struct lw_profile *profile, const bool *threads,
                             struct lw_error *err) LW_MUST_CHECK;
void lw_callgraph_release(struct lw_callgraph *graph); /* zeroed is fine */

/* Were calls counted? Samples have none; nor has what samplers save for pstats: 0, or
 * -1 in each function. Of a difference any sum may be 0 or less. */
static inline bool lw_callgraph_has_calls(const struct lw_callgraph *graph)
{
    return graph->calls > 0 || graph->listed_count == 0 || graph->has_changed_calls;
}

/* What LW_GRAPH_ANY would be for PROFILE. */
enum lw_graph_source lw_callgraph_source(const struct lw_profile *profile);

enum lw_strip {
    LW_STRIP_ADD,       /* what becomes alike is added */
    LW_STRIP_AS_PSTATS, /* of callers of one function that become alike the last
                           replaces the others, as pstats.strip_dirs() loses them */
};

/* Leave only the last part of each file's path; functions that are alike then become
 * one. The sums of the graph stay as they are. On failure the graph is as it was. */
bool lw_callgraph_strip(struct lw_callgraph *graph, enum lw_strip how,
                        struct lw_error *err) LW_MUST_CHECK;

/* Not known: the times of a pair that profile.py only counted, and all of a function
 * that is only named as a caller. Files are not allowed NaN, so it can say that. */
static inline bool lw_graph_cost_is_known(const struct lw_graph_cost *cost)
{
    return !isnan(cost->self_s);
}

/* Name FUNCTION after a frame of PROFILE; its cost is left alone. */
void lw_function_init(struct lw_function *function, const struct lw_profile *profile,
                      lw_frame_id frame);
/* Leave only the last part of its file's path. */
void lw_function_strip(struct lw_function *function);
/* Order of (file, line, name), as Python sorts such tuples: <0, 0, >0. */
int lw_function_compare(const struct lw_function *a, const struct lw_function *b);
/* Append "file:line(name)", or "{name}" for a builtin: pstats' standard name. */
void lw_function_add_text(const struct lw_function *function, struct lw_buf *out);

/* Sums that stop at the ends of their range: files may hold any number. */
int64_t lw_calls_add(int64_t a, int64_t b);
static inline int64_t lw_calls_negate(int64_t calls)
{
    return calls == INT64_MIN ? INT64_MAX : -calls;
}
void lw_graph_cost_add(struct lw_graph_cost *cost, const struct lw_graph_cost *more);

#endif
