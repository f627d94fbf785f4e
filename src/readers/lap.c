/* Lapwing's own recordings: a run's folder, a packed run, or a segment by itself. How
 * they are read is the business of src/lap; this is the row that makes them one format
 * among the others. */

#include <string.h>

#include "lap/format.h"
#include "lap/pack.h"
#include "readers/reader.h"

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
    done = done && lw_lap_read(&run, want, out, err);
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
