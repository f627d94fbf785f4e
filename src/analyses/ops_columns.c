#include "analyses/ops_columns.h"

#include <string.h>

bool lw_ops_columns_init(struct lw_table *table, const struct lw_ops_column *all,
                         size_t count, unsigned has, struct lw_error *err)
{
    struct lw_column *columns;

    lw_table_init(table, &all->column, 1); /* the table's own memory holds the others */
    columns = lw_arena_alloc(&table->arena, count * sizeof(*columns), err);
    if (!columns)
        return false;
    table->columns = columns;
    table->column_count = 0;
    for (size_t i = 0; i < count; i++)
        if ((all[i].when & has) == all[i].when)
            columns[table->column_count++] = all[i].column;
    return true;
}

void lw_ops_add_word(struct lw_table *table, const char *word)
{
    lw_table_add_text(table, word, strlen(word));
}

void lw_ops_add_name(struct lw_table *table, const struct lw_profile *profile,
                     const struct lw_op_row *row)
{
    if (row->is_step)
        lw_ops_add_word(table, "ProfilerStep*");
    else
        lw_table_add_text(table, lw_profile_text(profile, row->name),
                          lw_strings_len(profile->strings, row->name));
}
