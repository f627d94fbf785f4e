/* When ops were recorded live: all the time, or in windows of whole steps. */
#ifndef LW_ANALYSES_OP_WINDOWS_H
#define LW_ANALYSES_OP_WINDOWS_H

#include "model/profile.h"
#include "model/table.h"

/* Say it below TABLE. */
bool lw_op_windows_note(const struct lw_profile *profile, struct lw_table *table,
                        struct lw_error *err) LW_MUST_CHECK;

#endif
