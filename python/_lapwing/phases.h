/* One way to put on the calling thread's track what the program does: phases of a
 * training, ranges, instants, counter values. Our hooks into torch use it, lapwing.phase()
 * and its like, and lapwing.h.
 *
 * A span is written when it ends, as one record of the thread's ring; until then its start
 * is the caller's to keep, so an exception leaves nothing open and spans may overlap as
 * they like (generators, tasks). A full ring drops and counts.
 *
 *     static uint32_t number;            // for good, once it is not 0
 *     uint64_t start = py_phase_begin(); // 0: not recording
 *     ...
 *     if (start) {
 *         if (number == 0)
 *             number = py_phase_number("optimizer", "SGD");
 *         py_phase_end(number, start);
 *     }
 *
 * Nothing here raises, disturbs a raised exception, or runs Python code of the
 * program's. */
#ifndef PY_LAPWING_PHASES_H
#define PY_LAPWING_PHASES_H

#include "session.h"

/* ---- with or without the GIL, while recording ------------------------------------- */

/* A number for the phase PHASE of an object of class CLASS_NAME ("": of none), for good;
 * LW_FUNCTION_MORE where there are too many names. */
uint32_t py_phase_number(const char *phase, const char *class_name);

/* The same for any kind of name (a range is LW_NAME_MARK), by length. */
uint32_t py_span_number(enum lw_agent_name_kind kind, const char *name, size_t len);

/* The time, as the recording counts it; 0: nobody is recording. */
static inline uint64_t py_phase_begin(void)
{
    return py_session_is_on() ? lw_ticks_now(py_tracer.use_tsc) : 0;
}

/* Put a span on the track of the calling thread, whose place is CALLS (py_session_enter or
 * py_session_place gave it). */
static inline void py_span_write(struct lw_calls_thread *calls, uint32_t number,
                                 uint64_t start_ticks, uint64_t end_ticks)
{
    struct lw_agent_record record = {
        .kind = LW_RECORD_MARK,
        .id = number,
        /* What began before this recording, or before the fork, is cut there. */
        .ticks = lw_calls_is_older(calls, start_ticks, end_ticks) ? calls->first_ticks
                                                                  : start_ticks,
        .node = lw_calls_current(calls),
    };

    record.value = end_ticks - record.ticks;
    lw_calls_add_record(calls, &record);
}

/* A value of the counter NUMBER, now. */
void py_value_write(struct lw_calls_thread *calls, uint32_t number, double value);

/* ---- with the GIL ------------------------------------------------------------------ */

/* Put a span that began at START_TICKS and ends now on the thread's track; nothing where
 * the recording has ended meanwhile. */
void py_phase_end(uint32_t number, uint64_t start_ticks);

#endif
