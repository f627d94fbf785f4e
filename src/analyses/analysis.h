/* A question asked of a profile, answered with a table.
 *
 * An analysis is one .c file that ends in one const struct lw_analysis, and one line in
 * analyses.def. It reads the model and fills a table; how the table looks, or what the
 * profile was read from, is not its business. So every analysis is a view of `report`, a
 * page of the viewer and a part of every export. */
#ifndef LW_ANALYSES_ANALYSIS_H
#define LW_ANALYSES_ANALYSIS_H

#include "lap/reader.h" /* enum lw_want */
#include "model/query.h"
#include "model/table.h"

/* A tree for a person shows paths with at least so much of the time. */
#define LW_USUAL_SHARE 0.01

struct lw_analysis {
    const char *name;    /* of the view: "functions" */
    const char *summary; /* one phrase: the question */
    unsigned want;       /* enum lw_want: what it looks at */
    const char *sort;    /* the sort key if none was given; NULL: it takes none */
    bool sorts_columns;  /* its sort keys are its table's columns, and it calls
                           lw_analysis_arrange() at its end */
    const char *by;      /* what its rows may be, "name|shape|stack", the usual first;
                           NULL: always the same */
    const char *deep_by; /* the one of `by` that looks at more; NULL: none does */
    unsigned deep_want;  /* at what; enum lw_want */
    const char *compat;  /* whose definitions it also knows: "tb|hta"; NULL: nobody's */
    bool takes_restrictions;
    bool takes_range;    /* it can be of one range of a trace (query's `range`) */
    uint64_t usual_rows; /* how many of its rows a person wants at first; 0: all */

    /* Fill TABLE, which is not initialised yet but is always to be released. The
     * caller checks the table's own failure. */
    bool (*run)(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err);
    /* The same of two profiles, the second being the later: what --diff shows. NULL: it
     * is of one profile only; and if `run` is NULL it is always of two. */
    bool (*run_pair)(const struct lw_profile *before, const struct lw_profile *after,
                     const struct lw_query *query, struct lw_table *table,
                     struct lw_error *err);
};

/* All analyses, sorted by name, from analyses.def. */
extern const struct lw_analysis *const lw_analyses[];
extern const size_t lw_analysis_count;

#define LW_ANALYSIS(name) extern const struct lw_analysis lw_analysis_##name;
#include "analyses/analyses.def"
#undef LW_ANALYSIS

const struct lw_analysis *lw_analysis_find(const char *name); /* NULL: there is none */

/* What it looks at to answer QUERY. */
unsigned lw_analysis_want(const struct lw_analysis *analysis,
                          const struct lw_query *query);

/* Run ANALYSIS on the part of PROFILE that the query's states leave. TABLE is always to
 * be released. */
bool lw_analysis_run(const struct lw_analysis *analysis,
                     const struct lw_profile *profile, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

/* Sort, restrict and cut the rows of TABLE as QUERY says: its columns are names of the
 * table's own, its patterns are matched with the first cell of text of a row, and a row
 * that stays keeps the rows below it. Numbers are sorted with the largest first. What was
 * cut is noted. */
bool lw_analysis_arrange(struct lw_table *table, const struct lw_query *query,
                         struct lw_error *err) LW_MUST_CHECK;

/* What several analyses say in the same way: */

/* The trace of PROFILE. NULL: there is none (LW_ERR_UNSUPPORTED), and the sentence says
 * of what VIEW is a view. */
const struct lw_trace *lw_analysis_trace(const struct lw_profile *profile,
                                         const char *view, struct lw_error *err);

/* A note for each cause of loss: what is missing from the profile; one if its times are
 * something else (the fact "unit"); and what else the recording says (the fact "note"). */
void lw_analysis_note_losses(const struct lw_profile *profile, struct lw_table *table);
/* A note that nothing was recorded, and what may be why. */
void lw_analysis_note_empty(const struct lw_profile *profile, struct lw_table *table);
/* The title and notes of a list of functions: what it is of, its order, what is left out
 * and what is missing. */
void lw_analysis_end_list(const struct lw_query *query,
                          const struct lw_callgraph *graph,
                          const struct lw_selection *selection, struct lw_table *table);
/* What restrictions are matched with: append to OUT the text of the row INDEX of OF, or
 * only its NAME, which a person may have mistyped. */
typedef void lw_analysis_text_of(const void *of, size_t index, bool name,
                                 struct lw_buf *out);
/* Of COUNT rows, each a NOUN ("function"), QUERY's restrictions left none: note which word
 * of them matches no row at all (table's `unmatched`), or that they do so together. */
void lw_analysis_note_none(const struct lw_query *query, size_t count,
                           lw_analysis_text_of *text_of, const void *of,
                           const char *noun, struct lw_table *table);
/* The note of those that says what the restrictions left out. */
void lw_analysis_note_cut(const struct lw_query *query,
                          const struct lw_callgraph *graph,
                          const struct lw_selection *selection, struct lw_table *table);
/* What was written into TEXT, good until it changes. If it failed, so has the table, and
 * what is returned is empty. */
const char *lw_analysis_text(struct lw_table *table, const struct lw_buf *text);
/* A cell "file:line"; none for builtins. */
void lw_analysis_add_place(struct lw_table *table, const struct lw_function *function);
/* A cell of nanoseconds; none for what is not known. */
void lw_analysis_add_seconds(struct lw_table *table, double seconds);
/* Saturates: a file may hold any number of seconds. */
int64_t lw_analysis_ns(double seconds);
/* A cell PART / WHOLE; none if that is no number. */
void lw_analysis_add_share(struct lw_table *table, double part, double whole);
/* By how much PART of WHOLE samples may be off, up or down, 19 times out of 20, as a share
 * of WHOLE; no number if that is 0. */
double lw_analysis_error(int64_t part, int64_t whole);
/* A cell of it. */
void lw_analysis_add_error(struct lw_table *table, int64_t part, int64_t whole);
/* Append what a profile's times are the sum of: "26 samples on CPU, ", or without their
 * number where that is not known. */
void lw_analysis_add_samples(struct lw_buf *out, const struct lw_profile *profile,
                             int64_t count);

#endif
