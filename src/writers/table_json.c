/* A table as JSON, a row a line. */

#include <string.h>

#include "base/json_out.h"
#include "writers/render.h"

static const char *unit_name(enum lw_unit unit)
{
    switch (unit) {
    case LW_UNIT_TEXT: return "text";
    case LW_UNIT_COUNT: return "count";
    case LW_UNIT_NS: return "ns";
    case LW_UNIT_SECONDS: return "s";
    case LW_UNIT_BYTES: return "bytes";
    case LW_UNIT_SHARE: return "share";
    case LW_UNIT_TIME: return "ns since 1970";
    case LW_UNIT_PERCENT: return "percent";
    case LW_UNIT_BYTES_S: return "bytes/s";
    case LW_UNIT_OWN: return "own";
    case LW_UNIT_NUMBER: break;
    }
    return "number";
}

static void write_value(struct lw_json_out *json, enum lw_unit unit,
                        const struct lw_value *value)
{
    if (!value->present) {
        lw_json_null(json);
        return;
    }
    switch (unit) {
    case LW_UNIT_TEXT:
        lw_json_text(json, value->as.text.bytes, value->as.text.len);
        break;
    case LW_UNIT_COUNT:
    case LW_UNIT_NS:
    case LW_UNIT_BYTES:
    case LW_UNIT_TIME: lw_json_i64(json, value->as.integer); break;
    case LW_UNIT_SECONDS:
    case LW_UNIT_SHARE:
    case LW_UNIT_NUMBER:
    case LW_UNIT_PERCENT:
    case LW_UNIT_BYTES_S:
    case LW_UNIT_OWN: lw_json_double(json, value->as.number); break;
    }
}

static void write_columns(struct lw_json_out *json, const struct lw_table *table)
{
    bool pretty = json->pretty;

    lw_json_key(json, "columns");
    lw_json_array(json);
    for (size_t i = 0; i < table->column_count; i++) {
        const struct lw_column *column = &table->columns[i];

        lw_json_object(json);
        json->pretty = false;
        lw_json_key_text(json, "name", column->name);
        lw_json_key_text(json, "title", column->title);
        lw_json_key_text(json, "unit", unit_name(column->unit));
        lw_json_end(json, '}');
        json->pretty = pretty;
    }
    lw_json_end(json, ']');
}

/* The cells of a row on one line; the object stays open for its children. */
static void open_row(struct lw_json_out *json, const struct lw_table *table, size_t row)
{
    bool pretty = json->pretty;

    lw_json_object(json);
    json->pretty = false;
    for (size_t i = 0; i < table->column_count; i++) {
        lw_json_key(json, table->columns[i].name);
        write_value(json, table->columns[i].unit, lw_table_value(table, row, i));
    }
    if (table->depths[row] > LW_RENDER_DEPTH)
        lw_json_key_u64(json, "depth", table->depths[row]);
    json->pretty = pretty;
}

static void open_children(struct lw_json_out *json)
{
    bool pretty = json->pretty;

    json->pretty = false;
    lw_json_key(json, "children");
    json->pretty = pretty;
    lw_json_array(json);
}

static void close_row(struct lw_json_out *json)
{
    bool pretty = json->pretty;

    json->pretty = false; /* the bracket stays on the line of what it ends */
    lw_json_end(json, '}');
    json->pretty = pretty;
}

static uint32_t json_depth(const struct lw_table *table, size_t row)
{
    uint32_t depth = table->depths[row];

    return depth < LW_RENDER_DEPTH ? depth : LW_RENDER_DEPTH;
}

/* Before each row, close all rows that do not hold it: `open` of them are. */
static void write_rows(struct lw_json_out *json, const struct lw_table *table)
{
    uint32_t open = 0;

    lw_json_key(json, "rows");
    lw_json_array(json);
    for (size_t row = 0; row < table->row_count; row++) {
        uint32_t depth = json_depth(table, row);

        if (depth == open && open > 0)
            open_children(json);
        while (open > depth) {
            close_row(json);
            open--;
            if (open > depth)
                lw_json_end(json, ']');
        }
        open_row(json, table, row);
        open = depth + 1;
    }
    while (open > 0) {
        close_row(json);
        open--;
        if (open > 0)
            lw_json_end(json, ']');
    }
    lw_json_end(json, ']');
}

void lw_render_json_value(const struct lw_table *table, struct lw_json_out *json)
{
    lw_json_object(json);
    lw_json_key(json, "title");
    if (table->title)
        lw_json_text(json, table->title, strlen(table->title));
    else
        lw_json_null(json);
    write_columns(json, table);
    write_rows(json, table);
    lw_json_key(json, "notes");
    lw_json_array(json);
    for (size_t i = 0; i < table->note_count; i++)
        lw_json_text(json, table->notes[i], strlen(table->notes[i]));
    lw_json_end(json, ']');
    lw_json_end(json, '}');
}

void lw_render_json(const struct lw_table *table, struct lw_buf *out)
{
    struct lw_json_out json;

    lw_json_start(&json, out, true);
    lw_render_json_value(table, &json);
}
