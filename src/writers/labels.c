/* Labels lie in one buffer, so there is one check at the end. */

#include "writers/labels.h"

#include <string.h>

#include "base/alloc.h"

bool lw_labels_init(struct lw_labels *labels, const struct lw_profile *profile,
                    lw_label_frame *label, struct lw_error *err)
{
    size_t count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &count);

    memset(labels, 0, sizeof(*labels));
    lw_buf_init(&labels->text, 0);
    lw_buf_add_text(&labels->text, ""); /* so that there are bytes to point at */
    labels->starts = lw_alloc((count + 1) * sizeof(*labels->starts), err);
    if (!labels->starts)
        return false;
    for (size_t i = 0; i < count; i++) {
        labels->starts[i] = labels->text.len;
        label(profile, &frames[i], &labels->text);
    }
    labels->starts[count] = labels->text.len;
    return lw_buf_check(&labels->text, err);
}

void lw_labels_release(struct lw_labels *labels)
{
    lw_buf_release(&labels->text);
    lw_free(labels->starts);
    memset(labels, 0, sizeof(*labels));
}
