/* A GPU that stands idle between kernels because the host cannot launch them as fast as
 * they run: many small ops.
 *
 * The cause is measured: the host was in ops, and the GPU had nothing to do (late_host.h).
 * What helps is to launch less: compiled or captured as a graph, up to all of that time
 * is saved; with larger batches, or a fused optimizer, some of it. A trace makes ops
 * slower than they are without it, so that the least is three tenths. */

#include "analyses/late_host.h"
#include "analyses/launches.h"
#include "base/text.h"
#include "model/units.h"

#define OPS_SHARE 0.1 /* of the steps: a GPU busy for nine tenths is well used */
#define SURE 0.3
#define IN_OPTIMIZER 0.5 /* of that time: from here on the optimizer is the cause */

/* Launches in steps. */
struct tally {
    uint64_t count, short_count;
    uint64_t call_ns, work_ns;
};

static bool count_launches(struct tally *tally, const struct lw_advice_trace *trace,
                           struct lw_error *err)
{
    const struct lw_event *events = trace->scope.trace->events;
    struct lw_launches launches = { 0 };
    bool done = lw_launches_init(&launches, &trace->scope, err);

    for (size_t i = 0; done && i < launches.count; i++) {
        const struct lw_launch *launch = &launches.list[i];
        const struct lw_event *call = &events[launch->call];
        uint32_t rank = trace->scope.trace->tracks[call->track].rank;

        if (lw_advice_in_steps(trace, rank, call->start_ns, call->start_ns + 1) == 0)
            continue;
        tally->count++;
        tally->short_count += lw_launch_is_short(launch);
        tally->call_ns += (uint64_t)launch->call_ns;
        tally->work_ns += (uint64_t)launch->work_ns;
    }
    lw_launches_release(&launches);
    return done;
}

/* "1,570 launches a step, whose work takes 4.1 us in the mean and 62 % of them less than
 * the call" */
static void add_tally(struct lw_buf *out, const struct lw_advice_trace *trace,
                      const struct tally *tally)
{
    lw_units_add_counted(out, (int64_t)(tally->count / trace->step_count), "launch");
    lw_buf_add_text(out, trace->is_marked ? " a step, whose work takes "
                                          : ", whose work takes ");
    lw_units_add_ns(out, (int64_t)(tally->work_ns / tally->count));
    lw_buf_add_text(out, " in the mean; ");
    lw_units_add_share(out, (double)tally->short_count / (double)tally->count);
    lw_buf_add_text(out, " of them are over sooner than the call for them");
}

static bool say(const struct lw_late_host *late, const struct tally *tally,
                struct lw_error *err)
{
    const struct lw_late_group *most = lw_late_host_most(late, LW_LATE_OPS);
    const struct lw_advice_trace *trace = late->trace;
    const struct lw_profile *profile = trace->scope.profile;
    double share = lw_late_host_share(late, LW_LATE_OPS);
    bool is_optimizer =
        (double)late->optimizer_ns >= IN_OPTIMIZER * (double)late->ns[LW_LATE_OPS];
    struct lw_advice_words words;
    const char *line = NULL;
    size_t len = 0;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_launch);
    lw_buf_add_text(&words.change,
                    is_optimizer ? "Let the optimizer launch less: fused=True, or "
                                   "foreach=True"
                                 : "Launch fewer, larger kernels: "
                                   "torch.compile(mode=\"reduce-overhead\") or CUDA "
                                   "graphs, a larger batch, fused ops");
    lw_buf_add_text(&words.evidence, "the GPU stands idle ");
    lw_advice_words_add_part(&words.evidence, trace,
                             (uint64_t)(share * (double)trace->step_ns));
    lw_buf_add_text(&words.evidence, " while the host is in ops");
    if (is_optimizer)
        lw_buf_add_text(&words.evidence, ", most of it in the optimizer's step");
    lw_buf_add_text(&words.evidence, "; ");
    add_tally(&words.evidence, trace, tally);
    if (most->name) {
        lw_buf_addf(&words.evidence, "; the most in %s, ",
                    lw_profile_text(profile, most->name));
        lw_units_add_ns(&words.evidence, lw_late_host_each(late, most->ns));
        len = lw_askers_line(&late->askers, most->event, &line);
    }
    words.finding.gain_low = SURE * share;
    words.finding.gain_high = share;
    done = lw_advice_words_place(&words, trace->advice, line, len, err) &&
           lw_advice_words_add(&words, trace->advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool find(const struct lw_late_host *late, struct lw_error *err)
{
    struct tally tally = { 0 };

    if (lw_late_host_share(late, LW_LATE_OPS) < OPS_SHARE)
        return true;
    return count_launches(&tally, late->trace, err) &&
           (tally.count == 0 || say(late, &tally, err));
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    return lw_late_host_look(advice, find, err);
}

const struct lw_advice_rule lw_advice_rule_launch = {
    .name = "launch",
    .question = "Does the GPU stand idle while the host launches small kernels?",
    .needs = LW_ADVICE_DEVICE,
    .look = look,
};
