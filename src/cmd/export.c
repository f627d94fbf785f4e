/* lapwing export: write a profile in another tool's format. */

#include <unistd.h>

#include "base/file.h"
#include "cmd/command.h"
#include "cmd/profiles.h"
#include "cmd/progress.h"
#include "model/states.h"
#include "writers/writer.h"

struct args {
    bool diff;
    const char *to;     /* format; NULL: by the suffix of output */
    const char *output; /* NULL: standard output */
    unsigned states;    /* enum lw_states */
    unsigned frames;    /* enum lw_frames */
};

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT('t', "to", LW_ARG_TEXT, to, "FORMAT",
        "the format; without it, the suffix of FILE decides"),
    OPT('o', "output", LW_ARG_TEXT, output, "FILE", "into FILE, whole or not at all"),
    OPT(0, "diff", LW_ARG_FLAG, diff, NULL,
        "of two profiles, what the second has more or less than the first, by function "
        "and caller"),
    OPT(0, "state", LW_ARG_CHOICE, states, LW_STATES_WORDS, LW_STATES_HELP),
    OPT(0, "frames", LW_ARG_CHOICE, frames, LW_FRAMES_WORDS,
        "in collapsed stacks: name and place of the function; of the line that ran, as "
        "py-spy's raw format; or the name alone, as FlameGraph has it"),
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

static bool write_profile(const struct lw_writer *writer,
                          const struct lw_profile *profile, enum lw_frames frames,
                          const char *path, struct lw_error *err)
{
    struct lw_progress *progress;
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    progress = lw_progress_start_writing(path, &out);
    done = (frames ? writer->write_frames(profile, frames, &out, err)
                   : writer->write(profile, &out, err)) &&
           lw_buf_check(&out, err);
    lw_progress_stop(progress);
    done = done && lw_file_replace(path, out.bytes, out.len, err);
    lw_buf_release(&out);
    return done;
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
    bool done;

    if (!writer)
        return LW_EXIT_FAILED;
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
    profile = a->diff ? lw_profiles_open_diff(argv, writer->want, err)
                      : lw_profiles_open(argv, (size_t)argc, writer->want, NULL, err);
    done = profile && lw_states_take(&part, profile, (enum lw_states)a->states, err) &&
           write_profile(writer, &part, (enum lw_frames)a->frames,
                         a->output ? a->output : "-", err);
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
