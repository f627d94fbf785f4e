/* The list of analyses, and what they say alike. */

#include "analyses/analysis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "model/losses.h"
#include "model/measure.h"
#include "model/units.h"

const struct lw_analysis *const lw_analyses[] = {
#define LW_ANALYSIS(name) &lw_analysis_##name,
#include "analyses/analyses.def"
#undef LW_ANALYSIS
};
const size_t lw_analysis_count = sizeof(lw_analyses) / sizeof(lw_analyses[0]);

const struct lw_analysis *lw_analysis_find(const char *name)
{
    for (size_t i = 0; i < lw_analysis_count; i++)
        if (strcmp(lw_analyses[i]->name, name) == 0)
            return lw_analyses[i];
    return NULL;
}

static bool run_view(const struct lw_analysis *analysis,
                     const struct lw_profile *profile, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err)
{
    if (!analysis->run)
        return lw_fail(err, LW_ERR_USAGE,
                       "%s is of two profiles: lapwing report %s BEFORE AFTER",
                       analysis->name, analysis->name);
    return analysis->run(profile, query, table, err);
}

unsigned lw_analysis_want(const struct lw_analysis *analysis,
                          const struct lw_query *query)
{
    bool is_deep = analysis->deep_by && lw_query_is_by(query, analysis->deep_by);

    return analysis->want | (is_deep ? analysis->deep_want : 0);
}

bool lw_analysis_run(const struct lw_analysis *analysis,
                     const struct lw_profile *profile, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err)
{
    struct lw_profile part;
    bool done;

    memset(table, 0, sizeof(*table)); /* it may not come to the analysis */
    done = lw_states_take(&part, profile, query->states, err) &&
           run_view(analysis, &part, query, table, err);
    lw_states_release(&part);
    if (done)
        lw_measure_table(profile, table);
    return done && lw_table_check(table, err);
}

const char *lw_analysis_text(struct lw_table *table, const struct lw_buf *text)
{
    if (text->failure)
        table->failure = text->failure;
    return text->bytes && !text->failure ? text->bytes : "";
}

/* Of two profiles it may be the same. */
static void note_once(struct lw_table *table, const char *sentence)
{
    size_t len = strlen(sentence);

    for (size_t i = 0; i < table->note_count; i++)
        if (strncmp(table->notes[i], sentence, len) == 0)
            return;
    lw_table_note(table, "%s.", sentence);
}

void lw_analysis_note_losses(const struct lw_profile *profile, struct lw_table *table)
{
    const char *sentence = lw_measure_sentence(profile);
    const char *unit_fact = lw_profile_fact(profile, "unit");
    const char *note_fact = lw_profile_fact(profile, "note");
    struct lw_buf text;

    if (sentence)
        note_once(table, sentence);
    else if (unit_fact)
        lw_table_note(table, "Times may be something else: %s.", unit_fact);
    lw_buf_init(&text, 0);
    for (size_t i = 0; i < profile->loss_count; i++) {
        lw_buf_reset(&text);
        lw_loss_add_text(profile, &profile->losses[i], &text);
        lw_table_note(table, "missing: %s", lw_analysis_text(table, &text));
    }
    if (note_fact)
        lw_table_note(table, "note: %s", note_fact);
    lw_buf_release(&text);
}

void lw_analysis_note_empty(const struct lw_profile *profile, struct lw_table *table)
{
    if (profile->states != LW_STATES_WALL)
        lw_table_note(table, "No sample was%s; --state wall counts all.",
                      lw_states_phrase((enum lw_states)profile->states));
    else if (profile->process_count == 0)
        lw_table_note(table, "The profile holds no functions.");
    else
        lw_table_note(table, "No calls and no samples were recorded: 'lapwing run "
                             "--calls' records calls.");
}

int64_t lw_analysis_ns(double seconds)
{
    double ns = seconds * 1e9;

    if (ns >= 0x1p63)
        return INT64_MAX;
    return ns <= -0x1p63 ? INT64_MIN : (int64_t)llround(ns);
}

static const char *noun_of(const struct lw_callgraph *graph)
{
    return graph->by_line ? "line" : "function";
}

/* "594 functions: 39,889 calls (38,675 primitive) in 64.4 ms; by internal time" */
static void set_list_title(const struct lw_query *query,
                           const struct lw_callgraph *graph, struct lw_table *table)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_counted(&text, (int64_t)graph->listed_count, noun_of(graph));
    lw_buf_add_text(&text, ": ");
    if (lw_callgraph_has_calls(graph)) {
        lw_units_add_counted(&text, graph->calls, "call");
        lw_buf_add_char(&text, ' ');
        if (graph->calls != graph->primitive_calls) {
            lw_buf_add_char(&text, '(');
            lw_units_add_count(&text, graph->primitive_calls);
            lw_buf_add_text(&text, " primitive) ");
        }
        lw_buf_add_text(&text, "in ");
    } else {
        lw_analysis_add_samples(&text, graph->profile, graph->samples);
    }
    lw_measure_add(&text, graph->profile, lw_analysis_ns(graph->total_s));
    for (size_t i = 0; i < query->key_count; i++)
        lw_buf_addf(&text, "%s%s", i ? ", " : "; by ", query->keys[i]->title);
    if (query->key_count > 0 && query->reverse)
        lw_buf_add_text(&text, ", reversed");
    lw_table_set_title(table, "%s", lw_analysis_text(table, &text));
    lw_buf_release(&text);
}

/* How many functions the last restriction cut off the end of the list. */
static size_t count_cut(const struct lw_query *query,
                        const struct lw_selection *selection)
{
    size_t last = query->restriction_count;

    if (last == 0 || query->restrictions[last - 1].kind != LW_RESTRICT_COUNT)
        return 0;
    return selection->counts[last - 1] - selection->counts[last];
}

static void text_of_function(const void *of, size_t index, bool name,
                             struct lw_buf *out)
{
    const struct lw_function *function =
        &((const struct lw_callgraph *)of)->functions[index];

    if (name)
        lw_buf_add(out, function->name, function->name_len);
    else
        lw_function_add_text(function, out);
}

void lw_analysis_note_cut(const struct lw_query *query,
                          const struct lw_callgraph *graph,
                          const struct lw_selection *selection, struct lw_table *table)
{
    size_t cut = count_cut(query, selection);
    struct lw_buf count;

    if (selection->count == 0) {
        lw_analysis_note_none(query, graph->listed_count, text_of_function, graph,
                              noun_of(graph), table);
        return;
    }
    if (cut == 0)
        return;
    lw_buf_init(&count, 0);
    lw_units_add_count(&count, (int64_t)cut);
    lw_table_note(table, "%s more %s%s; --limit 0 shows all.",
                  lw_analysis_text(table, &count), noun_of(graph), cut == 1 ? "" : "s");
    lw_buf_release(&count);
}

void lw_analysis_end_list(const struct lw_query *query,
                          const struct lw_callgraph *graph,
                          const struct lw_selection *selection, struct lw_table *table)
{
    if (graph->listed_count == 0)
        lw_analysis_note_empty(graph->profile, table);
    else
        set_list_title(query, graph, table);
    lw_analysis_note_cut(query, graph, selection, table);
    lw_analysis_note_losses(graph->profile, table);
}

void lw_analysis_add_place(struct lw_table *table, const struct lw_function *function)
{
    char line[16]; /* ":4294967295" */
    struct lw_buf text;

    if (function->line == 0 &&
        (function->file_len == 0 ||
         (function->file_len == 1 && function->file[0] == '~'))) {
        lw_table_add_none(table);
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_add(&text, function->file, function->file_len);
    snprintf(line, sizeof(line), ":%u", function->line);
    if (function->line > 0)
        lw_buf_add_text(&text, line);
    lw_table_add_text(table, lw_analysis_text(table, &text), text.len);
    lw_buf_release(&text);
}

void lw_analysis_add_seconds(struct lw_table *table, double seconds)
{
    if (isnan(seconds))
        lw_table_add_none(table);
    else
        lw_table_add_integer(table, lw_analysis_ns(seconds));
}

/* To the farther end of Wilson's interval, which stays right near 0 and 1, since its middle
 * is not the share itself: of 24 samples that are all of one kind 14 % may be another. */
double lw_analysis_error(int64_t part, int64_t whole)
{
    const double z = 1.959963984540054;
    double n = (double)whole, share = (double)part / n, shrunk = 1 + z * z / n;
    double middle = (share + z * z / (2 * n)) / shrunk;
    double half = z / shrunk * sqrt(share * (1 - share) / n + z * z / (4 * n * n));

    return whole > 0 ? fabs(share - middle) + half : NAN;
}

void lw_analysis_add_error(struct lw_table *table, int64_t part, int64_t whole)
{
    double error = lw_analysis_error(part, whole);

    if (isnan(error))
        lw_table_add_none(table);
    else
        lw_table_add_number(table, error);
}

void lw_analysis_add_samples(struct lw_buf *out, const struct lw_profile *profile,
                             int64_t count)
{
    if (count > 0)
        lw_units_add_count(out, count);
    lw_buf_addf(out, "%ssample%s%s%s", count > 0 ? " " : "", count == 1 ? "" : "s",
                lw_states_phrase((enum lw_states)profile->states),
                count > 0 ? ", " : " of ");
}

void lw_analysis_add_share(struct lw_table *table, double part, double whole)
{
    double share = part / whole;

    if (isfinite(share))
        lw_table_add_number(table, share);
    else
        lw_table_add_none(table);
}

/* What has VIEW's events recorded. */
static const char *recording_option(const char *view)
{
    static const char *const options[][2] = {
        { "memory", "--torch=memory" },
        { "modules", "--torch=modules" },
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strcmp(options[i][0], view) == 0)
            return options[i][1];
    return "--torch";
}

const struct lw_trace *lw_analysis_trace(const struct lw_profile *profile,
                                         const char *view, struct lw_error *err)
{
    const char *format = lw_profile_fact(profile, "format");

    if (profile->trace && profile->trace->event_count > 0)
        return profile->trace;
    if (format && strcmp(format, "lap") != 0)
        lw_fail(err, LW_ERR_UNSUPPORTED,
                "%s is a view of what torch.profiler writes (.pt.trace.json), and this "
                "file has no such events",
                view);
    else
        lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "%s is a view of what torch.profiler records, and this run has nothing of "
            "it: 'lapwing run %s train.py' does%s",
            view, recording_option(view),
            strcmp(view, "compare") == 0
                ? "; of two runs, 'lapwing report --diff A B steps' compares steps"
                : "");
    return NULL;
}
