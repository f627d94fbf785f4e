/* What the times of a profile are where its file holds none.
 *
 * Folded stacks, callgrind's event counts and the like are weights without a unit or of
 * another one. The model keeps every weight as nanoseconds; who shows one asks here, so
 * that 21 samples are 21 and not "21 ns". It is kept as facts, which a merge and a
 * recording carry along. */
#ifndef LW_MODEL_MEASURE_H
#define LW_MODEL_MEASURE_H

#include "base/buf.h"
#include "model/builder.h"
#include "model/table.h"

/* The figures of the profile being built are of UNIT: LW_UNIT_COUNT, LW_UNIT_BYTES (a
 * nanosecond of the model is one of them) or LW_UNIT_NUMBER (a second is a weight of 1).
 * SENTENCE, without its full stop, tells a person. */
bool lw_measure_set(struct lw_builder *out, enum lw_unit unit, const char *sentence,
                    struct lw_error *err) LW_MUST_CHECK;

/* One of these, or LW_UNIT_NS: they are times. */
enum lw_unit lw_measure_unit(const struct lw_profile *profile);
/* The sentence; NULL: they are times. Borrowed. */
const char *lw_measure_sentence(const struct lw_profile *profile);

/* Append a time of PROFILE for a person: "1.23 s", or "21". */
void lw_measure_add(struct lw_buf *out, const struct lw_profile *profile, int64_t ns);
/* Make the times in TABLE what they are in PROFILE: "self_ns" becomes "self", of its
 * unit. To be called once, when the table is complete. */
void lw_measure_table(const struct lw_profile *profile, struct lw_table *table);

#endif
