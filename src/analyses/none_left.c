/* The restrictions of a query left no row: whose fault is it? Only now is each looked at
 * alone, with all rows, so an answer that has rows pays nothing. */

#include <ctype.h>
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

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Put in *START the word of a name that people type: "lookup" of "Table.lookup", "conv2d"
 * of "<built-in method torch.conv2d>", "read" of "<method 'read' of ...>". Its length. */
static size_t word_of(const char *name, size_t len, const char **start)
{
    const char *quote = memchr(name, '\'', len);
    const char *from, *end = name + len;

    if (quote) {
        for (end = from = quote + 1; end < name + len && is_letter(*end);)
            end++;
    } else {
        while (end > name && !is_letter(end[-1]))
            end--;
        for (from = end; from > name && is_letter(from[-1]);)
            from--;
    }
    *start = from;
    return (size_t)(end - from);
}

/* The name of row INDEX, or only the word of it, ended by a NUL. */
static void read_name(const struct rows *rows, size_t index, bool only_word,
                      struct lw_buf *text)
{
    const char *start;
    size_t len;

    lw_buf_reset(text);
    rows->text_of(rows->of, index, true, text);
    if (only_word && text->len > 0 && !text->failure) {
        len = word_of(text->bytes, text->len, &start);
        memmove(text->bytes, start, len);
        text->len = len;
    }
    lw_buf_add_char(text, '\0');
}

/* TEXT will hold the name that is nearest to WORD, or the word of one; empty: none is
 * near. */
static void find_nearest(const char *word, const struct rows *rows, struct lw_buf *text)
{
    size_t best = rows->count, was;
    bool is_word = false;
    struct lw_nearest near;
    bool has_any;

    lw_nearest_init(&near, word);
    for (size_t i = 0; i < 2 * rows->count; i++) {
        read_name(rows, i / 2, i % 2, text);
        if (text->failure)
            return;
        was = near.distance;
        has_any = near.name != NULL;
        lw_nearest_offer(&near, text->bytes);
        if (near.name && (!has_any || near.distance < was)) {
            best = i / 2;
            is_word = i % 2;
        }
    }
    lw_buf_reset(text);
    if (best < rows->count)
        read_name(rows, best, is_word, text);
}

static void note_unmatched(const struct lw_restriction *by, const struct rows *rows,
                           struct lw_buf *text, struct lw_table *table)
{
    lw_table_note(table, "No %s matches '%s'.", rows->noun, by->text);
    find_nearest(by->text, rows, text);
    lw_table_set_unmatched(table, by->text, rows->noun, text->len ? text->bytes : NULL);
}

/* A count of 0 is what was asked for; a pattern that leaves nothing hardly is. */
static bool has_filter(const struct lw_query *query)
{
    for (size_t i = 0; i < query->restriction_count; i++)
        if (query->restrictions[i].kind == LW_RESTRICT_PATTERN ||
            query->restrictions[i].kind == LW_RESTRICT_MINE)
            return true;
    return false;
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
        if (has_filter(query))
            lw_table_set_unmatched(table, NULL, noun, NULL);
    }
    if (text.failure)
        table->failure = text.failure;
    lw_buf_release(&text);
}
