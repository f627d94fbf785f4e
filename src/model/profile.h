/* One profile: what was measured, whoever measured it.
 *
 * A recording, a .prof file, a trace and a folder of ranks all become this, through
 * a builder (model/builder.h), the only way in. Analyses and writers only read it.
 * Everything is in flat arrays that refer to each other by index; the profile owns
 * them all and they die together.
 *
 *     processes <- threads <- calls, samples, spans        strings
 *                                 |                           ^
 *                                 v                           |
 *                               stacks ----> frames ----------+
 *
 * Measured in one of these shapes, and often in several at once:
 *  - calls: exact counts and self times for each (thread, stack). Totals are sums over
 *    the tree: lw_stacks numbers parents before children.
 *  - samples: a stack at an instant, with a weight and a state.
 *  - graph: functions and caller-callee pairs with totals of their own, which is all
 *    that pstats and callgrind files hold (model/callgraph.h makes the same from calls).
 *  - spans, counters: things with a start and an end on a track; values over time.
 *  - trace: what a torch profiler saw, with all that joins its events (model/trace.h). */
#ifndef LW_MODEL_PROFILE_H
#define LW_MODEL_PROFILE_H

#include "model/stacks.h"
#include "model/trace.h"

struct lw_process {
    uint64_t pid;
    uint64_t parent_pid;  /* 0: not known */
    int64_t rank;         /* of a distributed job; -1: none */
    lw_string_id command; /* "train.py --epochs 3", for a person */
    lw_string_id python;  /* "3.11.7"; 0: not Python, or not known */
    uint64_t start_ns;    /* CLOCK_MONOTONIC of the run's host */
    uint64_t end_ns;      /* 0: not known (it runs, or its recorder was killed) */
    int32_t exit_code;    /* as a shell gives it (128+signal); -1: not known */
    uint64_t thinned_start_ns,
        thinned_end_ns; /* spans in there were dropped to keep the
                                                  run small; 0: none were */
};

struct lw_thread {
    uint32_t process; /* index */
    uint64_t tid;     /* as the kernel numbers it */
    lw_string_id name;
    uint64_t start_ns; /* when first seen */
    uint64_t end_ns;   /* 0: not known */
};

struct lw_call_row {
    uint32_t thread;   /* index */
    lw_stack_id stack; /* the called function is its last frame */
    uint64_t calls;    /* how often it was entered there */
    uint64_t self_ns;  /* wall time in it, callees apart */
};

enum lw_sample_state {
    LW_STATE_UNKNOWN = 0,
    LW_STATE_CPU = 1,
    LW_STATE_WAIT = 2,
    LW_STATE_GC = 3,
    LW_STATE_GIL_WAIT = 4,
    LW_STATE_HAS_GIL = 0x80, /* a flag, with any of the above */
};

struct lw_sample {
    uint64_t time_ns;
    uint64_t weight_ns; /* the time it stands for */
    uint32_t thread;    /* index */
    lw_stack_id stack;
    uint8_t state;  /* enum lw_sample_state */
    uint32_t count; /* how many were added up in it; 0: not known, as of other tools */
};

struct lw_span {
    uint64_t start_ns;
    uint64_t duration_ns;
    uint32_t thread;   /* index */
    lw_stack_id stack; /* what it is: the last frame; where: the rest */
};

/* What joins an op of a forward pass to the node of a backward pass that came of it, as
 * torch numbers them (model/op_links.h joins them), and the line that asked for the op. */
struct lw_origin {
    uint64_t start_ns;       /* of the op's span, which is of `thread` */
    uint64_t sequence;       /* the node has that of its op */
    uint32_t thread;         /* index */
    uint32_t forward_thread; /* in which the op ran, as torch counts the process's */
    lw_frame_id function;    /* whose line it was; 0: not known */
    uint32_t line;           /* 0: not known */
    uint8_t is_backward;     /* 1: it is of the node */
};

struct lw_counter_point {
    uint64_t time_ns;
    double value;
    uint32_t process;  /* index */
    lw_string_id name; /* "rss", with its unit in brackets: "rss [bytes]" */
};

struct lw_allocation {
    uint64_t time_ns;
    int64_t bytes;   /* negative: freed */
    uint32_t thread; /* index */
    lw_stack_id stack;
};

/* Functions and caller-callee pairs, as pstats has them. Times are seconds in
 * doubles on purpose: that is what those files hold, and what is read must be written
 * back unchanged and add up as pstats adds it. */
struct lw_graph_cost {
    int64_t primitive_calls; /* not made, directly or not, by itself */
    int64_t calls;
    double self_s;
    double total_s;
    int64_t self_samples; /* that saw it on top, and anywhere; 0: not counted */
    int64_t total_samples;
};

struct lw_graph_function {
    lw_frame_id frame;
    struct lw_graph_cost cost;
};

struct lw_graph_edge {
    uint32_t caller; /* index of a function */
    uint32_t callee;
    struct lw_graph_cost cost; /* of the callee, when called by this caller */
};

/* Something that is missing from the recording, by cause, so that every report can
 * say it: "ring full: 1,234 spans". */
struct lw_loss {
    lw_string_id cause;
    uint32_t process; /* index; LW_NONE: the whole run */
    uint64_t count;
    lw_string_id unit; /* what was counted: "spans", "calls", "chunks" */
};

/* Facts about the run, for the head of a report: "command", "host", "commit" ... */
struct lw_fact {
    lw_string_id key;
    lw_string_id value;
};

struct lw_profile {
    struct lw_strings *strings;
    struct lw_stacks *stacks;

    struct lw_process *processes;
    size_t process_count;
    struct lw_thread *threads;
    size_t thread_count;
    struct lw_call_row *calls;
    size_t call_count;
    struct lw_sample *samples;
    size_t sample_count;
    struct lw_span *spans;
    size_t span_count;
    struct lw_origin *origins; /* of some of the spans that are ops */
    size_t origin_count;
    struct lw_counter_point *counters;
    size_t counter_count;
    struct lw_allocation *allocations;
    size_t allocation_count;
    struct lw_graph_function *functions; /* a given graph; see model/callgraph.h */
    size_t function_count;
    struct lw_graph_edge *edges;
    size_t edge_count;
    struct lw_trace *trace; /* owned; NULL: there is none */
    struct lw_loss *losses;
    size_t loss_count;
    struct lw_fact *facts;
    size_t fact_count;

    uint64_t start_ns;      /* CLOCK_MONOTONIC when the run began; 0: not known */
    uint64_t end_ns;        /* 0: not known */
    uint64_t wall_start_ns; /* the same moment as start_ns, since 1970; 0: not known */
    bool has_c_calls;       /* builtins were recorded too */
    unsigned char states;   /* enum lw_states of the samples that are there */
};

void lw_profile_free(struct lw_profile *profile); /* NULL is fine */

const char *lw_profile_text(const struct lw_profile *profile, lw_string_id id);
/* The value of a fact, or NULL. Borrowed. */
const char *lw_profile_fact(const struct lw_profile *profile, const char *key);
const struct lw_frame *lw_profile_frame(const struct lw_profile *profile,
                                        lw_frame_id id);

#endif
