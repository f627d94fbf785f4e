/* The text that torch's key_averages().table() returns, from a table of what
 * key_averages() yields (lw_ops_torch() in analyses/ops.h makes one).
 *
 * After torch 2.13. Bytes of a name that could steer a terminal are shown as \xNN. Where
 * torch is wrong there is a choice:
 *  - with stacks and FLOPs its two last columns are under each other's titles;
 *  - with stacks it lists Python functions among the ops. */
#ifndef LW_WRITERS_TORCH_TABLE_H
#define LW_WRITERS_TORCH_TABLE_H

#include "base/buf.h"
#include "model/table.h"

struct lw_torch_table_options {
    uint64_t row_limit; /* 0: all rows; torch's own is 100 */
    bool is_exact; /* byte for byte as torch. Else columns are under their titles, and
                           Python functions are left out, which a last line says; their
                           time stays part of the whole that shares are of */
};

#define LW_TORCH_ROW_LIMIT 100

/* TABLE has all of its rows, in their order. */
bool lw_torch_table_print(const struct lw_table *table,
                          const struct lw_torch_table_options *options,
                          struct lw_buf *out, struct lw_error *err) LW_MUST_CHECK;

#endif
