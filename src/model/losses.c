#include "model/losses.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "model/units.h"

void lw_loss_add_text(const struct lw_profile *profile, const struct lw_loss *loss,
                      struct lw_buf *out)
{
    lw_units_add_count(out, (int64_t)loss->count);
    lw_buf_add_char(out, ' ');
    lw_units_add_noun(out, (int64_t)loss->count, lw_profile_text(profile, loss->unit));
    if (loss->process != LW_NONE && profile->process_count > 1)
        lw_buf_addf(out, " of process %" PRIu64, profile->processes[loss->process].pid);
    lw_buf_addf(out, " (%s)", lw_profile_text(profile, loss->cause));
}

void lw_losses_add_line(const struct lw_profile *profile, struct lw_buf *out)
{
    const char *unit = lw_profile_fact(profile, "unit");
    struct lw_buf text;

    lw_buf_init(&text, 0);
    if (unit)
        lw_buf_addf(&text, "times may be something else: %s%s", unit,
                    profile->loss_count ? "; " : "");
    for (size_t i = 0; i < profile->loss_count; i++) {
        lw_buf_add_text(&text, i ? "; " : "missing: ");
        lw_loss_add_text(profile, &profile->losses[i], &text);
    }
    if (text.failure)
        out->failure = text.failure;
    else if (text.len > 0)
        lw_text_add_printable(out, text.bytes, text.len);
    lw_buf_release(&text);
}
