/* Encodes all that was collected into one buffer, writes that at the end of the
 * segment, and only then forgets it: so a failure at any point loses nothing.
 *
 *     [META][STRINGS][FRAMES][STACKS][THREADS][CALLS][SAMPLES][SPANS]... -> file
 *
 * A new segment repeats META and THREADS, which are short, so that a series that lost
 * its first segment still says whose it was. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "lap/writer_state.h"

/* A full disk stays full for a while: no need to encode megabytes 20 times a second. */
#define RETRY_NS 250000000u

/* Segments */

static bool write_at(int fd, const void *bytes, size_t len, uint64_t at)
{
    const char *next = bytes;

    while (len) {
        ssize_t n = pwrite(fd, next, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            return false;
        }
        next += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

/* The segment stays open as long as descriptors are plentiful. */
static void close_if_scarce(struct lw_lap_writer *w)
{
    if (!lw_file_is_scarce(w->fd))
        return;
    close(w->fd);
    w->fd = -1;
}

static bool open_again(struct lw_lap_writer *w, struct lw_error *err)
{
    if (w->fd < 0)
        w->fd = open(w->path, O_RDWR | O_CLOEXEC);
    return w->fd >= 0 || lw_fail_errno(err, "cannot write %s", w->path);
}

bool lw_writer_start_segment(struct lw_lap_writer *w, uint32_t segment,
                             struct lw_error *err)
{
    struct lw_segment_head head = { .major = LW_LAP_MAJOR,
                                    .minor = LW_LAP_MINOR,
                                    .process = w->number,
                                    .segment = segment,
                                    .last = segment,
                                    .start_ns = lw_clock_ns() };
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];
    char name[LW_SEGMENT_NAME_BYTES];
    char *path;
    int fd;

    lw_segment_name(w->number, segment, name);
    path = lw_path_join(w->folder, name, err);
    if (!path)
        return false;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        lw_fail_errno(err, "cannot write %s", path);
        lw_free(path);
        return false;
    }
    lw_segment_head_put(&head, bytes);
    if (!write_at(fd, bytes, sizeof(bytes), 0)) {
        lw_fail_errno(err, "cannot write %s", path);
        close(fd);
        unlink(path);
        lw_free(path);
        return false;
    }

    if (w->fd >= 0)
        close(w->fd);
    lw_free(w->path);
    w->fd = fd;
    w->path = path;
    w->head = head;
    w->file_bytes = sizeof(bytes);
    for (size_t i = 0; i < w->meta_count; i++)
        w->metas[i].is_new = true;
    for (size_t i = 0; i < w->thread_count; i++)
        w->threads[i].is_new = true;
    close_if_scarce(w);
    return true;
}

struct lw_seal lw_writer_how_to_seal(const struct lw_lap_writer *w)
{
    return (struct lw_seal){ .end_ns = lw_clock_ns(),
                             .join_bytes = w->options.join_bytes,
                             .level = w->options.level };
}

/* That a segment cannot be sealed costs space, not content: nothing to tell. */
static void *seal(void *argument)
{
    struct lw_writer_sealing *sealing = argument;
    struct lw_error ignored;

    if (!lw_segment_seal(sealing->path, &sealing->how, &ignored))
        return NULL;
    return NULL;
}

void lw_writer_wait_for_sealing(struct lw_lap_writer *w)
{
    if (!w->sealing.path)
        return;
    pthread_join(w->sealing.thread, NULL);
    lw_free(w->sealing.path);
    w->sealing.path = NULL;
}

static void roll(struct lw_lap_writer *w)
{
    char *old = lw_copy_text(w->path, strlen(w->path), NULL);
    sigset_t all, before;
    int failed;

    if (!old || !lw_writer_start_segment(w, w->head.segment + 1, NULL)) {
        lw_free(old);
        return; /* the old one just grows; the next flush tries again */
    }
    lw_writer_wait_for_sealing(w);
    w->sealing.path = old;
    w->sealing.how = lw_writer_how_to_seal(w);
    sigfillset(&all); /* signals are for the recorder's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&w->sealing.thread, NULL, seal, &w->sealing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        seal(&w->sealing);
        lw_free(w->sealing.path);
        w->sealing.path = NULL;
    }
}

/* Flushing */

static void emit_metas(struct lw_lap_writer *w)
{
    struct lw_emit *emit = &w->emit;

    for (size_t i = 0; i < w->meta_count; i++)
        if (w->metas[i].is_new)
            lw_emit_pair(emit, w->metas[i].key, w->metas[i].value,
                         strlen(w->metas[i].value));
    lw_emit_pairs(emit);
}

static bool names_loss(const struct lw_lap_writer *w, lw_string_id id)
{
    for (size_t i = 0; i < w->loss_count; i++)
        if (w->losses[i].cause == id || w->losses[i].unit == id)
            return true;
    return false;
}

static void emit_strings(struct lw_lap_writer *w, size_t end)
{
    for (size_t i = w->strings_written; i < end; i++) {
        lw_string_id id = (lw_string_id)i;

        if (!w->only_losses || names_loss(w, id))
            lw_emit_string(&w->emit, id, lw_strings_text(w->strings, id),
                           lw_strings_len(w->strings, id));
    }
    lw_emit_strings(&w->emit);
}

static void emit_stacks(struct lw_lap_writer *w, size_t frames, size_t stacks)
{
    uint64_t first_frame = w->frames_written, first_stack = w->stacks_written;
    size_t unused;

    lw_emit_rows(&w->emit, LW_CHUNK_FRAMES, &first_frame,
                 lw_stacks_frames(w->stacks, &unused) + first_frame,
                 frames - w->frames_written);
    lw_emit_rows(&w->emit, LW_CHUNK_STACKS, &first_stack,
                 lw_stacks_list(w->stacks, &unused) + first_stack,
                 stacks - w->stacks_written);
}

static void emit_threads(struct lw_lap_writer *w)
{
    struct lw_thread_row rows[64];
    size_t n = 0;

    for (size_t i = 0; i < w->thread_count; i++) {
        if (w->threads[i].is_new)
            rows[n++] = w->threads[i].row;
        if (n == sizeof(rows) / sizeof(*rows) || i + 1 == w->thread_count) {
            lw_emit_rows(&w->emit, LW_CHUNK_THREADS, NULL, rows, n);
            n = 0;
        }
    }
}

/* What could not be taken, or was given up, by the reason the disk gave. */
static bool note_lost(struct lw_lap_writer *w, uint64_t *lost, const char *unit,
                      struct lw_error *err)
{
    char cause[160];
    int why = w->failure;

    if (!*lost)
        return true;
    if (why == ENOSPC || why == EDQUOT)
        snprintf(cause, sizeof(cause), "the disk was full");
    else
        snprintf(cause, sizeof(cause), "could not be written (%s)",
                 why ? strerrordesc_np(why) : "out of memory");
    if (!lw_lap_writer_loss(w, cause, unit, *lost, err))
        return false;
    *lost = 0;
    return true;
}

bool lw_writer_flush_now(struct lw_lap_writer *w, struct lw_error *err)
{
    struct lw_emit *emit = &w->emit;
    size_t strings, frames, stacks;

    if (!note_lost(w, &w->samples.lost, lw_rows_unit(LW_CHUNK_SAMPLES), err) ||
        !note_lost(w, &w->spans.lost, lw_rows_unit(LW_CHUNK_SPANS), err) ||
        !note_lost(w, &w->counters.lost, lw_rows_unit(LW_CHUNK_COUNTERS), err) ||
        !note_lost(w, &w->origins.lost, lw_rows_unit(LW_CHUNK_ORIGINS), err) ||
        !note_lost(w, &w->lost_calls, "calls", err))
        return false;

    strings = lw_strings_count(w->strings);
    lw_stacks_frames(w->stacks, &frames);
    lw_stacks_list(w->stacks, &stacks);
    lw_buf_reset(&emit->out);
    emit_metas(w);
    emit_strings(w, strings);
    if (!w->only_losses) {
        emit_stacks(w, frames, stacks);
        emit_threads(w);
    }
    lw_emit_calls(emit, &w->calls, w->calls_start_ns, w->calls_end_ns);
    lw_emit_rows(emit, LW_CHUNK_SAMPLES, NULL, w->samples.rows, w->samples.count);
    lw_emit_rows(emit, LW_CHUNK_SPANS, NULL, w->spans.rows, w->spans.count);
    lw_emit_rows(emit, LW_CHUNK_COUNTERS, NULL, w->counters.rows, w->counters.count);
    lw_emit_rows(emit, LW_CHUNK_ORIGINS, NULL, w->origins.rows, w->origins.count);
    lw_emit_rows(emit, LW_CHUNK_LOSSES, NULL, w->losses, w->loss_count);
    if (!lw_buf_check(&emit->out, err))
        return false;
    if (!emit->out.len)
        return true;

    if (!open_again(w, err))
        return false;
    if (!write_at(w->fd, emit->out.bytes, emit->out.len, w->file_bytes)) {
        w->failure = errno;
        w->failed_bytes = emit->out.len;
        w->retry_ns = lw_clock_ns() + RETRY_NS;
        lw_fail_errno(err, "cannot write %s", w->path);
        /* If even that fails, the next write goes over what is there. */
        while (ftruncate(w->fd, (off_t)w->file_bytes) < 0 && errno == EINTR)
            ;
        return false;
    }
    close_if_scarce(w);
    w->failure = 0;
    w->file_bytes += emit->out.len;
    w->strings_written = strings;
    w->frames_written = frames;
    w->stacks_written = stacks;
    for (size_t i = 0; i < w->meta_count; i++)
        w->metas[i].is_new = false;
    for (size_t i = 0; i < w->thread_count; i++)
        w->threads[i].is_new = false;
    lw_sums_reset(&w->calls);
    w->calls_start_ns = w->calls_end_ns = 0;
    w->samples.count = w->spans.count = w->counters.count = w->origins.count = 0;
    w->loss_count = 0;
    return true;
}

/* Would the disk take what it did not last time? Asked before encoding it all again,
 * which takes long enough for rings to run over. File systems that cannot tell: yes. */
static bool has_room(struct lw_lap_writer *w)
{
    return !open_again(w, NULL) ||
           fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)w->file_bytes,
                     (off_t)w->failed_bytes) == 0 ||
           (errno != ENOSPC && errno != EDQUOT);
}

bool lw_lap_writer_flush(struct lw_lap_writer *w, struct lw_error *err)
{
    uint64_t now = lw_clock_ns();

    if (w->failure && (now < w->retry_ns || !has_room(w))) {
        if (now >= w->retry_ns)
            w->retry_ns = now + RETRY_NS;
        errno = w->failure;
        return lw_fail_errno(err, "cannot write %s", w->path);
    }
    if (!lw_writer_flush_now(w, err))
        return false;
    if (w->file_bytes > LW_SEGMENT_HEAD_BYTES &&
        (w->file_bytes >= w->options.segment_bytes ||
         now - w->head.start_ns >= w->options.segment_ns))
        roll(w);
    return true;
}

void lw_writer_drop(struct lw_lap_writer *w, bool also_calls)
{
    w->samples.lost += w->samples.count;
    w->spans.lost += w->spans.count;
    w->counters.lost += w->counters.count;
    w->origins.lost += w->origins.count;
    w->samples.count = w->spans.count = w->counters.count = w->origins.count = 0;
    if (!also_calls)
        return;
    for (size_t i = 0; i < w->calls.count; i++)
        w->lost_calls += w->calls.rows[i].count;
    lw_sums_reset(&w->calls);
    w->only_losses = true;
}
