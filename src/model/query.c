/* Restrictions and selections, after Lib/pstats.py of CPython 3.11. */

#include "model/query.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "model/mine.h"

/* Restrictions */

static bool keep_matching(const struct lw_restriction *restriction,
                          const struct lw_callgraph *graph,
                          struct lw_selection *selection, struct lw_error *err)
{
    struct lw_buf text;
    size_t kept = 0;
    bool done = true;

    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < selection->count; i++) {
        uint32_t index = selection->functions[i];

        lw_buf_reset(&text);
        lw_function_add_text(&graph->functions[index], &text);
        done = lw_buf_check(&text, err);
        if (done && lw_pattern_search(&restriction->pattern, text.bytes, text.len))
            selection->functions[kept++] = index;
    }
    lw_buf_release(&text);
    selection->count = kept;
    return done;
}

/* By the file of the frame: the function's own may have lost its folders. */
static bool keep_mine(const struct lw_callgraph *graph, struct lw_selection *selection,
                      struct lw_error *err)
{
    struct lw_error ignored = { LW_OK, "" };
    struct lw_mine mine;
    size_t kept = 0;
    bool done = lw_mine_init(&mine, graph->profile, err);

    for (size_t i = 0; done && i < selection->count; i++) {
        uint32_t index = selection->functions[i];
        const struct lw_frame *frame =
            lw_profile_frame(graph->profile, graph->functions[index].frame);

        if (lw_mine_has(&mine, lw_profile_text(graph->profile, frame->file), &ignored))
            selection->functions[kept++] = index;
        else if (ignored.code != LW_OK)
            done = lw_fail(err, ignored.code, "%s", ignored.text);
    }
    selection->count = kept;
    lw_mine_release(&mine);
    return done;
}

static bool restrict_selection(const struct lw_restriction *restriction,
                               const struct lw_callgraph *graph,
                               struct lw_selection *selection, struct lw_error *err)
{
    size_t share_count;

    switch (restriction->kind) {
    case LW_RESTRICT_COUNT:
        if (restriction->count >= 0 && (uint64_t)restriction->count < selection->count)
            selection->count = (size_t)restriction->count;
        return true;
    case LW_RESTRICT_SHARE:
        share_count = (size_t)((double)selection->count * restriction->share + .5);
        if (restriction->share < 1.0 && share_count < selection->count)
            selection->count = share_count;
        return true;
    case LW_RESTRICT_PATTERN: return keep_matching(restriction, graph, selection, err);
    case LW_RESTRICT_MINE: return keep_mine(graph, selection, err);
    case LW_RESTRICT_INVALID: return true;
    }
    return true;
}

bool lw_query_select(const struct lw_query *query, const struct lw_callgraph *graph,
                     struct lw_selection *selection, struct lw_error *err)
{
    memset(selection, 0, sizeof(*selection));
    selection->functions = lw_alloc((graph->listed_count + 1) * sizeof(uint32_t), err);
    selection->counts = lw_zalloc(query->restriction_count + 1, sizeof(size_t), err);
    if (!selection->functions || !selection->counts)
        return false;
    selection->count = graph->listed_count;
    for (size_t i = 0; i < graph->listed_count; i++)
        selection->functions[i] = (uint32_t)i;
    if (query->key_count > 0 && !lw_selection_sort(selection, query, graph, err))
        return false;
    for (size_t i = 0; i < query->restriction_count; i++) {
        selection->counts[i] = selection->count;
        if (!restrict_selection(&query->restrictions[i], graph, selection, err))
            return false;
    }
    selection->counts[query->restriction_count] = selection->count;
    return true;
}

void lw_selection_release(struct lw_selection *selection)
{
    lw_free(selection->functions);
    lw_free(selection->counts);
    memset(selection, 0, sizeof(*selection));
}

/* Queries */

void lw_query_init(struct lw_query *query)
{
    memset(query, 0, sizeof(*query));
    query->report = "lapwing report "; /* of the latest run */
}

void lw_query_release(struct lw_query *query)
{
    for (size_t i = 0; i < query->restriction_count; i++)
        lw_pattern_release(&query->restrictions[i].pattern);
    lw_free(query->restrictions);
    memset(query, 0, sizeof(*query));
}

bool lw_query_add_column(struct lw_query *query, const char *name, struct lw_error *err)
{
    if (query->column_count == LW_QUERY_KEYS_MAX)
        return lw_fail(err, LW_ERR_USAGE, "more than %d sort keys", LW_QUERY_KEYS_MAX);
    query->columns[query->column_count++] = name;
    return true;
}

/* Of a list the first is meant. */
bool lw_query_is_by(const struct lw_query *query, const char *word)
{
    size_t len = strlen(word);

    return query->by && strncmp(query->by, word, len) == 0 &&
           (query->by[len] == '|' || !query->by[len]);
}

bool lw_query_add_key(struct lw_query *query, const char *word, struct lw_error *err)
{
    const struct lw_sort_key *key = lw_sort_key_find(word, err);

    if (!key)
        return false;
    if (query->key_count == LW_QUERY_KEYS_MAX)
        return lw_fail(err, LW_ERR_USAGE, "more than %d sort keys", LW_QUERY_KEYS_MAX);
    query->keys[query->key_count++] = key;
    return true;
}

/* A new restriction, zeroed, or NULL. */
static struct lw_restriction *add_restriction(struct lw_query *query,
                                              enum lw_restriction_kind kind,
                                              struct lw_error *err)
{
    struct lw_restriction *restriction;

    if (!lw_grow(&query->restrictions, &query->restriction_capacity,
                 query->restriction_count + 1, sizeof(*restriction), err))
        return NULL;
    restriction = &query->restrictions[query->restriction_count++];
    memset(restriction, 0, sizeof(*restriction));
    restriction->kind = kind;
    return restriction;
}

bool lw_query_add_count(struct lw_query *query, int64_t count, struct lw_error *err)
{
    struct lw_restriction *restriction = add_restriction(query, LW_RESTRICT_COUNT, err);

    if (restriction)
        restriction->count = count;
    return restriction != NULL;
}

bool lw_query_add_pattern(struct lw_query *query, const char *text,
                          struct lw_error *err)
{
    struct lw_restriction *restriction =
        add_restriction(query, LW_RESTRICT_PATTERN, err);

    if (!restriction)
        return false;
    restriction->text = text;
    return lw_pattern_init(&restriction->pattern, text, err);
}

bool lw_query_add_invalid(struct lw_query *query, const char *text,
                          struct lw_error *err)
{
    struct lw_restriction *restriction =
        add_restriction(query, LW_RESTRICT_INVALID, err);

    if (restriction)
        restriction->text = text;
    return restriction != NULL;
}

bool lw_query_add_mine(struct lw_query *query, struct lw_error *err)
{
    return add_restriction(query, LW_RESTRICT_MINE, err) != NULL;
}

bool lw_query_add_word(struct lw_query *query, const char *word, struct lw_error *err)
{
    struct lw_restriction *restriction;
    int64_t count;
    double share;

    if (lw_text_i64(word, strlen(word), &count))
        return lw_query_add_count(query, count, err);
    if (!lw_text_double(word, strlen(word), &share)) {
        if (!lw_query_add_pattern(query, word, err))
            return false;
        query->restrictions[query->restriction_count - 1].is_word = true;
        return true;
    }
    if (share < 0 || share > 1)
        return lw_fail(err, LW_ERR_USAGE, "the fraction %s is not between 0 and 1",
                       word);
    restriction = add_restriction(query, LW_RESTRICT_SHARE, err);
    if (restriction)
        restriction->share = share;
    return restriction != NULL;
}

/* Threads and graphs */

static bool is_number(const char *text, uint64_t number)
{
    uint64_t value;

    return lw_text_u64(text, strlen(text), &value) && value == number;
}

static bool is_meant(const struct lw_query *query, const struct lw_profile *profile,
                     const struct lw_thread *thread)
{
    if (query->process &&
        !is_number(query->process, profile->processes[thread->process].pid))
        return false;
    return !query->thread || is_number(query->thread, thread->tid) ||
           strcmp(query->thread, lw_profile_text(profile, thread->name)) == 0;
}

static bool fail_no_thread(const struct lw_query *query,
                           const struct lw_profile *profile, struct lw_error *err)
{
    if (profile->thread_count == 0)
        return lw_fail(err, LW_ERR_USAGE,
                       "the profile does not tell threads and processes apart");
    if (query->process && query->thread)
        return lw_fail(err, LW_ERR_USAGE,
                       "process %s has no thread '%s'; 'report threads' lists them",
                       query->process, query->thread);
    if (query->process)
        return lw_fail(err, LW_ERR_USAGE,
                       "there is no process %s; 'report processes' lists them",
                       query->process);
    return lw_fail(err, LW_ERR_USAGE,
                   "there is no thread '%s'; 'report threads' lists them",
                   query->thread);
}

bool lw_query_threads(const struct lw_query *query, const struct lw_profile *profile,
                      bool **flags, struct lw_error *err)
{
    size_t count = 0;

    *flags = NULL;
    if (!query->thread && !query->process)
        return true;
    *flags = lw_zalloc(profile->thread_count, sizeof(**flags), err);
    if (!*flags)
        return false;
    for (size_t i = 0; i < profile->thread_count; i++) {
        (*flags)[i] = is_meant(query, profile, &profile->threads[i]);
        count += (*flags)[i];
    }
    if (count > 0)
        return true;
    lw_free(*flags);
    *flags = NULL;
    return fail_no_thread(query, profile, err);
}

static bool make_graph(const struct lw_query *query, const struct lw_profile *profile,
                       bool by_line, struct lw_callgraph *graph, struct lw_error *err)
{
    bool *threads;
    bool done;

    memset(graph, 0, sizeof(*graph));
    if (!lw_query_threads(query, profile, &threads, err))
        return false;
    done = (by_line ? lw_callgraph_init_lines(graph, profile, threads, err)
                    : lw_callgraph_init(graph, profile, query->source, threads, err)) &&
           (!query->strip || lw_callgraph_strip(graph, query->how_strip, err));
    lw_free(threads);
    return done;
}

bool lw_query_graph(const struct lw_query *query, const struct lw_profile *profile,
                    struct lw_callgraph *graph, struct lw_error *err)
{
    return make_graph(query, profile, false, graph, err);
}

bool lw_query_lines(const struct lw_query *query, const struct lw_profile *profile,
                    struct lw_callgraph *graph, struct lw_error *err)
{
    return make_graph(query, profile, true, graph, err);
}
