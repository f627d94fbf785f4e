/* Sums into a table, and the table onto a screen:
 *
 *     lapwing top: 0:01:23, pid 4242, python train.py        1. what is watched
 *     Python 3.11.7, 4 processes, 17 threads, CPU 187 % ...  2. what it takes
 *     200 Hz asked, 199.8 Hz real, 0.1 % late ...            3. how good the samples are
 *     running time, functions by self, all threads ...       4. what is shown
 *                                                            5.
 *      self   total  self time  total time  function  file   titles
 *     ...
 *     q quit  s self  t total ...                            keys
 *
 * On a low screen the first lines go, from the fifth to the first. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"
#include "tui/top.h"
#include "writers/render.h"

#define WIDTH_FOR_TIMES 60 /* so that names still have some room */
#define WIDTH_FOR_TOTAL 40
#define LINES_ABOVE 5 /* the titles */
#define ROWS_WANTED 5 /* before there are any lines above */

/* clang-format off */
/* From the left to the right more is worth keeping: a narrow screen has only the last. */
const struct lw_column lw_top_columns[] = {
    { "total_ns", "total time", LW_UNIT_NS, false },
    { "self_ns", "self time", LW_UNIT_NS, false },
    { "recent_total_share", "total", LW_UNIT_SHARE, false },
    { "recent_self_share", "self", LW_UNIT_SHARE, false },
    { "function", "function", LW_UNIT_TEXT, true },
    { "place", "file", LW_UNIT_TEXT, true },
};
/* clang-format on */
const size_t lw_top_column_count = sizeof(lw_top_columns) / sizeof(lw_top_columns[0]);

/* The rows */

struct row {
    lw_frame_id frame;
    struct lw_top_sums all, recent;
    double order[2]; /* largest first */
};

/* Frames are few and numbered from 0, so the sums over threads are an array of them. */
static struct row *add_up(const struct lw_top *top, size_t *count)
{
    const struct lw_frame *frames = lw_stacks_frames(top->stacks, count);
    struct row *rows = lw_zalloc(*count, sizeof(*rows), NULL);

    for (size_t i = 0; rows && i < top->entry_count; i++) {
        const struct lw_top_entry *entry = &top->entries[i];
        struct row *row = &rows[entry->frame];

        if (frames[entry->frame].variant !=
                (top->by_line ? LW_TOP_LINE : LW_TOP_FUNCTION) ||
            (top->pid && top->threads[entry->thread].pid != top->pid) ||
            (top->thread && entry->thread != top->thread - 1))
            continue;
        row->frame = entry->frame;
        row->all.self_ns += entry->all[top->time].self_ns;
        row->all.total_ns += entry->all[top->time].total_ns;
        row->recent.self_ns += entry->recent[top->time].self_ns;
        row->recent.total_ns += entry->recent[top->time].total_ns;
    }
    return rows;
}

static void add_place(const struct lw_top *top, const struct lw_frame *frame,
                      struct lw_buf *out)
{
    uint32_t line = top->by_line && frame->line ? frame->line : frame->first_line;

    lw_buf_add(out, lw_strings_text(top->strings, frame->file),
               lw_strings_len(top->strings, frame->file));
    if (line)
        lw_buf_addf(out, ":%u", line);
}

static bool is_wanted(const struct lw_top *top, const struct row *row,
                      struct lw_buf *scratch)
{
    size_t count;
    const struct lw_frame *frame = &lw_stacks_frames(top->stacks, &count)[row->frame];

    if (row->all.total_ns <= 0)
        return false;
    if (!top->pattern.is_compiled)
        return true;
    lw_buf_reset(scratch);
    lw_buf_add(scratch, lw_strings_text(top->strings, frame->name),
               lw_strings_len(top->strings, frame->name));
    lw_buf_add_char(scratch, ' ');
    add_place(top, frame, scratch);
    return !scratch->failure &&
           lw_pattern_search(&top->pattern, scratch->bytes, scratch->len);
}

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left, *b = right;

    for (int i = 0; i < 2; i++)
        if (a->order[i] != b->order[i])
            return a->order[i] < b->order[i] ? 1 : -1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static void set_order(const struct lw_top *top, struct row *row)
{
    const struct lw_top_sums *by = top->by_all ? &row->all : &row->recent;

    row->order[0] = top->by_total ? by->total_ns : by->self_ns;
    row->order[1] = top->by_total ? by->self_ns : by->total_ns;
}

static void add_row(const struct lw_top *top, const struct row *row,
                    struct lw_buf *scratch, struct lw_table *table)
{
    double recent_ns = top->recent_ns > 0 ? top->recent_ns : 1;
    size_t count;
    const struct lw_frame *frame = &lw_stacks_frames(top->stacks, &count)[row->frame];

    lw_table_row(table, 0);
    if (table->columns <= &lw_top_columns[0]) {
        lw_table_add_integer(table, (int64_t)row->all.total_ns);
        lw_table_add_integer(table, (int64_t)row->all.self_ns);
    }
    if (table->columns <= &lw_top_columns[2])
        lw_table_add_number(table, row->recent.total_ns / recent_ns);
    lw_table_add_number(table, row->recent.self_ns / recent_ns);
    lw_table_add_text(table, lw_strings_text(top->strings, frame->name),
                      lw_strings_len(top->strings, frame->name));
    lw_buf_reset(scratch);
    add_place(top, frame, scratch);
    if (scratch->len)
        lw_table_add_text(table, scratch->bytes, scratch->len);
    else
        lw_table_add_none(table);
}

void lw_top_fill(struct lw_top *top, size_t limit, struct lw_table *table)
{
    size_t count, wanted = 0;
    struct row *rows = add_up(top, &count);
    struct lw_buf scratch;

    lw_buf_init(&scratch, 0);
    for (size_t i = 0; rows && i < count; i++)
        if (is_wanted(top, &rows[i], &scratch)) {
            rows[wanted] = rows[i];
            set_order(top, &rows[wanted++]);
        }
    if (wanted)
        qsort(rows, wanted, sizeof(*rows), compare_rows);
    if (wanted < limit || top->first > wanted - limit)
        top->first = wanted > limit ? wanted - limit : 0;
    for (size_t i = top->first; i < wanted && i - top->first < limit; i++)
        add_row(top, &rows[i], &scratch, table);
    if (!rows || scratch.failure)
        table->failure = LW_ERR_NOMEM;
    lw_buf_release(&scratch);
    lw_free(rows);
}

/* The lines above */

static double part(double of, double whole)
{
    return whole > 0 ? of / whole : 0;
}

static void add_count(struct lw_buf *line, unsigned count, const char *what,
                      const char *plural)
{
    lw_buf_addf(line, ", %u %s%s", count, what, count == 1 ? "" : plural);
}

static void add_watched(const struct lw_top *top, const struct lw_top_status *status,
                        struct lw_buf *line)
{
    uint64_t seconds = (uint64_t)(top->elapsed_ns / 1e9);

    lw_buf_addf(line, "lapwing top: %u:%02u:%02u, pid %d, ", (unsigned)(seconds / 3600),
                (unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60), status->pid);
    lw_buf_add_text(line, status->command);
    if (status->has_ended)
        lw_buf_add_text(line, " (has ended)");
}

static void add_taken(const struct lw_top *top, const struct lw_top_status *status,
                      struct lw_buf *line)
{
    lw_buf_addf(line, "Python %s", status->python);
    add_count(line, status->processes, "process", "es");
    add_count(line, status->threads, "thread", "s");
    if (status->cpu_share >= 0) {
        lw_buf_add_text(line, ", CPU ");
        lw_units_add_share(line, status->cpu_share);
    }
    if (status->rss_bytes) {
        lw_buf_add_text(line, ", RSS ");
        lw_units_add_bytes(line, (int64_t)status->rss_bytes);
    }
    lw_buf_add_text(line, ", GIL ");
    lw_units_add_share(line, part(top->gil_ns, top->recent_ns));
}

static void add_quality(const struct lw_top *top, const struct lw_top_status *status,
                        struct lw_buf *line)
{
    double due = (double)(status->rounds + status->missed);

    lw_buf_addf(line, "%.0f Hz asked, %.1f Hz real, ", status->rate_asked,
                status->rate_real);
    lw_units_add_share(line, part((double)status->late, due));
    lw_buf_add_text(line, " late, ");
    lw_units_add_share(line, part((double)status->missed, due));
    lw_buf_add_text(line, " missed, ");
    lw_units_add_share(line, part((double)top->moving, (double)top->samples));
    lw_buf_add_text(line, " moving");
    if (top->folded)
        lw_buf_add_text(line, ", too many functions: see (more)");
}

static void add_shown(const struct lw_top *top, struct lw_buf *line)
{
    static const char *const times[] = { "running time", "time with the GIL",
                                         "wall time" };

    if (top->is_paused)
        lw_buf_add_text(line, "paused: ");
    lw_buf_addf(line, "%s, %s by %s%s, ", times[top->time],
                top->by_line ? "lines" : "functions", top->by_total ? "total" : "self",
                top->by_all ? " since the start" : "");
    if (top->thread) {
        const struct lw_top_thread *thread = &top->threads[top->thread - 1];

        lw_buf_addf(line, "thread %d (%s) of %d", thread->tid, thread->name,
                    thread->pid);
    } else if (top->pid) {
        lw_buf_addf(line, "process %d", top->pid);
    } else {
        lw_buf_add_text(line, "all threads");
    }
    if (top->filter.len)
        lw_buf_addf(line, ", filter /%s/", top->filter.bytes);
}

static void draw_above(const struct lw_top *top, const struct lw_top_status *status,
                       size_t lines, struct lw_screen *screen)
{
    struct lw_buf line;

    lw_buf_init(&line, 0);
    for (size_t i = 0; i < lines; i++) {
        lw_buf_reset(&line);
        if (i == 0)
            add_watched(top, status, &line);
        else if (i == 1)
            add_taken(top, status, &line);
        else if (i == 2)
            add_quality(top, status, &line);
        else if (i == 3)
            add_shown(top, &line);
        lw_screen_add(screen, i ? LW_SCREEN_PLAIN : LW_SCREEN_BOLD, line.bytes,
                      line.len);
        if (line.failure)
            screen->text.failure = line.failure;
    }
    lw_buf_release(&line);
}

/* The rest */

/* As many as fit: the first ones matter most, and help tells of all. */
static void add_keys(struct lw_buf *line, size_t width)
{
    for (const struct lw_top_key *key = lw_top_keys; key->keys; key++) {
        if (!key->summary ||
            line->len + strlen(key->keys) + strlen(key->summary) + 2 > width)
            return;
        lw_buf_addf(line, "%s%s %s", line->len ? " " : "", key->keys, key->summary);
    }
}

static void draw_keys(const struct lw_top *top, struct lw_screen *screen)
{
    struct lw_buf line;

    lw_buf_init(&line, 0);
    if (top->mode == LW_TOP_FILTER)
        lw_buf_addf(&line, "filter: %s_   (Enter takes it, Escape does not)",
                    top->typing.len ? top->typing.bytes : "");
    else if (top->message.len)
        lw_buf_add(&line, top->message.bytes, top->message.len);
    else
        add_keys(&line, screen->width);
    lw_screen_add(screen, LW_SCREEN_REVERSE, line.bytes, line.len);
    if (line.failure)
        screen->text.failure = line.failure;
    lw_buf_release(&line);
}

static void draw_help(struct lw_screen *screen)
{
    lw_screen_addf(screen, LW_SCREEN_BOLD, "lapwing top: keys");
    lw_screen_addf(screen, LW_SCREEN_PLAIN, "%s", "");
    for (const struct lw_top_key *key = lw_top_keys; key->keys; key++)
        if (key->summary)
            lw_screen_addf(screen, LW_SCREEN_PLAIN, "  %-7s%s", key->keys, key->help);
        else
            lw_screen_addf(screen, LW_SCREEN_PLAIN, "  %s: %s", key->keys, key->help);
    lw_screen_fill(screen, screen->height - 1);
    lw_screen_addf(screen, LW_SCREEN_REVERSE, "any key goes back");
}

static bool draw_table(struct lw_top *top, size_t height, struct lw_screen *screen,
                       struct lw_error *err)
{
    struct lw_render_options look = { .width = screen->width };
    struct lw_table table;
    struct lw_buf text;
    const char *newline;
    size_t skipped = 0;
    bool done;

    if (screen->width < WIDTH_FOR_TIMES)
        skipped = screen->width < WIDTH_FOR_TOTAL ? 3 : 2;
    lw_table_init(&table, lw_top_columns + skipped, lw_top_column_count - skipped);
    lw_buf_init(&text, 0);
    top->page = height ? height - 1 : 0; /* under the titles */
    lw_top_fill(top, top->page, &table);
    done = lw_table_check(&table, err);
    if (done) {
        lw_render_text(&table, &look, &text);
        done = lw_buf_check(&text, err);
    }
    if (done && !table.row_count) {
        lw_screen_addf(screen, LW_SCREEN_DIM, "%s",
                       top->samples ? "none of this" : "no samples yet");
    } else if (done) {
        newline = memchr(text.bytes, '\n', text.len);
        lw_screen_add(screen, LW_SCREEN_REVERSE, text.bytes,
                      (size_t)(newline - text.bytes));
        lw_screen_add_lines(screen, LW_SCREEN_PLAIN, newline + 1,
                            text.len - (size_t)(newline + 1 - text.bytes));
    }
    lw_buf_release(&text);
    lw_table_release(&table);
    return done;
}

bool lw_top_draw(struct lw_top *top, const struct lw_top_status *status,
                 struct lw_screen *screen, bool with_keys, struct lw_error *err)
{
    size_t height = screen->height - (with_keys && screen->height > 1);
    size_t above = height > ROWS_WANTED ? height - ROWS_WANTED : 0;

    if (top->mode == LW_TOP_HELP) {
        draw_help(screen);
        return lw_screen_check(screen, err);
    }
    if (above > LINES_ABOVE)
        above = LINES_ABOVE;
    draw_above(top, status, above, screen);
    if (!draw_table(top, height - above, screen, err))
        return false;
    if (with_keys && screen->height > 1) {
        lw_screen_fill(screen, height);
        draw_keys(top, screen);
    }
    return lw_screen_check(screen, err);
}
