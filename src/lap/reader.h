/* Reads runs into a profile.
 *
 * A recording may be damaged, cut short, hostile, or still growing. What can be read is
 * read; what cannot is passed over and told as a loss ("damaged in the file: 120
 * spans"). It fails only when nothing can be had: not a recording, one from a newer
 * major version, no memory, no permission; one sentence each.
 *
 * Memory is bounded by what is really there: a chunk decodes to at most
 * LW_CHUNK_BYTES_MAX, a count is checked against the bytes that must hold it, and at
 * most LW_LAP_ROWS_MAX rows of a kind are taken. */
#ifndef LW_LAP_READER_H
#define LW_LAP_READER_H

#include "lap/run.h"
#include "model/builder.h"

/* What the caller will look at. Chunks of other kinds are passed over without being
 * decoded, which is what makes a report of functions quick on a long timeline.
 * Processes, threads, losses and facts are always read; strings, frames and stacks
 * whenever anything but those is wanted. */
enum lw_want {
    LW_WANT_CALLS = 1,
    LW_WANT_SAMPLES = 2,
    LW_WANT_SAMPLE_SUMS = 4, /* instead of each sample one for each (thread, stack,
                                state), with their weights added up and the time of the
                                first: all that functions and trees need */
    LW_WANT_SPANS = 8,
    LW_WANT_COUNTERS = 16,
    LW_WANT_TRACE = 32,        /* of a torch profiler: the events and what joins them */
    LW_WANT_ARGS = 64,         /* and each event's arguments, as they lie in the file */
    LW_WANT_TRACE_ALONE = 128, /* of a file that has a trace, nothing else */
    LW_WANT_ORIGINS = 2048,    /* what joins backward ops to forward ops and lines */
    LW_WANT_PHASES = 256,      /* of the spans, those of phases: a run with millions of
                                  ops has thousands */
    LW_WANT_OPS = 512,         /* of the spans, those of ops and ranges */
    LW_WANT_MORE_IF_SMALL = 1024, /* of a run of at most LW_SMALL_RUN_BYTES, all samples
                                     instead of sums, and counters: it costs nothing */
    LW_WANT_ALL = LW_WANT_CALLS | LW_WANT_SAMPLES | LW_WANT_SPANS | LW_WANT_COUNTERS,
};

#define LW_SMALL_RUN_BYTES (2u << 20) /* an hour of a thread, at the usual rate */
#define LW_LAP_ROWS_MAX (1u << 29)    /* of a kind; more is LW_ERR_LIMIT */

/* Add all processes of an opened RUN to OUT, with run.json's facts, times and losses. */
bool lw_lap_read(const struct lw_run *run, unsigned want, struct lw_builder *out,
                 struct lw_error *err) LW_MUST_CHECK;

/* The run at NAME (see lw_run_open; NULL: the latest) as a profile; caller frees. */
struct lw_profile *lw_lap_load(const char *name, unsigned want, struct lw_error *err);

/* Add one segment by itself, as if its process had no other; NAME is for errors. */
bool lw_lap_read_segment(const void *bytes, size_t len, const char *name, unsigned want,
                         struct lw_builder *out, struct lw_error *err) LW_MUST_CHECK;

#endif
