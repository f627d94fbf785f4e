/* Drains rings. The agent never waits for room, so a ring is emptied as quickly as it
 * can be: records are taken in handfuls and their room is given back at once. */

#include "recorder/ring.h"

#include <string.h>

#include "base/alloc.h"

bool lw_ring_reader_init(struct lw_ring_reader *reader, struct lw_error *err)
{
    reader->spans = lw_alloc(LW_RING_HANDFUL * sizeof(*reader->spans), err);
    reader->origins = lw_alloc(LW_RING_HANDFUL * sizeof(*reader->origins), err);
    if (reader->spans && reader->origins)
        return true;
    lw_ring_reader_release(reader);
    return false;
}

void lw_ring_reader_release(struct lw_ring_reader *reader)
{
    lw_free(reader->spans);
    lw_free(reader->origins);
    reader->spans = NULL;
    reader->origins = NULL;
}

static bool add_counter(struct lw_ring_reader *reader,
                        const struct lw_agent_record *record, struct lw_error *err)
{
    const struct lw_tree_context *context = reader->context;
    const struct lw_name *name = lw_name_log_find(context->log, record->id);
    struct lw_counter_point point = {
        .time_ns = lw_calibration_ns(reader->calibration, context->shared->clock,
                                     record->ticks),
    };

    if (lw_name_log_has_lost(context->log, context->shared, record->id))
        return true; /* its values go with its name, which is counted */
    if (!name || name->kind != LW_NAME_COUNTER) {
        reader->strange_records++;
        return true;
    }
    point.name = name->id;
    memcpy(&point.value, &record->value, sizeof(point.value));
    return lw_lap_writer_counter(context->writer, &point, err);
}

/* A call's stack is its node's; a mark is one more frame on the node it ran in. */
static bool span_stack(struct lw_ring_reader *reader,
                       const struct lw_agent_record *record, lw_stack_id *stack,
                       struct lw_error *err)
{
    const struct lw_tree_context *context = reader->context;
    lw_frame_id frame;

    if (record->kind == LW_RECORD_SPAN)
        return lw_trees_stack(reader->trees, context, record->id, stack, err);
    return lw_trees_stack(reader->trees, context, record->node, stack, err) &&
           lw_name_log_frame(context->log, context->shared, context->writer, record->id,
                             &frame, err) &&
           lw_lap_writer_push(context->writer, *stack, frame, stack, err);
}

/* What was taken from a ring, on its way to the writer. */
struct handful {
    size_t spans, origins;
};

static bool take_span(struct lw_ring_reader *reader, const struct lw_ring_place *place,
                      const struct lw_agent_record *record, struct handful *taken,
                      struct lw_error *err)
{
    uint32_t clock = reader->context->shared->clock;
    struct lw_span *span = &reader->spans[taken->spans];
    uint64_t end_ns;

    if (!span_stack(reader, record, &span->stack, err))
        return false;
    if (span->stack == LW_NO_STACK) {
        reader->strange_records++;
        return true;
    }
    /* Both ends are converted, so that a span encloses those within it. */
    span->start_ns = lw_calibration_ns(reader->calibration, clock, record->ticks);
    end_ns =
        lw_calibration_ns(reader->calibration, clock, record->ticks + record->value);
    span->duration_ns = end_ns > span->start_ns ? end_ns - span->start_ns : 0;
    span->thread = place->thread;
    taken->spans++;
    return true;
}

static bool take_origin(struct lw_ring_reader *reader,
                        const struct lw_ring_place *place,
                        const struct lw_agent_record *record, struct handful *taken,
                        struct lw_error *err)
{
    const struct lw_tree_context *context = reader->context;
    struct lw_origin *origin = &reader->origins[taken->origins++];

    *origin = (struct lw_origin){
        .start_ns = lw_calibration_ns(reader->calibration, context->shared->clock,
                                      record->ticks),
        .sequence = record->value >> LW_ORIGIN_LINE_BITS,
        .thread = place->thread,
        .forward_thread = record->node,
        .line = (uint32_t)record->value & ((1u << LW_ORIGIN_LINE_BITS) - 1),
        .is_backward = record->kind == LW_RECORD_BACKWARD,
    };
    return record->id == 0 ||
           lw_name_log_frame(context->log, context->shared, context->writer, record->id,
                             &origin->function, err);
}

static bool take_record(struct lw_ring_reader *reader,
                        const struct lw_ring_place *place,
                        const struct lw_agent_record *record, struct handful *taken,
                        struct lw_error *err)
{
    if (record->generation != place->generation) {
        reader->strange_records++;
        return true;
    }
    switch (record->kind) {
    case LW_RECORD_COUNTER: return add_counter(reader, record, err);
    case LW_RECORD_SPAN:
    case LW_RECORD_MARK: return take_span(reader, place, record, taken, err);
    case LW_RECORD_FORWARD:
    case LW_RECORD_BACKWARD: return take_origin(reader, place, record, taken, err);
    default: reader->strange_records++; return true;
    }
}

static bool write_handful(struct lw_ring_reader *reader, const struct handful *taken,
                          struct lw_error *err)
{
    struct lw_lap_writer *writer = reader->context->writer;

    /* Spans last: if these fail, all are taken again, and origins may come twice. */
    return (taken->origins == 0 ||
            lw_lap_writer_origins(writer, reader->origins, taken->origins, err)) &&
           (taken->spans == 0 ||
            lw_lap_writer_spans(writer, reader->spans, taken->spans, err));
}

bool lw_ring_read(struct lw_ring_reader *reader, struct lw_ring_place *place,
                  double *fill, struct lw_error *err)
{
    const struct lw_shared *shared = reader->context->shared;
    struct lw_agent_ring *ring = lw_shared_ring(shared, place->slot);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

    if (head - place->tail > shared->ring_records) { /* no agent of ours does that */
        reader->strange_records += shared->ring_records;
        place->tail = head;
    }
    *fill = (double)(head - place->tail) / (double)shared->ring_records;
    while (place->tail != head) {
        uint64_t next = place->tail;
        struct handful taken = { 0, 0 };

        while (next != head && next - place->tail < LW_RING_HANDFUL) {
            struct lw_agent_record record = *lw_shared_record(ring, shared, next);

            if (!take_record(reader, place, &record, &taken, err))
                return false;
            next++;
        }
        if (!write_handful(reader, &taken, err))
            return false;
        place->tail = next;
        atomic_store_explicit(&ring->tail, next, memory_order_release);
    }
    return true;
}
