/* What a person asks of the functions of a profile: which, in what order, how many.
 *
 * The words are pstats': sort keys and their abbreviations, and restrictions (a count, a
 * fraction, a pattern), each applied to what the one before left. An analysis makes the
 * graph the query is about, then the selection, and shows that. */
#ifndef LW_MODEL_QUERY_H
#define LW_MODEL_QUERY_H

#include "base/pattern.h"
#include "model/callgraph.h"
#include "model/states.h"

/* Sorting */

enum lw_sort_field {
    LW_SORT_PRIMITIVE_CALLS,
    LW_SORT_CALLS,
    LW_SORT_SELF,
    LW_SORT_TOTAL,
    LW_SORT_FILE,
    LW_SORT_LINE,
    LW_SORT_NAME,
    LW_SORT_TEXT, /* "file:line(name)" */
    LW_SORT_SAMPLES,
};

struct lw_sort_key {
    const char *name;   /* "cumulative" */
    const char *title;  /* "cumulative time", as pstats prints it */
    const char *fields; /* digits: enum lw_sort_field, most significant first */
    bool is_descending;
};

extern const struct lw_sort_key lw_sort_keys[];
extern const size_t lw_sort_key_count;

/* The key that WORD is or abbreviates (a prefix no other key has, with pstats' own idea
 * of that; or its old numbers -1, 0, 1 and 2). NULL: LW_ERR_USAGE, the sentence lists
 * the keys. */
const struct lw_sort_key *lw_sort_key_find(const char *word, struct lw_error *err);

/* Restrictions */

enum lw_restriction_kind {
    LW_RESTRICT_COUNT,   /* the first so many */
    LW_RESTRICT_SHARE,   /* the first so many of a hundred, as 0..1 */
    LW_RESTRICT_PATTERN, /* those whose text matches */
    LW_RESTRICT_MINE,    /* the person's own code (model/mine.h) */
    LW_RESTRICT_INVALID, /* a pattern that is none: leaves all, as for pstats */
};

struct lw_restriction {
    enum lw_restriction_kind kind;
    int64_t count; /* negative: no restriction, as for pstats */
    double share;
    const char *text; /* the pattern as it was given; borrowed */
    bool is_word;     /* a word of the command line, which may be a mistyped name */
    struct lw_pattern pattern;
};

/* A query */

#define LW_QUERY_KEYS_MAX 16

/* Whose definitions an answer follows, where tools differ. */
enum lw_compat {
    LW_COMPAT_NONE,  /* our own */
    LW_COMPAT_TB,    /* torch_tb_profiler's */
    LW_COMPAT_HTA,   /* Holistic Trace Analysis's */
    LW_COMPAT_TORCH, /* torch.profiler's own, with its mistakes */
};
#define LW_COMPAT_WORDS "none|tb|hta|torch"

struct lw_query {
    const struct lw_sort_key *keys[LW_QUERY_KEYS_MAX];
    size_t key_count; /* 0: the profile's own order */
    bool reverse;     /* only what is sorted */
    bool strip;
    enum lw_strip how_strip;
    struct lw_restriction *restrictions; /* owned */
    size_t restriction_count;
    size_t restriction_capacity;

    enum lw_graph_source source;
    enum lw_states states; /* of samples; the caller takes the part of the profile */
    bool with_error;       /* how far off shares of samples may be */
    const char *thread;    /* only threads of this name or id; NULL: all. Borrowed */
    const char *process;   /* only processes of this pid; NULL: all. Borrowed */

    /* For views of a trace, whose rows are no functions */
    const char
        *by; /* what its rows are: one of the view's own words; never NULL there */
    const char *columns[LW_QUERY_KEYS_MAX]; /* to sort by, most significant first */
    size_t column_count;                    /* 0: the view's own order */
    const char *rank; /* only this rank of a job; NULL: all, or the first. Borrowed */
    enum lw_compat compat;
    const char *range; /* only the time of this range: "ProfilerStep#7", or "Step@2" for
                          the third whose name holds "Step"; NULL: all. Borrowed */

    /* What a hint writes before the name of a view of this profile: "lapwing report " and
     * the name by which it was opened; in the shell nothing. Borrowed. */
    const char *report;

    /* For trees */
    double min_share;   /* rows with less of the whole are left out */
    uint64_t max_depth; /* 0: any */
};

void lw_query_init(struct lw_query *query);
void lw_query_release(struct lw_query *query);

bool lw_query_add_key(struct lw_query *query, const char *word, struct lw_error *err)
    LW_MUST_CHECK;
/* The name of a column to sort by; borrowed. */
bool lw_query_add_column(struct lw_query *query, const char *name, struct lw_error *err)
    LW_MUST_CHECK;
/* Are the rows of the answer to be WORD? (`by` may be the list of what they can be.) */
bool lw_query_is_by(const struct lw_query *query, const char *word);
/* WORD as pstats' browser takes it: an integer, a fraction from 0 to 1, else a pattern. */
bool lw_query_add_word(struct lw_query *query, const char *word, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_query_add_pattern(struct lw_query *query, const char *text,
                          struct lw_error *err) LW_MUST_CHECK;
bool lw_query_add_count(struct lw_query *query, int64_t count, struct lw_error *err)
    LW_MUST_CHECK;
/* TEXT is no pattern, which pstats says in its listing and goes on. */
bool lw_query_add_invalid(struct lw_query *query, const char *text,
                          struct lw_error *err) LW_MUST_CHECK;
bool lw_query_add_mine(struct lw_query *query, struct lw_error *err) LW_MUST_CHECK;

/* One flag for each thread of PROFILE, whether the query is about it; *FLAGS is NULL if
 * it is about all. Caller frees. That no thread is meant is LW_ERR_USAGE, and the
 * sentence says which there are. */
bool lw_query_threads(const struct lw_query *query, const struct lw_profile *profile,
                      bool **flags, struct lw_error *err) LW_MUST_CHECK;

/* The graph the query is about, stripped if it says so. Release in any case. */
bool lw_query_graph(const struct lw_query *query, const struct lw_profile *profile,
                    struct lw_callgraph *graph, struct lw_error *err) LW_MUST_CHECK;

/* Likewise the graph of lines (see lw_callgraph_init_lines). */
bool lw_query_lines(const struct lw_query *query, const struct lw_profile *profile,
                    struct lw_callgraph *graph, struct lw_error *err) LW_MUST_CHECK;

/* What is left of a graph's listed functions, in order. */
struct lw_selection {
    uint32_t *functions; /* owned: indexes */
    size_t count;
    size_t
        *counts; /* owned: how many there were before each restriction, and at last */
};

bool lw_query_select(const struct lw_query *query, const struct lw_callgraph *graph,
                     struct lw_selection *selection, struct lw_error *err)
    LW_MUST_CHECK;
/* Put the functions in the order of the query's keys; equal ones stay as they are. A key
 * that GRAPH has no numbers for is LW_ERR_USAGE. */
bool lw_selection_sort(struct lw_selection *selection, const struct lw_query *query,
                       const struct lw_callgraph *graph, struct lw_error *err)
    LW_MUST_CHECK;
void lw_selection_release(struct lw_selection *selection); /* zeroed is fine */

#endif
