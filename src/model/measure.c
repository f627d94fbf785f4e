#include "model/measure.h"

#include <string.h>

#include "model/units.h"

static const struct {
    enum lw_unit unit;
    const char *word; /* in the fact "measure" */
} measures[] = {
    { LW_UNIT_COUNT, "count" },
    { LW_UNIT_BYTES, "bytes" },
    { LW_UNIT_NUMBER, "number" },
};

bool lw_measure_set(struct lw_builder *out, enum lw_unit unit, const char *sentence,
                    struct lw_error *err)
{
    for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
        if (measures[i].unit == unit)
            return lw_builder_fact(out, "measure", measures[i].word,
                                   strlen(measures[i].word), err) &&
                   lw_builder_fact(out, "measured", sentence, strlen(sentence), err);
    return true;
}

enum lw_unit lw_measure_unit(const struct lw_profile *profile)
{
    const char *word = lw_profile_fact(profile, "measure");

    for (size_t i = 0; word && i < sizeof(measures) / sizeof(measures[0]); i++)
        if (strcmp(measures[i].word, word) == 0)
            return measures[i].unit;
    return LW_UNIT_NS;
}

const char *lw_measure_sentence(const struct lw_profile *profile)
{
    return lw_measure_unit(profile) == LW_UNIT_NS
               ? NULL
               : lw_profile_fact(profile, "measured");
}

/* A time as what it is. */
static struct lw_value measured(enum lw_unit unit, int64_t ns)
{
    struct lw_value value = { .present = true };

    if (unit == LW_UNIT_NUMBER)
        value.as.number = (double)ns / 1e9;
    else
        value.as.integer = ns;
    return value;
}

void lw_measure_add(struct lw_buf *out, const struct lw_profile *profile, int64_t ns)
{
    enum lw_unit unit = lw_measure_unit(profile);
    struct lw_value value = measured(unit, ns);

    lw_units_add_value(out, unit, &value);
}

static const char *without_ns(const char *name, struct lw_table *table)
{
    size_t len = strlen(name);
    char *copy;

    if (len < 4 || strcmp(name + len - 3, "_ns") != 0)
        return name;
    copy = lw_arena_copy(&table->arena, name, len - 3, NULL);
    if (!copy)
        table->failure = LW_ERR_NOMEM;
    return copy ? copy : name;
}

void lw_measure_table(const struct lw_profile *profile, struct lw_table *table)
{
    enum lw_unit unit = lw_measure_unit(profile);
    size_t size = table->column_count * sizeof(*table->columns);
    struct lw_column *columns;

    if (unit == LW_UNIT_NS || table->failure || table->column_count == 0)
        return;
    columns = lw_arena_alloc(&table->arena, size, NULL);
    if (!columns) {
        table->failure = LW_ERR_NOMEM;
        return;
    }
    memcpy(columns, table->columns, size);
    for (size_t c = 0; c < table->column_count; c++) {
        if (columns[c].unit != LW_UNIT_NS)
            continue;
        columns[c].unit = unit;
        columns[c].name = without_ns(columns[c].name, table);
        for (size_t row = 0; row < table->row_count; row++) {
            struct lw_value *value = &table->values[row * table->column_count + c];

            if (value->present)
                *value = measured(unit, value->as.integer);
        }
    }
    table->columns = columns;
}
