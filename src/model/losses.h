/* What is missing from a profile, in words: for whatever shows a profile or hands it on.
 * No file of ours may look more complete than the recording was. */
#ifndef LW_MODEL_LOSSES_H
#define LW_MODEL_LOSSES_H

#include "base/buf.h"
#include "model/profile.h"

/* Append "1,234 spans of process 4242 (ring full)"; the process only where there are
 * several. */
void lw_loss_add_text(const struct lw_profile *profile, const struct lw_loss *loss,
                      struct lw_buf *out);

/* Append one line of printable text, without its end, for a format that has one place for
 * a remark: "missing: 3 spans (ring full); 7 calls (tree full)", and before it that times
 * are not times, where the fact "unit" says so. Nothing if nothing is to be said. */
void lw_losses_add_line(const struct lw_profile *profile, struct lw_buf *out);

#endif
