/* lapwing docs: print a document that is made from the program itself. For
 * tools/docs.sh, which keeps those under docs/ up to date; not in the list of help. */

#include "cmd/docs.h"

#include <stdio.h>
#include <string.h>

#include "cmd/command.h"
#include "readers/reader.h"
#include "writers/writer.h"

/* ".prof .pstats" as "`.prof` `.pstats`". */
static void add_suffixes(struct lw_buf *out, const char *suffixes)
{
    while (*suffixes) {
        size_t len = strcspn(suffixes, " ");

        lw_buf_addf(out, "`%.*s`", (int)len, suffixes);
        suffixes += len;
        if (*suffixes == ' ')
            lw_buf_add_char(out, *suffixes++);
    }
}

static void add_format(struct lw_buf *out, const char *name, const char *suffixes,
                       const char *summary)
{
    lw_buf_addf(out, "| %s | ", name);
    add_suffixes(out, suffixes);
    lw_buf_addf(out, " | %s |", summary);
}

void lw_docs_add_formats(struct lw_buf *out)
{
    lw_buf_add_text(
        out, "# Formats\n\n"
             "Made by `tools/docs.sh` from the readers and writers themselves.\n\n"
             "## Read\n\n"
             "Every command that takes a run takes these files, too. The bytes of "
             "a file decide what it is;\nits name does not matter.\n\n"
             "| format | usual names | what writes it |\n|---|---|---|\n");
    for (size_t i = 0; i < lw_reader_count; i++) {
        add_format(out, lw_readers[i]->name, lw_readers[i]->suffixes,
                   lw_readers[i]->summary);
        lw_buf_add_char(out, '\n');
    }
    lw_buf_add_text(out, "\n## Written\n\n"
                         "`lapwing export --to FORMAT`, or `-o FILE` with one of the "
                         "names. Those with \"diff\" take `--diff` too.\n\n"
                         "| format | names | what opens it | what it cannot say of a "
                         "profile | diff |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < lw_writer_count; i++) {
        add_format(out, lw_writers[i]->name, lw_writers[i]->suffixes,
                   lw_writers[i]->summary);
        lw_buf_addf(out, " %s | %s |\n", lw_writers[i]->lacks,
                    lw_writers[i]->holds_changes ? "diff" : "");
    }
    lw_buf_add_text(
        out,
        "\n## Names that are not harmless\n\n"
        "Names of functions, files and threads come from the watched program or from a "
        "foreign file.\n\n"
        "- **Text, Markdown, CSV** and the text formats show what is not printable "
        "(escapes, C1 controls, marks that\n"
        "  reverse the direction of text, bytes that are not UTF-8) as `\\xNN`. Markdown "
        "also escapes its marks.\n"
        "- **JSON** escapes the same characters (`\\u009b`), so a program reads the "
        "name as it was; bytes that are not UTF-8\n"
        "  become U+FFFD.\n"
        "- **CSV** (`report --csv`, `export --to csv`) is RFC 4180: a header, a comma "
        "between cells, CR LF behind each row, a cell\n"
        "  in double quotes where it holds a comma, a quote or outer spaces, `\"\"` for a "
        "quote in it, and no line break in a\n"
        "  cell. Text that a spreadsheet would run as a formula (`=`, `+`, `-`, `@` or a "
        "wide form of these first) has an\n"
        "  apostrophe in front. Numbers are bare; a missing value is an empty cell.\n"
        "- **pstats, pprof and perfetto** are binary and hold "
        "names as they are.\n");
}

struct document {
    const char *name;
    void (*add)(struct lw_buf *out);
    const char *summary;
};

static const struct document documents[] = {
    { "bash", lw_docs_add_bash, "completion for bash" },
    { "fish", lw_docs_add_fish, "completion for fish" },
    { "formats", lw_docs_add_formats, "the formats that are read and written" },
    { "man", lw_docs_add_man, "the manual page" },
    { "zsh", lw_docs_add_zsh, "completion for zsh" },
};

#define DOCUMENT_COUNT (sizeof(documents) / sizeof(documents[0]))

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    struct lw_buf out;
    bool done = false;

    (void)args;
    (void)argc;
    lw_buf_init(&out, 0);
    for (size_t i = 0; i < DOCUMENT_COUNT; i++)
        if (strcmp(documents[i].name, argv[0]) == 0) {
            documents[i].add(&out);
            done = lw_buf_check(&out, err);
            break;
        }
    if (done)
        fwrite(out.bytes, 1, out.len, stdout);
    else if (!out.failure)
        lw_fail(err, LW_ERR_USAGE,
                "there is no document '%s'; 'lapwing docs --help' lists them", argv[0]);
    lw_buf_release(&out);
    return done ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

static void explain(struct lw_help *help)
{
    lw_help_heading(help, "Documents");
    for (size_t i = 0; i < DOCUMENT_COUNT; i++)
        lw_help_row(help, documents[i].name, documents[i].summary);
}

const struct lw_command lw_cmd_docs = {
    .name = "docs",
    .summary = "print a document that is made from the program itself",
    .usage = "lapwing docs DOCUMENT",
    .explain = explain,
    .operands_min = 1,
    .operands_max = 1,
    .is_internal = true,
    .run = run,
};
