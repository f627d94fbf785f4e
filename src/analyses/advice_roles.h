/* Where the time of steps went, of all ranks that are meant: step_times.h added up. */
#ifndef LW_ANALYSES_ADVICE_ROLES_H
#define LW_ANALYSES_ADVICE_ROLES_H

#include "analyses/advice_trace.h"
#include "analyses/step_times.h"

/* Put in NS what all steps of TRACE's ranks took of each role. */
bool lw_advice_roles(const struct lw_advice_trace *trace, uint64_t ns[LW_ROLE_COUNT],
                     struct lw_error *err) LW_MUST_CHECK;

#endif
