/* A trace as Holistic Trace Analysis 0.5.0 sees it, for --compat hta.
 *
 * Its times are whole microseconds: starts rounded up and ends down, which loses up to a
 * microsecond of each event and turns what is shorter into a negative duration. If there
 * are at least two steps, host events from the start of the last one on are dropped, and
 * with them what they launched (and where the device saw the steps too, the last start is
 * the device's). What ran on a device is whatever has a stream, waits of streams among
 * it; its kind is by name alone (analyses/work_kinds.h). */
#ifndef LW_ANALYSES_HTA_EVENTS_H
#define LW_ANALYSES_HTA_EVENTS_H

#include "analyses/trace_scope.h"
#include "analyses/work_kinds.h"

/* What a view notes where that leaves nothing. */
#define LW_HTA_NOTHING \
    "HTA has nothing to say here: it takes work that has a stream and, of several " \
    "steps, none that the last one launched."

struct lw_hta {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint8_t *names;        /* owned: of each string of a name what it says, see .c */
    int64_t *last_step_us; /* owned: of each rank, when its last step began; NULL if
                              nothing is dropped */
};

/* Something on a device. */
struct lw_hta_event {
    int64_t start_us;
    int64_t end_us; /* may be before the start, see above */
    int64_t stream;
    uint32_t event; /* index in the trace */
    uint8_t kind;   /* enum lw_work_kind */
};

/* Those of one rank, by start. */
struct lw_hta_events {
    struct lw_hta_event *list; /* owned */
    size_t count, capacity;
};

bool lw_hta_init(struct lw_hta *hta, const struct lw_profile *profile,
                 struct lw_error *err) LW_MUST_CHECK;
void lw_hta_release(struct lw_hta *hta); /* zeroed is fine */

int64_t lw_hta_start_us(const struct lw_hta *hta, const struct lw_event *event);
int64_t lw_hta_end_us(const struct lw_hta *hta, const struct lw_event *event);
/* The start of what comes first in the file of RANK. */
int64_t lw_hta_first_us(const struct lw_hta *hta, uint32_t rank);
/* Is it left after the last step is dropped? */
bool lw_hta_keeps(const struct lw_hta *hta, const struct lw_event *event);
/* Its "stream": -1 for what did not run on a device. */
int64_t lw_hta_stream(const struct lw_trace *trace, const struct lw_event *event);
/* The call that launched EVENT; LW_NONE: it is not in the trace. */
uint32_t lw_hta_launch(const struct lw_trace *trace, const struct lw_event *event);

/* What ran on the devices of RANK and was not dropped. EVENTS is to be released. */
bool lw_hta_events_init(struct lw_hta_events *events, const struct lw_hta *hta,
                        uint32_t rank, struct lw_error *err) LW_MUST_CHECK;
void lw_hta_events_release(struct lw_hta_events *events); /* zeroed is fine */

/* What to do with the EVENTS of RANK, which may be put in another order. */
typedef bool lw_hta_visit(void *context, const struct lw_hta *hta, uint32_t rank,
                          struct lw_hta_events *events, struct lw_error *err);
/* Call VISIT for each rank that is meant and did anything on a device that was not
 * dropped. */
bool lw_hta_visit_ranks(const struct lw_trace_scope *scope, lw_hta_visit *visit,
                        void *context, struct lw_error *err) LW_MUST_CHECK;

/* Kinds as bits, in the order in which it names them. */
enum lw_hta_bit {
    LW_HTA_COMPUTATION = 1,
    LW_HTA_COMMUNICATION = 2,
    LW_HTA_MEMORY = 4,
};
#define LW_HTA_COMBINATIONS 8

/* How long exactly the kinds of each combination of bits ran at once; of the kinds in
 * BITS only. */
bool lw_hta_sweep(const struct lw_hta_events *events, unsigned bits,
                  int64_t times_us[LW_HTA_COMBINATIONS], struct lw_error *err)
    LW_MUST_CHECK;

/* The time that events of the kinds in BITS (0: all, of whatever kind) took together;
 * overlaps count once. */
int64_t lw_hta_busy_us(const struct lw_hta_events *events, unsigned bits);
/* From the start of the first to the latest end; there is at least one. */
int64_t lw_hta_span_us(const struct lw_hta_events *events);

#endif
