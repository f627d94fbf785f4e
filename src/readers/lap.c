/* Lapwing's own recordings: a run's folder, a packed run, or a segment by itself. How
 * they are read is the business of src/lap; this is the row that makes them one format
 * among the others.
 *
 * A run may hold windows of torch's profiler (lap/traces.h). Who asks for a trace gets
 * the last of each process, the others being told as left out; who writes a trace's
 * timeline (LW_WANT_TRACE_ALONE) gets the run's own instead. */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "lap/format.h"
#include "lap/pack.h"
#include "lap/traces.h"
#include "model/trace_ranks.h"
#include "readers/reader.h"
#include "readers/trace_read.h"

static bool is_segment(const struct lw_source *source)
{
    return source->head_len >= LW_SEGMENT_MAGIC_BYTES &&
           memcmp(source->head, LW_SEGMENT_MAGIC, LW_SEGMENT_MAGIC_BYTES) == 0;
}

static bool sniff_lap(const struct lw_source *source)
{
    if (source->is_folder)
        return true; /* no other format is one; what it lacks, reading it says */
    return is_segment(source) || lw_pack_is_pack(source->head, source->head_len);
}

static bool read_segment(const struct lw_source *source, unsigned want,
                         struct lw_builder *out, struct lw_error *err)
{
    struct lw_file_view view; /* read, not mapped: somebody may still be writing it */
    bool done;

    if (source->view.bytes)
        return lw_lap_read_segment(source->view.bytes, source->view.len, source->name,
                                   want, out, err);
    if (!lw_file_read(&view, source->path, 0, err))
        return false;
    done = lw_lap_read_segment(view.bytes, view.len, source->name, want, out, err);
    lw_file_close(&view);
    return done;
}

static bool read_window(const struct lw_run *run, const struct lw_run_file *file,
                        unsigned want, struct lw_builder *out, uint64_t *read,
                        struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_stream stream = { .has_fd = false };
    struct lw_file_view view = { 0 };
    char *name = lw_path_join(run->path, file->name, err);
    bool done = name && lw_run_view(run, file, &view, err) &&
                lw_stream_open_bytes(&stream, view.bytes, view.len, 0, err) &&
                lw_trace_read_one(&stream, name, want, out, read, &why, err);

    lw_stream_close(&stream);
    lw_file_close(&view);
    lw_free(name);
    return done;
}

/* The last window of each process. The run's files are sorted by name. */
static bool read_windows(const struct lw_run *run, unsigned want,
                         struct lw_builder *out, struct lw_error *err)
{
    uint64_t read = 0, left = 0;

    want &= LW_WANT_TRACE | LW_WANT_ARGS;
    for (size_t i = 0; i < run->file_count; i++) {
        const struct lw_run_file *file = &run->files[i];

        if (!lw_trace_is_name(file->name))
            continue;
        if (i + 1 < run->file_count && lw_trace_is_name(file[1].name) &&
            lw_trace_is_same_owner(file->name, file[1].name))
            left++;
        else if (!read_window(run, file, want, out, &read, err))
            return false;
    }
    return (!left || lw_builder_loss(out,
                                     "earlier than the last of their process; "
                                     "name a file in the run's folder traces to see it",
                                     "windows", LW_NONE, left, err)) &&
           (!read || lw_trace_ranks_align(out, err));
}

/* That there are some, for who did not ask for them. */
static bool note_windows(const struct lw_run *run, struct lw_builder *out,
                         struct lw_error *err)
{
    size_t count = 0;
    char text[32];

    for (size_t i = 0; i < run->file_count; i++)
        count += lw_trace_is_name(run->files[i].name);
    snprintf(text, sizeof(text), "%zu", count);
    return count == 0 || lw_builder_fact(out, "windows", text, strlen(text), err);
}

bool lw_lap_read_all(const struct lw_run *run, unsigned want, struct lw_builder *out,
                     struct lw_error *err)
{
    bool wants_windows = want & LW_WANT_TRACE && !(want & LW_WANT_TRACE_ALONE);

    return lw_lap_read(run, want, out, err) && note_windows(run, out, err) &&
           (!wants_windows || read_windows(run, want, out, err));
}

static bool read_lap(const struct lw_source *source, unsigned want,
                     struct lw_builder *out, struct lw_error *err)
{
    struct lw_run run;
    bool done;

    if (is_segment(source))
        return read_segment(source, want, out, err);
    if (source->view.bytes)
        done = lw_run_open_bytes(&run, source->view.bytes, source->view.len,
                                 source->name, err);
    else
        done = lw_run_open(&run, source->path, NULL, err);
    done = done && lw_lap_read_all(&run, want, out, err);
    lw_run_close(&run);
    return done;
}

const struct lw_reader lw_reader_lap = {
    .name = "lap",
    .summary = "Lapwing's own runs: folders, packed files, single segments",
    .suffixes = ".lap .lapz .seg",
    .opens_path = true,
    .sniff = sniff_lap,
    .read = read_lap,
};
