/* Writes the series of segments of one process (format.h) into a run folder.
 *
 * The writer interns strings, frames and stacks as a builder does; the ids it gives
 * are good for later calls on the same writer. Adding only collects in memory;
 * lw_lap_writer_flush() puts everything collected so far into the file with one write,
 * names before their use, so that whatever happens to this process afterwards, what
 * was flushed can be read. Flush every 50 ms or so.
 *
 * A segment that is full, or old, is sealed, and the next one begins: where small chunks
 * take much of it, it is rewritten (beside, then renamed) with these joined and its call
 * deltas added up, by a thread of the writer's own.
 *
 * When the disk says no, nothing written before is harmed: the half-written end is cut
 * off, what was collected stays collected, and later flushes try again (four times a
 * second at most; those in between fail at once with the same sentence). Meanwhile
 * memory is bounded: call rows add up by (thread, stack) and are never lost; samples,
 * spans and counters beyond `pending_bytes` are counted as lost, by cause. So a caller
 * may take a failed flush as a word to pass on and go on as before.
 *
 * Not thread-safe. */
#ifndef LW_LAP_WRITER_H
#define LW_LAP_WRITER_H

#include "base/folder.h"
#include "model/profile.h"

struct lw_lap_writer;

struct lw_lap_writer_options { /* 0: the default of each */
    uint64_t segment_bytes;    /* a segment this long is sealed; 8 MB */
    uint64_t segment_ns;       /* so is one this old; 2 minutes */
    uint64_t join_bytes;       /* sealing joins small chunks that take more; 64 KB */
    uint64_t pending_bytes;    /* rows held while the disk says no; 16 MB */
    int level;                 /* of zstd; 1 */
};

/* Begin the series of process NUMBER (from 1, unused in this run) in FOLDER, which is
 * borrowed until the writer is closed. OPTIONS may be NULL. The first segment is made at once, with mode 0600. */
struct lw_lap_writer *lw_lap_writer_open(const struct lw_folder *folder,
                                         uint32_t number,
                                         const struct lw_lap_writer_options *options,
                                         struct lw_error *err);

/* Flush, seal the last segment and free the writer, in every case. Where the disk has
 * no room for all that is pending, gives up first samples, spans and counters and then
 * calls, so that at least the losses get written. False: some of it is not on disk.
 * NULL is fine. */
bool lw_lap_writer_close(struct lw_lap_writer *writer, struct lw_error *err)
    LW_MUST_CHECK;

/* Say something of the process, as text; a key said again replaces what it said. Keys
 * that readers know (all numbers decimal): pid, ppid, rank, command, python, start_ns,
 * end_ns, exit_code (as a shell gives it), c_calls (1: builtins were recorded), clock. */
bool lw_lap_writer_meta(struct lw_lap_writer *writer, const char *key,
                        const char *value, struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_meta_u64(struct lw_lap_writer *writer, const char *key,
                            uint64_t value, struct lw_error *err) LW_MUST_CHECK;

/* Text longer than LW_LAP_TEXT_MAX is cut there. */
bool lw_lap_writer_string(struct lw_lap_writer *writer, const char *text, size_t len,
                          lw_string_id *id, struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_frame(struct lw_lap_writer *writer, const struct lw_frame *frame,
                         lw_frame_id *id, struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_push(struct lw_lap_writer *writer, lw_stack_id parent,
                        lw_frame_id frame, lw_stack_id *id, struct lw_error *err)
    LW_MUST_CHECK;

/* Threads are numbered from 0 in order of adding; `process` of the row is ignored. */
bool lw_lap_writer_thread(struct lw_lap_writer *writer, const struct lw_thread *thread,
                          uint32_t *number, struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_update_thread(struct lw_lap_writer *writer, uint32_t number,
                                 const struct lw_thread *thread, struct lw_error *err)
    LW_MUST_CHECK;

/* Rows are copied. An id or thread number that this writer did not give out is
 * LW_ERR_FORMAT, and then none of the rows were taken. */

/* What was added to the rows' calls and self times between START_NS and END_NS. */
bool lw_lap_writer_calls(struct lw_lap_writer *writer, const struct lw_call_row *rows,
                         size_t count, uint64_t start_ns, uint64_t end_ns,
                         struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_samples(struct lw_lap_writer *writer,
                           const struct lw_sample *samples, size_t count,
                           struct lw_error *err) LW_MUST_CHECK;
bool lw_lap_writer_spans(struct lw_lap_writer *writer, const struct lw_span *spans,
                         size_t count, struct lw_error *err) LW_MUST_CHECK;
/* Of spans that are ops, given before or after this. */
bool lw_lap_writer_origins(struct lw_lap_writer *writer,
                           const struct lw_origin *origins, size_t count,
                           struct lw_error *err) LW_MUST_CHECK;
/* `process` of the point is ignored. */
bool lw_lap_writer_counter(struct lw_lap_writer *writer,
                           const struct lw_counter_point *point, struct lw_error *err)
    LW_MUST_CHECK;
/* COUNT more UNITs ("spans") are missing because of CAUSE ("ring full"). */
bool lw_lap_writer_loss(struct lw_lap_writer *writer, const char *cause,
                        const char *unit, uint64_t count, struct lw_error *err)
    LW_MUST_CHECK;

/* Nothing pending: does nothing. Seals a full segment too; that it could not is not a
 * failure (the segment stays as it is, only larger). */
bool lw_lap_writer_flush(struct lw_lap_writer *writer, struct lw_error *err)
    LW_MUST_CHECK;

#endif
