/* What a format says of a frame, made once for each frame and then only copied.
 *
 * A trace names the same few thousand functions a million times. To escape such a name
 * anew for each event would cost more than all the rest of writing it. */
#ifndef LW_WRITERS_LABELS_H
#define LW_WRITERS_LABELS_H

#include "base/buf.h"
#include "model/profile.h"

struct lw_labels {
    struct lw_buf text; /* of all frames, one behind the other */
    size_t *starts;     /* owned: by frame, and behind the last one the end */
};

/* Append what the format says of FRAME to OUT. */
typedef void lw_label_frame(const struct lw_profile *profile,
                            const struct lw_frame *frame, struct lw_buf *out);

/* Ask LABEL for each frame of PROFILE. Release in any case. */
bool lw_labels_init(struct lw_labels *labels, const struct lw_profile *profile,
                    lw_label_frame *label, struct lw_error *err) LW_MUST_CHECK;
void lw_labels_release(struct lw_labels *labels); /* zeroed is fine */

/* Append the label of FRAME to OUT. */
static inline void lw_labels_add(const struct lw_labels *labels, lw_frame_id frame,
                                 struct lw_buf *out)
{
    lw_buf_add(out, labels->text.bytes + labels->starts[frame],
               labels->starts[frame + 1] - labels->starts[frame]);
}

#endif
