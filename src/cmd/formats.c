/* lapwing formats: what can be read and what can be written. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cmd/command.h"
#include "model/table.h"
#include "readers/reader.h"
#include "writers/render.h"
#include "writers/writer.h"

struct args {
    bool json;
    bool csv;
};

/* clang-format off */
#define OPT(name, field, help) \
    { 0, name, LW_ARG_FLAG, offsetof(struct args, field), NULL, help }

static const struct lw_option options[] = {
    OPT("json", json, "print JSON"),
    OPT("csv", csv, "print comma-separated values"),
    LW_OPT_END
};

static const struct lw_column columns[] = {
    { "format", "format", LW_UNIT_TEXT, false },
    { "does", "does", LW_UNIT_TEXT, false },
    { "suffixes", "suffixes", LW_UNIT_TEXT, false },
    { "summary", "what", LW_UNIT_TEXT, true },
    { "lacks", "lacks", LW_UNIT_TEXT, true }, /* not on a screen: export --help has it */
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

/* LACKS: what the format cannot say; NULL: it is read. */
static void add_format(struct lw_table *table, const char *name, const char *does,
                       const char *suffixes, const char *summary, const char *lacks)
{
    lw_table_row(table, 0);
    lw_table_add_text(table, name, strlen(name));
    lw_table_add_text(table, does, strlen(does));
    lw_table_add_text(table, suffixes, strlen(suffixes));
    lw_table_add_text(table, summary, strlen(summary));
    if (table->column_count < COLUMN_COUNT)
        return;
    if (lacks)
        lw_table_add_text(table, lacks, strlen(lacks));
    else
        lw_table_add_none(table);
}

static int run(const void *args, int argc __attribute__((unused)),
               char **argv __attribute__((unused)), struct lw_error *err)
{
    struct lw_render_options look = lw_render_options_for_fd(STDOUT_FILENO);
    const struct args *a = args;
    struct lw_table table;
    struct lw_buf out;
    bool done;

    lw_table_init(&table, columns, COLUMN_COUNT - (!a->json && !a->csv));
    lw_buf_init(&out, 0);
    for (size_t i = 0; i < lw_reader_count; i++)
        add_format(&table, lw_readers[i]->name, "read", lw_readers[i]->suffixes,
                   lw_readers[i]->summary, NULL);
    for (size_t i = 0; i < lw_writer_count; i++)
        add_format(&table, lw_writers[i]->name, "written", lw_writers[i]->suffixes,
                   lw_writers[i]->summary, lw_writers[i]->lacks);
    if (a->json)
        lw_render_json(&table, &out);
    else if (a->csv)
        lw_render_csv(&table, &out);
    else
        lw_render_text(&table, &look, &out);
    done = lw_table_check(&table, err) && lw_buf_check(&out, err);
    if (done)
        fwrite(out.bytes, 1, out.len, stdout);
    lw_buf_release(&out);
    lw_table_release(&table);
    return done ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

const struct lw_command lw_cmd_formats = {
    .name = "formats",
    .summary = "list the formats that can be read and written",
    .usage = "lapwing formats [OPTIONS]",
    .description =
        "Every command that takes a run takes a file of any format that is read; its "
        "bytes decide which it is, not its name, and it may be compressed with gzip. "
        "'lapwing export --to' takes those that are written.",
    .args_size = sizeof(struct args),
    .options = options,
    .run = run,
};
