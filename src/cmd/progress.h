/* One line on a terminal's standard error for what takes longer than a second: how much
 * is read or written, how fast, how long it will take.
 *
 *     reading big.folded: 312.0 MB of 1.2 GB, 210.4 MB/s, 4 s left
 *
 * It is drawn by a thread that only looks on, and is gone when the work is done. In a
 * pipe nothing is drawn and no thread started. */

#ifndef LW_CMD_PROGRESS_H
#define LW_CMD_PROGRESS_H

#include "base/buf.h"

struct lw_progress; /* NULL, wherever one is taken: nothing is shown */

/* Show how the profile NAME (as lw_profile_open takes it) is read from now on. NULL:
 * nobody would see it, or it cannot be shown. */
struct lw_progress *lw_progress_start_reading(const char *name);
/* The same for what is written into OUT, which must stay where it is until the stop;
 * NAME is the file's. */
struct lw_progress *lw_progress_start_writing(const char *name,
                                              const struct lw_buf *out);
/* Take the line away and free PROGRESS. */
void lw_progress_stop(struct lw_progress *progress);

/* How far some work is. */
struct lw_progress_state {
    const char *what; /* "reading big.folded" */
    uint64_t done_bytes;
    uint64_t total_bytes; /* 0: not known */
    uint64_t elapsed_ns;
};

/* Append the line to OUT. */
void lw_progress_add_line(struct lw_buf *out, const struct lw_progress_state *state);

#endif
