/* Rows of ops and what memory they took, however an op is told (memory_ops.c, our own
 * way; memory_tb.c, the plugin's). */
#ifndef LW_ANALYSES_MEMORY_OPS_H
#define LW_ANALYSES_MEMORY_OPS_H

#include "analyses/memory_uses.h"

#define LW_MEMORY_OP_COLUMNS 9
extern const struct lw_column lw_memory_op_columns[LW_MEMORY_OP_COLUMNS];

struct lw_memory_cost {
    uint64_t allocations;
    int64_t allocated_bytes;
    int64_t increase_bytes; /* allocated and not freed in the same op */
};

void lw_memory_cost_add(struct lw_memory_cost *cost, const struct lw_memory_cost *more);
/* One event: BYTES allocated, or freed if negative. */
void lw_memory_cost_count(struct lw_memory_cost *cost, int64_t bytes);

struct lw_memory_name {
    lw_string_id name;
    struct lw_memory_cost self, total;
};

/* One row a name, in the order in which they were met. */
struct lw_memory_names {
    uint32_t *slots; /* of each string: index of its row + 1; 0: none */
    uint64_t *calls; /* of each string */
    struct lw_memory_name *rows;
    size_t count, capacity;
};

bool lw_memory_names_init(struct lw_memory_names *names,
                          const struct lw_memory_uses *uses, struct lw_error *err)
    LW_MUST_CHECK;
void lw_memory_names_release(struct lw_memory_names *names); /* zeroed is fine */
void lw_memory_names_reset(struct lw_memory_names *names);   /* not the calls */
/* The row of NAME, made if there is none yet; good until the next. NULL: no memory. */
struct lw_memory_name *lw_memory_names_get(struct lw_memory_names *names,
                                           lw_string_id name, struct lw_error *err);
/* Those that took any memory of DEVICE. */
void lw_memory_names_show(const struct lw_memory_names *names,
                          const struct lw_memory_uses *uses, uint32_t device,
                          struct lw_table *table);

#endif
