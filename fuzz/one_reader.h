/* Any bytes as a file of one format: read, and if that is done, added up as functions,
 * callers and a tree. What a reader refuses, it must say in a sentence. */
#ifndef LW_FUZZ_ONE_READER_H
#define LW_FUZZ_ONE_READER_H

#include <stdint.h>
#include <stdlib.h>

#include "model/calltree.h"
#include "readers/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static inline void fuzz_profile(const struct lw_profile *profile)
{
    struct lw_callgraph graph;
    struct lw_calltree tree;
    struct lw_error err = { LW_OK, "" };

    if (!lw_callgraph_init(&graph, profile, LW_GRAPH_ANY, NULL, &err))
        abort();
    lw_callgraph_release(&graph);
    if (!lw_calltree_init(&tree, profile, LW_GRAPH_ANY, NULL, &err) &&
        err.code != LW_ERR_UNSUPPORTED)
        abort();
    lw_calltree_release(&tree);
}

static inline int fuzz_reader(const struct lw_reader *reader, const uint8_t *bytes,
                              size_t len)
{
    static const unsigned wants[] = { LW_WANT_ALL,
                                      LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS };
    struct lw_source source = { .path = "fuzz", .name = "fuzz" };
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile;

    source.head = source.view.bytes = bytes;
    source.view.len = len;
    source.head_len = len < LW_SOURCE_HEAD_BYTES ? len : LW_SOURCE_HEAD_BYTES;
    reader->sniff(&source);
    if (!reader->read(&source, wants[len % 2], builder, &err)) {
        if (err.code == LW_OK || !err.text[0])
            abort();
        lw_builder_free(builder);
        return 0;
    }
    profile = lw_builder_finish(builder, NULL);
    fuzz_profile(profile);
    lw_profile_free(profile);
    return 0;
}

#endif
