/* The traces of torch's profiler that a run holds: one file for each window.
 *
 *     NAME.lap/traces/
 *         rank0-000001.pt.trace.json       as torch wrote it, while the run goes on
 *         rank0-000001.pt.trace.json.gz    packed by the recorder when the run ends
 *         .lapwing-4711.json               being written
 *
 * Before the last '-' stands whose windows they are (a rank of a job, or "pid4711" of a
 * process that has none), behind it which of them. The watched process has torch write
 * them under a hidden name and then renames them, so one that is there is whole; if it
 * is killed meanwhile, the hidden file stays, and the recorder removes it. */
#ifndef LW_LAP_TRACES_H
#define LW_LAP_TRACES_H

#include <stddef.h>
#include <stdint.h>

#include "base/folder.h"

#define LW_TRACES_FOLDER "traces"

/* Is NAME, as seen from the run's folder, a trace: "traces/rank0-000001.pt.trace.json"? */
bool lw_trace_is_name(const char *name);
/* Are A and B, both traces, windows of one process? */
bool lw_trace_is_same_owner(const char *a, const char *b);

/* The bytes of all traces of the run in the folder RUN. */
uint64_t lw_traces_bytes(const struct lw_folder *run);

/* Remove the oldest traces that are not the newest of their process until at least
 * BYTES are free, or none is left to remove; returns how many were removed. */
uint64_t lw_traces_drop(const struct lw_folder *run, uint64_t bytes);

/* Nobody writes traces any more: pack those that are not, and remove what was being
 * written by a process that was killed; *CUT: how many of those. */
bool lw_traces_finish(const struct lw_folder *run, uint64_t *cut, struct lw_error *err)
    LW_MUST_CHECK;

#endif
