/* Steps of a trace that wait for their batch.
 *
 * What counts is the time in a DataLoader in which nothing else went on, on the host or a
 * GPU. Which kind of loader it is its name says: one that makes batches in the loop itself
 * can leave that to workers, who hide it if there are as many of them as batches take
 * longer to make than the rest of the step takes. Of a loader that has workers the trace
 * does not say how long they take. (A recording does: there advice_data looks, not this.)
 */

#include <math.h>
#include <string.h>

#include "analyses/advice_roles.h"
#include "analyses/tb_events.h"
#include "model/units.h"

#define WORTH_SHARE 0.05 /* of the steps, as torch_tb_profiler has it */
#define MOST_WORKERS 64
/* Workers hand batches over, which takes time itself: so much is sure to be saved. More of
 * them, or faster ones, may not be to be had. */
#define SURE_WORKERS 0.5
#define SURE_MORE 0.2

struct loaders {
    uint64_t count, ns; /* in steps */
    uint64_t single_ns; /* of that, of loaders without workers */
    uint32_t longest;   /* index */
};

static bool find_loaders(struct loaders *loaders, const struct lw_advice_trace *trace,
                         struct lw_error *err)
{
    const struct lw_profile *profile = trace->scope.profile;
    const struct lw_trace *all = trace->scope.trace;
    struct lw_tb_events names;
    bool done = lw_tb_events_init(&names, profile, err);

    for (uint32_t i = 0; done && i < all->event_count; i++) {
        const struct lw_event *event = &all->events[i];
        uint32_t rank = all->tracks[event->track].rank;
        uint64_t ns;

        if ((event->kind != LW_EVENT_OP && event->kind != LW_EVENT_RANGE) ||
            !trace->scope.ranks[rank] ||
            lw_tb_name(&names, event->name) != LW_TB_LOADER)
            continue;
        ns = lw_advice_in_steps(trace, rank, event->start_ns, lw_event_end_ns(event));
        if (ns == 0)
            continue;
        if (loaders->count == 0 ||
            event->duration_ns > all->events[loaders->longest].duration_ns)
            loaders->longest = i;
        loaders->count++;
        loaders->ns += ns;
        if (strstr(lw_profile_text(profile, event->name), "_SingleProcess"))
            loaders->single_ns += ns;
    }
    lw_tb_events_release(&names);
    return done;
}

/* How many make batches as fast as they are wanted, if making one takes as long as it did
 * in the loop: 1 to MOST_WORKERS. */
static unsigned workers_for(const struct loaders *loaders,
                            const struct lw_advice_trace *trace, uint64_t waited_ns)
{
    double rest_ns = (double)trace->step_ns - (double)waited_ns;
    double count = rest_ns > 0 ? ceil((double)loaders->ns / rest_ns) : MOST_WORKERS;

    return count > MOST_WORKERS ? MOST_WORKERS : count < 1 ? 1 : (unsigned)count;
}

static bool say(const struct loaders *loaders, const struct lw_advice_trace *trace,
                uint64_t waited_ns, struct lw_error *err)
{
    bool is_single = loaders->single_ns > loaders->ns / 2;
    double share = lw_advice_share(trace, (double)waited_ns);
    unsigned workers = workers_for(loaders, trace, waited_ns);
    struct lw_advice *advice = trace->advice;
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_loader);
    if (is_single)
        lw_buf_addf(&words.change,
                    "Give the DataLoader %u worker%s (num_workers=%u) or more", workers,
                    workers == 1 ? "" : "s", workers);
    else
        lw_buf_add_text(&words.change,
                        "Give the DataLoader more workers (num_workers), "
                        "or have them do less for a batch");
    lw_buf_add_text(why, "a step waits for its batch, ");
    lw_advice_words_add_part(why, trace, waited_ns);
    lw_buf_add_text(why, " in which nothing else goes on");
    if (is_single) {
        lw_buf_add_text(why, "; the loop makes batches itself, each in ");
        lw_units_add_ns(why, (int64_t)(loaders->ns / loaders->count));
    }
    words.finding.gain_low = (is_single ? SURE_WORKERS : SURE_MORE) * share;
    words.finding.gain_high = share;
    done = lw_advice_words_place_of(&words, advice, loaders->longest, err) &&
           lw_advice_words_add(&words, advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool find(const struct lw_advice_trace *trace, struct lw_error *err)
{
    struct loaders loaders = { 0 };
    uint64_t ns[LW_ROLE_COUNT];

    if (!find_loaders(&loaders, trace, err))
        return false;
    if (loaders.count == 0)
        return true;
    return lw_advice_roles(trace, ns, err) &&
           (lw_advice_share(trace, (double)ns[LW_ROLE_DATA_LOADER]) <= WORTH_SHARE ||
            say(&loaders, trace, ns[LW_ROLE_DATA_LOADER], err));
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct lw_advice_trace trace;
    bool done;

    if (advice->has & LW_ADVICE_STEPS)
        return true;
    done = lw_advice_trace_init(&trace, advice, err) && find(&trace, err);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_advice_rule lw_advice_rule_loader = {
    .name = "loader",
    .question = "Do steps of the trace wait for their batch?",
    .needs = LW_ADVICE_TRACE,
    .look = look,
};
