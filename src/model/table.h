/* What every analysis yields and every renderer shows: typed columns that carry
 * their unit, rows that may nest.
 *
 * A table is built row by row: lw_table_row() starts one, then one add for each
 * column in order. Text is copied into the table's arena. A cell that does not apply is
 * lw_table_add_none; cells never added are absent, too. Depth 0 rows are top level; a row
 * of depth n+1 belongs to the nearest row of depth n before it, so a row is at most one
 * deeper than the row before (more is taken as one). Failure is sticky: adds after it do
 * nothing, and lw_table_check() says so once at the end. */
#ifndef LW_MODEL_TABLE_H
#define LW_MODEL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum lw_unit {
    LW_UNIT_TEXT,
    LW_UNIT_COUNT,   /* integer: 1,234 */
    LW_UNIT_NS,      /* integer nanoseconds, shown as 1.23 s, 45.6 ms */
    LW_UNIT_SECONDS, /* double seconds, shown with three decimals, as pstats does */
    LW_UNIT_BYTES,   /* integer, shown as 1.2 MB */
    LW_UNIT_SHARE,   /* double 0..1, shown as 12.3 % */
    LW_UNIT_TIME,    /* integer ns since 1970, shown as local date and time */
    LW_UNIT_NUMBER,  /* double, plain */
    LW_UNIT_PERCENT, /* double, shown as 187.3 %: of something that can be over 100 */
    LW_UNIT_BYTES_S, /* double bytes a second, shown as 1.2 MB/s */
    LW_UNIT_OWN,     /* double: each cell says its unit, one of those that are doubles,
                        or LW_UNIT_BYTES */
};

struct lw_column {
    const char *name;  /* machine name, for JSON and CSV: "self_ns" */
    const char *title; /* for a person: "self" */
    enum lw_unit unit;
    bool stretch; /* text that may be cut to fit the terminal (the function's name) */
};

struct lw_value {
    bool present;
    unsigned char unit; /* enum lw_unit of its own, in a column of LW_UNIT_OWN */
    union {
        int64_t integer;
        double number;
        struct {
            const char *bytes; /* borrowed from the table's arena */
            size_t len;
        } text;
    } as;
};

/* Patterns were to restrict the rows and left none of them. */
struct lw_table_unmatched {
    const char
        *noun; /* of the rows: "function", "row"; constant. NULL: some are left */
    const char *word; /* the pattern that matches no row; NULL: each matches some row.
                            This and `nearest` lie in the arena */
    const char *nearest; /* the name that is most like it; NULL: none is */
};

struct lw_table {
    char *title;                     /* one line above; may be NULL */
    const struct lw_column *columns; /* constant, borrowed */
    size_t column_count;
    struct lw_value *values; /* row-major: row_count * column_count */
    uint32_t *depths;        /* one a row */
    size_t row_count;
    size_t row_capacity;
    size_t depth_capacity;
    size_t filled;  /* cells of the row being built */
    char **sayings; /* one a row, if lw_table_say() was called; NULL: it was not */
    size_t saying_capacity;
    char **notes; /* sentences below: what is missing, what to do next */
    size_t note_count;
    size_t note_capacity;
    struct lw_table_unmatched unmatched;
    struct lw_arena arena;
    enum lw_error_code failure; /* sticky, as struct lw_buf */
};

void lw_table_init(struct lw_table *table, const struct lw_column *columns,
                   size_t column_count);
void lw_table_release(struct lw_table *table);

void lw_table_set_title(struct lw_table *table, const char *format, ...)
    LW_PRINTF(2, 3);
void lw_table_note(struct lw_table *table, const char *format, ...) LW_PRINTF(2, 3);
/* The restrictions left no row. Texts are copied; the first call counts. */
void lw_table_set_unmatched(struct lw_table *table, const char *word, const char *noun,
                            const char *nearest);
void lw_table_row(struct lw_table *table, uint32_t depth);
void lw_table_add_text(struct lw_table *table, const char *text, size_t len);
void lw_table_add_integer(struct lw_table *table, int64_t value);
void lw_table_add_number(struct lw_table *table, double value);
/* In a column of LW_UNIT_OWN. */
void lw_table_add_own(struct lw_table *table, double value, enum lw_unit unit);
void lw_table_add_none(struct lw_table *table);
/* What the row being built says to a person, where that is sentences: lines, the first
 * being its heading. As text the rows are these, numbered and never cut; other renderers
 * show the cells. For every row of a table or for none, and such rows do not nest. */
void lw_table_say(struct lw_table *table, const char *format, ...) LW_PRINTF(2, 3);
bool lw_table_check(const struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;

static inline const struct lw_value *lw_table_value(const struct lw_table *table,
                                                    size_t row, size_t column)
{
    return &table->values[row * table->column_count + column];
}

#endif
