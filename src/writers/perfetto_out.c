/* One writer, so all packets are of one sequence. */

#include "writers/perfetto_out.h"

#include <string.h>

#include "model/losses.h"

enum {
    TRACE_PACKET = 1,
    PACKET_SEQUENCE_ID = 10,
    SEQUENCE = 1,
};

void lw_perfetto_release(struct lw_perfetto_out *p)
{
    lw_buf_release(&p->packet);
    lw_buf_release(&p->message);
    lw_buf_release(&p->inner);
}

void lw_perfetto_end_packet(struct lw_perfetto_out *p)
{
    lw_proto_add_u64(&p->packet, PACKET_SEQUENCE_ID, SEQUENCE);
    lw_proto_add_message(p->out, TRACE_PACKET, &p->packet);
    lw_buf_drain(p->out);
}

/* Tracks */

uint64_t lw_perfetto_open_track(struct lw_perfetto_out *p)
{
    lw_proto_add_u64(&p->message, TRACK_UUID, p->next_track);
    return p->next_track++;
}

void lw_perfetto_end_track(struct lw_perfetto_out *p)
{
    lw_proto_add_message(&p->packet, PACKET_TRACK_DESCRIPTOR, &p->message);
    lw_perfetto_end_packet(p);
}

static uint64_t open_named(struct lw_perfetto_out *p, uint64_t parent, const char *name,
                           size_t len)
{
    uint64_t track = lw_perfetto_open_track(p);

    lw_proto_add_text(&p->message, TRACK_NAME, name, len);
    lw_proto_add_u64(&p->message, TRACK_PARENT_UUID, parent);
    return track;
}

uint64_t lw_perfetto_track(struct lw_perfetto_out *p, uint64_t parent, const char *name,
                           size_t len)
{
    uint64_t track = open_named(p, parent, name, len);

    lw_perfetto_end_track(p);
    return track;
}

uint64_t lw_perfetto_counter(struct lw_perfetto_out *p, uint64_t parent,
                             const char *name, size_t len)
{
    uint64_t track = open_named(p, parent, name, len);
    const char *open = memrchr(name, '[', len);

    if (open && name[len - 1] == ']')
        lw_proto_add_text(&p->inner, COUNTER_UNIT_NAME, open + 1,
                          (size_t)(name + len - open) - 2);
    lw_proto_add_message(&p->message, TRACK_COUNTER, &p->inner);
    lw_perfetto_end_track(p);
    return track;
}

/* Events */

void lw_perfetto_end_event(struct lw_perfetto_out *p, uint64_t time_ns)
{
    lw_proto_add_u64(&p->packet, PACKET_TIMESTAMP, time_ns);
    lw_proto_add_u64(&p->packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
    lw_proto_add_message(&p->packet, PACKET_TRACK_EVENT, &p->message);
    lw_perfetto_end_packet(p);
}

void lw_perfetto_value(struct lw_perfetto_out *p, uint64_t track, uint64_t time_ns,
                       double value)
{
    lw_proto_add_u64(&p->message, EVENT_TYPE, COUNTER);
    lw_proto_add_u64(&p->message, EVENT_TRACK_UUID, track);
    lw_proto_add_double(&p->message, EVENT_DOUBLE_COUNTER_VALUE, value);
    lw_perfetto_end_event(p, time_ns);
}

void lw_perfetto_add_piece(struct lw_perfetto_out *p,
                           const struct lw_perfetto_piece *event, uint64_t time_ns)
{
    struct lw_perfetto_piece packet;

    packet.len = 0;
    lw_perfetto_put(&packet, PACKET_TIMESTAMP, time_ns);
    lw_perfetto_put(&packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
    packet.len += lw_proto_put(packet.bytes + packet.len, PACKET_TRACK_EVENT,
                               LW_PROTO_BYTES, event->len);
    memcpy(packet.bytes + packet.len, event->bytes, event->len);
    packet.len += event->len;
    lw_perfetto_put(&packet, PACKET_SEQUENCE_ID, SEQUENCE);
    lw_proto_add_bytes(p->out, TRACE_PACKET, packet.bytes, packet.len);
    lw_buf_drain(p->out);
}

void lw_perfetto_slice_end(struct lw_perfetto_out *p, uint64_t track, uint64_t time_ns)
{
    struct lw_perfetto_piece event;

    event.len = 0;
    lw_perfetto_put(&event, EVENT_TYPE, SLICE_END);
    lw_perfetto_put(&event, EVENT_TRACK_UUID, track);
    lw_perfetto_add_piece(p, &event, time_ns);
}

void lw_perfetto_remark(struct lw_perfetto_out *p, const struct lw_profile *profile)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_losses_add_line(profile, &text);
    if (text.failure) {
        p->out->failure = text.failure;
    } else if (text.len > 0) {
        lw_proto_add_text(&p->inner, METADATA_NAME, "note", 4);
        lw_proto_add_text(&p->inner, METADATA_STRING_VALUE, text.bytes, text.len);
        lw_proto_add_message(&p->message, CHROME_EVENTS_METADATA, &p->inner);
        lw_proto_add_message(&p->packet, PACKET_CHROME_EVENTS, &p->message);
        lw_perfetto_end_packet(p);
    }
    lw_buf_release(&text);
}
