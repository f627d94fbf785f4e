/* The end of a profile, and looking things up in one. It is filled by builder.c. */

#include "model/profile.h"

#include <string.h>

#include "base/alloc.h"

void lw_profile_free(struct lw_profile *profile)
{
    if (!profile)
        return;
    lw_strings_free(profile->strings);
    lw_stacks_free(profile->stacks);
    lw_free(profile->processes);
    lw_free(profile->threads);
    lw_free(profile->calls);
    lw_free(profile->samples);
    lw_free(profile->spans);
    lw_free(profile->origins);
    lw_free(profile->counters);
    lw_free(profile->allocations);
    lw_free(profile->functions);
    lw_free(profile->edges);
    lw_trace_free(profile->trace);
    lw_free(profile->losses);
    lw_free(profile->facts);
    lw_free(profile);
}

const char *lw_profile_text(const struct lw_profile *profile, lw_string_id id)
{
    return lw_strings_text(profile->strings, id);
}

const char *lw_profile_fact(const struct lw_profile *profile, const char *key)
{
    for (size_t i = 0; i < profile->fact_count; i++)
        if (strcmp(lw_profile_text(profile, profile->facts[i].key), key) == 0)
            return lw_profile_text(profile, profile->facts[i].value);
    return NULL;
}

const struct lw_frame *lw_profile_frame(const struct lw_profile *profile,
                                        lw_frame_id id)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &count);

    lw_assert(id < count);
    return &frames[id];
}
