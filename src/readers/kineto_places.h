/* Where the events of a trace lie, and what processes and threads are called. */
#ifndef LW_READERS_KINETO_PLACES_H
#define LW_READERS_KINETO_PLACES_H

#include "base/buf.h"
#include "base/map.h"
#include "model/builder.h"
#include "readers/trace_events.h"

/* A string of the profile at hand: what is met in each event is compared with it. */
struct lw_kineto_text {
    const char *bytes; /* borrowed from the profile's strings */
    size_t len;
};

/* What was said of one (pid, tid). */
struct lw_kineto_place {
    lw_string_id pid, tid;
    uint32_t track; /* LW_NONE: no event lies there */
    uint32_t open;  /* the innermost B without E: an event; LW_NONE: none */
    lw_string_id name;
    int64_t sort_index;
};

struct lw_kineto_process {
    lw_string_id pid;
    lw_string_id name, labels;
    int64_t sort_index;
};

struct lw_kineto_places {
    struct lw_builder *out; /* borrowed */
    uint32_t rank;          /* index */
    struct lw_buf text;
    uint32_t last; /* that was asked for: a number; LW_NONE: none */
    struct lw_kineto_text last_pid, last_tid; /* of it */
    struct lw_kineto_place *list;
    size_t count, capacity;
    struct lw_map map;
    struct lw_kineto_process *processes;
    size_t process_count, process_capacity;
    struct lw_map process_map;
};

void lw_kineto_places_init(struct lw_kineto_places *places, struct lw_builder *out,
                           uint32_t rank);
void lw_kineto_places_release(struct lw_kineto_places *places);

/* The place of EVENT, whose pointer is good until another is asked for. */
bool lw_kineto_place(struct lw_kineto_places *places,
                     const struct lw_trace_event *event, struct lw_kineto_place **place,
                     struct lw_error *err) LW_MUST_CHECK;
/* The same, which has a track from now on. */
bool lw_kineto_track(struct lw_kineto_places *places,
                     const struct lw_trace_event *event, struct lw_kineto_place **place,
                     struct lw_error *err) LW_MUST_CHECK;
/* Take an event of phase M, which may name a process or thread. */
bool lw_kineto_places_name(struct lw_kineto_places *places,
                           const struct lw_trace_event *event, struct lw_error *err)
    LW_MUST_CHECK;
/* All was told: name the tracks. */
void lw_kineto_places_finish(struct lw_kineto_places *places);

struct lw_kineto_text lw_kineto_text(const struct lw_builder *out, lw_string_id id);

/* Is VALUE, as it lies in the file, TEXT? False also if it has to be decoded. */
static inline bool lw_kineto_is_text(const struct lw_kineto_text *text,
                                     const struct lw_value *value)
{
    return !value->escaped && text->len == value->len &&
           __builtin_memcmp(text->bytes, value->text, value->len) == 0;
}

#endif
