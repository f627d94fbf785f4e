/* Which lines took the time, with their text where the file is as it was.
 *
 * A line of a function is counted as a function is: on top of the stack it is self, and
 * anywhere in it total. What a line calls that has no lines of its own (a builtin) has a
 * row of its own. */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "base/trust.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "self_samples", "samples", LW_UNIT_COUNT, false }, /* only where they were counted */
    { "self_ns", "self", LW_UNIT_NS, false },
    { "self_share", "share", LW_UNIT_SHARE, false },
    { "total_ns", "total", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "place", "line", LW_UNIT_TEXT, true },
    { "function", "function", LW_UNIT_TEXT, true },
    { "source", "source", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define SAMPLES_COLUMNS 1

#define SOURCE_MOST (16u << 20) /* a file of source is smaller */

/* A file of source, read once. */
struct source {
    lw_string_id file;
    struct lw_file_view view; /* empty: there is no text to show */
    bool has_changed;         /* it was written after the run began */
};

struct listing {
    const struct lw_callgraph *graph;
    struct lw_table *table;
    struct source *sources; /* owned */
    size_t source_count, source_capacity;
};

/* ---- source ------------------------------------------------------------------------- */

/* Is the file that was looked at older than the run? A later one may not say what ran. */
static bool is_as_it_was(const struct lw_profile *profile, const struct stat *about)
{
    uint64_t changed_ns = (uint64_t)about->st_mtim.tv_sec * 1000000000u +
                          (uint64_t)about->st_mtim.tv_nsec;

    return profile->wall_start_ns && changed_ns < profile->wall_start_ns;
}

static void read_source(const struct lw_profile *profile, struct source *source,
                        struct lw_error *err)
{
    const char *file = lw_profile_text(profile, source->file);
    const char *folder = lw_profile_fact(profile, "cwd");
    char *path = NULL;
    struct stat about;
    int fd;

    if (file[0] == '/')
        path = lw_copy_text(file, strlen(file), err);
    else if (file[0] && folder)
        path = lw_path_join(folder, file, err);
    fd = path ? lw_trust_open_source(path, &about) : -1;
    source->has_changed = fd >= 0 && !is_as_it_was(profile, &about);
    if (fd >= 0 && !source->has_changed &&
        !lw_file_read_fd(&source->view, fd, &about, path, SOURCE_MOST, err)) {
        /* Then without its text, unless memory is short: the caller looks. */
    }
    if (fd >= 0)
        close(fd);
    lw_free(path);
}

static const struct source *find_source(struct listing *listing, lw_string_id file)
{
    struct lw_error err = { LW_OK, "" };
    struct source *source;

    for (size_t i = 0; i < listing->source_count; i++)
        if (listing->sources[i].file == file)
            return &listing->sources[i];
    if (!lw_grow(&listing->sources, &listing->source_capacity,
                 listing->source_count + 1, sizeof(*source), NULL)) {
        listing->table->failure = LW_ERR_NOMEM;
        return NULL;
    }
    source = &listing->sources[listing->source_count++];
    *source = (struct source){ .file = file };
    read_source(listing->graph->profile, source, &err);
    if (err.code == LW_ERR_NOMEM)
        listing->table->failure = LW_ERR_NOMEM;
    return source;
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

/* A cell with line NUMBER of the source, without the space around it. */
static void add_source(struct lw_table *table, const struct source *source,
                       uint32_t number)
{
    const unsigned char *at = source->view.bytes, *end, *line_end;

    if (!at || number == 0) {
        lw_table_add_none(table);
        return;
    }
    end = at + source->view.len;
    for (uint32_t n = 1; n < number && at < end; n++) {
        const unsigned char *newline = memchr(at, '\n', (size_t)(end - at));

        at = newline ? newline + 1 : end;
    }
    line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end)
        end = line_end;
    while (at < end && is_blank(*at))
        at++;
    while (end > at && is_blank(end[-1]))
        end--;
    if (at < end)
        lw_table_add_text(table, (const char *)at, (size_t)(end - at));
    else
        lw_table_add_none(table);
}

/* ---- the list ----------------------------------------------------------------------- */

static void add_line(struct listing *listing, const struct lw_function *line)
{
    const struct lw_callgraph *graph = listing->graph;
    const struct lw_frame *frame = lw_profile_frame(graph->profile, line->frame);
    struct lw_table *table = listing->table;
    const struct source *source = find_source(listing, frame->file);

    if (!source)
        return;
    lw_table_row(table, 0);
    if (graph->samples > 0)
        lw_table_add_integer(table, line->cost.self_samples);
    lw_analysis_add_seconds(table, line->cost.self_s);
    lw_analysis_add_share(table, line->cost.self_s, graph->total_s);
    lw_analysis_add_seconds(table, line->cost.total_s);
    lw_analysis_add_share(table, line->cost.total_s, graph->total_s);
    lw_analysis_add_place(table, line);
    lw_table_add_text(table, line->name, line->name_len);
    add_source(table, source, frame->line);
}

/* Which files are not shown because they are not what ran. */
static void note_changed(const struct listing *listing)
{
    const char *name = NULL;
    size_t count = 0;

    for (size_t i = 0; i < listing->source_count; i++)
        if (listing->sources[i].has_changed && count++ == 0)
            name = lw_profile_text(listing->graph->profile, listing->sources[i].file);
    if (count == 1)
        lw_table_note(listing->table,
                      "no source text of %s: it was changed after the run began",
                      lw_text_basename(name));
    else if (count > 1)
        lw_table_note(
            listing->table,
            "no source text of %s and %zu more: they were changed after the run "
            "began",
            lw_text_basename(name), count - 1);
}

static bool has_lines(const struct lw_profile *profile)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &count);

    for (size_t i = 0; i < count; i++)
        if (frames[i].line > 0)
            return true;
    return false;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct lw_callgraph graph = { 0 };
    struct listing listing = { .graph = &graph, .table = table };
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    if (query->source == LW_GRAPH_CALLS || !has_lines(profile))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no lines: calls are of functions, and only samples "
                       "know the line; 'lapwing run train.py' takes samples, and with "
                       "--calls it does if --rate is given too");
    done = lw_query_lines(query, profile, &graph, err) &&
           lw_query_select(query, &graph, &selection, err);
    if (done) {
        if (graph.samples == 0)
            lw_table_init(table, columns + SAMPLES_COLUMNS,
                          COLUMN_COUNT - SAMPLES_COLUMNS);
        for (size_t i = 0; i < selection.count; i++)
            add_line(&listing, &graph.functions[selection.functions[i]]);
        lw_analysis_end_list(query, &graph, &selection, table);
        note_changed(&listing);
    }
    for (size_t i = 0; i < listing.source_count; i++)
        lw_file_close(&listing.sources[i].view);
    lw_free(listing.sources);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    return done;
}

const struct lw_analysis lw_analysis_lines = {
    .name = "lines",
    .summary = "which lines took the time, with their text",
    .want = LW_WANT_SAMPLE_SUMS,
    .sort = "time",
    .takes_restrictions = true,
    .usual_rows = 30,
    .run = run,
};
