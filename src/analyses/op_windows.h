/* When ops were recorded live: all the time, or in windows of whole steps. */
#ifndef LW_ANALYSES_OP_WINDOWS_H
#define LW_ANALYSES_OP_WINDOWS_H

#include "analyses/intervals.h"
#include "model/profile.h"
#include "model/table.h"

/* Add those of PROCESS, an index, to SET in order of time; one that is still open goes to
 * the process's end, or as far as its counters do. */
bool lw_op_windows_find(const struct lw_profile *profile, uint32_t process,
                        struct lw_intervals *set, struct lw_error *err) LW_MUST_CHECK;

/* Say it below TABLE. */
bool lw_op_windows_note(const struct lw_profile *profile, struct lw_table *table,
                        struct lw_error *err) LW_MUST_CHECK;

#endif
