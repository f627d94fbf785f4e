/* What the answers of the view `ranks` are made from; each --by has a function of its own,
 * and so have the definitions of other tools. All fill a table that is not initialised
 * yet, and leave its order and length to ranks.c. */
#ifndef LW_ANALYSES_RANKS_H
#define LW_ANALYSES_RANKS_H

#include "analyses/clocks.h"
#include "analyses/trace_scope.h"

struct lw_ranks {
    struct lw_trace_scope scope;
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    const struct lw_query *query;
    uint32_t *order; /* owned: indexes of the ranks that are meant, by number */
    struct lw_collectives collectives; /* empty for another tool's definitions, as: */
    struct lw_clock *clocks;           /* owned */
};

/* Was enough of MATCH seen to tell waiting from transfer? */
static inline bool lw_ranks_is_measured(const struct lw_collective_match *match)
{
    return match->count > 1 || match->size == 1;
}
/* Did somebody wait in it for longer than the ends of one are apart anyway? */
bool lw_ranks_has_last(const struct lw_ranks *ranks,
                       const struct lw_collective_match *match);
/* "8 ranks, 2 steps each: " and what FORMAT says. */
void lw_ranks_set_title(const struct lw_ranks *ranks, struct lw_table *table,
                        const char *format, ...) LW_PRINTF(3, 4);
/* Cells: a number, if it is known; a text, if it is not empty; a rank, by the number it
 * has in the job. */
void lw_ranks_add_known(struct lw_table *table, bool is_known, uint64_t value);
void lw_ranks_add_text(struct lw_table *table, const char *text);
void lw_ranks_add_rank(const struct lw_ranks *ranks, uint32_t rank,
                       struct lw_table *table);

bool lw_ranks_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                      struct lw_error *err) LW_MUST_CHECK;
bool lw_ranks_by_collective(const struct lw_ranks *ranks, struct lw_table *table,
                            struct lw_error *err) LW_MUST_CHECK;
bool lw_ranks_by_kind(const struct lw_ranks *ranks, struct lw_table *table,
                      struct lw_error *err) LW_MUST_CHECK;
bool lw_ranks_by_straggler(const struct lw_ranks *ranks, struct lw_table *table,
                           struct lw_error *err) LW_MUST_CHECK;

/* torch_tb_profiler's Distributed page: overlap and waiting of each rank and step; its
 * table of ops. */
bool lw_ranks_tb_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                         struct lw_error *err) LW_MUST_CHECK;
bool lw_ranks_tb_by_kind(const struct lw_ranks *ranks, struct lw_table *table,
                         struct lw_error *err) LW_MUST_CHECK;

/* Holistic Trace Analysis's get_comm_comp_overlap and get_potential_stragglers. */
bool lw_ranks_hta_by_rank(const struct lw_ranks *ranks, struct lw_table *table,
                          struct lw_error *err) LW_MUST_CHECK;
bool lw_ranks_hta_by_straggler(const struct lw_ranks *ranks, struct lw_table *table,
                               struct lw_error *err) LW_MUST_CHECK;

#endif
