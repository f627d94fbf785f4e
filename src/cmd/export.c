/* lapwing export: write a profile in another tool's format.
 *
 * A writer that says so is emptied to the disk piece by piece, so a timeline of gigabytes
 * takes the memory of what was read and no more; the file still appears as a whole, or not
 * at all. */

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/command.h"
#include "cmd/export_split.h"
#include "cmd/latest.h"
#include "cmd/profiles.h"
#include "cmd/progress.h"
#include "model/states.h"
#include "model/units.h"
#include "writers/writer.h"

struct args {
    bool diff;
    const char *to;     /* format; NULL: by the suffix of output */
    const char *output; /* NULL: standard output */
    unsigned states;    /* enum lw_states */
    unsigned frames;    /* enum lw_frames */
    unsigned split;     /* enum split */
};

enum split {
    SPLIT_NONE,
    SPLIT_STEP,
};

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT('t', "to", LW_ARG_TEXT, to, "FORMAT",
        "the format; without it, the suffix of FILE decides"),
    OPT('o', "output", LW_ARG_PATH, output, "FILE", "into FILE, whole or not at all"),
    OPT(0, "diff", LW_ARG_FLAG, diff, NULL,
        "of two profiles, what the second has more or less than the first, by function "
        "and caller"),
    OPT(0, "state", LW_ARG_CHOICE, states, LW_STATES_WORDS, LW_STATES_HELP),
    OPT(0, "frames", LW_ARG_CHOICE, frames, LW_FRAMES_WORDS,
        "in collapsed stacks: name and place of the function; of the line that ran, as "
        "py-spy's raw format; or the name alone, as FlameGraph has it"),
    OPT(0, "split", LW_ARG_CHOICE, split, "none|step",
        "of a torch profiler's trace: a file for each step, FILE.step7.json, with all "
        "that was running in it and what it launched"),
    LW_OPT_END
};
/* clang-format on */

/* "csv, json, pstats": all formats, or those that can hold a difference. */
static void add_names(struct lw_buf *out, bool only_for_changes)
{
    for (size_t i = 0; i < lw_writer_count; i++)
        if (!only_for_changes || lw_writers[i]->holds_changes)
            lw_buf_addf(out, "%s%s", out->len ? ", " : "", lw_writers[i]->name);
}

static const struct lw_writer *choose_writer(const struct args *args,
                                             struct lw_error *err)
{
    const struct lw_writer *writer = NULL;
    struct lw_buf names;

    if (args->to)
        writer = lw_writer_find(args->to);
    else if (args->output)
        writer = lw_writer_for_path(args->output);
    if (writer)
        return writer;

    lw_buf_init(&names, 0);
    add_names(&names, args->diff);
    if (!lw_buf_check(&names, err))
        ; /* said */
    else if (args->to)
        lw_fail(err, LW_ERR_USAGE, "there is no format '%s' to export to; there is %s",
                args->to, names.bytes);
    else if (args->output)
        lw_fail(err, LW_ERR_USAGE,
                "the name %s does not say the format; add --to, one of: %s",
                args->output, names.bytes);
    else
        lw_fail(err, LW_ERR_USAGE, "say the format with --to, one of: %s", names.bytes);
    lw_buf_release(&names);
    return NULL;
}

/* How a profile is written, and how much it was. */
struct writing {
    const struct lw_writer *writer;
    enum lw_frames frames;
    uint64_t *largest; /* bytes of the largest file */
};

/* Where the pieces go. */
struct drain {
    struct lw_file_out file;
    const char *path;
    bool is_open;
    struct lw_error *err;
};

static bool take_piece(void *to, const void *bytes, size_t len)
{
    struct drain *drain = to;

    if (!drain->is_open && !lw_file_out_open(&drain->file, drain->path, drain->err))
        return false;
    drain->is_open = lw_file_out_write(&drain->file, bytes, len, drain->err);
    return drain->is_open;
}

/* The last piece, or all of it. */
static bool end_file(struct drain *drain, const struct lw_buf *out,
                     struct lw_error *err)
{
    if (!drain->is_open)
        return lw_file_replace(drain->path, out->bytes, out->len, err);
    drain->is_open = false;
    return lw_file_out_write(&drain->file, out->bytes, out->len, err) &&
           lw_file_out_end(&drain->file, err);
}

static bool write_profile(const void *how, const struct lw_profile *profile,
                          const char *path, struct lw_error *err)
{
    const struct writing *w = how;
    struct drain drain = { .path = path, .err = err };
    struct lw_progress *progress;
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    out.drain = take_piece;
    out.drain_to = &drain;
    progress = lw_progress_start_writing(path, &out);
    done = (w->frames ? w->writer->write_frames(profile, w->frames, &out, err)
                      : w->writer->write(profile, &out, err)) &&
           out.failure != LW_ERR_IO && /* which is said */
           lw_buf_check(&out, err);
    lw_progress_stop(progress);
    done = done && end_file(&drain, &out, err);
    if (drain.is_open)
        lw_file_out_abandon(&drain.file);
    if (out.drained + out.len > *w->largest)
        *w->largest = out.drained + out.len;
    lw_buf_release(&out);
    return done;
}

static bool write_all(const struct args *a, const struct writing *w,
                      const struct lw_profile *profile, struct lw_error *err)
{
    if (!a->split)
        return write_profile(w, profile, a->output ? a->output : "-", err);
    return lw_export_split_steps(profile, a->output,
                                 lw_writer_suffix_len(w->writer, a->output),
                                 write_profile, w, err);
}

/* What is too large for its viewer is said, though it is no failure. */
static void warn_of_size(const struct args *a, const struct writing *w,
                         struct lw_error *err)
{
    struct lw_buf size;

    if (!w->writer->viewer_bytes || *w->largest <= w->writer->viewer_bytes)
        return;
    lw_buf_init(&size, 0);
    lw_units_add_bytes(&size, (int64_t)*w->largest);
    if (lw_buf_check(&size, err))
        lw_fail(err, LW_ERR_LIMIT, "%s has %s: %s",
                a->split    ? "the largest file"
                : a->output ? a->output
                            : "the output",
                size.bytes, w->writer->viewer_fails);
    lw_buf_release(&size);
}

static bool check_diff(const struct lw_writer *writer, int argc, struct lw_error *err)
{
    struct lw_buf names;

    if (argc != 2)
        return lw_fail(err, LW_ERR_USAGE,
                       "--diff takes two profiles, before and after: lapwing export "
                       "--diff A B --to %s",
                       writer->name);
    if (writer->holds_changes)
        return true;
    lw_buf_init(&names, 0);
    add_names(&names, true);
    if (lw_buf_check(&names, err))
        lw_fail(err, LW_ERR_USAGE,
                "%s cannot hold a difference, which has numbers below zero; choose one "
                "of: %s",
                writer->name, names.bytes);
    lw_buf_release(&names);
    return false;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    const struct args *a = args;
    const struct lw_writer *writer = choose_writer(a, err);
    struct lw_profile part = { 0 };
    struct lw_profile *profile;
    uint64_t largest = 0;
    struct writing w = { writer, (enum lw_frames)a->frames, &largest };
    bool done;

    if (!writer)
        return LW_EXIT_FAILED;
    if (a->split && !(writer->want & LW_WANT_TRACE))
        return lw_usage(err, "--split is for timelines: --to chrome or --to perfetto");
    if (a->split && (!a->output || strcmp(a->output, "-") == 0))
        return lw_usage(err, "--split makes several files: say their name with -o");
    if (!a->output && writer->is_binary && isatty(STDOUT_FILENO))
        return lw_usage(err, "%s files are not for a terminal; name one with -o",
                        writer->name);
    if (a->frames && !writer->write_frames)
        return lw_usage(err,
                        "%s files name frames in their own way: --frames is for "
                        "collapsed stacks",
                        writer->name);
    if (a->diff && !check_diff(writer, argc, err))
        return LW_EXIT_USAGE;
    if (argc == 0 && !lw_latest_warn(NULL, err))
        return LW_EXIT_FAILED;
    profile = a->diff ? lw_profiles_open_diff(argv, writer->want, err)
                      : lw_profiles_open(argv, (size_t)argc, writer->want, NULL, err);
    done = profile && lw_states_take(&part, profile, (enum lw_states)a->states, err) &&
           write_all(a, &w, &part, err);
    if (done)
        warn_of_size(a, &w, err);
    lw_states_release(&part);
    lw_profile_free(profile);
    return done ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

static void explain(struct lw_help *help)
{
    lw_help_heading(help, "Formats");
    for (size_t i = 0; i < lw_writer_count; i++)
        lw_help_row(help, lw_writers[i]->name, lw_writers[i]->summary);
    lw_help_heading(help, "What they cannot say of a profile");
    for (size_t i = 0; i < lw_writer_count; i++)
        lw_help_row(help, lw_writers[i]->name, lw_writers[i]->lacks);
}

const struct lw_command lw_cmd_export = {
    .name = "export",
    .summary = "write a profile in another tool's format",
    .usage = "lapwing export [OPTIONS] [RUN|FILE...]\n"
             "lapwing export [OPTIONS] --diff BEFORE AFTER",
    .description = "Writes RUN (the latest, if none is named), or any file of a known "
                   "format, in the format of another tool. Several are added up.",
    .explain = explain,
    .args_size = sizeof(struct args),
    .options = options,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
