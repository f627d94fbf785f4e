/* What to change in a training: every rule whose data is there is asked, and what they
 * find is shown with the largest gain first. */

#include "analyses/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/units.h"

static const struct lw_advice_rule *const rules[] = {
#define LW_ADVICE_RULE(name) &lw_advice_rule_##name,
#include "analyses/advice_rules.def"
#undef LW_ADVICE_RULE
};

#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))
#define WHOLE_PERCENT 0.0995 /* gains from here on are shown without decimals */
#define DOUBT 0.5            /* by how much of itself a share may be off */

/* clang-format off */
static const struct lw_column columns[] = {
    { "rule", "rule", LW_UNIT_TEXT, false },
    { "change", "change", LW_UNIT_TEXT, false },
    { "evidence", "evidence", LW_UNIT_TEXT, false },
    { "file", "file", LW_UNIT_TEXT, false },
    { "line", "line", LW_UNIT_NUMBER, false },
    { "gain_low", "gain at least", LW_UNIT_SHARE, false },
    { "gain_high", "gain at most", LW_UNIT_SHARE, false },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

/* How to get what a rule lacks; the first of these that it does is said. */
static const struct {
    enum lw_advice_need need;
    const char *what, *how;
} needs[] = {
    { LW_ADVICE_STEPS, "the steps of a training", "'lapwing run' finds them" },
    { LW_ADVICE_SAMPLES, "samples", "'lapwing run' without --no-sample takes them" },
    { LW_ADVICE_OPS, "ops", "'lapwing run --ops=all' records them" },
    { LW_ADVICE_COUNTERS, "counters", "'lapwing run' without --no-system has them" },
    { LW_ADVICE_TRACE, "a trace", "'lapwing run --torch' takes one" },
    { LW_ADVICE_DEVICE, "work on a GPU", "'lapwing run --torch' where one is used" },
};

#define NEED_COUNT (sizeof(needs) / sizeof(needs[0]))

/* ---- what there is ------------------------------------------------------------------ */

static bool has_op_spans(const struct lw_profile *profile)
{
    const struct lw_stack *stacks;
    size_t stack_count;

    stacks = lw_stacks_list(profile->stacks, &stack_count);
    for (size_t i = 0; i < profile->span_count; i++) {
        lw_frame_id frame = stacks[profile->spans[i].stack].frame;

        if (lw_profile_frame(profile, frame)->kind == LW_FRAME_OP)
            return true;
    }
    return false;
}

/* Of sums, and of what other tools counted, it is not known when the samples were. */
static bool has_timed_samples(const struct lw_profile *profile)
{
    uint64_t rows = 0, samples = 0;

    for (size_t i = 0; i < profile->sample_count; i++) {
        rows += profile->samples[i].count > 0;
        samples += profile->samples[i].count;
    }
    return samples > 0 && samples == rows;
}

static bool has_device_work(const struct lw_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (lw_event_is_work(&trace->events[i]))
            return true;
    return false;
}

static unsigned find_what_there_is(const struct lw_advice *advice)
{
    const struct lw_profile *profile = advice->profile;
    unsigned has = 0;

    for (size_t i = 0; i < advice->steps.track_count; i++)
        if (advice->steps.tracks[i].train_count + advice->steps.tracks[i].eval_count)
            has |= LW_ADVICE_STEPS;
    if (has_timed_samples(profile))
        has |= LW_ADVICE_SAMPLES;
    if (has_op_spans(profile))
        has |= LW_ADVICE_OPS;
    if (profile->counter_count > 0)
        has |= LW_ADVICE_COUNTERS;
    if (advice->trace)
        has |= LW_ADVICE_TRACE;
    if (advice->trace && has_device_work(advice->trace))
        has |= LW_ADVICE_DEVICE;
    return has;
}

static bool advice_init(struct lw_advice *advice, const struct lw_profile *profile,
                        const struct lw_query *query, struct lw_error *err)
{
    bool *threads = NULL;
    bool done;

    memset(advice, 0, sizeof(*advice));
    advice->profile = profile;
    advice->query = query;
    lw_arena_init(&advice->arena);
    if (profile->trace && profile->trace->event_count > 0)
        advice->trace = profile->trace;
    /* Of a trace alone its rules say which ranks there are. */
    done = lw_query_threads(query, profile, &threads, err) &&
           (profile->process_count == 0 ||
            lw_steps_choose_rank(profile, query, &threads, err)) &&
           lw_steps_init(&advice->steps, profile, threads, err);
    lw_free(threads);
    if (done)
        advice->has = find_what_there_is(advice);
    return done;
}

static void advice_release(struct lw_advice *advice)
{
    lw_steps_release(&advice->steps);
    lw_arena_release(&advice->arena);
    lw_free(advice->list);
}

static bool is_asked(const struct lw_advice *advice, const struct lw_advice_rule *rule)
{
    return (rule->needs & ~advice->has) == 0;
}

/* ---- findings ----------------------------------------------------------------------- */

static bool copy_text(struct lw_advice *advice, const char **text, struct lw_error *err)
{
    if (!*text)
        return true;
    *text = lw_arena_copy(&advice->arena, *text, strlen(*text), err);
    return *text != NULL;
}

uint64_t lw_advice_track_ns(const struct lw_step_track *track)
{
    return track->piece_count > 1 ? track->pieces[track->piece_count - 1].start_ns -
                                        track->pieces[0].start_ns
                                  : 0;
}

bool lw_advice_is_sure(int64_t part, int64_t whole)
{
    return lw_analysis_error(part, whole) * (double)whole < DOUBT * (double)part;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The finding that another thread or rank already had; NULL: none. */
static struct lw_finding *find_same(struct lw_advice *advice,
                                    const struct lw_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++) {
        struct lw_finding *old = &advice->list[i];

        if (old->rule == finding->rule && old->line == finding->line &&
            is_same_text(old->file, finding->file) &&
            is_same_text(old->change, finding->change))
            return old;
    }
    return NULL;
}

bool lw_advice_add(struct lw_advice *advice, const struct lw_finding *finding,
                   struct lw_error *err)
{
    struct lw_finding *old = find_same(advice, finding);
    struct lw_finding own = *finding;

    lw_assert(own.rule && own.change && own.evidence);
    if (old && !(own.gain_low + own.gain_high > old->gain_low + old->gain_high))
        return true;
    if (!lw_grow(&advice->list, &advice->capacity, advice->count + 1, sizeof(own),
                 err) ||
        !copy_text(advice, &own.change, err) ||
        !copy_text(advice, &own.evidence, err) || !copy_text(advice, &own.file, err))
        return false;
    if (old) {
        *old = own;
        return true;
    }
    advice->list[advice->count++] = own;
    return true;
}

/* The middle of the gain downwards, what has no estimate last; then as the rules are
 * asked and as they found them. */
static int compare_findings(const void *a, const void *b)
{
    const struct lw_finding *x = *(const struct lw_finding *const *)a;
    const struct lw_finding *y = *(const struct lw_finding *const *)b;
    double left = x->gain_low + x->gain_high, right = y->gain_low + y->gain_high;

    if (isnan(left) != isnan(right))
        return isnan(left) ? 1 : -1;
    if (left != right && !isnan(left))
        return left > right ? -1 : 1;
    return x < y ? -1 : x > y;
}

static const struct lw_finding **sort_findings(const struct lw_advice *advice,
                                               struct lw_error *err)
{
    const struct lw_finding **sorted =
        lw_alloc(advice->count * sizeof(*sorted) + 1, err);

    for (size_t i = 0; sorted && i < advice->count; i++)
        sorted[i] = &advice->list[i];
    if (sorted)
        qsort(sorted, advice->count, sizeof(*sorted), compare_findings);
    return sorted;
}

/* ---- how they are shown ------------------------------------------------------------- */

/* FILE as it is named from where the program was started. */
static const char *name_from_there(const struct lw_profile *profile, const char *file)
{
    const char *folder = lw_profile_fact(profile, "cwd");
    size_t len = folder ? strlen(folder) : 0;

    if (len > 0 && strncmp(file, folder, len) == 0 && file[len] == '/')
        return file + len + 1;
    return file;
}

/* "18 to 25 %", "1.5 to 2.0 %". */
static void add_gain(struct lw_buf *out, const struct lw_finding *finding)
{
    int decimals = finding->gain_high < WHOLE_PERCENT ? 1 : 0;
    double scale = decimals ? 1000 : 100;
    double low = round(finding->gain_low * scale) / scale + 0.0; /* never "-0" */

    lw_buf_addf(out, "%.*f to %.*f %%", decimals, low * 100, decimals,
                finding->gain_high * 100);
}

static void say(const struct lw_advice *advice, const struct lw_finding *finding,
                struct lw_table *table, struct lw_buf *text)
{
    lw_buf_reset(text);
    lw_buf_addf(text, "%s\n", finding->change);
    if (isnan(finding->gain_low)) {
        lw_buf_add_text(text, "gain: not estimated");
    } else {
        lw_buf_add_text(text, "gain: ");
        add_gain(text, finding);
        lw_buf_add_text(text, " of the time");
    }
    if (finding->file) {
        lw_buf_addf(text, "; in %s", name_from_there(advice->profile, finding->file));
        if (finding->line > 0)
            lw_buf_addf(text, ":%u", finding->line);
    }
    lw_buf_addf(text, "\nwhy: %s", finding->evidence);
    lw_table_say(table, "%s", lw_analysis_text(table, text));
}

static void add_row(const struct lw_advice *advice, const struct lw_finding *finding,
                    struct lw_table *table, struct lw_buf *text)
{
    lw_table_row(table, 0);
    lw_table_add_text(table, finding->rule->name, strlen(finding->rule->name));
    lw_table_add_text(table, finding->change, strlen(finding->change));
    lw_table_add_text(table, finding->evidence, strlen(finding->evidence));
    if (finding->file)
        lw_table_add_text(table, finding->file, strlen(finding->file));
    else
        lw_table_add_none(table);
    if (finding->line > 0)
        lw_table_add_number(table, finding->line);
    else
        lw_table_add_none(table);
    if (isnan(finding->gain_low)) {
        lw_table_add_none(table);
        lw_table_add_none(table);
    } else {
        lw_table_add_number(table, finding->gain_low);
        lw_table_add_number(table, finding->gain_high);
    }
    say(advice, finding, table, text);
}

/* "240 training steps of 24.1 ms, ..." of the first that trains; else what else there
 * is. */
static void set_title(const struct lw_advice *advice, struct lw_table *table,
                      struct lw_buf *text)
{
    const struct lw_steps *steps = &advice->steps;

    lw_buf_reset(text);
    if (advice->has & LW_ADVICE_STEPS) {
        size_t first = 0;

        while (steps->tracks[first].train_count + steps->tracks[first].eval_count == 0)
            first++;
        lw_buf_add_text(text, ": ");
        lw_steps_add_pace(text, &steps->tracks[first]);
        if (steps->track_count > 1)
            lw_buf_addf(text, "; the first of %zu that train", steps->track_count);
    }
    if (advice->count == 0)
        lw_table_set_title(table, "nothing to change was found%s",
                           lw_analysis_text(table, text));
    else
        lw_table_set_title(table, "what to change, the largest gain first%s",
                           lw_analysis_text(table, text));
}

/* What was looked at, so that no finding is one too. */
static void note_asked(const struct lw_advice *advice, struct lw_table *table,
                       struct lw_buf *text)
{
    lw_buf_reset(text);
    for (size_t i = 0; i < RULE_COUNT; i++) {
        bool has_found = false;

        for (size_t k = 0; k < advice->count; k++)
            has_found |= advice->list[k].rule == rules[i];
        if (is_asked(advice, rules[i]) && !has_found)
            lw_buf_addf(text, "%s%s", text->len ? " " : "", rules[i]->question);
    }
    if (text->len > 0)
        lw_table_note(table, "Looked at%s: %s", advice->count ? " as well" : "",
                      lw_analysis_text(table, text));
}

static const char *comma_before(const struct lw_buf *text)
{
    return text->len ? ", " : "";
}

/* A note for each thing that is not there: which rules want it, and how to get it. */
static void note_missing(const struct lw_advice *advice, struct lw_table *table,
                         struct lw_buf *text)
{
    unsigned said = 0;

    for (size_t n = 0; n < NEED_COUNT; n++) {
        if (advice->has & needs[n].need)
            continue;
        lw_buf_reset(text);
        for (size_t i = 0; i < RULE_COUNT; i++)
            if (rules[i]->needs & needs[n].need && !(rules[i]->needs & said))
                lw_buf_addf(text, "%s%s", comma_before(text), rules[i]->name);
        said |= needs[n].need;
        if (text->len > 0)
            lw_table_note(table, "Not looked at without %s (%s): %s.", needs[n].what,
                          needs[n].how, lw_analysis_text(table, text));
    }
}

static bool fail_without_any(struct lw_error *err)
{
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "advice is a view of a training, and here is none: neither the "
                   "steps that 'lapwing run' finds nor a trace of torch.profiler");
}

static bool ask(struct lw_advice *advice, struct lw_error *err)
{
    bool any = false;

    for (size_t i = 0; i < RULE_COUNT; i++) {
        if (!is_asked(advice, rules[i]))
            continue;
        any = true;
        if (!rules[i]->look(advice, err))
            return false;
    }
    return any || advice->has & (LW_ADVICE_STEPS | LW_ADVICE_TRACE) ||
           fail_without_any(err);
}

/* "Call log_metrics a tenth as often, ... (train.py:27): gains 18 to 25 %" */
static void note_first(const struct lw_advice *advice, const struct lw_finding *first,
                       struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, first->change);
    if (first->file) {
        lw_buf_addf(&text, " (%s", name_from_there(advice->profile, first->file));
        if (first->line > 0)
            lw_buf_addf(&text, ":%u", first->line);
        lw_buf_add_char(&text, ')');
    }
    if (!isnan(first->gain_low)) {
        lw_buf_add_text(&text, ": gains ");
        add_gain(&text, first);
    }
    lw_table_note(table, "Advice: %s; '%sadvice' says why.",
                  lw_analysis_text(table, &text), advice->query->report);
    lw_buf_release(&text);
}

bool lw_advice_note_first(const struct lw_profile *profile,
                          const struct lw_query *query, struct lw_table *table,
                          struct lw_error *err)
{
    const struct lw_finding **sorted = NULL;
    struct lw_advice advice;
    bool done = advice_init(&advice, profile, query, err) && ask(&advice, err) &&
                (sorted = sort_findings(&advice, err));

    if (done && advice.count > 0)
        note_first(&advice, sorted[0], table);
    lw_free(sorted);
    advice_release(&advice);
    return done;
}

static bool show(const struct lw_advice *advice, struct lw_table *table,
                 struct lw_error *err)
{
    const struct lw_finding **sorted = sort_findings(advice, err);
    struct lw_buf text;

    if (!sorted)
        return false;
    lw_buf_init(&text, 0);
    for (size_t i = 0; i < advice->count; i++)
        add_row(advice, sorted[i], table, &text);
    set_title(advice, table, &text);
    note_asked(advice, table, &text);
    note_missing(advice, table, &text);
    lw_analysis_note_losses(advice->profile, table);
    lw_buf_release(&text);
    lw_free(sorted);
    return true;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct lw_advice advice;
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    done = advice_init(&advice, profile, query, err) && ask(&advice, err) &&
           show(&advice, table, err);
    advice_release(&advice);
    return done;
}

const struct lw_analysis lw_analysis_advice = {
    .name = "advice",
    .summary = "what to change in a training, why, and the gain",
    .want = LW_WANT_PHASES | LW_WANT_OPS | LW_WANT_SAMPLES | LW_WANT_COUNTERS |
            LW_WANT_TRACE,
    .run = run,
};
