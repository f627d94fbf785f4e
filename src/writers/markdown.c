/* A table in Markdown: the functions of a profile, for an issue or a pull request. Times
 * are for people. `lapwing report VIEW --markdown` gives the other views, and fewer
 * rows. */

#include "writers/function_table.h"
#include "writers/render.h"
#include "writers/writer.h"

static bool write_markdown(const struct lw_profile *profile, struct lw_buf *out,
                           struct lw_error *err)
{
    struct lw_table table = { 0 };
    bool done = lw_function_table_init(&table, profile, err);

    if (done)
        lw_render_markdown(&table, out);
    lw_table_release(&table);
    return done;
}

const struct lw_writer lw_writer_markdown = {
    .name = "markdown",
    .summary = "the functions as a table in Markdown",
    .suffixes = ".md",
    .lacks = "who called whom, in which thread and when",
    .holds_changes = true,
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_markdown,
};
