/* What a trace says of itself before its events, besides what the model has fields for. */
#ifndef LW_ANALYSES_RANK_INFO_H
#define LW_ANALYSES_RANK_INFO_H

#include "model/profile.h"

/* Does the file of RANK (index) say KEY: VALUE, a number or text as it stands there? */
bool lw_rank_says(const struct lw_profile *profile, size_t rank, const char *key,
                  const char *value);

#endif
