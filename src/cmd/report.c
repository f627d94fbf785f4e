/* lapwing report: ask a profile a question and print the answer. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyses/analysis.h"
#include "analyses/diff.h"
#include "analyses/ops.h"
#include "cmd/command.h"
#include "cmd/guess.h"
#include "cmd/help.h"
#include "cmd/latest.h"
#include "cmd/pager.h"
#include "cmd/profiles.h"
#include "cmd/view_args.h"
#include "model/measure.h"
#include "readers/reader.h"
#include "writers/pstats_text.h"
#include "writers/render.h"
#include "writers/torch_table.h"
#include "writers/writer.h"

enum style {
    STYLE_LAPWING,
    STYLE_PSTATS,
    STYLE_TORCH,
};

struct args {
    bool diff;
    struct lw_view_args view;
    bool json;
    bool csv;
    bool markdown;
    unsigned style; /* enum style */
    bool pager;
    const char *output; /* NULL: standard output */
};

static const struct args defaults = { .view = LW_VIEW_ARGS_DEFAULT };

/* clang-format off */
#define OPT(letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct args, field), arg, help }

static const struct lw_option options[] = {
    LW_VIEW_OPTIONS(struct args, view),
    OPT(0, "diff", LW_ARG_FLAG, diff, NULL,
        "of two profiles, what is more or less in the second, by function, or (steps) by "
        "phase of a step; the biggest changes first"),
    LW_OPT_HEADING("How it is printed"),
    OPT(0, "json", LW_ARG_FLAG, json, NULL, "as JSON, all rows"),
    OPT(0, "csv", LW_ARG_FLAG, csv, NULL, "as comma-separated values, all rows"),
    OPT(0, "markdown", LW_ARG_FLAG, markdown, NULL, "as a table in Markdown"),
    OPT(0, "style", LW_ARG_CHOICE, style, "lapwing|pstats|torch",
        "pstats: functions, callers and callees exactly as Python's pstats prints them; "
        "torch: ops as torch's key_averages().table() does, --sort by its words "
        "(self_cpu_time_total ...), --by shape or stack (--depth: of how many functions)"),
    OPT(0, "pager", LW_ARG_FLAG, pager, NULL,
        "on a terminal, all rows through a pager: $LAPWING_PAGER (which then is always "
        "used), $PAGER or less"),
    OPT('o', "output", LW_ARG_PATH, output, "FILE",
        "into FILE, whole or not at all; its suffix says the form: .csv, .json, .md, or "
        "of the whole profile .svg and what else export writes"),
    LW_OPT_END
};
/* clang-format on */

/* What the words of the command line turned out to be. */
struct request {
    const struct args *args;
    char **profiles; /* names; none: the latest run */
    size_t profile_count;
    const struct lw_analysis *view;
    bool has_view;       /* somebody named it */
    char **restrictions; /* words */
    int restriction_count;
    bool has_limit;                 /* somebody said how many rows */
    const char *pager;              /* which shows what is printed; NULL: none */
    const struct lw_writer *writer; /* the output is this whole file; NULL: a view */
    struct lw_error *nothing; /* why a table for programs has no row; they get it */
};

/* A word names the first profile if it must (it is "-" or -2, or ends as profiles do, or
 * stands before the view), or if it can be nothing else: before the view any file, any
 * beginning of a run's name and any program with a run; behind it only what a reader
 * knows and whole names, since `report functions train.py` asks for the functions of that
 * file. NEXT is the word behind it, or NULL. */
static bool names_first(const struct request *request, const char *word,
                        const char *next, bool *names, struct lw_error *err)
{
    unsigned by =
        request->view ? LW_RUN_BY_NAME | LW_RUN_BY_PLACE : (unsigned)LW_RUN_BY_ALL;

    *names =
        strcmp(word, "-") == 0 || lw_run_is_place(word) ||
        lw_profile_has_suffix(word) ||
        (!request->view && (lw_file_exists(word) || (next && lw_analysis_find(next))));
    return *names || lw_profile_exists(word, by, names, err);
}

/* One more profile must end as profiles do, or stand before the view and be one; any
 * other word is a restriction. */
static bool names_another(const struct request *request, const char *word, bool *names,
                          struct lw_error *err)
{
    *names = lw_profile_has_suffix(word);
    return *names || request->view ||
           lw_profile_exists(word, LW_RUN_BY_NAME | LW_RUN_BY_PLACE, names, err);
}

/* Put in *NAMES whether WORD is a profile. Fails only without memory. */
static bool names_profile(const struct request *request, const char *word,
                          const char *next, bool *names, struct lw_error *err)
{
    if (request->args->diff || (request->view && !request->view->run)) {
        *names = request->profile_count < 2;
        return true;
    }
    return request->profile_count ? names_another(request, word, names, err)
                                  : names_first(request, word, next, names, err);
}

/* What a person wants to see of the profile NAME who does not say. */
static const struct lw_analysis *usual_view(const char *name)
{
    bool is_torch;
    const struct lw_reader *reader = lw_profile_reader(name, &is_torch);

    if (reader == &lw_reader_snapshot || reader == &lw_reader_memory_timeline)
        return &lw_analysis_memory;
    return is_torch ? &lw_analysis_overview : &lw_analysis_summary;
}

/* In either order profiles and one view, then restrictions. The names of profiles move
 * to the front of ARGV. */
static bool sort_words(struct request *request, int argc, char **argv,
                       struct lw_error *err)
{
    int used;

    request->profiles = argv;
    for (used = 0; used < argc; used++) {
        char *word = argv[used];
        const struct lw_analysis *view = lw_analysis_find(word);
        bool names = false;

        if (view && !request->view) {
            request->view = view;
            continue;
        }
        if (!names_profile(request, word, argv[used + 1], &names, err))
            return false;
        if (!names)
            break;
        argv[request->profile_count++] = word;
    }
    request->restrictions = argv + used;
    request->restriction_count = argc - used;
    request->has_view = request->view != NULL;
    if (!request->view) {
        bool wants_list = request->restriction_count > 0 ||
                          request->args->view.sort.count ||
                          request->args->style == STYLE_PSTATS || request->args->diff;

        request->view = wants_list               ? &lw_analysis_functions
                        : request->profile_count ? usual_view(argv[0])
                                                 : &lw_analysis_summary;
        if (request->args->style == STYLE_TORCH)
            request->view = &lw_analysis_ops;
    }
    return true;
}

static bool for_people(const struct args *args)
{
    return !args->json && !args->csv;
}

/* torch's table has sums and widths of all rows, so nothing is left out before it. */
static bool make_torch_query(const struct request *request, struct lw_query *query,
                             struct lw_error *err)
{
    struct lw_view_args view = request->args->view;

    if (request->view != &lw_analysis_ops)
        return lw_fail(err, LW_ERR_USAGE, "torch prints ops, but no %s",
                       request->view->name);
    if (request->restriction_count > 0 || view.match.count || view.mine)
        return lw_fail(err, LW_ERR_USAGE,
                       "--style torch takes no restrictions but --limit");
    if (view.compat != LW_COMPAT_NONE && view.compat != LW_COMPAT_TORCH)
        return lw_fail(err, LW_ERR_USAGE,
                       "--style torch has torch's definitions; --compat torch adds its "
                       "mistakes");
    view.limit = LW_NO_LIMIT;
    return lw_view_args_ask(&view, request->view, NULL, 0, 0, query, err);
}

static bool make_query(const struct request *request, struct lw_query *query,
                       struct lw_error *err)
{
    bool is_pstats = request->args->style == STYLE_PSTATS;
    unsigned usual = is_pstats ? 0 : LW_USUAL_ORDER;

    if (request->args->style == STYLE_TORCH)
        return make_torch_query(request, query, err);

    if (request->restriction_count > 0 && !request->view->takes_restrictions) {
        lw_guess_word(request->view->name, request->restrictions[0], err);
        return false;
    }
    if (!is_pstats && for_people(request->args))
        usual |= LW_USUAL_ROWS;
    query->how_strip = is_pstats ? LW_STRIP_AS_PSTATS : LW_STRIP_ADD;
    return lw_view_args_ask(&request->args->view, request->view, request->restrictions,
                            (size_t)request->restriction_count, usual, query, err);
}

/* HEAD: the lines that name the files. */
static bool print_as_pstats(const struct request *request,
                            const struct lw_profile *profile,
                            const struct lw_query *query, const struct lw_buf *head,
                            struct lw_buf *out, struct lw_error *err)
{
    enum lw_pstats_part part = LW_PSTATS_STATS;
    struct lw_selection selection = { 0 };
    struct lw_callgraph graph;
    bool done;

    if (request->view == &lw_analysis_callers)
        part = LW_PSTATS_CALLERS;
    else if (request->view == &lw_analysis_callees)
        part = LW_PSTATS_CALLEES;
    else if (request->view != &lw_analysis_functions)
        return lw_fail(err, LW_ERR_USAGE,
                       "pstats prints functions, callers and callees, but no %s",
                       request->view->name);
    done = lw_query_graph(query, profile, &graph, err) &&
           lw_query_select(query, &graph, &selection, err) && lw_buf_check(head, err) &&
           lw_pstats_print(part, &graph, query, &selection,
                           head->len ? head->bytes : NULL, out, err);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    return done;
}

static bool print_as_torch(const struct request *request,
                           const struct lw_profile *profile,
                           const struct lw_query *query, struct lw_buf *out,
                           struct lw_error *err)
{
    uint64_t limit = request->args->view.limit;
    struct lw_torch_table_options how = {
        .row_limit = limit == LW_NO_LIMIT ? LW_TORCH_ROW_LIMIT : limit,
        .is_exact = query->compat == LW_COMPAT_TORCH,
    };
    struct lw_table table = { 0 };
    bool done = lw_ops_torch(profile, query, how.is_exact, &table, err) &&
                lw_torch_table_print(&table, &how, out, err);

    lw_table_release(&table);
    return done;
}

static bool print_table(const struct request *request, const struct lw_table *table,
                        struct lw_buf *out, struct lw_error *err)
{
    const struct args *args = request->args;
    struct lw_render_options plain = { 0 };
    struct lw_render_options shown =
        args->output
            ? plain
            : lw_pager_look(request->view, request->has_limit, false, request->pager);

    if (!lw_table_check(table, err))
        return false;
    if (args->json)
        lw_render_json(table, out);
    else if (args->csv)
        lw_render_csv(table, out);
    else if (args->markdown)
        lw_render_markdown(table, out);
    else
        lw_render_text(table, &shown, out);
    return lw_buf_check(out, err);
}

/* Did the restrictions leave rows? People get a sentence in place of an empty table; a
 * program gets both, the sentence at the end of the command. */
static bool check_rows(const struct request *request, const struct lw_table *table,
                       struct lw_error *err)
{
    if (for_people(request->args))
        return lw_guess_check(table, request->has_view, err);
    if (!lw_guess_check(table, request->has_view, request->nothing)) {
        /* Said when the table is out. */
    }
    return true;
}

static bool print_view(const struct request *request, const struct lw_profile *profile,
                       const struct lw_query *query, struct lw_buf *out,
                       struct lw_error *err)
{
    struct lw_table table = { 0 };
    bool done = request->view->run(profile, query, &table, err) &&
                check_rows(request, &table, err);

    if (done)
        lw_measure_table(profile, &table);
    done = done && print_table(request, &table, out, err);
    lw_table_release(&table);
    return done;
}

static bool print_in_style(const struct request *request,
                           const struct lw_profile *profile,
                           const struct lw_query *query, const struct lw_buf *head,
                           struct lw_buf *out, struct lw_error *err)
{
    switch (request->args->style) {
    case STYLE_PSTATS: return print_as_pstats(request, profile, query, head, out, err);
    case STYLE_TORCH: return print_as_torch(request, profile, query, out, err);
    default: return print_view(request, profile, query, out, err);
    }
}

static bool answer(const struct request *request, struct lw_query *query,
                   struct lw_buf *out, struct lw_error *err)
{
    struct lw_profile part = { 0 };
    struct lw_profile *profile;
    struct lw_buf head, report;
    bool done = false;

    lw_buf_init(&head, 0);
    lw_buf_init(&report, 0);
    profile = lw_profiles_open(request->profiles, request->profile_count,
                               lw_analysis_want(request->view, query), &head, err);
    if (profile) {
        lw_profiles_add_report(&report, request->profiles, request->profile_count,
                               profile);
        lw_buf_add_char(&report, '\0');
        query->report = report.bytes;
        done = lw_buf_check(&report, err) &&
               lw_states_take(&part, profile, query->states, err) &&
               print_in_style(request, &part, query, &head, out, err);
    }
    lw_states_release(&part);
    lw_profile_free(profile);
    lw_buf_release(&report);
    lw_buf_release(&head);
    return done;
}

/* What is asked of two profiles: what is more or less in the second. */
static bool compare_profiles(const struct request *request,
                             const struct lw_profile *before,
                             const struct lw_profile *after,
                             const struct lw_query *query, struct lw_table *table,
                             struct lw_error *err)
{
    return request->view->run_pair
               ? request->view->run_pair(before, after, query, table, err)
               : lw_diff_run(before, after, query, table, err);
}

static bool answer_pair(const struct request *request, struct lw_query *query,
                        struct lw_buf *out, struct lw_error *err)
{
    unsigned want = lw_analysis_want(request->view, query);
    char **names = request->profiles;
    struct lw_profile *before = lw_profiles_open(names, 1, want, NULL, err);
    struct lw_profile *after =
        before ? lw_profiles_open(names + 1, 1, want, NULL, err) : NULL;
    struct lw_profile parts[2] = { { 0 } };
    struct lw_table table = { 0 };
    bool done = after && lw_states_take(&parts[0], before, query->states, err) &&
                lw_states_take(&parts[1], after, query->states, err) &&
                compare_profiles(request, &parts[0], &parts[1], query, &table, err) &&
                check_rows(request, &table, err) &&
                print_table(request, &table, out, err);

    lw_states_release(&parts[0]);
    lw_states_release(&parts[1]);
    lw_table_release(&table);
    lw_profile_free(before);
    lw_profile_free(after);
    return done;
}

/* A file that holds not a view but the profile itself, in another tool's format. */
static bool answer_whole(const struct request *request, struct lw_buf *out,
                         struct lw_error *err)
{
    struct lw_profile *profile = lw_profiles_open(
        request->profiles, request->profile_count, request->writer->want, NULL, err);
    bool done =
        profile && request->writer->write(profile, out, err) && lw_buf_check(out, err);

    lw_profile_free(profile);
    return done;
}

/* Was anything asked that only a view can answer? */
static bool asks_for_part(const struct request *request)
{
    return request->has_view || request->restriction_count || request->args->diff ||
           lw_view_args_given(&request->args->view);
}

/* The suffix of the output says the form, unless an option does: x.csv is the view as
 * CSV, x.svg the profile as a flame graph. */
static bool choose_form(struct args *args, struct request *request,
                        struct lw_error *err)
{
    const struct lw_writer *writer =
        args->output ? lw_writer_for_path(args->output) : NULL;

    if (!writer || args->json || args->csv || args->markdown ||
        args->style != STYLE_LAPWING)
        return true;
    args->json = writer == &lw_writer_json;
    args->csv = writer == &lw_writer_csv;
    args->markdown = writer == &lw_writer_markdown;
    if (args->json || args->csv || args->markdown)
        return true;
    if (asks_for_part(request))
        return lw_fail(err, LW_ERR_USAGE,
                       "%s would hold the whole profile as %s: leave out the view and "
                       "what restricts it, or name a file that ends otherwise",
                       args->output, writer->name);
    request->writer = writer;
    return true;
}

static bool put_out(const struct request *request, const struct lw_buf *out,
                    struct lw_error *err)
{
    const char *output = request->args->output;

    if (output)
        return lw_file_replace(output, out->bytes, out->len, err);
    if (request->pager)
        lw_pager_show(request->pager, out);
    else if (out->len > 0)                       /* pstats may have nothing to say */
        fwrite(out->bytes, 1, out->len, stdout); /* main() sees whether it got out */
    return true;
}

static bool is_pair(const struct request *request)
{
    return request->args->diff || !request->view->run;
}

static bool check_pair(const struct request *request, struct lw_error *err)
{
    if (!request->view->run)
        return request->profile_count == 2 ||
               lw_fail(err, LW_ERR_USAGE,
                       "%s takes two profiles, before and after: lapwing report %s A B",
                       request->view->name, request->view->name);
    if (request->profile_count != 2)
        return lw_fail(err, LW_ERR_USAGE,
                       "--diff takes two profiles, before and after: lapwing report "
                       "--diff A B");
    if (request->view != &lw_analysis_functions && !request->view->run_pair)
        return lw_fail(err, LW_ERR_USAGE,
                       "--diff compares functions and steps, but not the view %s",
                       request->view->name);
    if (request->args->style != STYLE_LAPWING)
        return lw_fail(err, LW_ERR_USAGE, "%s prints no differences",
                       request->args->style == STYLE_TORCH ? "torch" : "pstats");
    return true;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    struct args form = *(const struct args *)args;
    struct lw_error nothing = { LW_OK, "" };
    struct request request = { .args = &form, .nothing = &nothing };
    struct lw_query query;
    struct lw_buf out;
    bool done;

    if (request.args->json + request.args->csv + request.args->markdown +
            (request.args->style != STYLE_LAPWING) >
        1)
        return lw_usage(err, "report prints one form: choose one of --json, --csv, "
                             "--markdown and --style");
    if (!sort_words(&request, argc, argv, err))
        return LW_EXIT_FAILED;
    if (is_pair(&request) && !check_pair(&request, err))
        return LW_EXIT_USAGE;
    if (!choose_form(&form, &request, err))
        return LW_EXIT_USAGE;
    if (request.profile_count == 0 && !lw_latest_warn(NULL, err))
        return LW_EXIT_FAILED;
    request.has_limit = lw_view_args_has_limit(&form.view, request.restrictions,
                                               (size_t)request.restriction_count);
    request.pager = form.output ? NULL : lw_pager_choose(form.pager);
    if (!form.output && for_people(&form) && form.style == STYLE_LAPWING)
        lw_pager_fit(&form.view, request.view, request.pager);
    lw_query_init(&query);
    lw_buf_init(&out, 0);
    if (request.writer)
        done = answer_whole(&request, &out, err);
    else
        done = make_query(&request, &query, err) &&
               (is_pair(&request) ? answer_pair : answer)(&request, &query, &out, err);
    done = done && put_out(&request, &out, err) &&
           (nothing.code == LW_OK || lw_fail(err, nothing.code, "%s", nothing.text));
    lw_buf_release(&out);
    lw_query_release(&query);
    return done ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

/* With what its rows may be. */
static void explain_view(struct lw_help *help, const struct lw_analysis *view)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, view->summary);
    if (view->by)
        lw_buf_addf(&text, "; --by %s", view->by);
    lw_buf_add_char(&text, '\0');
    if (text.failure)
        help->out.failure = text.failure;
    else
        lw_help_row(help, view->name, text.bytes);
    lw_buf_release(&text);
}

static void explain(struct lw_help *help)
{
    lw_help_heading(help, "Views");
    for (size_t i = 0; i < lw_analysis_count; i++)
        explain_view(help, lw_analyses[i]);
    lw_help_heading(help, "Files that are read");
    for (size_t i = 0; i < lw_reader_count; i++)
        lw_help_row(help, lw_readers[i]->name, lw_readers[i]->summary);
}

const struct lw_command lw_cmd_report = {
    .name = "report",
    .summary = "print what a profile says: summary, functions, callers, tree ...",
    .usage = "lapwing report [OPTIONS] [RUN|FILE...] [VIEW] [RESTRICTION...]\n"
             "lapwing report [OPTIONS] --diff BEFORE AFTER [VIEW] [RESTRICTION...]",
    .description =
        "Prints one view of a run, or of any file of a known format ('-' is standard "
        "input). Without a run it takes the latest, without a view the summary, or the "
        "overview of a torch trace, or the memory of a snapshot. Several are added up, as pstats' Stats.add() does; "
        "several torch traces, or a folder of them, are the ranks of one job.\n\n"
        "A run is named by its name or the beginning of it, by 'latest' or -1, by -2 (the "
        "one before) and so on, or by its program: report train.py is the latest run of "
        "that.\n\n"
        "A restriction is what pstats takes: a number (the first so many), a fraction "
        "from 0 to 1 (that part of them) or a regular expression (those that match), "
        "each applied to what the one before left.",
    .explain = explain,
    .args_size = sizeof(struct args),
    .defaults = &defaults,
    .options = options,
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
