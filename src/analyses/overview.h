/* The parts of `overview` that have files of their own. */
#ifndef LW_ANALYSES_OVERVIEW_H
#define LW_ANALYSES_OVERVIEW_H

#include "analyses/analysis.h"
#include "analyses/gpu_usage.h"
#include "analyses/step_times.h"

/* A rank of the trace, by its steps. */
struct lw_overview_rank {
    uint32_t rank; /* index */
    struct lw_trace_steps steps;
    struct lw_step_times *times; /* owned: one for each step */
    bool has[LW_ROLE_COUNT];     /* whether there was any such time at all */
};

struct lw_overview {
    struct lw_trace_scope scope;
    enum lw_compat compat;
    struct lw_overview_rank *ranks; /* owned: those that are meant, and have steps */
    size_t rank_count;
    struct lw_gpu_usages gpus;
};

/* Set the GPUs' share of tensor cores to the plugin's: of what ops launched. */
bool lw_overview_tensor_as_tb(struct lw_overview *overview, struct lw_error *err)
    LW_MUST_CHECK;

/* Rows that are GPUs, or moments of them. */
void lw_overview_add_devices(const struct lw_overview *overview,
                             struct lw_table *table);
bool lw_overview_add_timeline(const struct lw_overview *overview,
                              struct lw_table *table, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_overview_add_sm(const struct lw_overview *overview, struct lw_table *table,
                        struct lw_error *err) LW_MUST_CHECK;
/* A note for each GPU: how well it was used. */
void lw_overview_note_gpus(const struct lw_overview *overview, struct lw_table *table);

/* Holistic Trace Analysis' temporal breakdown. */
bool lw_overview_hta(const struct lw_profile *profile, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

#endif
