/* Communication that no computation hides; and ways to train on several GPUs that are
 * slower than others.
 *
 * With traces of several ranks it is told whether they wait for one that comes last or for
 * the bytes (collectives.h): the one is changed by work that is spread better, the other
 * by fewer or smaller messages. Either may go at best, and much of it remains at worst: a
 * fifth to all of it is the estimate. */

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyses/advice_roles.h"
#include "analyses/collectives.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

#define WORTH_SHARE 0.1 /* of the steps, as torch_tb_profiler has it */
#define SURE 0.2
#define MOSTLY 0.5 /* of communication is waiting, of the waiting for one rank */
#define ONE_MOMENT_NS 10000 /* as ranks.c: the ends of a collective are so far apart */

struct waiting {
    uint64_t ns;      /* of all parts of collectives of which several ranks were seen */
    uint64_t wait_ns; /* of that, for others to come */
    uint64_t *for_ns; /* owned: of each rank, how long others waited for it */
    uint32_t most;    /* index of the rank that they waited for most; LW_NONE: none */
};

/* ---- who waits for whom ------------------------------------------------------------- */

static bool find_waiting(struct waiting *waiting, const struct lw_advice_trace *trace,
                         struct lw_error *err)
{
    size_t rank_count = trace->scope.trace->rank_count;
    struct lw_collectives all;
    bool done = lw_collectives_init(&all, trace->scope.profile, err);

    waiting->most = LW_NONE;
    waiting->for_ns = lw_zalloc(rank_count + 1, sizeof(*waiting->for_ns), err);
    done = done && waiting->for_ns;
    for (size_t i = 0; done && i < all.match_count; i++) {
        const struct lw_collective_match *match = &all.matches[i];
        const struct lw_collective_part *last = &all.parts[match->last];

        if (match->count < 2)
            continue;
        for (uint32_t p = match->first; p < match->first + match->count; p++)
            waiting->ns += lw_collective_part_ns(&all, &all.parts[p]);
        waiting->wait_ns += match->wait_ns;
        if (lw_collective_kind_waits((enum lw_collective_kind)last->kind) &&
            match->longest_ns - match->transfer_ns > ONE_MOMENT_NS)
            waiting->for_ns[last->rank] += match->wait_ns;
    }
    for (uint32_t i = 0; done && i < rank_count; i++)
        if (waiting->for_ns[i] > 0 &&
            (waiting->most == LW_NONE ||
             waiting->for_ns[i] > waiting->for_ns[waiting->most]))
            waiting->most = i;
    lw_collectives_release(&all);
    return done;
}

/* ---- what is said ------------------------------------------------------------------- */

static void say_balance(struct lw_advice_words *words,
                        const struct lw_advice_trace *trace,
                        const struct waiting *waiting)
{
    uint64_t for_ns = waiting->most == LW_NONE ? 0 : waiting->for_ns[waiting->most];

    lw_buf_add_text(&words->evidence, "; ");
    lw_units_add_share(&words->evidence,
                       (double)waiting->wait_ns / (double)waiting->ns);
    lw_buf_add_text(&words->evidence, " of it is waiting for other ranks");
    if ((double)for_ns < MOSTLY * (double)waiting->wait_ns) {
        lw_buf_add_text(&words->change, "Give all ranks as much to do: they wait for "
                                        "each other");
        return;
    }
    lw_buf_addf(&words->change,
                "Find out why rank %" PRId64
                " is late, and give it less to do: the others wait for it",
                lw_trace_rank_number(trace->scope.trace, waiting->most));
    lw_buf_add_text(&words->evidence, ", ");
    lw_units_add_share(&words->evidence, (double)for_ns / (double)waiting->wait_ns);
    lw_buf_addf(&words->evidence, " of that for rank %" PRId64,
                lw_trace_rank_number(trace->scope.trace, waiting->most));
}

static bool say(const struct lw_advice_trace *trace, uint64_t ns, struct lw_error *err)
{
    double share = lw_advice_share(trace, (double)ns);
    struct waiting waiting = { .most = LW_NONE };
    struct lw_advice_words words;
    bool is_waiting;
    bool done = trace->scope.rank_count < 2 || find_waiting(&waiting, trace, err);

    is_waiting =
        waiting.ns > 0 && (double)waiting.wait_ns >= MOSTLY * (double)waiting.ns;
    lw_advice_words_init(&words, &lw_advice_rule_comm);
    lw_buf_add_text(&words.evidence, "communication that no computation hides takes ");
    lw_advice_words_add_part(&words.evidence, trace, ns);
    if (is_waiting) {
        share *= (double)waiting.wait_ns / (double)waiting.ns;
        say_balance(&words, trace, &waiting);
    } else {
        lw_buf_add_text(&words.change,
                        "Communicate less, or behind computation: accumulate gradients "
                        "under no_sync(), compress them (DDP's bf16_compress_hook), "
                        "larger batches, overlap with the backward pass");
        if (waiting.ns == 0)
            lw_buf_add_text(&words.evidence,
                            "; whether ranks wait for one of them, 'lapwing report "
                            "FOLDER advice' of all ranks' traces says");
    }
    words.finding.gain_low = SURE * share;
    words.finding.gain_high = share;
    done = done && lw_advice_words_add(&words, trace->advice, err);
    lw_advice_words_release(&words);
    lw_free(waiting.for_ns);
    return done;
}

/* ---- ways to train ------------------------------------------------------------------ */

/* What ranges of a rank tell of it. */
struct way {
    bool is_data_parallel, is_ddp, has_gloo, has_nccl;
    bool has_work[2]; /* on a device, and on another one */
    int32_t device;
};

static void look_at(struct way *way, const struct lw_advice_trace *trace,
                    const struct lw_event *event)
{
    const char *name = lw_profile_text(trace->scope.profile, event->name);
    const struct lw_track *track = &trace->scope.trace->tracks[event->track];

    if (event->kind == LW_EVENT_OP || event->kind == LW_EVENT_RANGE) {
        way->is_data_parallel |= strcmp(name, "DataParallel.forward") == 0;
        way->is_ddp |= strcmp(name, "DistributedDataParallel.forward") == 0;
        way->has_gloo |= lw_text_starts(name, "gloo:");
        way->has_nccl |= lw_text_starts(name, "nccl:");
    } else if (event->kind == LW_EVENT_KERNEL) {
        way->has_work[way->has_work[0] && track->device != way->device] = true;
        if (!way->has_work[1])
            way->device = track->device;
    }
}

static bool say_way(const struct lw_advice_trace *trace, const char *change,
                    const char *evidence, struct lw_error *err)
{
    struct lw_advice_words words;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_comm);
    lw_buf_add_text(&words.change, change);
    lw_buf_add_text(&words.evidence, evidence);
    words.finding.gain_low = words.finding.gain_high = (double)NAN;
    done = lw_advice_words_add(&words, trace->advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool find_way(const struct lw_advice_trace *trace, struct lw_error *err)
{
    const struct lw_trace *all = trace->scope.trace;
    struct way *ways = lw_zalloc(all->rank_count + 1, sizeof(*ways), err);
    bool is_data_parallel = false, is_gloo = false;

    if (!ways)
        return false;
    for (size_t i = 0; i < all->event_count; i++)
        if (lw_trace_scope_has(&trace->scope, &all->events[i]))
            look_at(&ways[all->tracks[all->events[i].track].rank], trace,
                    &all->events[i]);
    for (size_t i = 0; i < all->rank_count; i++) {
        is_data_parallel |= ways[i].is_data_parallel && ways[i].has_work[1];
        is_gloo |= ways[i].is_ddp && ways[i].has_work[0] && ways[i].has_gloo &&
                   !ways[i].has_nccl;
    }
    lw_free(ways);
    if (is_data_parallel &&
        !say_way(
            trace,
            "Train with DistributedDataParallel, a process for each GPU (torchrun), "
            "in place of DataParallel",
            "DataParallel runs several GPUs from the threads of one process, and "
            "copies the model to all of them in every step",
            err))
        return false;
    return !is_gloo ||
           say_way(trace,
                   "Let the GPUs communicate by NCCL: init_process_group(\"nccl\")",
                   "DistributedDataParallel runs on GPUs, and sends gradients by gloo, "
                   "which takes them through the host's memory",
                   err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    uint64_t ns[LW_ROLE_COUNT];
    struct lw_advice_trace trace;
    bool done =
        lw_advice_trace_init(&trace, advice, err) && lw_advice_roles(&trace, ns, err);

    if (done &&
        lw_advice_share(&trace, (double)ns[LW_ROLE_COMMUNICATION]) > WORTH_SHARE)
        done = say(&trace, ns[LW_ROLE_COMMUNICATION], err);
    done = done && find_way(&trace, err);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_advice_rule lw_advice_rule_comm = {
    .name = "comm",
    .question = "Does a step wait for communication?",
    .needs = LW_ADVICE_TRACE,
    .look = look,
};
