/* Which frames are one function.
 *
 * A stack's frames may stand for lines, so many frames are one function; and two
 * functions that print alike are two for the interpreter but one for a reader of a
 * report. Both questions are answered by numbering frames anew. */
#ifndef LW_MODEL_CODES_H
#define LW_MODEL_CODES_H

#include "model/profile.h"

struct lw_codes {
    uint32_t *code_of;  /* owned: by frame; numbers from 0 */
    lw_frame_id *first; /* owned: by code, the first of its frames */
    size_t count;
};

enum lw_alike {
    LW_ALIKE_FUNCTION, /* what the interpreter calls one function */
    LW_ALIKE_NAME,     /* what has the same name, file and line */
    LW_ALIKE_LINE,     /* the same line of a function */
};

/* Number all frames of PROFILE, in the order of their ids. Release in any case. */
bool lw_codes_init(struct lw_codes *codes, const struct lw_profile *profile,
                   enum lw_alike alike, struct lw_error *err) LW_MUST_CHECK;
void lw_codes_release(struct lw_codes *codes); /* zeroed is fine */

#endif
