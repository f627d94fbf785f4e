/* What to change in a training, and what that would gain.
 *
 * A rule is one .c file, advice_*.c, that ends in one const struct lw_advice_rule, and one
 * line in advice_rules.def. It looks at what was measured and adds findings; no finding
 * without a cause that was measured. How findings are sorted and shown is not its
 * business.
 *
 *     const struct lw_advice_rule lw_advice_rule_logging = {
 *         .name = "logging",
 *         .question = "does logging or a metric take much of a step?",
 *         .needs = LW_ADVICE_STEPS | LW_ADVICE_SAMPLES,
 *         .look = look,
 *     };
 */
#ifndef LW_ANALYSES_ADVICE_H
#define LW_ANALYSES_ADVICE_H

#include "analyses/analysis.h"
#include "analyses/steps.h"
#include "base/arena.h"

/* What a rule looks at. One whose data is not there is not asked, and a note says what to
 * type to get it. */
enum lw_advice_need {
    LW_ADVICE_STEPS = 1,   /* a training's phases, of `lapwing run` */
    LW_ADVICE_SAMPLES = 2, /* with functions and lines */
    LW_ADVICE_OPS = 4,     /* spans of ops, of `lapwing run` */
    LW_ADVICE_COUNTERS = 8,
    LW_ADVICE_TRACE = 16,  /* a torch profiler's, a window's too */
    LW_ADVICE_DEVICE = 32, /* a trace with work on a GPU */
};

struct lw_advice;

struct lw_advice_rule {
    const char *name;     /* "logging" */
    const char *question; /* that it answers, for the list of what was looked at */
    unsigned needs;       /* enum lw_advice_need, all of them */
    bool (*look)(struct lw_advice *advice, struct lw_error *err);
};

/* What one change would save, and where. Texts are kept by the advice's arena. */
struct lw_finding {
    const struct lw_advice_rule *rule;
    const char *change;   /* "Give the DataLoader 3 workers (num_workers=3)" */
    const char *evidence; /* "a step waits 14.2 ms of 21.0 ms for its batch; ..." */
    const char *file;     /* to change; NULL: not known */
    uint32_t line;        /* 0: not known */
    double gain_low;      /* of the training's time that would be saved, 0 to 1 */
    double gain_high; /* not a number, both: there is a cause but no honest estimate */
};

struct lw_advice {
    const struct lw_profile *profile;
    const struct lw_query *query;
    struct lw_steps steps;        /* no tracks: none were recorded */
    const struct lw_trace *trace; /* NULL: none */
    unsigned has;                 /* enum lw_advice_need */
    struct lw_arena arena;
    struct lw_finding *list; /* owned */
    size_t count, capacity;
};

/* From the first step of TRACK to the end of its last, evaluation and what is between
 * steps included: what the gains of rules on steps are of. */
uint64_t lw_advice_track_ns(const struct lw_step_track *track);

/* Whether so many samples say anything: a share that may be off by half is none. */
bool lw_advice_is_sure(int64_t part, int64_t whole);

/* Add a finding; its texts are copied. Of the same change in the same line, as several
 * ranks have it, the one with the largest gain stays. */
bool lw_advice_add(struct lw_advice *advice, const struct lw_finding *finding,
                   struct lw_error *err) LW_MUST_CHECK;

/* Add a note to TABLE with the first finding that PROFILE, as far as it was read, gives;
 * none: no note. */
bool lw_advice_note_first(const struct lw_profile *profile,
                          const struct lw_query *query, struct lw_table *table,
                          struct lw_error *err) LW_MUST_CHECK;

#define LW_ADVICE_RULE(name) extern const struct lw_advice_rule lw_advice_rule_##name;
#include "analyses/advice_rules.def"
#undef LW_ADVICE_RULE

#endif
