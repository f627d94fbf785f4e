/* lapwing runs: what was recorded here, and how to be rid of it. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"
#include "cmd/command.h"
#include "lap/run.h"
#include "lap/run_find.h"
#include "model/table.h"
#include "writers/render.h"

struct args {
    const char *folder; /* where the runs are; NULL: LW_RUNS_FOLDER */
    bool json;
    bool csv;
};

/* clang-format off */
#define OPT(name, kind, field, arg, help) \
    { 0, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    OPT("in", LW_ARG_PATH, folder, "FOLDER", "the runs in FOLDER, not " LW_RUNS_FOLDER),
    OPT("json", LW_ARG_FLAG, json, NULL, "print JSON"),
    OPT("csv", LW_ARG_FLAG, csv, NULL, "print comma-separated values"),
    LW_OPT_END
};

static const struct lw_column columns[] = {
    { "name", "run", LW_UNIT_TEXT, false },
    { "started_ns", "started", LW_UNIT_TIME, false },
    { "length_ns", "length", LW_UNIT_NS, false },
    { "size_bytes", "size", LW_UNIT_BYTES, false },
    { "commit", "commit", LW_UNIT_TEXT, false },
    { "end", "ended", LW_UNIT_TEXT, false },
    { "command", "command", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COMMIT_DIGITS 9 /* as git abbreviates in a repository of some size */

static void add_text_or_none(struct lw_table *table, const char *text)
{
    if (text)
        lw_table_add_text(table, text, strlen(text));
    else
        lw_table_add_none(table);
}

/* "1a2b3c4d5", with a + when the tree held changes that are in no commit. */
static void add_commit(struct lw_table *table, const struct lw_run_info *info)
{
    const char *commit = lw_run_info_fact(info, "commit");
    const char *dirty = lw_run_info_fact(info, "dirty");
    char text[COMMIT_DIGITS + 2];

    if (!commit) {
        lw_table_add_none(table);
        return;
    }
    snprintf(text, sizeof(text), "%.*s%s", COMMIT_DIGITS, commit,
             dirty && strcmp(dirty, "yes") == 0 ? "+" : "");
    lw_table_add_text(table, text, strlen(text));
}

static void add_end(struct lw_table *table, const struct lw_run_info *info)
{
    char text[32];

    if (info->state == LW_RUN_RUNNING)
        lw_table_add_text(table, "running", strlen("running"));
    else if (info->state == LW_RUN_BROKEN)
        lw_table_add_text(table, "cut off", strlen("cut off"));
    else if (info->exit_code < 0)
        lw_table_add_none(table);
    else {
        snprintf(text, sizeof(text), "exit %d", (int)info->exit_code);
        lw_table_add_text(table, text, strlen(text));
    }
}

static void add_run(struct lw_table *table, const struct lw_run *run)
{
    const struct lw_run_info *info = &run->info;

    lw_table_row(table, 0);
    lw_table_add_text(table, run->name, strlen(run->name));
    if (info->wall_start_ns)
        lw_table_add_integer(table, (int64_t)info->wall_start_ns);
    else
        lw_table_add_none(table);
    if (info->end_ns > info->start_ns)
        lw_table_add_integer(table, (int64_t)(info->end_ns - info->start_ns));
    else
        lw_table_add_none(table);
    lw_table_add_integer(table, (int64_t)run->bytes);
    add_commit(table, info);
    add_end(table, info);
    add_text_or_none(table, info->command);
}

static bool print_table(const struct lw_table *table, const struct args *args,
                        struct lw_error *err)
{
    struct lw_render_options look = lw_render_options_for_fd(STDOUT_FILENO);
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    if (args->json)
        lw_render_json(table, &out);
    else if (args->csv)
        lw_render_csv(table, &out);
    else
        lw_render_text(table, &look, &out);
    done = lw_buf_check(&out, err);
    if (done)
        fwrite(out.bytes, 1, out.len, stdout);
    lw_buf_release(&out);
    return done;
}

static bool note_empty(const struct args *args, struct lw_table *table,
                       struct lw_error *err)
{
    struct lw_buf above;
    size_t count = 0;
    bool done;

    lw_buf_init(&above, 0);
    done = args->folder || lw_run_above(&above, &count, err);
    if (done && count > 0)
        lw_table_note(table, "no runs in %s, but %zu in %s/%s: 'cd %s' first",
                      LW_RUNS_FOLDER, count, above.bytes, LW_RUNS_FOLDER, above.bytes);
    else if (done)
        lw_table_note(table, "no runs in %s; 'lapwing run train.py' records one",
                      args->folder ? args->folder : LW_RUNS_FOLDER);
    lw_buf_release(&above);
    return done;
}

static bool list_runs(const struct args *args, struct lw_error *err)
{
    struct lw_run_list list = { NULL, 0, 0 };
    struct lw_table table;
    bool done = false;

    lw_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    if (!lw_run_list_read(&list, args->folder, err))
        goto out;
    for (size_t i = 0; i < list.count; i++)
        add_run(&table, &list.runs[i]);
    if (list.count == 0 && !note_empty(args, &table, err))
        goto out;
    done = lw_table_check(&table, err) && print_table(&table, args, err);
out:
    lw_table_release(&table);
    lw_run_list_release(&list);
    return done;
}

/* A program's name means its latest run elsewhere, but somebody who removes "train" may
 * think of all of them, or of another. */
static bool check_word(const struct args *args, const char *word, struct lw_error *err)
{
    unsigned plain = LW_RUN_BY_NAME | LW_RUN_BY_PLACE | LW_RUN_BY_START;
    char *path = NULL, *loose = NULL;
    bool done =
        lw_file_exists(word) || lw_run_find(word, args->folder, plain, &path, err);

    if (done && !path && !(lw_file_exists(word) && !lw_run_is_program(word))) {
        done = lw_run_find(word, args->folder, LW_RUN_BY_PROGRAM, &loose, err);
        if (done && loose)
            done =
                lw_fail(err, LW_ERR_USAGE,
                        "%s is a program, not a run: nothing was removed; its latest "
                        "run is %s",
                        word, loose);
    }
    lw_free(path);
    lw_free(loose);
    return done;
}

/* Which run it was, where another word than its name stood for it. */
static bool say_removed(const struct lw_run *run, const char *word,
                        struct lw_error *err)
{
    struct lw_buf line;
    bool done = true;

    if (strncmp(lw_text_basename(word), run->name, strlen(run->name)) == 0 ||
        lw_text_ends(word, "/"))
        return true;
    lw_buf_init(&line, 0);
    lw_buf_add_text(&line, "removed ");
    lw_text_add_printable(&line, run->name, strlen(run->name));
    done = lw_buf_check(&line, err);
    if (done)
        puts(line.bytes);
    lw_buf_release(&line);
    return done;
}

/* A name that is not there keeps all the others from being removed: it is more often
 * a slip than a wish. */
static bool remove_runs(const struct args *args, int count, char **names,
                        struct lw_error *err)
{
    struct lw_run *runs = lw_zalloc((size_t)count, sizeof(*runs), err);
    int opened = 0;
    bool done = runs != NULL;

    while (done && opened < count && (done = check_word(args, names[opened], err))) {
        done = lw_run_open(&runs[opened], names[opened], args->folder, err);
        opened++;
    }
    for (int i = 0; done && i < count; i++)
        done = lw_run_remove(&runs[i], err) && say_removed(&runs[i], names[i], err);
    for (int i = 0; i < opened; i++)
        lw_run_close(&runs[i]);
    lw_free(runs);
    return done;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    if (argc == 0)
        return list_runs(args, err) ? LW_EXIT_DONE : LW_EXIT_FAILED;
    if (strcmp(argv[0], "rm") != 0)
        return lw_usage(err,
                        "runs: there is no '%s'; 'lapwing runs' lists, "
                        "'lapwing runs rm RUN' removes",
                        argv[0]);
    if (argc == 1)
        return lw_usage(err, "runs rm: say which; 'lapwing runs' lists them");
    return remove_runs(args, argc - 1, argv + 1, err) ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

const struct lw_command lw_cmd_runs = {
    .name = "runs",
    .summary = "list the runs recorded here, or remove some",
    .usage = "lapwing runs [OPTIONS]\n"
             "lapwing runs rm [OPTIONS] RUN...",
    .description =
        "Lists the runs, oldest first: when each started, how long it took, how much "
        "disk it takes, the git commit (with a + if the tree held changes), how it "
        "ended and what was run. 'cut off' is a run whose recorder was killed: what it "
        "wrote can be read.\n\n"
        "Wherever a run is asked for, its name will do, the beginning of it, 'latest' or "
        "-1, -2 (the one before) and so on, or its program (its latest run), which 'rm' "
        "does not take.",
    .args_size = sizeof(struct args),
    .options = options,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
