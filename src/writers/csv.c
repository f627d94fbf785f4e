/* Comma-separated values: the functions of a profile, one a row, for spreadsheets, pandas
 * and awk. Times are whole nanoseconds. `lapwing report VIEW --csv` gives the other
 * views. */

#include "writers/function_table.h"
#include "writers/render.h"
#include "writers/writer.h"

static bool write_csv(const struct lw_profile *profile, struct lw_buf *out,
                      struct lw_error *err)
{
    struct lw_table table = { 0 };
    bool done = lw_function_table_init(&table, profile, err);

    if (done)
        lw_render_csv(&table, out);
    lw_table_release(&table);
    return done;
}

const struct lw_writer lw_writer_csv = {
    .name = "csv",
    .summary = "the functions as comma-separated values, for spreadsheets and pandas",
    .suffixes = ".csv",
    .lacks = "who called whom, in which thread and when; what the recording misses",
    .holds_changes = true,
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_csv,
};
