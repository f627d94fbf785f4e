/* The name log of a watched process, turned into frames of its recording.
 *
 * The agent numbers functions, marks and counters from 1 in the order in which it met
 * them and appends their names to a log. We follow the log and remember, by number,
 * what the name became in the recording. A number may be missing from the log, if its
 * name did not fit any more; the agent has counted it as lost then. */
#ifndef LW_RECORDER_NAME_LOG_H
#define LW_RECORDER_NAME_LOG_H

#include "lap/writer.h"
#include "recorder/shared.h"

#define LW_NAME_LOST UINT32_MAX /* a kind: the agent had no room for its text */

struct lw_name {
    uint32_t kind; /* enum lw_agent_name_kind, or LW_NAME_LOST */
    uint32_t id;   /* LW_NAME_COUNTER: lw_string_id; else lw_frame_id */
};

struct lw_name_log {
    struct lw_name *names; /* by number - 1; owned */
    size_t count;
    size_t capacity;
    uint64_t read_bytes;    /* of the log, so far */
    uint64_t missing;       /* numbers that the log passed over, so far */
    bool damaged;           /* a record made no sense: the rest is not read */
    lw_frame_id more;       /* "(more)" */
    lw_frame_id unknown;    /* "(unknown)" */
    bool has_special_names; /* the two above are set */
};

void lw_name_log_init(struct lw_name_log *log);
void lw_name_log_release(struct lw_name_log *log);

/* Read what was appended since the last time. A record that makes no sense ends the
 * reading for good (`damaged`); a failure is the writer's, and the next call goes on
 * from there. */
bool lw_name_log_read(struct lw_name_log *log, const struct lw_shared *shared,
                      struct lw_lap_writer *writer, struct lw_error *err) LW_MUST_CHECK;

/* The name of NUMBER, or NULL: not read yet, or never to come. */
const struct lw_name *lw_name_log_find(const struct lw_name_log *log, uint32_t number);

/* Whether NUMBER, of which there is no name, may be one that the agent says it lost. */
bool lw_name_log_has_lost(const struct lw_name_log *log, const struct lw_shared *shared,
                          uint32_t number);

/* The frame of a node's `function` (a number of the log, LW_FUNCTION_MORE or
 * _UNKNOWN); what has no name is "(unknown)". Reads on if the number is new. */
bool lw_name_log_frame(struct lw_name_log *log, const struct lw_shared *shared,
                       struct lw_lap_writer *writer, uint32_t function,
                       lw_frame_id *frame, struct lw_error *err) LW_MUST_CHECK;

#endif
