/* Keeps a run under its maximum size without stopping the recording.
 *
 * Only sealed segments are touched, and each is replaced by one rename, so a reader
 * sees the old or the new one, never half of one. In this order, until it fits:
 *
 *   1. the middle segments of every process, oldest first, are thinned: names and
 *      counters stay, call deltas are added up, samples are added up by (thread, stack,
 *      state), spans are dropped; a THINNED chunk says how many of each and when.
 *      "Middle" is neither the first nor the newest of its process.
 *   2. neighbours that are thinned are joined into one, oldest first.
 *   3. the first segments, and the last ones of processes that ended, are thinned too.
 *
 * Readers tell what was thinned as losses (struct lw_loss). It knows only the files, so
 * it may run in a thread of its own beside the writers. */
#ifndef LW_LAP_THIN_H
#define LW_LAP_THIN_H

#include <stdint.h>

#include "base/folder.h"

/* What the segments in FOLDER take; 0 also when it cannot be listed. */
uint64_t lw_lap_bytes(const struct lw_folder *folder);

/* If the segments in FOLDER take more than MAX_BYTES, bring them a sixteenth below that, so
 * that the next call finds nothing to do. Puts what they take then in *BYTES; it is more
 * than MAX_BYTES when nothing is left to thin. When they fit, all this costs is to list the
 * folder, so call it once a second. A failure leaves the run whole. */
bool lw_lap_thin(const struct lw_folder *folder, uint64_t max_bytes, uint64_t *bytes,
                 struct lw_error *err) LW_MUST_CHECK;

#endif
