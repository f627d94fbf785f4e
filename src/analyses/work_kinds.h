/* What kind of work a device did: computing, moving data, or talking to other ranks.
 *
 * A kernel communicates if it carries a collective, if the op that launched it does, or
 * if its name says so: NCCL's, RCCL's, MSCCL's, oneCCL's, HCCL's, NVSHMEM's, DeepEP's.
 * (torch_tb_profiler knows five names of ranges, and Holistic Trace Analysis names that
 * begin with "nccl" and hold "Kernel"; each is there for --compat.) */
#ifndef LW_ANALYSES_WORK_KINDS_H
#define LW_ANALYSES_WORK_KINDS_H

#include "model/profile.h"
#include "model/query.h"

enum lw_work_kind {
    LW_WORK_NONE, /* no work of a device */
    LW_WORK_COMPUTATION,
    LW_WORK_COMMUNICATION,
    LW_WORK_MEMORY, /* copies and memsets */
};

/* One for each event of PROFILE's trace; caller frees. NULL: no memory. */
uint8_t *lw_work_kinds_new(const struct lw_profile *profile, enum lw_compat compat,
                           struct lw_error *err);

/* Of something of NAME on a device, as Holistic Trace Analysis 0.5.0 has it; NONE is its
 * OTHER. */
enum lw_work_kind lw_work_kind_by_hta(const char *name);

#endif
