/* A profile as if only samples of some state had been taken: from one recording come the
 * views of wall time, of CPU time and of the time with the interpreter's lock. */
#ifndef LW_MODEL_STATES_H
#define LW_MODEL_STATES_H

#include "model/profile.h"

/* Which samples count; the order is that of the choices of --state. */
enum lw_states {
    LW_STATES_WALL, /* all of them */
    LW_STATES_CPU,  /* on a CPU, collecting garbage too */
    LW_STATES_GIL,  /* with the interpreter's lock, whatever else */
    LW_STATES_WAIT, /* for anything, the interpreter's lock too */
    LW_STATES_GC,   /* collecting garbage */
};
#define LW_STATES_WORDS "wall|cpu|gil|wait|gc"
#define LW_STATES_HELP \
    "of samples only those on a CPU, with the interpreter's lock, waiting, or " \
    "collecting garbage"

bool lw_states_have(enum lw_states states, uint8_t state);
/* " on CPU", for the end of "120 samples"; empty for all. */
const char *lw_states_phrase(enum lw_states states);

/* Make PART what PROFILE would be with only these STATES. All but its samples is
 * borrowed from PROFILE; unless all are wanted, its calls are left out, for nobody counted
 * those by state. A profile without samples is LW_ERR_UNSUPPORTED then. Release in any
 * case; never free. */
bool lw_states_take(struct lw_profile *part, const struct lw_profile *profile,
                    enum lw_states states, struct lw_error *err) LW_MUST_CHECK;
void lw_states_release(struct lw_profile *part);

#endif
