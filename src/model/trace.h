/* What a torch profiler saw: ops and ranges on the host's threads, calls into the
 * device's runtime, what then ran on the device, and what joins them.
 *
 *     host track    [ aten::linear .......................... ]      op
 *                       [ aten::addmm ..................... ]        its child
 *                            [ cudaLaunchKernel ]                    its child
 *                                    \ correlation
 *     stream track                    +--> [ sgemm_128x64 ... ]      child of the call
 *
 * Events lie in one array, sorted by track, then start, the longer one first; so those
 * of a track are together and an event's parent on the same track is before it. The
 * parent of what ran on a device is the call that launched it or, if that is not in the
 * trace, the op whose id it carries. lw_trace_finish() sorts and joins; before it,
 * events are as a reader added them.
 *
 * A rank is one file: one process of a job, with host threads and devices of its own.
 * Times are whole ns since the trace's `base_ns`. Texts that are lists (shapes, types,
 * ranks of a group) stay JSON, as the profiler wrote them. */
#ifndef LW_MODEL_TRACE_H
#define LW_MODEL_TRACE_H

#include "model/stacks.h"

enum lw_event_kind {
    LW_EVENT_OTHER,    /* nothing below; `category` says what */
    LW_EVENT_OP,       /* an operator, on the host */
    LW_EVENT_RANGE,    /* record_function and the like: "ProfilerStep#7" */
    LW_EVENT_PYTHON,   /* a Python function, or nn.Module */
    LW_EVENT_RUNTIME,  /* a call into the runtime or driver of a device */
    LW_EVENT_OVERHEAD, /* the profiler's own */
    LW_EVENT_KERNEL,   /* on a device, as all that follow */
    LW_EVENT_MEMCPY,
    LW_EVENT_MEMSET,
    LW_EVENT_DEVICE_RANGE, /* a range as the device saw it */
    LW_EVENT_SYNC,         /* a wait of a stream, event or context */
};

struct lw_event {
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t correlation; /* joins a call to what it launched; 0: none */
    uint64_t external;    /* "External id", which joins it to an op; 0: none */
    uint32_t track;       /* index */
    lw_string_id name;
    lw_string_id category; /* the profiler's own word: "cpu_op", "Operator" */
    uint32_t parent;       /* index of an event; LW_NONE: none. By lw_trace_finish() */
    uint32_t detail;       /* index in `ops` (OP, RANGE), `pythons` (PYTHON) or
                              `works` (from KERNEL on, and RUNTIME); LW_NONE: none */
    uint8_t kind;          /* enum lw_event_kind */
};

static inline bool lw_event_is_on_device(const struct lw_event *event)
{
    return event->kind >= LW_EVENT_KERNEL;
}
/* Kernels, copies and memsets: what keeps a device busy. */
static inline bool lw_event_is_work(const struct lw_event *event)
{
    return event->kind >= LW_EVENT_KERNEL && event->kind <= LW_EVENT_MEMSET;
}
static inline uint64_t lw_event_end_ns(const struct lw_event *event)
{
    return event->start_ns + event->duration_ns;
}

/* What is known of an op or range. */
struct lw_op_detail {
    lw_string_id shapes; /* "[[64,3,224,224],[]]"; 0: not recorded, as all texts here */
    lw_string_id types;  /* "[\"float\",\"\"]" */
    lw_string_id strides;
    lw_string_id values; /* of what is no tensor: "Concrete Inputs" */
    lw_string_id stack;  /* "a.py(12): f;b.py(3): g", leaf first */
    int64_t sequence;    /* "Sequence number", which a backward op shares; -1: none */
    uint64_t forward_thread; /* of a backward op: where its forward op ran; 0: none */
    int64_t record_id;       /* "Record function id"; -1: none */
    uint32_t collective;     /* index; LW_NONE: none */
};

struct lw_python_detail {
    int64_t id; /* "Python id"; -1: none, as all here */
    int64_t parent_id;
    int64_t module_id; /* "Python module id" */
};

/* What is known of work on a device, or of a call that says so (AMD's do). */
struct lw_work_detail {
    int32_t device;       /* -1: not told */
    int64_t stream;       /* -1: not told */
    double blocks_per_sm; /* negative: not told, as the next four */
    double warps_per_sm;
    double occupancy;      /* "est. achieved occupancy %": 0..100 */
    double bandwidth_gbps; /* of a copy */
    int64_t bytes;         /* of a copy or memset */
    uint32_t grid[3];      /* all 0: not told */
    uint32_t block[3];
    int64_t registers;         /* per thread; -1: not told */
    int64_t shared_bytes;      /* -1: not told */
    int64_t wait_stream;       /* of a sync: on which; -1: none */
    uint64_t wait_correlation; /* of a sync: of the record of the event; 0: none */
    uint32_t collective;       /* index; LW_NONE: none */
};

/* The collective that an op, range or kernel carries out. */
struct lw_collective {
    lw_string_id name;       /* "allreduce", "_allgather_base" */
    lw_string_id dtype;      /* "Float" */
    lw_string_id group;      /* "Process Group Name" */
    lw_string_id group_text; /* "Process Group Description" */
    lw_string_id ranks;      /* "[0, 1, 2, 3]", maybe cut with "..." */
    lw_string_id in_split, out_split;
    int64_t in_count, out_count; /* elements; -1: not told */
    int64_t group_size;          /* -1: not told */
};

/* What a tensor's memory is for, as torch's memory profiler tells them apart. */
enum lw_memory_category {
    LW_MEMORY_UNKNOWN,
    LW_MEMORY_PARAMETER,
    LW_MEMORY_OPTIMIZER_STATE,
    LW_MEMORY_INPUT,
    LW_MEMORY_TEMPORARY,
    LW_MEMORY_ACTIVATION,
    LW_MEMORY_GRADIENT,
    LW_MEMORY_AUTOGRAD_DETAIL,
    LW_MEMORY_CATEGORY_COUNT,
};

enum lw_memory_kind {
    LW_MEMORY_BLOCK,   /* of a tensor: allocated or freed */
    LW_MEMORY_BEFORE,  /* a block that was there when the recording began */
    LW_MEMORY_CHANGE,  /* of a block that goes on as another category: out, then in */
    LW_MEMORY_SEGMENT, /* taken from the device's driver, or given back */
    LW_MEMORY_FAILED,  /* so much was asked for, and could not be had */
};

/* One allocation or free that the profiler saw ([memory]), or that the allocator noted
 * (torch.cuda.memory._dump_snapshot). */
struct lw_memory_event {
    uint64_t time_ns;
    uint64_t address;  /* 0: not told */
    int64_t bytes;     /* negative: freed */
    int64_t allocated; /* in total on that device, then; -1: not told */
    int64_t reserved;
    int32_t device_type; /* torch's: 0 CPU, 1 CUDA, 6 HIP ...; -1: not told */
    int32_t device;      /* -1: CPU */
    uint32_t track;      /* of the thread that did it */
    lw_stack_id stack;   /* who asked for it; LW_NO_STACK: not told, or an op did */
    uint8_t kind;        /* enum lw_memory_kind */
    uint8_t category;    /* enum lw_memory_category */
    lw_string_id args;   /* as those of events, if they were wanted; 0: none */
};

/* A piece of memory that a caching allocator holds, at the time of its snapshot. */
struct lw_memory_segment {
    uint64_t address;
    int64_t bytes;
    int64_t active_bytes;    /* of blocks in use */
    int64_t requested_bytes; /* what was asked for in them; -1: not told */
    int64_t stream;
    int32_t device_type, device;
    uint32_t rank; /* index */
    lw_stack_id stack;
    lw_string_id pool;                 /* "large", "small" */
    uint32_t first_block, block_count; /* in `blocks` */
};

struct lw_memory_block {
    uint64_t address;
    int64_t bytes;
    int64_t requested_bytes; /* -1: not told */
    lw_stack_id stack;       /* who allocated it */
    lw_string_id state;      /* "active_allocated", "inactive" ... */
};

/* A forward op and the backward op that answers it. */
struct lw_flow {
    uint32_t forward; /* index of an event */
    uint32_t backward;
};

/* Half of one, as a file tells it; lw_trace_finish() makes flows of them. */
struct lw_flow_end {
    uint64_t id;
    uint64_t time_ns;
    uint32_t track;
    bool is_backward;
};

/* An instant that somebody marked, but for [memory]: "Record Window End". */
struct lw_trace_mark {
    uint64_t time_ns;
    lw_string_id name, category;
    lw_string_id args; /* if they were wanted, as those of events; 0: none */
    uint32_t track;
    char scope; /* 'g' of all, 'p' of a process, 't' of a thread; 0: not told */
};

/* A value over time: GPU counters that are in the file itself. */
struct lw_trace_point {
    uint64_t time_ns;
    double value;
    lw_string_id name;
    uint32_t rank; /* index */
};

/* A row of events: a thread of the host, or a stream of a device. */
struct lw_track {
    uint32_t rank; /* index */
    bool is_device;
    int32_t device;        /* of a device; else -1 */
    lw_string_id pid, tid; /* as the file has them: "1234", "stream 7", "Spans" */
    int64_t number;        /* tid, or the stream; -1: not a number */
    lw_string_id name;     /* "thread 1234 (python)"; 0: none */
    lw_string_id process_name;
    lw_string_id process_labels; /* "GPU 0", for drawing, as the next two */
    int64_t process_sort_index;  /* 0: none */
    int64_t sort_index;          /* of the thread; 0: none */
    uint32_t first, count;       /* its events. By lw_trace_finish() */
};

struct lw_trace_gpu {
    uint32_t rank; /* index */
    int32_t id;
    lw_string_id name;
    int64_t memory_bytes; /* -1: not told, as all here */
    int64_t compute_major, compute_minor;
    int64_t sm_count;
    int64_t max_threads_per_sm;
    int64_t warp_size;
};

struct lw_trace_rank {
    lw_string_id file;
    int64_t rank;         /* in the job; -1: not told */
    int64_t world_size;   /* -1: not told */
    lw_string_id backend; /* "nccl"; 0: none */
    lw_string_id host;
    lw_string_id info; /* what else the file says before its events, as a JSON object */
    uint64_t base_ns;  /* since 1970, of time 0 in the file; 0: times were absolute */
    int64_t clock_ns;  /* added to this rank's times, to agree with rank 0's */
    uint64_t event_count; /* as they lie in the file, known to us or not */
    uint64_t first_ns;    /* when the first event of the file begins, by its own time;
                             it may not be the earliest */
};

struct lw_trace {
    uint64_t base_ns; /* since 1970; 0: not known */
    struct lw_event *events;
    size_t event_count, event_capacity;
    lw_string_id *args; /* of each event: its arguments as they lay in the file,
                                   if they were wanted (LW_WANT_ARGS); else NULL */
    size_t args_capacity;
    struct lw_op_detail *ops;
    size_t op_count, op_capacity;
    struct lw_python_detail *pythons;
    size_t python_count, python_capacity;
    struct lw_work_detail *works;
    size_t work_count, work_capacity;
    struct lw_collective *collectives;
    size_t collective_count, collective_capacity;
    struct lw_memory_event *memory; /* sorted by time at the end */
    size_t memory_count, memory_capacity;
    struct lw_memory_segment *segments; /* of a snapshot */
    size_t segment_count, segment_capacity;
    struct lw_memory_block *blocks; /* in the segments */
    size_t block_count, block_capacity;
    struct lw_flow *flows;
    size_t flow_count, flow_capacity;
    struct lw_flow_end *flow_ends; /* gone after lw_trace_finish() */
    size_t flow_end_count, flow_end_capacity;
    struct lw_trace_point *points;
    size_t point_count, point_capacity;
    struct lw_trace_mark *marks; /* in the order in which they came */
    size_t mark_count, mark_capacity;
    struct lw_track *tracks;
    size_t track_count, track_capacity;
    struct lw_trace_gpu *gpus;
    size_t gpu_count, gpu_capacity;
    struct lw_trace_rank *ranks;
    size_t rank_count, rank_capacity;
};

void lw_trace_free(struct lw_trace *trace); /* NULL is fine */

/* Check every index against what is there (LW_ERR_FORMAT), sort, and join: parents,
 * launches, flows. Once, when all is added. The counts say how many strings and stacks
 * there are to refer to. */
bool lw_trace_finish(struct lw_trace *trace, size_t string_count, size_t stack_count,
                     struct lw_error *err) LW_MUST_CHECK;

/* The nearest event of KIND that is EVENT's parent, or its parent's ...; LW_NONE: none. */
uint32_t lw_trace_ancestor(const struct lw_trace *trace, uint32_t event,
                           enum lw_event_kind kind);
/* Did a call that is in the trace launch EVENT? It is its parent then. */
static inline bool lw_trace_is_launched(const struct lw_trace *trace, uint32_t event)
{
    const struct lw_event *e = &trace->events[event];

    return lw_event_is_on_device(e) && e->parent != LW_NONE &&
           trace->events[e->parent].kind == LW_EVENT_RUNTIME;
}
/* Index of the first event of TRACK that starts at TIME_NS or later; may be its end. */
uint32_t lw_trace_lower_bound(const struct lw_trace *trace, uint32_t track,
                              uint64_t time_ns);

#endif
