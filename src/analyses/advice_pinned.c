/* Large copies to a GPU from pageable memory, in time in which it computes nothing.
 *
 * Such a copy goes through a buffer of the driver's, and the host stands in it. From
 * pinned memory it takes less than half the time, so that a third of it is saved at least;
 * with non_blocking=True it runs beside kernels, and all of it is. */

#include <string.h>

#include "analyses/advice_trace.h"
#include "analyses/device_times.h"
#include "model/units.h"

#define WORTH_SHARE 0.01 /* of the steps: less cannot be told from noise */
#define SURE 0.33

struct copies {
    uint64_t count, bytes;
    uint64_t ns;       /* in steps */
    uint64_t alone_ns; /* of that, while nothing was computed */
    uint32_t longest;  /* index */
};

static bool is_large_pageable(const struct lw_advice *advice,
                              const struct lw_event *event)
{
    return event->kind == LW_EVENT_MEMCPY && event->detail != LW_NONE &&
           advice->trace->works[event->detail].bytes >= LW_ADVICE_LARGE_COPY_BYTES &&
           strstr(lw_profile_text(advice->profile, event->name), "Pageable -> Device");
}

static void add_copies(struct copies *copies, const struct lw_advice_trace *trace,
                       const struct lw_device_times *times)
{
    const struct lw_trace *all = trace->scope.trace;

    for (uint32_t i = 0; i < all->event_count; i++) {
        const struct lw_event *event = &all->events[i];
        const struct lw_track *track = &all->tracks[event->track];
        uint64_t start_ns = event->start_ns, end_ns = lw_event_end_ns(event);
        const struct lw_device_time *device;
        uint64_t ns;

        if (!lw_trace_scope_has_track(&trace->scope, track) ||
            !is_large_pageable(trace->advice, event))
            continue;
        ns = lw_advice_in_steps(trace, track->rank, start_ns, end_ns);
        device = lw_device_times_find(times, track->rank, track->device);
        if (ns < event->duration_ns || !device)
            continue;
        if (copies->count == 0 ||
            event->duration_ns > all->events[copies->longest].duration_ns)
            copies->longest = i;
        copies->count++;
        copies->bytes += (uint64_t)all->works[event->detail].bytes;
        copies->ns += ns;
        copies->alone_ns += ns - lw_intervals_within(&device->sets[LW_WORK_COMPUTATION],
                                                     start_ns, end_ns);
    }
}

static bool say(const struct copies *copies, const struct lw_advice_trace *trace,
                struct lw_error *err)
{
    double share = lw_advice_share(trace, (double)copies->alone_ns);
    struct lw_advice *advice = trace->advice;
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_pinned);
    lw_buf_add_text(&words.change,
                    "Copy batches from pinned memory: DataLoader(pin_memory=True), and "
                    ".to(device, non_blocking=True)");
    lw_buf_add_text(why, "copies from pageable memory to the GPU, ");
    lw_advice_words_add_times(why, trace, copies->count);
    lw_buf_add_text(why, " with ");
    lw_units_add_bytes(why, (int64_t)(copies->bytes / copies->count));
    lw_buf_add_text(why, " each, take ");
    lw_advice_words_add_part(why, trace, copies->alone_ns);
    lw_buf_add_text(why, " in which nothing is computed");
    words.finding.gain_low = SURE * share;
    words.finding.gain_high = share;
    done = lw_advice_words_place_of(&words, advice, copies->longest, err) &&
           lw_advice_words_add(&words, advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct lw_advice_trace trace;
    struct lw_device_times times = { 0 };
    struct copies copies = { 0 };
    bool done = lw_advice_trace_init(&trace, advice, err) &&
                lw_device_times_init(&times, &trace.scope, err);

    if (done) {
        add_copies(&copies, &trace, &times);
        done = lw_advice_share(&trace, (double)copies.alone_ns) < WORTH_SHARE ||
               say(&copies, &trace, err);
    }
    lw_device_times_release(&times);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_advice_rule lw_advice_rule_pinned = {
    .name = "pinned",
    .question = "Do copies from pageable memory cost time?",
    .needs = LW_ADVICE_DEVICE,
    .look = look,
};
