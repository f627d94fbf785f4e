/* What `run` and `attach` share: where a recording goes, and what is said and shown when
 * it is on disk. */
#ifndef LW_CMD_AFTERWARDS_H
#define LW_CMD_AFTERWARDS_H

#include "recorder/recorder.h"
#include "writers/writer.h"

struct lw_afterwards {
    bool quiet;
    bool no_summary;
    const char *output; /* as given: a run or a file; NULL: neither */
    char *run_path;     /* where the run was asked to be; NULL: nowhere; owned */
    const struct lw_writer *writer; /* of `output`, if that is a file; else NULL */
};

/* -o says where the run goes (x and x.lap are x.lap), or which file to write of it; that
 * it can be written is known before anything is recorded. */
bool lw_afterwards_choose(struct lw_afterwards *after, struct lw_error *err)
    LW_MUST_CHECK;
void lw_afterwards_release(struct lw_afterwards *after); /* zeroed is fine */

/* One line on stderr, unless --quiet. */
void lw_afterwards_say(const struct lw_afterwards *after, const char *text);
void lw_afterwards_sayf(const struct lw_afterwards *after, const char *format, ...)
    LW_PRINTF(2, 3);

/* The run is on disk: write the file that was asked for, print the summary, say what is
 * missing and where the run is. SILENCE says why nobody was recorded, if nobody was. What
 * goes wrong is only said. */
void lw_afterwards_show(const struct lw_afterwards *after,
                        const struct lw_recorder *recorder, const char *silence);

#endif
