/* lapwing pack: one file of a run, to send or keep. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/latest.h"
#include "lap/run.h"

struct args {
    const char *output; /* NULL: the run's name in the current folder */
    const char *folder; /* where runs are looked for; NULL: LW_RUNS_FOLDER */
};

/* clang-format off */
#define OPT(letter, name, field, arg, help) \
    { letter, name, LW_ARG_PATH, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT('o', "output", output, "FILE", "write to FILE instead of NAME" LW_PACK_SUFFIX),
    OPT(0, "in", folder, "FOLDER", "look for RUN in FOLDER, not " LW_RUNS_FOLDER),
    LW_OPT_END
};
/* clang-format on */

/* A script wants the name as it is; a terminal must not be steered by it. */
static bool print_path(const char *path, struct lw_error *err)
{
    struct lw_buf shown;
    bool done;

    lw_buf_init(&shown, 0);
    if (isatty(STDOUT_FILENO))
        lw_text_add_printable(&shown, path, strlen(path));
    else
        lw_buf_add_text(&shown, path);
    done = lw_buf_check(&shown, err);
    if (done)
        puts(shown.bytes);
    lw_buf_release(&shown);
    return done;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    const struct args *a = args;
    int code = LW_EXIT_FAILED;
    struct lw_run source;
    struct lw_buf path;

    if (argc == 0 && !lw_latest_warn(a->folder, err))
        return LW_EXIT_FAILED;
    lw_buf_init(&path, 0);
    if (!lw_run_open(&source, argc > 0 ? argv[0] : NULL, a->folder, err))
        goto out;
    if (a->output)
        lw_buf_add_text(&path, a->output);
    else
        lw_buf_addf(&path, "%s%s", source.name, LW_PACK_SUFFIX);
    if (!lw_buf_check(&path, err) || !lw_run_pack(&source, path.bytes, err))
        goto out;
    code = print_path(path.bytes, err) ? LW_EXIT_DONE : LW_EXIT_FAILED;
out:
    lw_run_close(&source);
    lw_buf_release(&path);
    return code;
}

const struct lw_command lw_cmd_pack = {
    .name = "pack",
    .summary = "make one file of a run, to send or keep",
    .usage = "lapwing pack [OPTIONS] [RUN]",
    .description =
        "Writes RUN (the latest, if none is named) as one file and prints its name. "
        "Every command that takes a run takes the file too; so does tar.",
    .args_size = sizeof(struct args),
    .options = options,
    .operands_max = 1,
    .run = run,
};
