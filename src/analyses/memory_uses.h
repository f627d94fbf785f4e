/* Who uses memory: each allocation of a trace with the free that ends it, the op in which
 * it was made, and what the device had allocated in total.
 *
 * Frees are matched by address: the next free of an address ends the last allocation of
 * it. Totals are the profiler's own where it tells them; else they are added up from the
 * first event on, and what was there before is not in them. */
#ifndef LW_ANALYSES_MEMORY_USES_H
#define LW_ANALYSES_MEMORY_USES_H

#include "analyses/askers.h"
#include "analyses/trace_scope.h"
#include "base/map.h"

/* Whoever has more in one process has a broken file; each costs a pass over events. */
#define LW_MEMORY_DEVICES_MAX 64

/* Of each memory event of the trace. */
struct lw_memory_use {
    int64_t allocated; /* on its device, behind the event */
    int64_t reserved;  /* -1: not told */
    uint32_t device;   /* index in `devices`; LW_NONE: of a rank that is not meant */
    uint32_t event;    /* the innermost on its thread at that time; LW_NONE: none */
    uint32_t pair;     /* the free of an allocation and the other way round; LW_NONE:
                          none was seen */
    bool is_lost;      /* tb: forgotten, since its address came again before its free */
};

struct lw_memory_device {
    uint32_t rank; /* index */
    int32_t type;  /* as in struct lw_memory_event */
    int32_t id;
    bool is_told;          /* its totals are the profiler's */
    uint32_t first, count; /* its events, in `order` */
    uint32_t peak;         /* index of the memory event; LW_NONE: it has none */
    uint64_t allocation_count, free_count;
    int64_t allocated_bytes, freed_bytes;
    int64_t start_bytes, end_bytes, peak_bytes; /* of the total */
    int64_t end_reserved, peak_reserved;        /* -1: not told */
};

struct lw_memory_uses {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    struct lw_memory_use *list; /* one for each of trace->memory */
    uint32_t *order; /* indexes of memory events: device by device, in order of time */
    struct lw_memory_device *devices;
    size_t device_count, device_capacity;
    struct lw_map device_map; /* index + 1 */
    uint8_t *rank_devices;    /* of each rank: how many it has */
    struct lw_trace_scope scope;
    struct lw_askers askers;
    lw_stack_id
        *stack_places;      /* of each stack: up to the line of the person's own code,
                                  else of any Python code; LW_NO_STACK: it has none */
    lw_stack_id *stack_ops; /* likewise the op that this line called */
    uint64_t start_ns; /* of the first event of any kind: times are shown since then */
    uint64_t end_ns;
    size_t meant_count; /* events of the ranks that are meant */
    size_t no_address;  /* of those, the blocks whose address is not told */
    bool is_snapshot;   /* an allocator's own, in which no ops are */
    bool is_timeline;   /* sums by category: nobody in particular allocated */
};

/* Release in any case. That there is nothing to look at is LW_ERR_UNSUPPORTED, that the
 * query's rank is not there LW_ERR_USAGE. */
bool lw_memory_uses_init(struct lw_memory_uses *uses, const struct lw_profile *profile,
                         const struct lw_query *query, struct lw_error *err)
    LW_MUST_CHECK;
void lw_memory_uses_release(struct lw_memory_uses *uses); /* zeroed is fine */

/* Is it a block of a tensor, not a segment or a failure? */
static inline bool lw_memory_is_block(const struct lw_memory_event *event)
{
    return event->kind == LW_MEMORY_BLOCK || event->kind == LW_MEMORY_BEFORE;
}
static inline bool lw_memory_is_allocation(const struct lw_memory_event *event)
{
    return lw_memory_is_block(event) && event->bytes > 0;
}

/* The op that made the allocation at INDEX; LW_NONE: none did. */
uint32_t lw_memory_op(const struct lw_memory_uses *uses, size_t index);

/* What each stack says of who asked for memory. */
bool lw_memory_find_askers(struct lw_memory_uses *uses, struct lw_error *err)
    LW_MUST_CHECK;

/* Append "GPU0", "CPU", "rank 3 GPU0". */
void lw_memory_add_device(const struct lw_memory_uses *uses, uint32_t device,
                          struct lw_buf *out);
void lw_memory_add_name(const struct lw_memory_uses *uses, uint32_t rank, int32_t type,
                        int32_t id, struct lw_buf *out);

/* Cells: of a device, of a time since the start, and of what is known of the allocation
 * at INDEX: its op, the shapes of the op's inputs, where in the program. */
void lw_memory_device_cell(const struct lw_memory_uses *uses, uint32_t device,
                           struct lw_table *table);
void lw_memory_time_cell(const struct lw_memory_uses *uses, uint64_t time_ns,
                         struct lw_table *table);
void lw_memory_op_cell(const struct lw_memory_uses *uses, size_t index,
                       struct lw_table *table);
void lw_memory_shapes_cell(const struct lw_memory_uses *uses, size_t index,
                           struct lw_table *table);
void lw_memory_place_cell(const struct lw_memory_uses *uses, size_t index,
                          struct lw_table *table);
/* The same of a stack. */
void lw_memory_stack_op_cell(const struct lw_memory_uses *uses, lw_stack_id stack,
                             struct lw_table *table);
void lw_memory_stack_place_cell(const struct lw_memory_uses *uses, lw_stack_id stack,
                                struct lw_table *table);

/* A file may say anything: a sum that does not fit stays at its end. */
int64_t lw_memory_sum(int64_t a, int64_t b);
int64_t lw_memory_difference(int64_t a, int64_t b);

/* lw_analysis_arrange() with an order of its own for who asked for none: by COLUMN,
 * the largest first; NULL: as they are. */
bool lw_memory_arrange(struct lw_table *table, const struct lw_query *query,
                       const char *column, struct lw_error *err) LW_MUST_CHECK;

/* What each allocation of a trace or timeline was for (memory_category.c has the rules),
 * one for each memory event; caller frees. NULL: no memory. */
uint8_t *lw_memory_categories_new(const struct lw_memory_uses *uses,
                                  struct lw_error *err);
const char *lw_memory_category_name(uint8_t category);

/* The views, by what their rows are. Each fills TABLE, which is not initialised. */
bool lw_memory_by_op(const struct lw_memory_uses *uses, const struct lw_query *query,
                     struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_op_tb(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_stack(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_segment(const struct lw_memory_uses *uses,
                          const struct lw_query *query, struct lw_table *table,
                          struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_curve(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_peak(const struct lw_memory_uses *uses, const struct lw_query *query,
                       struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_event(const struct lw_memory_uses *uses, const struct lw_query *query,
                        struct lw_table *table, struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_category(const struct lw_memory_uses *uses,
                           const struct lw_query *query, struct lw_table *table,
                           struct lw_error *err) LW_MUST_CHECK;
bool lw_memory_by_device(const struct lw_memory_uses *uses,
                         const struct lw_query *query, struct lw_table *table,
                         struct lw_error *err) LW_MUST_CHECK;

/* A note of what a device's allocator had reserved at the snapshot, and of that in use. */
void lw_memory_note_segments(const struct lw_memory_uses *uses, uint32_t index,
                             struct lw_table *table);

#endif
