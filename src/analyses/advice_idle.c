/* A GPU that stands idle while the host is in Python code, takes memory from the driver,
 * or is held up by single ops.
 *
 * What the host did is told by the functions and ranges of the trace (late_host.h). How
 * much of it can be left out only the person knows: the estimate is from a quarter (with
 * stacks a trace makes Python code itself twice as slow) to all of it, and a tenth for the
 * ops that then come in time. */

#include <math.h>

#include "analyses/late_host.h"
#include "base/text.h"
#include "model/units.h"

#define PYTHON_SHARE 0.1 /* of the steps: a GPU busy for nine tenths is well used */
#define PYTHON_SURE 0.25
#define MEMORY_SHARE 0.05
#define MEMORY_SURE 0.5
#define LONG_SHARE 0.1
#define LONG_SURE 0.25
#define ROOM 1.1
#define NAMED 3 /* so many functions or ranges are named */

/* "train.py(30): log 4.1 ms, ...": where a step's time was, of the groups of CAUSE. */
static void add_names(struct lw_buf *out, const struct lw_late_host *late,
                      enum lw_late_cause cause)
{
    const struct lw_profile *profile = late->trace->scope.profile;
    size_t named = 0;

    for (size_t i = 0; i < late->group_count && named < NAMED; i++) {
        const struct lw_late_group *group = &late->groups[i];

        if (group->cause != cause || (group->name == 0 && named > 0))
            continue;
        lw_buf_add_text(out, named++ > 0 ? ", " : "");
        if (group->name)
            lw_text_add_printable(out, lw_profile_text(profile, group->name),
                                  lw_strings_len(profile->strings, group->name));
        else
            lw_buf_add_text(out, "no function or range that is in the trace");
        lw_buf_add_char(out, ' ');
        lw_units_add_ns(out, lw_late_host_each(late, group->ns));
    }
}

/* Where nothing says what the host did: what came too late, and how to know more. */
static void add_late_op(struct lw_buf *out, const struct lw_late_host *late,
                        const struct lw_late_group *group)
{
    const struct lw_trace *trace = late->trace->scope.trace;
    uint32_t op = late->askers.ops[group->late];

    if (group->name)
        return;
    if (op != LW_NONE)
        lw_buf_addf(
            out, " (the longest before %s)",
            lw_profile_text(late->trace->scope.profile, trace->events[op].name));
    if (trace->python_count == 0)
        lw_buf_add_text(out, "; record with with_stack=True to see what it is");
}

static bool say(const struct lw_late_host *late, enum lw_late_cause cause,
                const char *change, const char *doing, double sure,
                struct lw_error *err)
{
    const struct lw_late_group *most = lw_late_host_most(late, cause);
    struct lw_advice *advice = late->trace->advice;
    double share = lw_late_host_share(late, cause);
    struct lw_advice_words words;
    const char *line = NULL;
    size_t len = 0;
    bool done;

    if (most->event != LW_NONE)
        len = lw_askers_line(&late->askers, most->event, &line);
    lw_advice_words_init(&words, &lw_advice_rule_idle);
    lw_buf_add_text(&words.change, change);
    lw_buf_add_text(&words.evidence, "the GPU stands idle ");
    lw_advice_words_add_part(&words.evidence, late->trace,
                             (uint64_t)(share * (double)late->trace->step_ns));
    lw_buf_addf(&words.evidence, " while the host is %s: ", doing);
    add_names(&words.evidence, late, cause);
    add_late_op(&words.evidence, late, most);
    words.finding.gain_low = sure * share;
    words.finding.gain_high = fmin(1, ROOM * share);
    done = lw_advice_words_place(&words, advice, line, len, err) &&
           lw_advice_words_add(&words, advice, err);
    lw_advice_words_release(&words);
    return done;
}

/* Again, and once in two steps at least: what is done for the first time is done once. */
static bool is_often(const struct lw_late_host *late, enum lw_late_cause cause)
{
    uint64_t count = lw_late_host_most(late, cause)->count;

    return count >= 2 && 2 * count >= late->trace->step_count;
}

static bool find(const struct lw_late_host *late, struct lw_error *err)
{
    /* Without steps nothing tells set-up, which has to be, from what is done again and
     * again. */
    if (!late->trace->is_marked)
        return true;
    if (lw_late_host_share(late, LW_LATE_PYTHON) >= PYTHON_SHARE &&
        !say(late, LW_LATE_PYTHON,
             "Have the host do less between launches: leave it out, do it every so "
             "many steps, in another thread, or on the GPU",
             "in Python code", PYTHON_SURE, err))
        return false;
    if (lw_late_host_share(late, LW_LATE_LONG) >= LONG_SHARE &&
        is_often(late, LW_LATE_LONG) &&
        !say(late, LW_LATE_LONG,
             "Have the ops that hold the host up run on the GPU, or less often",
             "in single ops for long", LONG_SURE, err))
        return false;
    return lw_late_host_share(late, LW_LATE_MEMORY) < MEMORY_SHARE ||
           !is_often(late, LW_LATE_MEMORY) ||
           say(late, LW_LATE_MEMORY,
               "Keep memory instead of taking it from the driver in every step: shapes "
               "that do not change, no torch.cuda.empty_cache(), "
               "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
               "in calls for memory", MEMORY_SURE, err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    return lw_late_host_look(advice, find, err);
}

const struct lw_advice_rule lw_advice_rule_idle = {
    .name = "idle",
    .question = "Does the GPU stand idle while the host is in Python code?",
    .needs = LW_ADVICE_DEVICE,
    .look = look,
};
