#include "cmd/latest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "lap/run.h"
#include "model/units.h"

#define SHORT_NS \
    1000000000ull      /* a training takes longer; an import that fails does not */
#define MUCH_LONGER 10 /* times as long as a short one, so worth a word */

/* 0: not known, as of one whose recorder was killed. */
static uint64_t length_ns(const struct lw_run_info *info)
{
    return info->end_ns > info->start_ns ? info->end_ns - info->start_ns : 0;
}

static bool has_failed(const struct lw_run_info *info)
{
    return info->state == LW_RUN_FINISHED && info->exit_code > 0;
}

/* May OTHER be what is meant, and not LATEST, which came to nothing? */
static bool is_better(const struct lw_run_info *other, const struct lw_run_info *latest)
{
    uint64_t least = length_ns(latest) * (has_failed(latest) ? 1 : MUCH_LONGER);

    return other->state == LW_RUN_FINISHED && !has_failed(other) &&
           length_ns(other) > least;
}

static void say(const struct lw_run *latest, const struct lw_run *better, size_t place)
{
    struct lw_buf text, line;

    lw_buf_init(&text, 0);
    lw_buf_init(&line, 0);
    lw_buf_addf(&text, "the latest run, %s, %s after ", latest->name,
                has_failed(&latest->info) ? "failed" : "ended");
    lw_units_add_ns(&text, (int64_t)length_ns(&latest->info));
    if (has_failed(&latest->info))
        lw_buf_addf(&text, " (exit code %" PRId32 ")", latest->info.exit_code);
    lw_buf_addf(&text, "; -%zu is the %s, %s", place,
                place == 2                  ? "one before it"
                : has_failed(&latest->info) ? "last that did not"
                                            : "last that took longer",
                better->name);
    lw_text_add_printable(&line, text.bytes, text.len);
    if (!text.failure && !line.failure)
        fprintf(stderr, "lapwing: %s\n", line.bytes);
    lw_buf_release(&text);
    lw_buf_release(&line);
}

void lw_latest_warn(const char *runs)
{
    struct lw_run_list list;
    const struct lw_run *latest;

    /* What cannot be listed is said by whoever opens it. */
    if (lw_run_list_read(&list, runs, NULL) && list.count > 1) {
        latest = &list.runs[list.count - 1];
        if (has_failed(&latest->info) || (latest->info.state == LW_RUN_FINISHED &&
                                          length_ns(&latest->info) < SHORT_NS))
            for (size_t place = 2; place <= list.count; place++) {
                const struct lw_run *other = &list.runs[list.count - place];

                if (!is_better(&other->info, &latest->info))
                    continue;
                say(latest, other, place);
                break;
            }
    }
    lw_run_list_release(&list);
}
