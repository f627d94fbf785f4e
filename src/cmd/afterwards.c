#include "cmd/afterwards.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "cmd/profiles.h"
#include "lap/run.h"
#include "readers/reader.h"
#include "writers/render.h"

struct lw_recorder_options lw_recording_options(const struct lw_recording_args *args)
{
    return (struct lw_recorder_options){
        .max_bytes = args->max_bytes,
        .system = !args->no_system,
        .sample_rate = (double)args->rate,
        .sample_pause = args->pause,
        .sample_native = args->native,
    };
}

struct lw_afterwards lw_afterwards_of(const struct lw_recording_args *args)
{
    return (struct lw_afterwards){
        .quiet = args->quiet,
        .no_summary = args->no_summary,
        .output = args->output,
    };
}

/* ---- where to ----------------------------------------------------------------------- */

/* That a file cannot be written shall be known now, not after a day of training. */
static bool can_write_beside(const char *path, struct lw_error *err)
{
    size_t folder_len = (size_t)(lw_text_basename(path) - path);
    struct lw_buf name;
    int fd = -1;

    lw_buf_init(&name, 0);
    lw_buf_add(&name, path, folder_len);
    lw_buf_add_text(&name, ".lapwing-XXXXXX");
    if (lw_buf_check(&name, err)) {
        fd = mkostemp(name.bytes, O_CLOEXEC);
        if (fd < 0)
            lw_fail_errno(err, "cannot write %s", path);
    }
    if (fd >= 0) {
        unlink(name.bytes);
        close(fd);
    }
    lw_buf_release(&name);
    return fd >= 0;
}

bool lw_afterwards_choose(struct lw_afterwards *after, struct lw_error *err)
{
    const char *output = after->output;
    size_t len = output ? strlen(output) : 0;
    struct lw_buf path;

    if (!output)
        return true;
    after->writer = lw_writer_for_path(output);
    if (after->writer)
        return can_write_beside(output, err);
    while (len > 1 && output[len - 1] == '/')
        len--;
    lw_buf_init(&path, 0);
    lw_buf_add(&path, output, len);
    if (!lw_text_ends(path.bytes ? path.bytes : "", LW_RUN_SUFFIX))
        lw_buf_add_text(&path, LW_RUN_SUFFIX);
    if (lw_buf_check(&path, err))
        after->run_path = lw_copy_text(path.bytes, path.len, err);
    lw_buf_release(&path);
    return after->run_path != NULL;
}

void lw_afterwards_release(struct lw_afterwards *after)
{
    lw_free(after->run_path);
    after->run_path = NULL;
}

/* ---- saying things ------------------------------------------------------------------ */

void lw_afterwards_say(const struct lw_afterwards *after, const char *text)
{
    struct lw_buf line;

    if (after->quiet)
        return;
    lw_buf_init(&line, 0);
    lw_buf_add_text(&line, "lapwing: ");
    lw_text_add_printable(&line, text, strlen(text));
    lw_buf_add_char(&line, '\n');
    if (lw_buf_check(&line, NULL) &&
        !lw_file_write_fd(STDERR_FILENO, line.bytes, line.len)) {
        /* Nobody listens. */
    }
    lw_buf_release(&line);
}

void lw_afterwards_sayf(const struct lw_afterwards *after, const char *format, ...)
{
    char text[2000];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    lw_afterwards_say(after, text);
}

/* What is missing from the whole run; what a process lacks is in its report. */
static void say_what_is_missing(const struct lw_afterwards *after,
                                const struct lw_recorder *recorder)
{
    const struct lw_run_info *info = &recorder->run.info;
    const char *note = lw_run_info_fact(info, "note");

    for (size_t i = 0; i < info->loss_count; i++) {
        const struct lw_run_loss *loss = &info->losses[i];

        if (loss->count == 1)
            lw_afterwards_say(after, loss->cause);
        else
            lw_afterwards_sayf(after, "%s (%llu %s)", loss->cause,
                               (unsigned long long)loss->count, loss->unit);
    }
    if (note)
        lw_afterwards_say(after, note);
    if (recorder->is_over_size)
        lw_afterwards_say(after, "the run is larger than --max-size, and nothing in it "
                                 "is left to thin out");
}

/* What to do next the summary says, where there is one. */
static void say_where(const struct lw_afterwards *after,
                      const struct lw_recorder *recorder, bool has_summary)
{
    const char *path = recorder->run.path;

    if (recorder->last_number == 0)
        lw_afterwards_sayf(after, "the run is %s, with no process in it", path);
    else if (has_summary)
        lw_afterwards_sayf(after, "the run is %s", path);
    else if (after->run_path)
        lw_afterwards_sayf(after, "the run is %s; next: lapwing report %s functions",
                           path, path);
    else
        lw_afterwards_sayf(after, "the run is %s; next: lapwing report functions",
                           path);
}

/* ---- showing ------------------------------------------------------------------------ */

/* A run that will be the latest needs no name in the summary's hint; another does. */
static bool print_summary(const struct lw_afterwards *after,
                          const struct lw_recorder *recorder, struct lw_error *err)
{
    const struct lw_analysis *view = &lw_analysis_summary;
    char *path = recorder->run.path;
    struct lw_render_options shown = lw_render_options_for_fd(STDERR_FILENO);
    struct lw_profile *profile = lw_lap_load(recorder->run.path, view->want, err);
    struct lw_table table = { 0 };
    struct lw_query query;
    struct lw_buf out, report;
    bool done;

    lw_query_init(&query);
    lw_buf_init(&out, 0);
    lw_buf_init(&report, 0);
    if (after->run_path) {
        lw_profiles_add_report(&report, &path, 1, NULL);
        lw_buf_add_char(&report, '\0');
        query.report = report.bytes;
    }
    done = profile && lw_buf_check(&report, err) &&
           view->run(profile, &query, &table, err) && lw_table_check(&table, err);
    if (done) {
        lw_render_text(&table, &shown, &out);
        done = lw_buf_check(&out, err);
    }
    if (done && !lw_file_write_fd(STDERR_FILENO, out.bytes, out.len)) {
        /* Nobody listens. */
    }
    lw_table_release(&table);
    lw_buf_release(&out);
    lw_buf_release(&report);
    lw_query_release(&query);
    lw_profile_free(profile);
    return done;
}

/* Write the file that was asked for beside the run. */
static bool write_file(const struct lw_afterwards *after,
                       const struct lw_recorder *recorder, struct lw_error *err)
{
    struct lw_profile *profile =
        lw_lap_load(recorder->run.path, after->writer->want, err);
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    done = profile && after->writer->write(profile, &out, err) &&
           lw_buf_check(&out, err) &&
           lw_file_replace(after->output, out.bytes, out.len, err);
    lw_buf_release(&out);
    lw_profile_free(profile);
    return done;
}

void lw_afterwards_show(const struct lw_afterwards *after,
                        const struct lw_recorder *recorder, const char *silence)
{
    struct lw_error err = { LW_OK, "" };
    bool has_any = recorder->last_number > 0;
    bool has_summary = false;

    if (after->writer && has_any) {
        if (write_file(after, recorder, &err))
            lw_afterwards_sayf(after, "%s is written", after->output);
        else
            lw_afterwards_say(after, err.text);
    }
    if (after->quiet)
        return;
    if (!after->no_summary && has_any) {
        has_summary = print_summary(after, recorder, &err);
        if (!has_summary)
            lw_afterwards_say(after, err.text);
    }
    if (after->no_summary || !has_any)
        say_what_is_missing(after, recorder);
    if (!has_any && recorder->refused_count == 0)
        lw_afterwards_say(after, silence);
    say_where(after, recorder, has_summary);
}
