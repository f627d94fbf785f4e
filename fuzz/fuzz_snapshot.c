/* Any bytes as an allocator's snapshot or as a memory timeline, and then every view of
 * memory of what was read. */

#include <stdlib.h>

#include "analyses/analysis.h"
#include "readers/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char *const views[] = { "op",       "curve",  "peak",    "event",
                                     "category", "device", "segment", "op|curve" };

static void look(const struct lw_profile *profile, const char *by)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_query query;
    struct lw_table table;

    lw_query_init(&query);
    query.by = by;
    if (!lw_analysis_run(&lw_analysis_memory, profile, &query, &table, &err) &&
        (err.code == LW_OK || err.code == LW_ERR_NOMEM || !err.text[0]))
        abort();
    lw_table_release(&table);
    lw_query_release(&query);
}

static struct lw_profile *read_bytes(const struct lw_reader *reader,
                                     const uint8_t *bytes, size_t len)
{
    struct lw_source source = { .path = "fuzz", .name = "fuzz" };
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err = { LW_OK, "" };

    source.head = source.view.bytes = bytes;
    source.view.len = len;
    source.head_len = len < LW_SOURCE_HEAD_BYTES ? len : LW_SOURCE_HEAD_BYTES;
    reader->sniff(&source);
    if (reader->read(&source, LW_WANT_TRACE, builder, &err))
        return lw_builder_finish(builder, &err);
    if (err.code == LW_OK || !err.text[0])
        abort();
    lw_builder_free(builder);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    bool is_pickle = len > 0 && bytes[0] != '[' && bytes[0] != ' ';
    struct lw_profile *profile = read_bytes(
        is_pickle ? &lw_reader_snapshot : &lw_reader_memory_timeline, bytes, len);

    for (size_t i = 0; profile && i < sizeof(views) / sizeof(views[0]); i++)
        look(profile, views[i]);
    lw_profile_free(profile);
    return 0;
}
