/* Two traces side by side, made for the view `compare`.
 *
 * What is compared are rows: ops, kernels, or places in the tree of modules and ops. A row
 * of one trace and one of the other are the same if they have the same name and their
 * parents are the same; of modules of one class in one place (Linear_0, Linear_1 ...) the
 * n-th is the n-th, whatever its number. Times of day have nothing to do with it.
 *
 * Only what belongs to whole steps counts, and figures are divided by the number of steps,
 * so that traces of different length can be compared; those of several ranks are the mean
 * of a rank. */
#ifndef LW_ANALYSES_COMPARE_H
#define LW_ANALYSES_COMPARE_H

#include "analyses/compare_keys.h"
#include "analyses/op_tree.h"
#include "analyses/trace_steps.h"

enum { LW_BEFORE, LW_AFTER, LW_SIDES };

struct lw_compare_figures {
    uint64_t calls;
    int64_t host_ns;   /* of ops their own, of modules all that is below, too */
    int64_t device_ns; /* likewise */
};

struct lw_compare_row {
    uint32_t parent;              /* a row before it; LW_NONE: none */
    lw_string_id names[LW_SIDES]; /* in `strings`; 0: it is not in that trace */
    struct lw_compare_figures sides[LW_SIDES];
};

/* One of the two. */
struct lw_compare_side {
    struct lw_trace_scope scope;
    struct lw_op_tree tree;       /* zeroed until it is wanted */
    struct lw_trace_steps *steps; /* owned: of each rank of the trace */
    bool *chosen;                 /* owned: likewise, whether it counts now */
    uint8_t *flags;               /* owned: of each event, enum lw_compare_flag */
    lw_string_id *names;          /* owned: of each string of its profile the number in
                            `strings`; LW_NONE: not looked up yet */
    uint64_t step_count;          /* of all chosen ranks together, as what follows */
    uint64_t step_ns;
    uint64_t unlinked_count, unlinked_ns; /* work of no known launch: left out */
    size_t left_out;                      /* of steps that are not whole */
};

enum lw_compare_flag {
    LW_COMPARE_IN_STEP = 1,
    LW_COMPARE_IN_LOADER = 2,  /* a DataLoader's __next__(), or within one */
    LW_COMPARE_UNDER_STEP = 4, /* "ProfilerStep#7", or within it on its thread */
};

struct lw_compare {
    const struct lw_query *query;
    struct lw_strings *strings; /* owned: of both */
    struct lw_compare_side sides[LW_SIDES];
    struct lw_compare_row *rows; /* owned */
    size_t row_count, row_capacity;
    struct lw_compare_keys keys;
};

/* Release in any case. */
bool lw_compare_init(struct lw_compare *compare, const struct lw_profile *before,
                     const struct lw_profile *after, const struct lw_query *query,
                     struct lw_error *err) LW_MUST_CHECK;
void lw_compare_release(struct lw_compare *compare);

/* From now on rank NUMBER counts (negative: all that the query means); there are no rows
 * any more. */
void lw_compare_choose(struct lw_compare *compare, int64_t number);

/* Fill the rows from the chosen ranks: ops by name; kernels and copies by name; modules,
 * ranges and the outermost ops in them, as a tree. */
bool lw_compare_ops(struct lw_compare *compare, struct lw_error *err) LW_MUST_CHECK;
bool lw_compare_kernels(struct lw_compare *compare, struct lw_error *err) LW_MUST_CHECK;
bool lw_compare_modules(struct lw_compare *compare, struct lw_error *err) LW_MUST_CHECK;

/* Is NAME that of a range in which a DataLoader is asked for its next? */
bool lw_compare_is_loader(const char *name);

/* Append "252 ms before, 105 ms after, 147 ms less (-58.3 %)", of nanoseconds. */
void lw_compare_add_change(struct lw_buf *out, double before, double after);
/* What a step of SIDE takes, in the mean of all. */
double lw_compare_step_ns(const struct lw_compare_side *side);
/* Of FIGURE, which is of all steps of SIDE, the mean of one. */
double lw_compare_a_step(const struct lw_compare_side *side, double figure);
/* The larger of the changes on host and device, whatever its direction: by that rows are
 * sorted. */
double lw_compare_size(const struct lw_compare *compare,
                       const struct lw_compare_row *row);
/* As a person calls it; borrowed. */
const char *lw_compare_name(const struct lw_compare *compare,
                            const struct lw_compare_row *row);

/* The answers: rows as a list or a tree, steps and ranks. They fill a table that is not
 * initialised yet. */
bool lw_compare_show(struct lw_compare *compare, struct lw_table *table,
                     struct lw_error *err) LW_MUST_CHECK;
bool lw_compare_show_steps(struct lw_compare *compare, struct lw_table *table,
                           struct lw_error *err) LW_MUST_CHECK;
bool lw_compare_show_ranks(struct lw_compare *compare, struct lw_table *table,
                           struct lw_error *err) LW_MUST_CHECK;

#endif
