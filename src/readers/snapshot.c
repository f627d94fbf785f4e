/* What torch.cuda.memory._dump_snapshot() writes: the state of the caching allocator, and
 * what it did before, as a pickle of plain data.
 *
 *     { segments: [ { device, address, total_size, segment_type, stream, frames,
 *                     blocks: [ { address, size, requested_size, state, frames } ] } ],
 *       device_traces: [ of each device:
 *                        [ { action, addr, size, stream, time_us, frames } ] ] }
 *     frames: [ { name, filename, line } ], the leaf first
 *
 * A trace is what a ring of some length still holds, so it has frees of what was allocated
 * before it, and blocks that it does not know. These are put before it (LW_MEMORY_BEFORE),
 * with which the totals at its end are those of the segments.
 *
 * torch 2.0 has no addresses and frames in blocks, but a `history`, and no times. */

#include "readers/snapshot.h"

#include <string.h>

#include "base/alloc.h"
#include "readers/reader.h"

bool lw_snapshot_spend(struct lw_snapshot *s, struct lw_error *err)
{
    if (s->budget == 0)
        return lw_fail(err, LW_ERR_FORMAT,
                       "the snapshot has more entries than bytes; it was not made by "
                       "torch");
    s->budget--;
    return true;
}

int64_t lw_snapshot_integer(const struct lw_snapshot *s, lw_pickle_value dict,
                            const char *key, int64_t other)
{
    int64_t number;

    return lw_pickle_integer(&s->pickle, lw_pickle_find(&s->pickle, dict, key), &number)
               ? number
               : other;
}

static bool get_string(struct lw_snapshot *s, lw_pickle_value dict, const char *key,
                       lw_string_id *id, struct lw_error *err)
{
    const char *text;
    size_t len;

    *id = 0;
    return !lw_pickle_text(&s->pickle, lw_pickle_find(&s->pickle, dict, key), &text,
                           &len) ||
           lw_builder_string(s->out, text, len, id, err);
}

/* Frames */

static bool read_frame(struct lw_snapshot *s, lw_pickle_value dict, lw_frame_id *id,
                       struct lw_error *err)
{
    struct lw_frame frame = { .kind = LW_FRAME_NATIVE };
    int64_t line = lw_snapshot_integer(s, dict, "line", 0);
    uint32_t *made;

    *id = 0;
    if (lw_pickle_kind(dict) != LW_PICKLE_DICT)
        return true;
    made = &s->made[lw_pickle_number(dict)];
    if (*made) {
        *id = *made - 1;
        return true;
    }
    if (!get_string(s, dict, "name", &frame.name, err) ||
        !get_string(s, dict, "filename", &frame.file, err))
        return false;
    if (line > 0 && line < UINT32_MAX) { /* 0 in machine code */
        frame.line = (uint32_t)line;
        frame.kind = LW_FRAME_PYTHON;
    }
    if (!lw_builder_frame(s->out, &frame, id, err))
        return false;
    *made = *id + 1;
    return true;
}

/* The leaf comes first, so all are looked at before the first is pushed. */
static bool read_stack(struct lw_snapshot *s, lw_pickle_value list, lw_stack_id *stack,
                       struct lw_error *err)
{
    struct lw_pickle_walk walk = lw_pickle_walk(&s->pickle, list);
    size_t count = lw_pickle_count(&s->pickle, list), at = 0;
    lw_pickle_value item;
    lw_frame_id *frames;
    bool done = true;
    uint32_t *made;

    *stack = LW_NO_STACK;
    if (lw_pickle_kind(list) != LW_PICKLE_LIST || count == 0)
        return true;
    made = &s->made[lw_pickle_number(list)];
    if (*made) {
        *stack = *made - 1;
        return true;
    }
    if (!(frames = lw_alloc(count * sizeof(*frames), err)))
        return false;
    while (done && lw_pickle_next(&s->pickle, &walk, &item))
        done = read_frame(s, item, &frames[at++], err);
    while (done && at-- > 0)
        done = lw_builder_push(s->out, *stack, frames[at], stack, err);
    lw_free(frames);
    if (done)
        *made = *stack + 1;
    return done;
}

/* Of a block or an entry; torch 2.0 has those of a block in its history. */
bool lw_snapshot_frames(struct lw_snapshot *s, lw_pickle_value dict, lw_stack_id *stack,
                        struct lw_error *err)
{
    lw_pickle_value frames = lw_pickle_find(&s->pickle, dict, "frames"), first;
    struct lw_pickle_walk walk =
        lw_pickle_walk(&s->pickle, lw_pickle_find(&s->pickle, dict, "history"));

    if (lw_pickle_kind(frames) != LW_PICKLE_LIST &&
        lw_pickle_next(&s->pickle, &walk, &first))
        frames = lw_pickle_find(&s->pickle, first, "frames");
    return read_stack(s, frames, stack, err);
}

/* Segments */

static bool read_block(struct lw_snapshot *s, lw_pickle_value dict,
                       struct lw_memory_segment *segment, uint64_t *next_address,
                       struct lw_error *err)
{
    struct lw_trace *trace = s->trace;
    struct lw_memory_block block = {
        .bytes = lw_snapshot_integer(s, dict, "size", -1),
        .requested_bytes = lw_snapshot_integer(s, dict, "requested_size", -1),
        .address =
            (uint64_t)lw_snapshot_integer(s, dict, "address", (int64_t)*next_address),
    };

    if (!lw_snapshot_spend(s, err))
        return false;
    if (block.bytes < 0) {
        s->odd++;
        return true;
    }
    *next_address = block.address + (uint64_t)block.bytes;
    if (!get_string(s, dict, "state", &block.state, err) ||
        !lw_snapshot_frames(s, dict, &block.stack, err) ||
        !lw_grow(&trace->blocks, &trace->block_capacity, trace->block_count + 1,
                 sizeof(block), err))
        return false;
    trace->blocks[trace->block_count++] = block;
    segment->block_count++;
    return true;
}

static bool read_segment(struct lw_snapshot *s, lw_pickle_value dict,
                         struct lw_error *err)
{
    struct lw_trace *trace = s->trace;
    struct lw_memory_segment segment = {
        .bytes = lw_snapshot_integer(s, dict, "total_size", -1),
        .address = (uint64_t)lw_snapshot_integer(s, dict, "address", 0),
        .active_bytes = lw_snapshot_integer(s, dict, "active_size", 0),
        .requested_bytes = lw_snapshot_integer(s, dict, "requested_size", -1),
        .stream = lw_snapshot_integer(s, dict, "stream", 0),
        .device_type = LW_SNAPSHOT_CUDA,
        .first_block = (uint32_t)trace->block_count,
    };
    int64_t device = lw_snapshot_integer(s, dict, "device", 0);
    struct lw_pickle_walk walk =
        lw_pickle_walk(&s->pickle, lw_pickle_find(&s->pickle, dict, "blocks"));
    uint64_t next_address = segment.address;
    lw_pickle_value block;

    if (!lw_snapshot_spend(s, err))
        return false;
    if (segment.bytes < 0 || device < 0 || device >= LW_SNAPSHOT_DEVICES) {
        s->odd++;
        return true;
    }
    segment.device = (int32_t)device;
    while (lw_pickle_next(&s->pickle, &walk, &block))
        if (!read_block(s, block, &segment, &next_address, err))
            return false;
    if (!get_string(s, dict, "segment_type", &segment.pool, err) ||
        !lw_snapshot_frames(s, dict, &segment.stack, err) ||
        !lw_grow(&trace->segments, &trace->segment_capacity, trace->segment_count + 1,
                 sizeof(segment), err))
        return false;
    trace->segments[trace->segment_count++] = segment;
    return true;
}

/* The file */

static bool read_segments(struct lw_snapshot *s, lw_pickle_value list,
                          struct lw_error *err)
{
    struct lw_pickle_walk walk = lw_pickle_walk(&s->pickle, list);
    lw_pickle_value segment;

    while (lw_pickle_next(&s->pickle, &walk, &segment))
        if (!read_segment(s, segment, err))
            return false;
    return true;
}

bool lw_snapshot_track(struct lw_trace *trace, struct lw_error *err)
{
    struct lw_trace_rank rank = { .rank = -1, .world_size = -1 };
    struct lw_track track = { .device = -1, .number = -1 };

    if (!lw_grow(&trace->ranks, &trace->rank_capacity, 1, sizeof(rank), err) ||
        !lw_grow(&trace->tracks, &trace->track_capacity, 1, sizeof(track), err))
        return false;
    trace->ranks[trace->rank_count++] = rank;
    trace->tracks[trace->track_count++] = track;
    return true;
}

/* When the earliest of the devices' traces begins. */
static void find_start(struct lw_snapshot *s, lw_pickle_value traces)
{
    struct lw_pickle_walk walk = lw_pickle_walk(&s->pickle, traces), inner;
    lw_pickle_value list, entry;

    s->start_ns = UINT64_MAX;
    while (lw_pickle_next(&s->pickle, &walk, &list)) {
        int64_t time_us = -1;

        inner = lw_pickle_walk(&s->pickle, list);
        if (lw_pickle_next(&s->pickle, &inner, &entry))
            time_us = lw_snapshot_integer(s, entry, "time_us", -1);
        if (time_us >= 0 && time_us <= INT64_MAX / 1000 &&
            (uint64_t)time_us * 1000 < s->start_ns)
            s->start_ns = (uint64_t)time_us * 1000;
    }
    if (s->start_ns == UINT64_MAX)
        s->start_ns = 0;
}

/* A device has a trace, or segments only. */
static int32_t count_devices(const struct lw_snapshot *s, lw_pickle_value traces)
{
    size_t count = lw_pickle_count(&s->pickle, traces);

    if (count > LW_SNAPSHOT_DEVICES)
        count = LW_SNAPSHOT_DEVICES;
    for (size_t i = 0; i < s->trace->segment_count; i++)
        if ((size_t)s->trace->segments[i].device >= count)
            count = (size_t)s->trace->segments[i].device + 1;
    return (int32_t)count;
}

static bool read_traces(struct lw_snapshot *s, lw_pickle_value traces,
                        struct lw_error *err)
{
    struct lw_pickle_walk walk = lw_pickle_walk(&s->pickle, traces);
    int32_t count = count_devices(s, traces);
    lw_pickle_value list;

    find_start(s, traces);
    for (int32_t device = 0; device < count; device++) {
        if (!lw_pickle_next(&s->pickle, &walk, &list))
            list = LW_PICKLE_NONE;
        if (!lw_snapshot_device(s, list, device, err))
            return false;
    }
    return true;
}

static bool add_facts(struct lw_snapshot *s, struct lw_error *err)
{
    static const char no_times[] = "the snapshot has no times, its entries are counted";

    if (s->odd > 0 && !lw_builder_loss(s->out, "not understood in the snapshot",
                                       "entries", LW_NONE, s->odd, err))
        return false;
    return s->has_times || s->trace->memory_count == 0 ||
           lw_builder_fact(s->out, "unit", no_times, sizeof(no_times) - 1, err);
}

/* The old torch.cuda.memory_snapshot() is a list of segments and no more. */
static bool read_root(struct lw_snapshot *s, struct lw_error *err)
{
    lw_pickle_value root = s->pickle.root, segments = root, traces = LW_PICKLE_NONE;

    if (lw_pickle_kind(root) == LW_PICKLE_DICT) {
        segments = lw_pickle_find(&s->pickle, root, "segments");
        traces = lw_pickle_find(&s->pickle, root, "device_traces");
    }
    if (lw_pickle_kind(segments) != LW_PICKLE_LIST &&
        lw_pickle_kind(traces) != LW_PICKLE_LIST)
        return lw_fail(err, LW_ERR_FORMAT,
                       "is a pickle, but no snapshot of torch's allocator: it has no "
                       "segments");
    return read_segments(s, segments, err) && read_traces(s, traces, err) &&
           add_facts(s, err);
}

static bool read_snapshot(const struct lw_source *source, unsigned want,
                          struct lw_builder *out, struct lw_error *err)
{
    struct lw_snapshot s = { .out = out, .budget = source->view.len };
    bool done;

    if (!(want & LW_WANT_TRACE))
        return true;
    done = (s.trace = lw_builder_trace(out, err)) &&
           lw_pickle_read(&s.pickle, source->view.bytes, source->view.len, err) &&
           (s.made = lw_zalloc(s.pickle.container_count + 1, sizeof(*s.made), err)) &&
           lw_snapshot_track(s.trace, err) && read_root(&s, err);
    lw_pickle_release(&s.pickle);
    lw_free(s.made);
    lw_free(s.places);
    return done;
}

/* Protocols 2 to 5 begin with 0x80 and their number. */
static bool sniff_snapshot(const struct lw_source *source)
{
    static const char *const words[] = { "segments", "device_traces", "total_size" };

    if (source->head_len < 2 || source->head[0] != 0x80 || source->head[1] < 2 ||
        source->head[1] > 5)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (memmem(source->head, source->head_len, words[i], strlen(words[i])))
            return true;
    return false;
}

const struct lw_reader lw_reader_snapshot = {
    .name = "snapshot",
    .summary = "torch.cuda.memory._dump_snapshot(), for the view memory",
    .suffixes = ".pickle",
    .sniff = sniff_snapshot,
    .read = read_snapshot,
};
