/* What the processes and the machine used, and what a program counted itself: of each
 * counter its mean, its peak, its last value and its course.
 *
 * A point of a counter holds until the next one (recorder/system_read.h), so the mean is
 * over time, not over points; a loss that is no number any more is not in it. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "process", "process", LW_UNIT_TEXT, false },
    { "counter", "counter", LW_UNIT_TEXT, true },
    { "mean", "mean", LW_UNIT_OWN, false },
    { "peak", "peak", LW_UNIT_OWN, false },
    { "last", "last", LW_UNIT_OWN, false },
    { "course", "from start to end", LW_UNIT_TEXT, false },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))
#define COURSE_PARTS 20 /* of the whole run's time */

/* Whom a counter is about, in the order in which they are shown. */
enum scope { SCOPE_MACHINE, SCOPE_CONTAINER, SCOPE_PROCESS };

static const char *const scope_names[] = { "machine", "container" };

struct series {
    enum scope scope;
    uint32_t process; /* index; LW_NONE: none of them */
    const char *name; /* without its scope; borrowed */
    uint64_t time_ns; /* of the last point so far */
    double last, peak, least;
    double sum;     /* of finite values times nanoseconds, up to the last point */
    double held_ns; /* how long there was one */
    double course[COURSE_PARTS]; /* the most in each part; NAN: not there */
};

struct adding {
    const struct lw_profile *profile;
    struct lw_map map;     /* of series */
    struct series *series; /* owned; number 1 is the first */
    size_t count, capacity;
    uint64_t start_ns, end_ns; /* of the run, as far as is known */
};

/* ---- adding up ---------------------------------------------------------------------- */

static bool same_series(const void *owner, uint32_t number, const void *key)
{
    const struct adding *adding = owner;
    const struct series *a = &adding->series[number - 1], *b = key;

    return a->scope == b->scope && a->process == b->process &&
           strcmp(a->name, b->name) == 0;
}

/* The machine is one, whoever's series its counters lie in. */
static struct series name_series(const struct lw_profile *profile,
                                 const struct lw_counter_point *point)
{
    struct series key = { .scope = SCOPE_PROCESS,
                          .process = point->process,
                          .name = lw_profile_text(profile, point->name) };

    for (int i = 0; i < SCOPE_PROCESS; i++) {
        size_t len = strlen(scope_names[i]);

        if (lw_text_starts(key.name, scope_names[i]) && key.name[len] == ' ') {
            key.scope = (enum scope)i;
            key.process = LW_NONE;
            key.name += len + 1;
            break;
        }
    }
    return key;
}

static struct series *find_series(struct adding *adding,
                                  const struct lw_counter_point *point,
                                  struct lw_error *err)
{
    struct series key = name_series(adding->profile, point);
    uint64_t hash = lw_hash_bytes(key.name, strlen(key.name)) ^
                    lw_hash_u64((uint64_t)key.scope << 32 | key.process);
    uint32_t number = lw_map_find(&adding->map, hash, same_series, adding, &key);

    if (!number) {
        if (!lw_grow(&adding->series, &adding->capacity, adding->count + 1,
                     sizeof(*adding->series), err) ||
            !lw_map_add(&adding->map, hash, (uint32_t)adding->count + 1, err))
            return NULL;
        key.time_ns = point->time_ns;
        key.last = key.peak = key.least = point->value;
        for (size_t i = 0; i < COURSE_PARTS; i++)
            key.course[i] = NAN;
        adding->series[adding->count] = key;
        number = (uint32_t)++adding->count;
    }
    return &adding->series[number - 1];
}

static size_t part_of(const struct adding *adding, uint64_t time_ns)
{
    double whole = (double)(adding->end_ns - adding->start_ns);
    double part = time_ns > adding->start_ns && whole > 0
                      ? (double)(time_ns - adding->start_ns) / whole * COURSE_PARTS
                      : 0;

    return part < COURSE_PARTS ? (size_t)part : COURSE_PARTS - 1;
}

/* The last value of the series held until TIME_NS. */
static void hold(const struct adding *adding, struct series *series, uint64_t time_ns)
{
    if (time_ns < series->time_ns)
        time_ns = series->time_ns; /* a damaged file may go back */
    if (isfinite(series->last)) {
        series->sum += series->last * (double)(time_ns - series->time_ns);
        series->held_ns += (double)(time_ns - series->time_ns);
    }
    for (size_t i = part_of(adding, series->time_ns); i <= part_of(adding, time_ns);
         i++)
        series->course[i] = fmax(series->course[i], series->last); /* NAN gives way */
    series->time_ns = time_ns;
}

static void find_times(struct adding *adding)
{
    const struct lw_profile *profile = adding->profile;

    adding->start_ns = profile->start_ns ? profile->start_ns : UINT64_MAX;
    adding->end_ns = profile->end_ns;
    for (size_t i = 0; i < profile->counter_count; i++) {
        uint64_t time_ns = profile->counters[i].time_ns;

        if (time_ns < adding->start_ns)
            adding->start_ns = time_ns;
        if (time_ns > adding->end_ns)
            adding->end_ns = time_ns;
    }
}

static bool add_up(struct adding *adding, struct lw_error *err)
{
    const struct lw_profile *profile = adding->profile;

    find_times(adding);
    for (size_t i = 0; i < profile->counter_count; i++) {
        const struct lw_counter_point *point = &profile->counters[i];
        struct series *series = find_series(adding, point, err);

        if (!series)
            return false;
        hold(adding, series, point->time_ns);
        series->last = point->value;
        series->peak = fmax(series->peak, point->value);
        series->least = fmin(series->least, point->value);
    }
    for (size_t i = 0; i < adding->count; i++) {
        struct series *series = &adding->series[i];
        uint64_t end_ns = series->process == LW_NONE
                              ? adding->end_ns
                              : profile->processes[series->process].end_ns;

        hold(adding, series, end_ns ? end_ns : adding->end_ns);
    }
    return true;
}

/* ---- showing ------------------------------------------------------------------------ */

static enum lw_unit unit_of(const char *name)
{
    if (lw_text_ends(name, "[bytes]"))
        return LW_UNIT_BYTES;
    if (lw_text_ends(name, "[bytes/s]"))
        return LW_UNIT_BYTES_S;
    return lw_text_ends(name, "[%]") ? LW_UNIT_PERCENT : LW_UNIT_NUMBER;
}

/* Bars of eight heights, the peak being the highest; the lowest is zero, or what is less. */
static void add_course(struct lw_table *table, const struct series *series)
{
    char text[COURSE_PARTS * 3];
    double low = fmin(series->least, 0);
    size_t len = 0, end = 0;

    for (size_t i = 0; i < COURSE_PARTS; i++) {
        double height = series->peak > low
                            ? (series->course[i] - low) / (series->peak - low) * 7
                            : 0;

        if (isnan(series->course[i])) {
            text[len++] = ' ';
            continue;
        }
        text[len++] = '\xe2'; /* U+2581 to U+2588 */
        text[len++] = '\x96';
        text[len++] = (char)(0x81 + (height > 0 ? (int)lround(height) : 0));
        end = len;
    }
    lw_table_add_text(table, text, end);
}

static void add_series(struct lw_table *table, const struct lw_profile *profile,
                       const struct series *series)
{
    enum lw_unit unit = unit_of(series->name);
    char pid[24];

    lw_table_row(table, 0);
    if (series->scope == SCOPE_PROCESS)
        snprintf(pid, sizeof(pid), "%" PRIu64, profile->processes[series->process].pid);
    else
        snprintf(pid, sizeof(pid), "%s", scope_names[series->scope]);
    lw_table_add_text(table, pid, strlen(pid));
    lw_table_add_text(table, series->name, strlen(series->name));
    lw_table_add_own(table,
                     series->held_ns > 0 ? series->sum / series->held_ns : series->last,
                     unit);
    lw_table_add_own(table, series->peak, unit);
    lw_table_add_own(table, series->last, unit);
    add_course(table, series);
}

static int compare_series(const void *a, const void *b)
{
    const struct series *x = a, *y = b;

    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool is_meant(const struct lw_query *query, const struct lw_profile *profile,
                     const struct series *series)
{
    uint64_t pid;

    return !query->process ||
           (series->scope == SCOPE_PROCESS &&
            lw_text_u64(query->process, strlen(query->process), &pid) &&
            pid == profile->processes[series->process].pid);
}

static void add_notes(struct lw_table *table, const struct adding *adding)
{
    for (size_t i = 0; i < adding->count; i++) {
        const struct series *series = &adding->series[i];

        if (series->scope == SCOPE_MACHINE && strcmp(series->name, "cpus") == 0)
            lw_table_note(table, "100 %% is one CPU; the machine has %.0f.",
                          series->last);
    }
    if (adding->count == 0)
        lw_table_note(table,
                      "No counters were recorded: 'lapwing run' records them, unless "
                      "told --no-system.");
    lw_analysis_note_losses(adding->profile, table);
}

static void set_title(struct lw_table *table, const struct adding *adding,
                      size_t row_count)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_ns(&text, (int64_t)(adding->end_ns - adding->start_ns));
    lw_table_set_title(table, "%zu %s over %s", row_count,
                       row_count == 1 ? "counter" : "counters",
                       lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct adding adding = { .profile = profile };
    bool *threads = NULL;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    lw_map_init(&adding.map);
    done = lw_query_threads(query, profile, &threads, err) && add_up(&adding, err);
    lw_map_release(&adding.map);
    if (done) {
        if (adding.count > 0)
            qsort(adding.series, adding.count, sizeof(*adding.series), compare_series);
        for (size_t i = 0; i < adding.count; i++)
            if (is_meant(query, profile, &adding.series[i]))
                add_series(table, profile, &adding.series[i]);
        if (table->row_count > 0)
            set_title(table, &adding, table->row_count);
        add_notes(table, &adding);
    }
    lw_free(threads);
    lw_free(adding.series);
    return done;
}

const struct lw_analysis lw_analysis_system = {
    .name = "system",
    .summary = "counters: CPU, memory, disks, network, GPUs, the program's own",
    .want = LW_WANT_COUNTERS,
    .run = run,
};
