/* What a value of a trace event is: numbers, also those in quotes, and times. Nearly all are
 * a few digits, which the first look at them takes; base/text.h has the rest. */

#include <string.h>

#include "base/text.h"
#include "readers/trace_events.h"

#define LATEST_NS ((int64_t)1 << 62) /* 2116 */

/* Eight digits at once: each step adds neighbours, of 8 bits, 16 and 32. False: they are
 * not all digits, or this machine has its bytes the other way round. */
static inline bool take_eight(const char *text, uint64_t *number)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t bytes;

    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return false;
    memcpy(&bytes, text, sizeof(bytes));
    /* '0' to '9' are 0x30 to 0x39: 6 more is still 0x3.. */
    if (((bytes | (bytes + 6 * ones)) & 0xf0 * ones) != '0' * ones ||
        (bytes & 0xf0 * ones) != '0' * ones)
        return false;
    bytes = (bytes & 0x0f * ones) * (1 + (10u << 8)) >> 8;
    bytes = (bytes & 0x00ff00ff00ff00ffu) * (1 + (100u << 16)) >> 16;
    *number = (bytes & 0x0000ffff0000ffffu) * (1 + ((uint64_t)10000 << 32)) >> 32;
    return true;
}

/* The digits at TEXT, of LEN bytes at most; how many there are. What they sum up to is put
 * behind those of *NUMBER, and wraps. */
static inline size_t take_some(const char *text, size_t len, uint64_t *number)
{
    uint64_t sum = *number, eight;
    size_t i = 0;

    for (; len - i >= 8 && take_eight(text + i, &eight); i += 8)
        sum = sum * 100000000 + eight;
    for (; i < len && (unsigned char)(text[i] - '0') <= 9; i++)
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    *number = sum;
    return i;
}

/* Digits alone, as nearly all numbers are. */
static inline bool take_digits(const char *text, size_t len, uint64_t *number)
{
    uint64_t sum = 0;

    if (len == 0 || len > 18 || take_some(text, len, &sum) < len)
        return false;
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
    size_t whole, places = 0;

    if (len == 0 || len > 16 + 1 + 3)
        return false;
    whole = take_some(text, len, &sum);
    if (whole == 0 || whole > 16)
        return false;
    if (whole < len) {
        if (text[whole] != '.')
            return false;
        places = take_some(text + whole + 1, len - whole - 1, &sum);
        if (whole + 1 + places < len || places == 0 || places > 3)
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
