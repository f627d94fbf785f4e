/* What a person may ask of a view, wherever a view can be asked for: the options of
 * `lapwing report`, which the shell takes too, and the query they make. */
#ifndef LW_CMD_VIEW_ARGS_H
#define LW_CMD_VIEW_ARGS_H

#include "analyses/analysis.h"
#include "cmd/command.h"

#define LW_NO_LIMIT UINT64_MAX /* --limit was not given */

struct lw_view_args {
    struct lw_arg_list sort;
    bool reverse;
    bool strip;
    bool mine;
    struct lw_arg_list match;
    uint64_t limit; /* 0: all; LW_NO_LIMIT: what is usual for the view */
    const char *min_share;
    uint64_t depth; /* 0: any */
    const char *thread;
    const char *process;
    unsigned source; /* enum lw_graph_source */
    unsigned states; /* enum lw_states */
    bool error;
    const char *by;
    const char *rank;
    unsigned compat; /* enum lw_compat */
    const char *range;
    uint64_t screen_rows; /* no option: so many of the usual rows fit; 0: any */
};

/* clang-format off */
#define LW_VIEW_ARGS_DEFAULT { .limit = LW_NO_LIMIT }

/* Their rows, for a command whose TYPE of args has them as MEMBER. */
#define LW_VIEW_OPTIONS(type, member) \
    LW_OPT_HEADING("Which functions, and in what order"), \
    { 's', "sort", LW_ARG_LIST, offsetof(type, member.sort), "KEY", \
      "sort by KEY: calls, cumulative (total), file, line, module, name, nfl, pcalls, " \
      "samples, stdname or time (self); pstats' abbreviations work; again for equal ones. Views " \
      "of a torch trace: by one of their columns" }, \
    { 'r', "reverse", LW_ARG_FLAG, offsetof(type, member.reverse), NULL, \
      "turn the order round" }, \
    { 'm', "mine", LW_ARG_FLAG, offsetof(type, member.mine), NULL, \
      "only your own code: under the project's folder, but no installed package, " \
      "virtualenv or builtin" }, \
    { 0, "match", LW_ARG_LIST, offsetof(type, member.match), "REGEX", \
      "only functions whose file:line(name) matches" }, \
    { 'n', "limit", LW_ARG_COUNT, offsetof(type, member.limit), "N", \
      "at most N of them; 0: all" }, \
    { 0, "strip", LW_ARG_FLAG, offsetof(type, member.strip), NULL, \
      "leave out the folders of files; what is alike then is added up" }, \
    LW_OPT_HEADING("Trees"), \
    { 0, "min-share", LW_ARG_TEXT, offsetof(type, member.min_share), "SHARE", \
      "only paths with at least this share of the time: 0.01 or 1%" }, \
    { 0, "depth", LW_ARG_COUNT, offsetof(type, member.depth), "N", \
      "at most N calls deep" }, \
    LW_OPT_HEADING("What of the profile"), \
    { 0, "thread", LW_ARG_TEXT, offsetof(type, member.thread), "NAME|ID", \
      "only threads of that name or id" }, \
    { 0, "process", LW_ARG_TEXT, offsetof(type, member.process), "PID", \
      "only that process" }, \
    { 0, "from", LW_ARG_CHOICE, offsetof(type, member.source), "any|calls|samples", \
      "which of its measurements, where it has several" }, \
    { 0, "state", LW_ARG_CHOICE, offsetof(type, member.states), LW_STATES_WORDS, \
      LW_STATES_HELP }, \
    { 0, "error", LW_ARG_FLAG, offsetof(type, member.error), NULL, \
      "how far off shares of samples may be; JSON and CSV always say it" }, \
    LW_OPT_HEADING("Torch traces"), \
    { 0, "by", LW_ARG_TEXT, offsetof(type, member.by), "WHAT", \
      "what the rows are: the list of views says which there are" }, \
    { 0, "rank", LW_ARG_TEXT, offsetof(type, member.rank), "N", \
      "only this rank of a job" }, \
    { 0, "range", LW_ARG_TEXT, offsetof(type, member.range), "NAME[@N]", \
      "only the time of the first range, or the N-th from 0, whose name holds NAME: " \
      "ProfilerStep#7, Step@2 (critical)" }, \
    { 0, "compat", LW_ARG_CHOICE, offsetof(type, member.compat), LW_COMPAT_WORDS, \
      "with another tool's definitions, where they differ: tb is TensorBoard's " \
      "profiler plugin, hta Holistic Trace Analysis, torch key_averages() itself" }
/* clang-format on */

/* What is done when nobody says otherwise. */
enum lw_usual {
    LW_USUAL_ORDER = 1, /* the view's own, unless QUERY has one already */
    LW_USUAL_ROWS = 2,  /* only what a person wants to see at first */
};

/* Fill QUERY, which is initialised, with what ARGS and the COUNT restrictions at WORDS
 * ask of VIEW; USUAL is enum lw_usual. The texts stay borrowed. What the view does not
 * take is LW_ERR_USAGE. */
bool lw_view_args_ask(const struct lw_view_args *args, const struct lw_analysis *view,
                      char *const *words, size_t count, unsigned usual,
                      struct lw_query *query, struct lw_error *err) LW_MUST_CHECK;

/* Was it said how many rows there are to be, by --limit or by one of the words? */
bool lw_view_args_has_limit(const struct lw_view_args *args, char *const *words,
                            size_t count);

/* Was anything asked at all? */
bool lw_view_args_given(const struct lw_view_args *args);

#endif
