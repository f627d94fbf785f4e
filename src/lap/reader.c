/* A run into a builder: its processes one after the other, each a series of segments. */

#include "lap/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lap/reader_series.h"

struct segment {
    uint32_t process;
    uint32_t number;
    const struct lw_run_file *file; /* borrowed from the run */
};

struct reading {
    const struct lw_run *run;
    unsigned want;
    struct lw_builder *out;
    struct segment *segments; /* owned; by process, then number */
    size_t segment_count;
    size_t read_count;       /* segments that could be read */
    struct lw_error problem; /* of the first that could not */
    uint64_t first_ns, last_ns;
};

static int compare(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool list_segments(struct reading *r, struct lw_error *err)
{
    const struct lw_run *run = r->run;

    r->segments = lw_zalloc(run->file_count, sizeof(*r->segments), err);
    if (!r->segments)
        return false;
    for (size_t i = 0; i < run->file_count; i++) {
        struct segment segment = { .file = &run->files[i] };

        if (lw_segment_parse_name(segment.file->name, &segment.process,
                                  &segment.number))
            r->segments[r->segment_count++] = segment;
    }
    if (r->segment_count)
        qsort(r->segments, r->segment_count, sizeof(*r->segments), compare);
    return true;
}

static void note_times(struct reading *r, uint64_t start_ns, uint64_t end_ns)
{
    if (start_ns && (!r->first_ns || start_ns < r->first_ns))
        r->first_ns = start_ns;
    if (end_ns > r->last_ns)
        r->last_ns = end_ns;
}

/* A segment that is not one, or cannot be opened, is a loss; a newer version or no
 * memory is a failure. REASON names the file. */
static bool miss_segment(struct reading *r, struct lw_series *series,
                         const struct lw_error *reason, struct lw_error *err)
{
    if (reason->code == LW_ERR_NOMEM || reason->code == LW_ERR_UNSUPPORTED) {
        if (err)
            *err = *reason;
        return false;
    }
    if (r->problem.code == LW_OK)
        r->problem = *reason;
    return lw_builder_loss(r->out, "could not be read", "segments", series->process, 1,
                           err);
}

/* Read one segment; *NEXT is the number that follows what it stands for. */
static bool read_segment(struct reading *r, struct lw_series *series,
                         const struct segment *segment, bool is_newest, uint32_t *next,
                         struct lw_error *err)
{
    bool is_growing = is_newest && r->run->info.state == LW_RUN_RUNNING;
    struct lw_segment_head head;
    struct lw_file_view view;
    struct lw_error reason;
    bool done;

    *next = segment->number + 1;
    if (!lw_run_view(r->run, segment->file, &view, &reason))
        return miss_segment(r, series, &reason, err);
    if (!lw_segment_head_get(&head, view.bytes, view.len, &reason)) {
        bool is_fresh = is_growing && view.len == 0; /* its head is about to come */

        lw_file_close(&view);
        lw_error_prefix(&reason, "%s/%s", r->run->path, segment->file->name);
        return is_fresh || miss_segment(r, series, &reason, err);
    }
    series->has_sums = head.flags & LW_SEGMENT_THINNED;
    done = lw_series_read(series, view.bytes + LW_SEGMENT_HEAD_BYTES,
                          view.len - LW_SEGMENT_HEAD_BYTES, is_growing, err);
    if (!done)
        lw_error_prefix(err, "%s/%s", r->run->path, segment->file->name);
    lw_file_close(&view);
    note_times(r, head.start_ns, head.end_ns);
    r->read_count++;
    if (head.segment == segment->number && head.last >= *next && head.last < UINT32_MAX)
        *next = head.last + 1;
    return done;
}

/* The segments from FIRST up to END are those of one process. */
static bool read_process(struct reading *r, size_t first, size_t end,
                         struct lw_error *err)
{
    struct lw_series series;
    uint32_t next = 1;
    bool done = lw_series_start(&series, r->out, r->want, err);

    for (size_t i = first; done && i < end; i++) {
        uint32_t number = r->segments[i].number;

        if (number < next)
            continue; /* an earlier one stands for it */
        if (number > next)
            done = lw_builder_loss(r->out, "missing", "segments", series.process,
                                   number - next, err);
        done =
            done && read_segment(r, &series, &r->segments[i], i + 1 == end, &next, err);
    }
    done = done && lw_series_finish(&series, r->run->info.start_ns, err);
    note_times(r, series.about.start_ns, series.last_ns);
    lw_series_release(&series);
    return done;
}

static bool add_fact(struct lw_builder *out, const char *key, const char *value,
                     struct lw_error *err)
{
    return lw_builder_fact(out, key, value, strlen(value), err);
}

/* Parameters become one fact, "epochs=3 lr=0.1": they are read together. */
static bool add_parameters(struct lw_builder *out, const struct lw_run_info *info,
                           struct lw_error *err)
{
    struct lw_buf text = { 0 };
    bool done;

    if (!info->parameter_count)
        return true;
    for (size_t i = 0; i < info->parameter_count; i++)
        lw_buf_addf(&text, "%s%s=%s", i ? " " : "", info->parameters[i].key,
                    info->parameters[i].value);
    done = lw_buf_check(&text, err) && add_fact(out, "parameters", text.bytes, err);
    lw_buf_release(&text);
    return done;
}

static bool add_info(struct reading *r, struct lw_error *err)
{
    static const char *const states[] = { [LW_RUN_RUNNING] = "running",
                                          [LW_RUN_FINISHED] = "finished",
                                          [LW_RUN_BROKEN] = "broken off" };
    const struct lw_run_info *info = &r->run->info;

    if (!add_fact(r->out, "run", r->run->name, err) ||
        !add_fact(r->out, "state", states[info->state], err) ||
        (info->command && !add_fact(r->out, "command", info->command, err)) ||
        !add_parameters(r->out, info, err))
        return false;
    for (size_t i = 0; i < info->fact_count; i++)
        if (!add_fact(r->out, info->facts[i].key, info->facts[i].value, err))
            return false;
    for (size_t i = 0; i < info->loss_count; i++)
        if (!lw_builder_loss(r->out, info->losses[i].cause, info->losses[i].unit,
                             LW_NONE, info->losses[i].count, err))
            return false;
    return true;
}

static unsigned want_of_run(const struct lw_run *run, unsigned want)
{
    return want & LW_WANT_MORE_IF_SMALL && run->bytes <= LW_SMALL_RUN_BYTES
               ? want | LW_WANT_SAMPLES | LW_WANT_COUNTERS
               : want;
}

bool lw_lap_read(const struct lw_run *run, unsigned want, struct lw_builder *out,
                 struct lw_error *err)
{
    struct reading r = { .run = run, .want = want_of_run(run, want), .out = out };
    bool done = list_segments(&r, err) && add_info(&r, err);

    for (size_t first = 0, end; done && first < r.segment_count; first = end) {
        for (end = first + 1; end < r.segment_count &&
                              r.segments[end].process == r.segments[first].process;)
            end++;
        done = read_process(&r, first, end, err);
    }
    if (done && r.problem.code && !r.read_count) {
        if (err)
            *err = r.problem;
        done = false;
    }
    lw_builder_set_times(out, run->info.start_ns ? run->info.start_ns : r.first_ns,
                         run->info.end_ns ? run->info.end_ns : r.last_ns,
                         run->info.wall_start_ns);
    lw_free(r.segments);
    return done;
}

struct lw_profile *lw_lap_load(const char *name, unsigned want, struct lw_error *err)
{
    struct lw_builder *builder = NULL;
    struct lw_profile *profile = NULL;
    struct lw_run run;

    if (lw_run_open(&run, name, NULL, err) && (builder = lw_builder_new(err)) &&
        lw_lap_read(&run, want, builder, err)) {
        profile = lw_builder_finish(builder, err);
        builder = NULL;
    }
    lw_builder_free(builder);
    lw_run_close(&run);
    return profile;
}

bool lw_lap_read_segment(const void *bytes, size_t len, const char *name, unsigned want,
                         struct lw_builder *out, struct lw_error *err)
{
    struct lw_segment_head head;
    struct lw_series series;
    bool done;

    if (!lw_segment_head_get(&head, bytes, len, err)) {
        lw_error_prefix(err, "%s", name);
        return false;
    }
    done = lw_series_start(&series, out, want, err);
    series.has_sums = head.flags & LW_SEGMENT_THINNED;
    done = done &&
           lw_series_read(&series, (const unsigned char *)bytes + LW_SEGMENT_HEAD_BYTES,
                          len - LW_SEGMENT_HEAD_BYTES, false, err) &&
           lw_series_finish(&series, head.start_ns, err);
    if (!done)
        lw_error_prefix(err, "%s", name);
    lw_builder_set_times(out, head.start_ns, series.last_ns, 0);
    lw_series_release(&series);
    return done;
}
