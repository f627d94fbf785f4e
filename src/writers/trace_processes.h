/* The processes of a trace, and which number each has in a viewer.
 *
 * A viewer knows a process by its number alone. In the files of several ranks the same
 * numbers come again: those of devices (0, 1, ...) always, those of the host wherever
 * ranks run in containers. So the first keeps its number, and every other one gets a
 * number of its own, which no kernel gives. Threads are numbered likewise for formats in
 * which they, too, are known by their number alone. */
#ifndef LW_WRITERS_TRACE_PROCESSES_H
#define LW_WRITERS_TRACE_PROCESSES_H

#include "base/buf.h"
#include "model/profile.h"

/* Is there a trace to write, instead of spans and sums that may be made of it? */
static inline bool lw_trace_is_there(const struct lw_profile *profile)
{
    const struct lw_trace *trace = profile->trace;

    return trace && (trace->event_count || trace->mark_count || trace->point_count);
}
/* Is there nothing beside it? If there is, LW_ERR_UNSUPPORTED. */
bool lw_trace_is_alone(const struct lw_profile *profile, struct lw_error *err)
    LW_MUST_CHECK;

struct lw_trace_process {
    uint32_t rank;       /* index */
    lw_string_id pid;    /* as the file has it: "1234", "Spans" */
    uint32_t track;      /* the first of it, by index */
    bool keeps_pid;      /* nobody before has the same `pid` */
    uint32_t number;     /* nobody else has it, and nobody keeps it as a pid */
    lw_string_id name;   /* 0: none */
    lw_string_id labels; /* 0: none */
    int64_t sort_index;  /* 0: none */
};

struct lw_trace_processes {
    struct lw_trace_process *list; /* owned */
    size_t count;
    uint32_t *of_track; /* owned: by track, its process */
    uint32_t *of_rank;  /* owned: by rank, its first process; LW_NONE: none */
    uint32_t *threads;  /* owned: by track, a number that no other track has */
};

/* Release in any case. */
bool lw_trace_processes_init(struct lw_trace_processes *processes,
                             const struct lw_profile *profile, struct lw_error *err)
    LW_MUST_CHECK;
void lw_trace_processes_release(struct lw_trace_processes *processes);

/* Append "rank 3: python, GPU 0", or the name alone where there is one rank. */
void lw_trace_process_add_name(const struct lw_profile *profile,
                               const struct lw_trace_process *process,
                               struct lw_buf *out);

#endif
