/* The restrictions of a query left no row: whose fault is it? Only now is each looked at
 * alone, with all rows, so an answer that has rows pays nothing. */

#include <string.h>

#include "analyses/analysis.h"
#include "base/nearest.h"

struct rows {
    size_t count;
    lw_analysis_text_of *text_of;
    const void *of;
    const char *noun;
};

static bool matches_any(const struct lw_restriction *by, const struct rows *rows,
                        struct lw_buf *text)
{
    bool matches = false;

    for (size_t i = 0; i < rows->count && !matches && !text->failure; i++) {
        lw_buf_reset(text);
        rows->text_of(rows->of, i, false, text);
        matches =
            lw_pattern_search(&by->pattern, text->bytes ? text->bytes : "", text->len);
    }
    return matches;
}

/* TEXT will hold the name that is nearest to WORD; empty: none is near. */
static void find_nearest(const char *word, const struct rows *rows, struct lw_buf *text)
{
    size_t best = rows->count, was;
    struct lw_nearest near;
    bool has_any;

    lw_nearest_init(&near, word);
    for (size_t i = 0; i < rows->count && !text->failure; i++) {
        lw_buf_reset(text);
        rows->text_of(rows->of, i, true, text);
        lw_buf_add_char(text, '\0');
        if (text->failure)
            return;
        was = near.distance;
        has_any = near.name != NULL;
        lw_nearest_offer(&near, text->bytes);
        if (near.name && (!has_any || near.distance < was))
            best = i;
    }
    lw_buf_reset(text);
    if (best < rows->count)
        rows->text_of(rows->of, best, true, text);
}

static void note_unmatched(const struct lw_restriction *by, const struct rows *rows,
                           struct lw_buf *text, struct lw_table *table)
{
    lw_table_note(table, "No %s matches '%s'.", rows->noun, by->text);
    if (!by->is_word)
        return;
    find_nearest(by->text, rows, text);
    lw_table_set_unmatched(table, by->text, rows->noun, text->len ? text->bytes : NULL);
}

void lw_analysis_note_none(const struct lw_query *query, size_t count,
                           lw_analysis_text_of *text_of, const void *of,
                           const char *noun, struct lw_table *table)
{
    const struct rows rows = { count, text_of, of, noun };
    const struct lw_restriction *unmatched = NULL;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    for (size_t i = 0; i < query->restriction_count && !unmatched; i++) {
        const struct lw_restriction *by = &query->restrictions[i];

        if (by->kind == LW_RESTRICT_PATTERN && !matches_any(by, &rows, &text))
            unmatched = by;
    }
    if (unmatched && !text.failure) {
        note_unmatched(unmatched, &rows, &text, table);
    } else if (count > 0) {
        lw_table_note(table, "No %s is left by all the restrictions together.", noun);
    }
    if (text.failure)
        table->failure = text.failure;
    lw_buf_release(&text);
}
