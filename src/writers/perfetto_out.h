/* What Perfetto's protocol buffers are made of, for those who write them (perfetto.c,
 * perfetto_trace.c).
 *
 *     TrackDescriptor   a number; a process, a thread, or a track beside its parent
 *     TrackEvent        opens or closes a slice on a track, or gives a counter's value
 *     InternedData      names and places, each once, before the first event
 *
 * Field numbers are those of Perfetto's protos/perfetto/trace. */
#ifndef LW_WRITERS_PERFETTO_OUT_H
#define LW_WRITERS_PERFETTO_OUT_H

#include "model/profile.h"
#include "writers/proto.h"

enum {
    PACKET_CHROME_EVENTS = 5,
    PACKET_TIMESTAMP = 8,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    CHROME_EVENTS_METADATA = 2,
    METADATA_NAME = 1,
    METADATA_STRING_VALUE = 2,
    METADATA_INT_VALUE = 4,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT_UUID = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_LEGACY_SORT_INDEX = 3,
    PROCESS_NAME = 6,
    PROCESS_LABELS = 8,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_LEGACY_SORT_INDEX = 3,
    THREAD_NAME = 5,
    COUNTER_UNIT_NAME = 6,
    EVENT_CATEGORY_IIDS = 3,
    EVENT_DEBUG_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    EVENT_NAME = 23,
    EVENT_SOURCE_LOCATION_IID = 34,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    EVENT_FLOW_IDS = 47,
    INTERNED_EVENT_CATEGORIES = 1,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_DEBUG_ANNOTATION_NAMES = 3,
    INTERNED_SOURCE_LOCATIONS = 4,
    NAME_IID = 1,
    NAME_NAME = 2,
    LOCATION_IID = 1,
    LOCATION_FILE_NAME = 2,
    LOCATION_FUNCTION_NAME = 3,
    LOCATION_LINE_NUMBER = 4,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_BOOL = 2,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING = 6,
    ANNOTATION_NAME = 10,
};

enum lw_perfetto_event_type {
    SLICE_BEGIN = 1,
    SLICE_END = 2,
    INSTANT = 3,
    COUNTER = 4,
};

enum lw_perfetto_flags {
    STATE_CLEARED = 1, /* what is interned starts anew */
    NEEDS_STATE = 2,
};

struct lw_perfetto_out {
    struct lw_buf *out;                   /* borrowed */
    struct lw_buf packet, message, inner; /* scratch, from the outside in */
    uint64_t next_track; /* number of the next track that is described; not 0 */
};

void lw_perfetto_release(struct lw_perfetto_out *p);

/* The packet is complete. */
void lw_perfetto_end_packet(struct lw_perfetto_out *p);

/* Begin to describe a track in `message`, and its number. */
uint64_t lw_perfetto_open_track(struct lw_perfetto_out *p);
void lw_perfetto_end_track(struct lw_perfetto_out *p);
/* The whole of a track that has a name and a parent. */
uint64_t lw_perfetto_track(struct lw_perfetto_out *p, uint64_t parent, const char *name,
                           size_t len);
/* Likewise for values; the unit is what stands in brackets at the end of NAME. */
uint64_t lw_perfetto_counter(struct lw_perfetto_out *p, uint64_t parent,
                             const char *name, size_t len);

/* The event in `message` is complete. */
void lw_perfetto_end_event(struct lw_perfetto_out *p, uint64_t time_ns);
void lw_perfetto_value(struct lw_perfetto_out *p, uint64_t track, uint64_t time_ns,
                       double value);
/* The innermost slice of TRACK ends. */
void lw_perfetto_slice_end(struct lw_perfetto_out *p, uint64_t track, uint64_t time_ns);

/* Of slices there are millions: one that is numbers only is put together here and added
 * at once. */
struct lw_perfetto_piece {
    unsigned char bytes[8 * LW_PROTO_U64_BYTES]; /* no packet has more numbers */
    size_t len;
};

static inline void lw_perfetto_put(struct lw_perfetto_piece *piece, uint32_t field,
                                   uint64_t value)
{
    piece->len +=
        lw_proto_put(piece->bytes + piece->len, field, LW_PROTO_VARINT, value);
}
void lw_perfetto_add_piece(struct lw_perfetto_out *p,
                           const struct lw_perfetto_piece *event, uint64_t time_ns);

/* What is missing from PROFILE, where trace_processor has it in its table `metadata`. */
void lw_perfetto_remark(struct lw_perfetto_out *p, const struct lw_profile *profile);

#endif
