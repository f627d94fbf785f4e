/* Sort keys and sorting, after Lib/pstats.py of CPython 3.11. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "model/query.h"

/* In pstats' order, which decides what its abbreviations mean. */
const struct lw_sort_key lw_sort_keys[] = {
    { "calls", "call count", "1", true },
    { "ncalls", "call count", "1", true },
    { "cumtime", "cumulative time", "3", true },
    { "cumulative", "cumulative time", "3", true },
    { "filename", "file name", "4", false },
    { "line", "line number", "5", false },
    { "module", "file name", "4", false },
    { "name", "function name", "6", false },
    { "nfl", "name/file/line", "645", false },
    { "pcalls", "primitive call count", "0", true },
    { "stdname", "standard name", "7", false },
    { "time", "internal time", "2", true },
    { "tottime", "internal time", "2", true },
};
const size_t lw_sort_key_count = sizeof(lw_sort_keys) / sizeof(lw_sort_keys[0]);

/* Not among pstats', so that their abbreviations mean what they mean there. */
static const struct lw_sort_key samples_key = { "samples", "sample count", "8", true };

static size_t common_len(const char *a, const char *b)
{
    size_t len = 0;

    while (a[len] && a[len] == b[len])
        len++;
    return len;
}

/* pstats gives each key's prefixes to the first key that has them, and then takes away
 * those at which a later key was first stopped: its longest prefix that an earlier key
 * has. So "cum" means nothing, though "cu" does. */
static bool is_ambiguous(const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 1; i < lw_sort_key_count; i++) {
        const char *name = lw_sort_keys[i].name;
        size_t longest = 0;

        for (size_t j = 0; j < i; j++) {
            size_t shared = common_len(name, lw_sort_keys[j].name);

            longest = shared > longest ? shared : longest;
        }
        if (longest == len && strncmp(name, word, len) == 0)
            return true;
    }
    return false;
}

static const struct lw_sort_key *find_name(const char *name)
{
    for (size_t i = 0; i < lw_sort_key_count; i++)
        if (strncmp(lw_sort_keys[i].name, name, strlen(name)) == 0)
            return &lw_sort_keys[i];
    return NULL;
}

const struct lw_sort_key *lw_sort_key_find(const char *word, struct lw_error *err)
{
    /* pstats' old numbers, and what our own tables have above their columns. */
    static const char *const others[][2] = {
        { "-1", "stdname" },       { "0", "calls" },       { "1", "time" },
        { "2", "cumulative" },     { "self", "time" },     { "total", "cumulative" },
        { "share", "time" },       { "function", "name" }, { "place", "file" },
        { "primitive", "pcalls" },
    };
    const char *given = word;
    const struct lw_sort_key *key;
    struct lw_nearest near;

    if (strcmp(word, samples_key.name) == 0)
        return &samples_key;
    lw_nearest_init(&near, word);
    lw_nearest_offer(&near, samples_key.name);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        lw_nearest_offer(&near, others[i][0]);
        if (strcmp(given, others[i][0]) == 0)
            word = others[i][1];
    }
    key = *word && !is_ambiguous(word) ? find_name(word) : NULL;
    if (key)
        return key;
    for (size_t i = 0; i < lw_sort_key_count; i++)
        lw_nearest_offer(&near, lw_sort_keys[i].name);
    if (near.name)
        lw_fail(err, LW_ERR_USAGE, "there is no sort key '%s'; did you mean '%s'?",
                given, near.name);
    else
        lw_fail(err, LW_ERR_USAGE,
                "there is no sort key '%s'; there are calls, cumulative (total), file, "
                "line, module, name, nfl, pcalls, samples, stdname and time (self)",
                given);
    return NULL;
}

struct sorting {
    const struct lw_query *query;
    const struct lw_callgraph *graph;
    struct lw_buf texts; /* all functions' texts, one behind the other */
    size_t *text_start;  /* by function, and one more; NULL: not asked for */
};

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_field(const struct sorting *sorting, enum lw_sort_field field,
                         uint32_t a_index, uint32_t b_index)
{
    const struct lw_function *a = &sorting->graph->functions[a_index];
    const struct lw_function *b = &sorting->graph->functions[b_index];
    const size_t *start = sorting->text_start;

    switch (field) {
    case LW_SORT_PRIMITIVE_CALLS:
        return (a->cost.primitive_calls > b->cost.primitive_calls) -
               (a->cost.primitive_calls < b->cost.primitive_calls);
    case LW_SORT_CALLS:
        return (a->cost.calls > b->cost.calls) - (a->cost.calls < b->cost.calls);
    case LW_SORT_SAMPLES:
        return (a->cost.self_samples > b->cost.self_samples) -
               (a->cost.self_samples < b->cost.self_samples);
    case LW_SORT_SELF: return compare_numbers(a->cost.self_s, b->cost.self_s);
    case LW_SORT_TOTAL: return compare_numbers(a->cost.total_s, b->cost.total_s);
    case LW_SORT_FILE: return compare_bytes(a->file, a->file_len, b->file, b->file_len);
    case LW_SORT_LINE: return (a->line > b->line) - (a->line < b->line);
    case LW_SORT_NAME: return compare_bytes(a->name, a->name_len, b->name, b->name_len);
    case LW_SORT_TEXT:
        return compare_bytes(
            sorting->texts.bytes + start[a_index], start[a_index + 1] - start[a_index],
            sorting->texts.bytes + start[b_index], start[b_index + 1] - start[b_index]);
    }
    return 0;
}

static int compare_functions(const void *a_index, const void *b_index, void *context)
{
    const struct sorting *sorting = context;
    uint32_t a = *(const uint32_t *)a_index, b = *(const uint32_t *)b_index;

    for (size_t i = 0; i < sorting->query->key_count; i++) {
        const struct lw_sort_key *key = sorting->query->keys[i];

        for (const char *field = key->fields; *field; field++) {
            int order =
                compare_field(sorting, (enum lw_sort_field)(*field - '0'), a, b);

            if (order)
                return key->is_descending ? -order : order;
        }
    }
    return (a > b) - (a < b); /* equal ones stay as they were */
}

static bool needs_texts(const struct lw_query *query)
{
    for (size_t i = 0; i < query->key_count; i++)
        if (strchr(query->keys[i]->fields, '0' + LW_SORT_TEXT))
            return true;
    return false;
}

static bool make_texts(struct sorting *sorting, struct lw_error *err)
{
    const struct lw_callgraph *graph = sorting->graph;

    sorting->text_start = lw_zalloc(graph->listed_count + 1, sizeof(size_t), err);
    if (!sorting->text_start)
        return false;
    for (size_t i = 0; i < graph->listed_count; i++) {
        lw_function_add_text(&graph->functions[i], &sorting->texts);
        sorting->text_start[i + 1] = sorting->texts.len;
    }
    return lw_buf_check(&sorting->texts, err);
}

/* Sorting by what was not counted would leave rows in any order below a title that says
 * otherwise. */
static bool check_keys(const struct lw_query *query, const struct lw_callgraph *graph,
                       struct lw_error *err)
{
    bool has_calls = lw_callgraph_has_calls(graph), has_samples = graph->samples > 0;

    for (size_t i = 0; i < query->key_count && graph->listed_count > 0; i++) {
        const struct lw_sort_key *key = query->keys[i];
        bool is_samples = key == &samples_key;
        bool is_calls = strchr(key->fields, '0' + LW_SORT_CALLS) ||
                        strchr(key->fields, '0' + LW_SORT_PRIMITIVE_CALLS);

        if ((is_calls && !has_calls) || (is_samples && !has_samples))
            return lw_fail(
                err, LW_ERR_USAGE,
                "cannot sort by %s, which were not counted here: there are %scumulative "
                "(total), file, line, module, name, nfl, %s%sstdname and "
                "time (self)",
                is_samples ? "samples" : "calls", has_calls ? "calls, " : "",
                has_calls ? "pcalls, " : "", has_samples ? "samples, " : "");
    }
    return true;
}

bool lw_selection_sort(struct lw_selection *selection, const struct lw_query *query,
                       const struct lw_callgraph *graph, struct lw_error *err)
{
    struct sorting sorting = { .query = query, .graph = graph };
    bool done;

    if (!check_keys(query, graph, err))
        return false;
    lw_buf_init(&sorting.texts, 0);
    done = !needs_texts(query) || make_texts(&sorting, err);
    if (done && selection->count > 0)
        qsort_r(selection->functions, selection->count, sizeof(*selection->functions),
                compare_functions, &sorting);
    lw_buf_release(&sorting.texts);
    lw_free(sorting.text_start);
    for (size_t i = 0, j = selection->count; query->reverse && i + 1 < j; i++) {
        uint32_t swap = selection->functions[i];

        selection->functions[i] = selection->functions[--j];
        selection->functions[j] = swap;
    }
    return done;
}
