/* What a writer holds between flushes; writer.c collects, writer_flush.c writes. */
#ifndef LW_LAP_WRITER_STATE_H
#define LW_LAP_WRITER_STATE_H

#include <pthread.h>

#include "lap/emit.h"
#include "lap/segment.h"
#include "lap/writer.h"

struct lw_writer_meta {
    char *key; /* owned */
    char *value;
    bool is_new; /* not in this segment yet */
};

struct lw_writer_thread {
    struct lw_thread_row row;
    bool is_new;
};

/* Rows with a time: they only pile up while the disk says no. */
struct lw_writer_pending {
    void *rows; /* owned; of the kind's row type */
    size_t count, capacity;
    uint64_t lost; /* not taken for want of room; becomes a loss with the next flush */
};

/* A segment being sealed beside, since that reads, packs and syncs megabytes. */
struct lw_writer_sealing {
    pthread_t thread;
    char *path; /* owned; NULL: nothing is being sealed */
    struct lw_seal how;
};

struct lw_lap_writer {
    struct lw_lap_writer_options options;
    char *folder; /* owned */
    uint32_t number;

    int fd;     /* of the segment; -1: opened again for the next flush */
    char *path; /* of the segment being written; owned */
    struct lw_segment_head head;
    uint64_t file_bytes; /* whole chunks up to here; what is behind is garbage */
    struct lw_writer_sealing sealing;

    struct lw_strings *strings;
    struct lw_stacks *stacks;
    size_t strings_written, frames_written, stacks_written; /* ids below are on disk */

    struct lw_writer_meta *metas;
    size_t meta_count, meta_capacity;
    struct lw_writer_thread *threads;
    size_t thread_count, thread_capacity;
    struct lw_sums calls;
    uint64_t calls_start_ns, calls_end_ns;
    struct lw_writer_pending samples, spans, counters, origins;
    bool only_losses;           /* all else was given up, and with it what has names */
    uint64_t lost_calls;        /* given up; becomes a loss with the next flush */
    struct lw_loss_row *losses; /* counts not written yet */
    size_t loss_count, loss_capacity;

    struct lw_emit emit;
    int failure;         /* errno of the last write; 0: it went well */
    size_t failed_bytes; /* that it would not take */
    uint64_t retry_ns;   /* after a failure: not before this time */
};

/* Begin segment SEGMENT and go on there; on failure go on where we are. */
bool lw_writer_start_segment(struct lw_lap_writer *writer, uint32_t segment,
                             struct lw_error *err) LW_MUST_CHECK;
/* As lw_lap_writer_flush, but at once also after a failure, and never begins a new
 * segment. */
bool lw_writer_flush_now(struct lw_lap_writer *writer, struct lw_error *err)
    LW_MUST_CHECK;
struct lw_seal lw_writer_how_to_seal(const struct lw_lap_writer *writer);
void lw_writer_wait_for_sealing(struct lw_lap_writer *writer);
/* Give up the rows with a time, or the calls too: they become losses. */
void lw_writer_drop(struct lw_lap_writer *writer, bool also_calls);

#endif
