/* Drains rings. The agent never waits for room, so a ring is emptied as quickly as it
 * can be: records are taken in handfuls and their room is given back at once. */

#include "recorder/ring.h"

#include <string.h>

static bool add_counter(struct lw_ring_reader *reader,
                        const struct lw_agent_record *record, struct lw_error *err)
{
    const struct lw_tree_context *context = reader->context;
    const struct lw_name *name = lw_name_log_find(context->log, record->id);
    struct lw_counter_point point = {
        .time_ns = lw_calibration_ns(reader->calibration, context->shared->clock,
                                     record->ticks),
    };

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

/* Turn RECORD into *SPAN; *IS_SPAN false: it was something else, and is dealt with. */
static bool take_record(struct lw_ring_reader *reader,
                        const struct lw_ring_place *place,
                        const struct lw_agent_record *record, struct lw_span *span,
                        bool *is_span, struct lw_error *err)
{
    uint32_t clock = reader->context->shared->clock;
    uint64_t end_ns;

    *is_span = false;
    if (record->generation != place->generation) {
        reader->strange_records++;
        return true;
    }
    switch (record->kind) {
    case LW_RECORD_COUNTER: return add_counter(reader, record, err);
    case LW_RECORD_SPAN:
    case LW_RECORD_MARK: break;
    default: reader->strange_records++; return true;
    }
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
    *is_span = true;
    return true;
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
        size_t count = 0;

        while (next != head && count < LW_RING_HANDFUL) {
            struct lw_agent_record record = *lw_shared_record(ring, shared, next);
            bool is_span;

            if (!take_record(reader, place, &record, &reader->spans[count], &is_span,
                             err))
                return false;
            count += is_span;
            next++;
        }
        if (count > 0 &&
            !lw_lap_writer_spans(reader->context->writer, reader->spans, count, err))
            return false;
        place->tail = next;
        atomic_store_explicit(&ring->tail, next, memory_order_release);
    }
    return true;
}
