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

static bool say(const struct lw_run *latest, const struct lw_run *better, size_t place,
                struct lw_error *err)
{
    struct lw_buf text, line;
    bool done;

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
    lw_text_add_printable(&line, text.bytes ? text.bytes : "", text.len);
    done = lw_buf_check(&text, err) && lw_buf_check(&line, err);
    if (done)
        fprintf(stderr, "lapwing: %s\n", line.bytes);
    lw_buf_release(&text);
    lw_buf_release(&line);
    return done;
}

static bool came_to_nothing(const struct lw_run_info *info)
{
    return has_failed(info) ||
           (info->state == LW_RUN_FINISHED && length_ns(info) < SHORT_NS);
}

static bool look_through(const struct lw_run_list *list, struct lw_error *err)
{
    const struct lw_run *latest = list->count ? &list->runs[list->count - 1] : NULL;

    if (!latest || !came_to_nothing(&latest->info))
        return true;
    for (size_t place = 2; place <= list->count; place++) {
        const struct lw_run *other = &list->runs[list->count - place];

        if (is_better(&other->info, &latest->info))
            return say(latest, other, place, err);
    }
    return true;
}

bool lw_latest_warn(const char *runs, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_run_list list;
    bool done = lw_run_list_read(&list, runs, &why) && look_through(&list, &why);

    lw_run_list_release(&list);
    /* A folder that cannot be listed is said where the run is opened. */
    return done || why.code != LW_ERR_NOMEM || lw_fail(err, why.code, "%s", why.text);
}
