/* A whole segment file, rewritten: sealed, thinned, or joined with its neighbours.
 *
 * The names in a segment are numbers that mean the same through the whole series, so
 * rewriting never needs to know what they stand for. A segment with any damage is left
 * as it is: then a reader still sees, and tells, the damage. */
#ifndef LW_LAP_SEGMENT_H
#define LW_LAP_SEGMENT_H

#include "base/folder.h"
#include "lap/chunk.h"

struct lw_seal {
    uint64_t end_ns;     /* of the segment's time */
    uint64_t join_bytes; /* rewrite if small chunks take more than this */
    int level;           /* of zstd */
};

/* Nobody will write to NAME of FOLDER any more: join its small chunks and add up its calls where
 * that saves something, else only mark it sealed. */
bool lw_segment_seal(const struct lw_folder *folder, const char *name,
                     const struct lw_seal *how, struct lw_error *err) LW_MUST_CHECK;

/* Replace the first of COUNT segments, which follow each other in one series, by one
 * that stands for all of them, thinned (thin.h). The others are then to be ignored, and
 * the caller removes them when no reader can be in between any more. */
bool lw_segment_thin(const struct lw_folder *folder, const char *const *names,
                     size_t count, int level, struct lw_error *err) LW_MUST_CHECK;

#endif
