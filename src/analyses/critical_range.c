/* From what a person says of a range to the window of a critical path. */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/critical.h"
#include "base/alloc.h"
#include "base/text.h"

/* NAME, or NAME@N: the N-th of those whose names hold it. */
static void split(const char *range, size_t *len, uint64_t *number)
{
    const char *at = strrchr(range, '@');

    *len = strlen(range);
    *number = 0;
    if (at && at > range && lw_text_u64(at + 1, strlen(at + 1), number))
        *len = (size_t)(at - range);
}

/* What may be a window: ranges and ops of the host. For HTA whatever has a name, ranges
 * as the device saw them behind the others, as they lie in files. */
static bool may_be(const struct lw_critical *c, const struct lw_event *event)
{
    if (c->trace->tracks[event->track].rank != c->rank)
        return false;
    if (c->is_hta)
        return lw_hta_keeps(&c->hta, event);
    return event->kind == LW_EVENT_RANGE || event->kind == LW_EVENT_OP;
}

static int compare_ranges(const void *x, const void *y, void *context)
{
    const struct lw_critical *c = context;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    bool p = lw_event_is_on_device(&c->trace->events[a]);
    bool q = lw_event_is_on_device(&c->trace->events[b]);

    if (p != q)
        return p ? 1 : -1;
    if (c->times[lw_critical_start(a)] != c->times[lw_critical_start(b)])
        return c->times[lw_critical_start(a)] < c->times[lw_critical_start(b)] ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Those whose names hold the LEN bytes at TEXT, in order; caller frees. */
static uint32_t *list_ranges(const struct lw_critical *c, const char *text, size_t len,
                             size_t *count, struct lw_error *err)
{
    const struct lw_trace *trace = c->trace;
    uint8_t *judgements = lw_zalloc(lw_strings_count(c->profile->strings), 1, err);
    uint32_t *ranges =
        judgements ? lw_alloc(trace->event_count * sizeof(*ranges) + 1, err) : NULL;

    *count = 0;
    for (uint32_t i = 0; ranges && i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint8_t *holds = &judgements[event->name];

        if (!*holds)
            *holds = memmem(lw_profile_text(c->profile, event->name),
                            lw_strings_len(c->profile->strings, event->name), text, len)
                         ? 2
                         : 1;
        if (*holds == 2 && may_be(c, event))
            ranges[(*count)++] = i;
    }
    lw_free(judgements);
    if (ranges)
        qsort_r(ranges, *count, sizeof(*ranges), compare_ranges, (void *)c);
    return ranges;
}

bool lw_critical_choose(struct lw_critical *c, const char *range,
                        struct lw_critical_range *found, struct lw_error *err)
{
    uint64_t number;
    size_t len;
    uint32_t *ranges;

    split(range, &len, &number);
    ranges = list_ranges(c, range, len, &found->count, err);
    if (!ranges)
        return false;
    if (number >= found->count) {
        lw_free(ranges);
        return found->count == 0
                   ? lw_fail(err, LW_ERR_USAGE,
                             "no range or op of the trace holds '%.*s'",
                             (int)(len < INT_MAX ? len : INT_MAX), range)
                   : lw_fail(err, LW_ERR_USAGE,
                             "there is no %s: of ranges and ops whose names hold that "
                             "the last is @%zu",
                             range, found->count - 1);
    }
    found->event = ranges[number];
    found->number = number;
    c->window.start = c->times[lw_critical_start(found->event)];
    c->window.end = c->times[lw_critical_end(found->event)];
    lw_free(ranges);
    return true;
}
