/* Writing spans and values; see phases.h. */

#include "phases.h"

#include <string.h>

static uint32_t intern(enum lw_agent_name_kind kind, const char *file, size_t file_len,
                       const char *name, size_t name_len)
{
    const struct lw_name_text *text = lw_names_intern(&py_tracer.functions.names, kind,
                                                      file, file_len, name, name_len);

    return text ? text->number : LW_FUNCTION_MORE;
}

uint32_t py_phase_number(const char *phase, const char *class_name)
{
    return intern(LW_NAME_PHASE, class_name, strlen(class_name), phase, strlen(phase));
}

uint32_t py_span_number(enum lw_agent_name_kind kind, const char *name, size_t len)
{
    return intern(kind, "", 0, name, len);
}

void py_value_write(struct lw_calls_thread *calls, uint32_t number, double value)
{
    struct lw_agent_record record = {
        .kind = LW_RECORD_COUNTER,
        .id = number,
        .ticks = lw_ticks_now(py_tracer.use_tsc),
    };

    if (number == LW_FUNCTION_MORE) { /* of which counter would it be? */
        lw_region_count_lost(calls->region, LW_LOST_RECORDS);
        return;
    }
    memcpy(&record.value, &value, sizeof(value));
    lw_calls_add_record(calls, &record);
}

void py_phase_end(uint32_t number, uint64_t start_ticks)
{
    uint64_t end_ticks = lw_ticks_now(py_tracer.use_tsc);
    struct lw_calls_thread *calls = py_session_place();

    if (calls)
        py_span_write(calls, number, start_ticks, end_ticks);
}
