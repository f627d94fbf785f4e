/* Any bytes as a trace of torch's profiler: read with a window of a few bytes and with the
 * usual one, which must give the same, added to itself as a second rank, and looked at. */

#include <stdlib.h>

#include "base/inflate.h"
#include "model/merge.h"
#include "model/trace_ranks.h"
#include "one_reader.h"
#include "readers/trace_read.h"

static struct lw_profile *read_trace(const uint8_t *bytes, size_t len,
                                     size_t piece_bytes, struct lw_error *err)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    unsigned want = LW_WANT_TRACE | (len % 2 ? LW_WANT_ARGS : 0);
    struct lw_stream stream;

    if (!lw_stream_open_bytes(&stream, bytes, len, piece_bytes, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    if (!lw_trace_read(&stream, len % 3 ? "rank-7.json" : "x_12.pt.trace.json", want,
                       builder, err) ||
        !lw_trace_ranks_align(builder, err)) {
        lw_stream_close(&stream);
        lw_builder_free(builder);
        return NULL;
    }
    lw_stream_close(&stream);
    return lw_builder_finish(builder, err);
}

static void look_at(const struct lw_trace *trace)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < trace->event_count; i++)
        sum += lw_trace_ancestor(trace, i, LW_EVENT_OP) == LW_NONE;
    for (uint32_t i = 0; i < trace->track_count; i++)
        sum += lw_trace_lower_bound(trace, i, UINT64_MAX / 2);
    if (sum > (uint64_t)trace->event_count * (trace->track_count + 1))
        abort();
}

static void check_same(const struct lw_trace *a, const struct lw_trace *b)
{
    if (a->event_count != b->event_count || a->track_count != b->track_count ||
        a->op_count != b->op_count || a->work_count != b->work_count ||
        a->memory_count != b->memory_count || a->flow_count != b->flow_count ||
        a->mark_count != b->mark_count || a->gpu_count != b->gpu_count ||
        a->ranks[0].event_count != b->ranks[0].event_count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lw_error err = { LW_OK, "" }, small_err = { LW_OK, "" };
    struct lw_profile *profile = read_trace(bytes, len, 0, &err);
    struct lw_profile *small = read_trace(bytes, len, 24 + len % 200, &small_err);
    const struct lw_profile *both[2] = { profile, profile };
    /* Of damaged gzip, how much comes out before is a matter of how it is asked for. */
    bool is_same = !lw_inflate_is_gzip(bytes, len);
    struct lw_profile *merged;

    if (!profile && (err.code == LW_OK || !err.text[0]))
        abort();
    if (is_same && !profile != !small)
        abort();
    if (is_same && profile)
        check_same(profile->trace, small->trace);
    if (profile) {
        look_at(profile->trace);
        merged = lw_profile_merge(both, 2, NULL);
        if (!merged || merged->trace->event_count != 2 * profile->trace->event_count)
            abort();
        lw_profile_free(merged);
    }
    lw_profile_free(profile);
    lw_profile_free(small);
    return 0;
}
