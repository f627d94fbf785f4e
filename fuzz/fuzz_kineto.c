/* Any bytes as a trace of torch's profiler: read with a window of a few bytes and with the
 * usual one, which must give the same, added to itself as a second rank, and looked at.
 * Each event must be the same whether or not its keys are known from those before it. */

#include <stdlib.h>
#include <string.h>

#include "base/inflate.h"
#include "model/merge.h"
#include "model/trace_ranks.h"
#include "one_reader.h"
#include "readers/kineto_args.h"
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

static void check_value(const struct lw_value *a, const struct lw_value *b)
{
    if (a->form != b->form || a->escaped != b->escaped || a->len != b->len ||
        memcmp(a->text, b->text, a->len) != 0)
        abort();
}

static void check_event(const struct lw_trace_event *a, const struct lw_trace_event *b)
{
    if (a->phase != b->phase || a->member_count != b->member_count)
        abort();
    check_value(&a->name, &b->name);
    check_value(&a->category, &b->category);
    check_value(&a->time, &b->time);
    check_value(&a->duration, &b->duration);
    check_value(&a->pid, &b->pid);
    check_value(&a->tid, &b->tid);
    check_value(&a->id, &b->id);
    check_value(&a->scope, &b->scope);
    check_value(&a->args, &b->args);
    for (size_t i = 0; i < a->member_count; i++) {
        const struct lw_member *x = &a->members[i], *y = &b->members[i];

        check_value(&x->value, &y->value);
        if (x->code != y->code || x->key_len != y->key_len ||
            memcmp(x->key, y->key, x->key_len) != 0)
            abort();
    }
}

/* Event by event, with all keys known that can be, and with none. */
static void check_keys(const uint8_t *bytes, size_t len)
{
    static struct lw_trace_events in[2];
    struct lw_stream streams[2] = { 0 };
    enum lw_trace_item items[2] = { LW_TRACE_EVENT, LW_TRACE_EVENT };
    bool done = true;

    for (int i = 0; i < 2; i++) {
        done &= lw_stream_open_bytes(&streams[i], bytes, len, 0, NULL);
        lw_trace_events_init(&in[i], &streams[i]);
        in[i].code_of = lw_kineto_arg_code;
    }
    in[1].keys.count = LW_TRACE_KEYS;
    while (done && items[0] != LW_TRACE_END) {
        done = lw_trace_events_next(&in[0], &items[0], NULL);
        if (done != lw_trace_events_next(&in[1], &items[1], NULL) ||
            items[0] != items[1] || in[0].event_count != in[1].event_count ||
            in[0].broken_count != in[1].broken_count ||
            in[0].mended_count != in[1].mended_count || in[0].at != in[1].at)
            abort();
        if (done && items[0] == LW_TRACE_EVENT)
            check_event(&in[0].event, &in[1].event);
    }
    for (int i = 0; i < 2; i++) {
        lw_trace_events_release(&in[i]);
        lw_stream_close(&streams[i]);
    }
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
    if (is_same)
        check_keys(bytes, len);
    return 0;
}
