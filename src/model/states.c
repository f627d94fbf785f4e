/* Choosing samples by their state. */

#include "model/states.h"

#include <string.h>

#include "base/alloc.h"

bool lw_states_have(enum lw_states states, uint8_t state)
{
    unsigned plain = state & (unsigned)~LW_STATE_HAS_GIL;

    switch (states) {
    case LW_STATES_WALL: return true;
    case LW_STATES_CPU: return plain == LW_STATE_CPU || plain == LW_STATE_GC;
    case LW_STATES_GIL: return state & LW_STATE_HAS_GIL;
    case LW_STATES_WAIT: return plain == LW_STATE_WAIT || plain == LW_STATE_GIL_WAIT;
    case LW_STATES_GC: return plain == LW_STATE_GC;
    }
    return false;
}

const char *lw_states_phrase(enum lw_states states)
{
    switch (states) {
    case LW_STATES_WALL: break;
    case LW_STATES_CPU: return " on CPU";
    case LW_STATES_GIL: return " with the GIL";
    case LW_STATES_WAIT: return " waiting";
    case LW_STATES_GC: return " collecting garbage";
    }
    return "";
}

bool lw_states_take(struct lw_profile *part, const struct lw_profile *profile,
                    enum lw_states states, struct lw_error *err)
{
    *part = *profile;
    part->states = (unsigned char)states;
    if (states == LW_STATES_WALL)
        return true;
    part->samples = NULL;
    part->sample_count = part->call_count = 0;
    if (profile->sample_count == 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no samples, which alone know whether a thread ran or "
                       "waited");
    part->samples = lw_alloc(profile->sample_count * sizeof(*part->samples), err);
    if (!part->samples)
        return false;
    for (size_t i = 0; i < profile->sample_count; i++)
        if (lw_states_have(states, profile->samples[i].state))
            part->samples[part->sample_count++] = profile->samples[i];
    return true;
}

void lw_states_release(struct lw_profile *part)
{
    if (part->states != LW_STATES_WALL)
        lw_free(part->samples);
    memset(part, 0, sizeof(*part));
}
