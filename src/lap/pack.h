/* The packed form of a run: a ustar archive of its files (run.h). */
#ifndef LW_LAP_PACK_H
#define LW_LAP_PACK_H

#include "lap/run.h"

/* Do the bytes begin like a packed run? */
bool lw_pack_is_pack(const void *bytes, size_t len);

/* Add the files in `run->pack` to the run's list. An archive that is cut short gives
 * the files up to there, the last one shortened. */
bool lw_pack_list(struct lw_run *run, struct lw_error *err) LW_MUST_CHECK;

#endif
