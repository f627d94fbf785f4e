/* What a value of a trace event is: numbers, also those in quotes, and times. Nearly all are
 * a few digits, which the first look at them takes; base/text.h has the rest. */

#include "base/text.h"
#include "readers/trace_events.h"

#define LATEST_NS ((int64_t)1 << 62) /* 2116 */

/* Digits alone, as nearly all numbers are. */
static inline bool take_digits(const char *text, size_t len, uint64_t *number)
{
    uint64_t sum = 0;

    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';

        if (digit > 9)
            return false;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return true;
}

static bool is_scalar(const struct lw_value *value)
{
    return value->form == LW_VALUE_TEXT || value->form == LW_VALUE_WORD;
}

bool lw_value_u64(const struct lw_value *value, uint64_t *number)
{
    int64_t scaled;

    if (!is_scalar(value))
        return false;
    if (take_digits(value->text, value->len, number) ||
        lw_text_u64(value->text, value->len, number))
        return true;
    if (!lw_text_scaled(value->text, value->len, 0, &scaled) || scaled < 0)
        return false;
    *number = (uint64_t)scaled;
    return true;
}

bool lw_value_i64(const struct lw_value *value, int64_t *number)
{
    uint64_t plain;

    if (!is_scalar(value))
        return false;
    if (take_digits(value->text, value->len, &plain)) {
        *number = (int64_t)plain;
        return true;
    }
    return lw_text_scaled(value->text, value->len, 0, number);
}

bool lw_value_double(const struct lw_value *value, double *number)
{
    return is_scalar(value) && lw_text_double(value->text, value->len, number);
}

/* "1623142623460111", "3912000456701.402": all digits, at most three behind a point. */
static inline bool take_ns(const char *text, size_t len, int64_t *ns)
{
    uint64_t sum = 0;
    size_t i = 0, places = 0;

    if (len == 0 || len > 16 + 1 + 3)
        return false;
    for (; i < len && (unsigned char)(text[i] - '0') <= 9; i++)
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    if (i == 0 || i > 16)
        return false;
    if (i < len) {
        if (text[i++] != '.')
            return false;
        for (; i < len && (unsigned char)(text[i] - '0') <= 9; i++, places++)
            sum = sum * 10 + (uint64_t)(text[i] - '0');
        if (i < len || places == 0 || places > 3)
            return false;
    }
    for (; places < 3; places++)
        sum *= 10;
    *ns = (int64_t)sum; /* below 10^19: 16 digits and three */
    return *ns >= 0;
}

static bool value_ns(const struct lw_value *value, int64_t *ns)
{
    return is_scalar(value) && (take_ns(value->text, value->len, ns) ||
                                lw_text_scaled(value->text, value->len, 3, ns));
}

bool lw_trace_event_time(const struct lw_trace_event *event,
                         struct lw_trace_losses *losses, int64_t *ns)
{
    if (value_ns(&event->time, ns) && *ns >= 0 && *ns <= LATEST_NS)
        return true;
    losses->timeless++;
    return false;
}

uint64_t lw_trace_event_duration(const struct lw_trace_event *event,
                                 struct lw_trace_losses *losses)
{
    int64_t ns = 0;

    if (event->duration.form == LW_VALUE_NONE || lw_value_is(&event->duration, "null"))
        return 0;
    if (value_ns(&event->duration, &ns) && ns >= 0 && ns <= LATEST_NS)
        return (uint64_t)ns;
    losses->endless++;
    return 0;
}
