/* Numbers for people: three significant digits and a unit. */
#ifndef LW_MODEL_UNITS_H
#define LW_MODEL_UNITS_H

#include <stdint.h>

#include "base/buf.h"
#include "model/table.h"

void lw_units_add_ns(struct lw_buf *out, int64_t ns);       /* "1.23 s", "45.6 ms" */
void lw_units_add_bytes(struct lw_buf *out, int64_t bytes); /* "1.2 MB" */
void lw_units_add_count(struct lw_buf *out, int64_t count); /* "1,234,567" */
/* "1 process", "1,234 processes", "0 samples": NOUN is the singular of a regular noun. */
void lw_units_add_counted(struct lw_buf *out, int64_t count, const char *noun);
/* The noun alone, of which the plural is known: "process" of 1, else PLURAL itself. */
void lw_units_add_noun(struct lw_buf *out, int64_t count, const char *plural);
void lw_units_add_share(struct lw_buf *out, double share);   /* "12.3 %" */
void lw_units_add_time(struct lw_buf *out, int64_t wall_ns); /* "2026-11-15 20:07:31" */
/* Any value of a table, as its column's unit says. */
void lw_units_add_value(struct lw_buf *out, enum lw_unit unit,
                        const struct lw_value *value);

#endif
