/* Any bytes as a file that pstats would open, and then all that is done with one: what
 * was read is written, read again, and must be the same; all orders and texts are made
 * of it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/query.h"
#include "readers/reader.h"
#include "writers/pstats_text.h"
#include "writers/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The profile, or NULL and a sentence. */
static struct lw_profile *read_bytes(const void *bytes, size_t len)
{
    struct lw_source source = { .path = "fuzz", .name = "fuzz" };
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err = { LW_OK, "" };

    source.head = source.view.bytes = bytes;
    source.view.len = len;
    source.head_len = len < LW_SOURCE_HEAD_BYTES ? len : LW_SOURCE_HEAD_BYTES;
    if (lw_reader_pstats.read(&source, LW_WANT_ALL, builder, &err))
        return lw_builder_finish(builder, NULL);
    if (err.code == LW_OK || !err.text[0])
        abort();
    lw_builder_free(builder);
    if (lw_foreign_fail(&source, &err) || !err.text[0]) /* any file can be named */
        abort();
    return NULL;
}

static void print_all(const struct lw_profile *profile)
{
    struct lw_callgraph graph;
    struct lw_query query;
    struct lw_selection selection;
    struct lw_buf out;

    lw_query_init(&query);
    lw_buf_init(&out, 16 << 20);
    query.strip = true;
    query.how_strip = LW_STRIP_AS_PSTATS;
    if (!lw_query_add_key(&query, "nfl", NULL) ||
        !lw_query_add_key(&query, "stdname", NULL) ||
        !lw_query_add_word(&query, "0.9", NULL) ||
        !lw_query_add_word(&query, "[a-z]", NULL) ||
        !lw_query_graph(&query, profile, &graph, NULL) ||
        !lw_query_select(&query, &graph, &selection, NULL))
        abort();
    for (int part = LW_PSTATS_STATS; part <= LW_PSTATS_CALLEES; part++) {
        lw_buf_reset(&out);
        if (!lw_pstats_print((enum lw_pstats_part)part, &graph, &query, &selection,
                             NULL, &out, NULL) &&
            out.failure != LW_ERR_LIMIT)
            abort();
    }
    lw_buf_release(&out);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    lw_query_release(&query);
}

static bool is_utf8(const char *text, size_t len)
{
    uint32_t code;

    for (size_t i = 0, n; i < len; i += n)
        if (!(n = lw_text_utf8(text + i, len - i, &code)))
            return false;
    return true;
}

/* Written, read and written once more, the bytes are the same. Names that are no UTF-8
 * are left out: two of them may become one in Python's text. */
static void write_twice(const struct lw_profile *profile)
{
    struct lw_buf first, second;
    struct lw_profile *copy;

    for (lw_string_id i = 0; i < lw_strings_count(profile->strings); i++)
        if (!is_utf8(lw_profile_text(profile, i), lw_strings_len(profile->strings, i)))
            return;
    lw_buf_init(&first, 0);
    lw_buf_init(&second, 0);
    if (lw_writer_pstats.write(profile, &first, NULL)) {
        copy = read_bytes(first.bytes, first.len);
        if (!copy || copy->function_count != profile->function_count ||
            copy->edge_count != profile->edge_count ||
            !lw_writer_pstats.write(copy, &second, NULL) || first.len != second.len ||
            memcmp(first.bytes, second.bytes, first.len) != 0)
            abort();
        lw_profile_free(copy);
    }
    lw_buf_release(&first);
    lw_buf_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lw_profile *profile = read_bytes(bytes, len);

    if (profile) {
        print_all(profile);
        write_twice(profile);
        lw_profile_free(profile);
    }
    return 0;
}
