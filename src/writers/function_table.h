/* The functions of a profile as a table, the most own time first, for formats that are
 * nothing but a table. */
#ifndef LW_WRITERS_FUNCTION_TABLE_H
#define LW_WRITERS_FUNCTION_TABLE_H

#include "model/profile.h"
#include "model/table.h"

/* Fill TABLE, which the caller releases in any case. A profile without functions is
 * LW_ERR_UNSUPPORTED. */
bool lw_function_table_init(struct lw_table *table, const struct lw_profile *profile,
                            struct lw_error *err) LW_MUST_CHECK;

#endif
