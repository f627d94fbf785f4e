/* From the options of a view to the query that it answers. */

#include "cmd/view_args.h"

#include <string.h>

#include "base/text.h"

static bool parse_share(const char *text, double *share, struct lw_error *err)
{
    size_t len = strlen(text);
    bool is_percent = len > 0 && text[len - 1] == '%';

    if (!lw_text_double(text, len - is_percent, share) || *share < 0 ||
        *share > (is_percent ? 100 : 1))
        return lw_fail(
            err, LW_ERR_USAGE,
            "--min-share takes a share from 0 to 1, or a percentage, not '%s'", text);
    if (is_percent)
        *share /= 100;
    return true;
}

static bool add_sorting(const struct lw_view_args *args, const struct lw_analysis *view,
                        unsigned usual, struct lw_query *query, struct lw_error *err)
{
    if (view->sorts_columns) {
        for (size_t i = 0; i < args->sort.count; i++)
            if (!lw_query_add_column(query, args->sort.texts[i], err))
                return false;
        return true;
    }
    for (size_t i = 0; i < args->sort.count; i++)
        if (!lw_query_add_key(query, args->sort.texts[i], err))
            return false;
    if (args->sort.count > 0 && !view->sort)
        return lw_fail(err, LW_ERR_USAGE, "%s takes no --sort", view->name);
    if (query->key_count == 0 && view->sort && usual & LW_USUAL_ORDER)
        return lw_query_add_key(query, view->sort, err);
    return true;
}

static bool add_restrictions(const struct lw_view_args *args,
                             const struct lw_analysis *view, char *const *words,
                             size_t count, unsigned usual, struct lw_query *query,
                             struct lw_error *err)
{
    bool has_limit = args->limit != LW_NO_LIMIT;
    uint64_t rows = view->usual_rows;

    if (args->mine && !lw_query_add_mine(query, err))
        return false;
    for (size_t i = 0; i < args->match.count; i++)
        if (!lw_query_add_pattern(query, args->match.texts[i], err))
            return false;
    for (size_t i = 0; i < count; i++) {
        if (!lw_query_add_word(query, words[i], err))
            return false;
        has_limit |= query->restrictions[query->restriction_count - 1].kind !=
                     LW_RESTRICT_PATTERN;
    }
    if (args->limit != LW_NO_LIMIT && !view->takes_restrictions)
        return lw_fail(err, LW_ERR_USAGE, "%s takes no --limit", view->name);
    if (query->restriction_count > 0 && !view->takes_restrictions)
        return lw_fail(err, LW_ERR_USAGE, "%s takes no restrictions", view->name);
    if (args->limit != LW_NO_LIMIT && args->limit > 0)
        return lw_query_add_count(query, (int64_t)(args->limit & INT64_MAX), err);
    if (args->screen_rows && args->screen_rows < rows)
        rows = args->screen_rows;
    if (!has_limit && rows && usual & LW_USUAL_ROWS)
        return lw_query_add_count(query, (int64_t)rows, err);
    return true;
}

/* Is WORD one of LIST, which are parted by '|'? */
static bool is_listed(const char *word, const char *list)
{
    size_t len = strlen(word);

    for (const char *at = list; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, len) == 0 && (at[len] == '|' || !at[len]))
            return true;
    }
    return false;
}

/* What only views of a trace take. QUERY's `by` is at least the view's usual word. */
static bool add_trace_args(const struct lw_view_args *args,
                           const struct lw_analysis *view, struct lw_query *query,
                           struct lw_error *err)
{
    static const char *const compats[] = { NULL, "tb", "hta",
                                           "torch" }; /* enum lw_compat */
    const char *compat = compats[args->compat];

    if (args->by && !view->by)
        return lw_fail(err, LW_ERR_USAGE, "%s takes no --by", view->name);
    if (args->by && !is_listed(args->by, view->by))
        return lw_fail(err, LW_ERR_USAGE, "%s --by takes %s, not '%s'", view->name,
                       view->by, args->by);
    if (compat && (!view->compat || !is_listed(compat, view->compat)))
        return lw_fail(err, LW_ERR_USAGE, "%s has no definitions of %s", view->name,
                       compat);
    query->by = args->by ? args->by : view->by;
    if (args->range && !view->takes_range)
        return lw_fail(err, LW_ERR_USAGE, "%s takes no --range", view->name);
    query->rank = args->rank;
    query->range = args->range;
    query->compat = (enum lw_compat)args->compat;
    return true;
}

bool lw_view_args_ask(const struct lw_view_args *args, const struct lw_analysis *view,
                      char *const *words, size_t count, unsigned usual,
                      struct lw_query *query, struct lw_error *err)
{
    query->reverse ^= args->reverse;
    query->strip |= args->strip;
    query->source = (enum lw_graph_source)args->source;
    query->states = (enum lw_states)args->states;
    query->with_error = args->error || !(usual & LW_USUAL_ROWS);
    query->thread = args->thread;
    query->process = args->process;
    query->max_depth = args->depth;
    query->min_share = usual & LW_USUAL_ROWS ? LW_USUAL_SHARE : 0;
    return (!args->min_share || parse_share(args->min_share, &query->min_share, err)) &&
           add_sorting(args, view, usual, query, err) &&
           add_trace_args(args, view, query, err) &&
           add_restrictions(args, view, words, count, usual, query, err);
}

bool lw_view_args_has_limit(const struct lw_view_args *args, char *const *words,
                            size_t count)
{
    bool has_limit = args->limit != LW_NO_LIMIT;
    double number;

    for (size_t i = 0; i < count && !has_limit; i++)
        has_limit = lw_text_double(words[i], strlen(words[i]), &number);
    return has_limit;
}

bool lw_view_args_given(const struct lw_view_args *args)
{
    return args->sort.count || args->reverse || args->strip || args->mine ||
           args->match.count || args->limit != LW_NO_LIMIT || args->min_share ||
           args->depth || args->thread || args->process || args->source ||
           args->states || args->error || args->by || args->rank || args->compat ||
           args->range;
}
