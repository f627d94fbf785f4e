/* Tables whose columns depend on what a trace has. */
#ifndef LW_ANALYSES_OPS_COLUMNS_H
#define LW_ANALYSES_OPS_COLUMNS_H

#include "analyses/op_rows.h"

struct lw_ops_column {
    struct lw_column column;
    unsigned when; /* bits of what there must be; 0: always */
};

/* Initialise TABLE with those of the COUNT columns at ALL whose bits are all in HAS. */
bool lw_ops_columns_init(struct lw_table *table, const struct lw_ops_column *all,
                         size_t count, unsigned has, struct lw_error *err)
    LW_MUST_CHECK;

/* A cell of a word, and of what ROW is called: one row stands for all steps. */
void lw_ops_add_word(struct lw_table *table, const char *word);
void lw_ops_add_name(struct lw_table *table, const struct lw_profile *profile,
                     const struct lw_op_row *row);

#endif
