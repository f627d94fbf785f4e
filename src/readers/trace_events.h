/* Trace event JSON, one event at a time, from a stream.
 *
 *     {"schemaVersion": 1, "traceEvents": [ {"ph": "X", ...}, ... ], "traceName": "x"}
 *      member ------------                  event                    member
 *
 * or the list alone. Nothing of it is held: what an event says are pointers into the
 * stream's window, good until the next one is asked for.
 *
 * Profilers write these files by hand, and die while they do. So control characters and
 * backslashes that escape nothing are taken as they are, any word without quotes is a value
 * (NaN, N/A), a quote inside a text is told from its end by what follows it, and an event
 * that is beyond help is passed over: reading goes on with the next. What was done is
 * counted. */
#ifndef LW_READERS_TRACE_EVENTS_H
#define LW_READERS_TRACE_EVENTS_H

#include "base/stream.h"
#include "readers/trace_keys.h"

enum lw_value_form {
    LW_VALUE_NONE,
    LW_VALUE_TEXT,   /* between quotes, which are left out */
    LW_VALUE_WORD,   /* a number, true, null, NaN ... */
    LW_VALUE_NESTED, /* an object or a list, with its brackets */
};

struct lw_value {
    const char *text; /* as it lies in the file; "" if there is none */
    size_t len;
    uint8_t form; /* enum lw_value_form */
    bool escaped; /* a text that holds backslashes */
};

struct lw_member {
    const char *key;
    size_t key_len;
    struct lw_value value;
    uint8_t code; /* of an argument: what `code_of` says of the key */
};

struct lw_trace_event {
    char phase; /* of "ph"; 0: none */
    struct lw_value name, category, time, duration, pid, tid, id, scope, args;
    const struct lw_member *members; /* of args */
    size_t member_count;
};

enum lw_trace_item {
    LW_TRACE_EVENT,  /* `event` */
    LW_TRACE_MEMBER, /* `member`, beside the list of events */
    LW_TRACE_END,
};

struct lw_trace_events {
    struct lw_stream *stream; /* borrowed */
    /* What the key of an argument is for, to the caller; NULL: all are 0. Asked once for
     * each that a file has, or nearly so. */
    uint8_t (*code_of)(const char *key, size_t len);
    struct lw_trace_event event;
    struct lw_member member;

    uint64_t event_count;  /* that were given, or passed over */
    uint64_t broken_count; /* that were passed over */
    uint64_t mended_count; /* that had bare quotes in their texts */
    uint64_t cut_count;    /* 1: it stops within the last one */
    bool is_cut;           /* it stops there, or before its end */
    bool has_rest;         /* bytes behind the end, or members that cannot be read */

    size_t at;                /* in the window: what comes next */
    uint8_t state;            /* enum state of the .c */
    bool is_mending;          /* quotes are looked at twice */
    bool wants_more;          /* the window was too short for it */
    struct lw_member *memory; /* owned */
    size_t memory_count, memory_capacity;
    struct lw_trace_keys keys; /* that events have */
};

void lw_trace_events_init(struct lw_trace_events *in, struct lw_stream *stream);
void lw_trace_events_release(struct lw_trace_events *in);

/* What comes next. Fails if the file is no trace at all, and for memory. */
bool lw_trace_events_next(struct lw_trace_events *in, enum lw_trace_item *item,
                          struct lw_error *err) LW_MUST_CHECK;

/* What of the events could not be taken as it is. */
struct lw_trace_losses {
    uint64_t unclosed; /* B without E: they end with the last */
    uint64_t unopened; /* E without B */
    uint64_t others;   /* asynchronous, objects and the like, which are not read */
    uint64_t timeless; /* without a time, or before time 0 */
    uint64_t endless;  /* with a duration below zero, or of centuries: taken as none */
};

/* When EVENT is, in whole ns. False: it does not say, or not what can be; counted. */
bool lw_trace_event_time(const struct lw_trace_event *event,
                         struct lw_trace_losses *losses, int64_t *ns);
/* How long it takes, in ns; 0 if it does not say. With its time, and once more added to
 * it, it fits 64 bits. */
uint64_t lw_trace_event_duration(const struct lw_trace_event *event,
                                 struct lw_trace_losses *losses);

/* VALUE is the text or word TEXT. */
static inline bool lw_value_is(const struct lw_value *value, const char *text)
{
    size_t len = __builtin_strlen(text);

    return value->len == len && value->form != LW_VALUE_NESTED &&
           __builtin_memcmp(value->text, text, len) == 0;
}
static inline bool lw_value_starts(const struct lw_value *value, const char *prefix)
{
    size_t len = __builtin_strlen(prefix);

    return value->len >= len && __builtin_memcmp(value->text, prefix, len) == 0;
}
static inline bool lw_member_is(const struct lw_member *member, const char *key)
{
    size_t len = __builtin_strlen(key);

    return member->key_len == len && __builtin_memcmp(member->key, key, len) == 0;
}

/* A whole number, also one in quotes or with a point ("12", 12.0); else false and *NUMBER
 * is as it was. */
bool lw_value_i64(const struct lw_value *value, int64_t *number);
bool lw_value_u64(const struct lw_value *value, uint64_t *number);
bool lw_value_double(const struct lw_value *value, double *number);

#endif
