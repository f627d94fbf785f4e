/* Three significant digits: 1.23, 12.3, 123. */

#include "model/units.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

struct scale {
    double size; /* of one of these, in the smallest unit */
    double end;  /* from so many on, the next unit reads better */
    const char *name;
};

/* The value in the first unit in which it is below that unit's end; ends are such that
 * rounding never shows 1000. */
static void add_scaled(struct lw_buf *out, int64_t value, const struct scale *scales,
                       size_t count)
{
    double size = fabs((double)value), shown;
    size_t i = 0;

    while (i + 1 < count && size / scales[i].size >= scales[i].end)
        i++;
    if (value < 0)
        lw_buf_add_char(out, '-');
    shown = size / scales[i].size;
    if (i == 0)
        lw_buf_addf(out, "%.0f %s", shown, scales[i].name);
    else
        lw_buf_addf(out, "%.*f %s",
                    shown < 9.995   ? 2
                    : shown < 99.95 ? 1
                                    : 0,
                    shown, scales[i].name);
}

void lw_units_add_ns(struct lw_buf *out, int64_t ns)
{
    static const struct scale scales[] = {
        { 1, 999.5, "ns" },  { 1e3, 999.5, "us" },   { 1e6, 999.5, "ms" },
        { 1e9, 119.5, "s" }, { 60e9, 119.5, "min" }, { 3600e9, INFINITY, "h" },
    };

    add_scaled(out, ns, scales, sizeof(scales) / sizeof(scales[0]));
}

/* Powers of 1024, as torch.profiler, ls -h and our own --max-size have them. */
void lw_units_add_bytes(struct lw_buf *out, int64_t bytes)
{
    static const struct scale scales[] = {
        { 1, 999.5, "B" },
        { 1024, 999.5, "KB" },
        { 1048576, 999.5, "MB" },
        { 1073741824, 999.5, "GB" },
        { 1099511627776, INFINITY, "TB" },
    };

    add_scaled(out, bytes, scales, sizeof(scales) / sizeof(scales[0]));
}

void lw_units_add_count(struct lw_buf *out, int64_t count)
{
    uint64_t size = count < 0 ? -(uint64_t)count : (uint64_t)count;
    char text[32]; /* 20 digits, 6 commas and a sign */
    size_t at = sizeof(text);

    for (unsigned digits = 0; digits == 0 || size; digits++) {
        if (digits && digits % 3 == 0)
            text[--at] = ',';
        text[--at] = (char)('0' + size % 10);
        size /= 10;
    }
    if (count < 0)
        text[--at] = '-';
    lw_buf_add(out, text + at, sizeof(text) - at);
}

/* "processes", "branches", "copies" (but "days"), "samples". */
static void add_plural(struct lw_buf *out, const char *noun)
{
    size_t len = strlen(noun);
    char last = len ? noun[len - 1] : '\0', before = len > 1 ? noun[len - 2] : '\0';

    if (last == 'y' && !strchr("aeiou", before)) {
        lw_buf_add(out, noun, len - 1);
        lw_buf_add_text(out, "ies");
        return;
    }
    lw_buf_add(out, noun, len);
    lw_buf_add_text(
        out, last == 's' || last == 'x' || (last == 'h' && strchr("cs", before)) ? "es"
                                                                                 : "s");
}

void lw_units_add_counted(struct lw_buf *out, int64_t count, const char *noun)
{
    lw_units_add_count(out, count);
    lw_buf_add_char(out, ' ');
    if (count == 1)
        lw_buf_add_text(out, noun);
    else
        add_plural(out, noun);
}

/* How many letters of the plural of LEN at WORD its singular shares; what goes on behind
 * them is put in *END. */
static size_t singular_len(const char *word, size_t len, const char **end)
{
    static const char *const long_ends[] = { "sses", "xes", "ches", "shes" };

    *end = "";
    if (len < 2 || word[len - 1] != 's')
        return len;
    if (len > 3 && memcmp(word + len - 3, "ies", 3) == 0) {
        *end = "y";
        return len - 3;
    }
    for (size_t i = 0; i < sizeof(long_ends) / sizeof(long_ends[0]); i++) {
        size_t n = strlen(long_ends[i]);

        if (len >= n && memcmp(word + len - n, long_ends[i], n) == 0)
            return len - 2;
    }
    return len - 1;
}

/* The noun of "files cut short" is its first word, that of "open files" the last. */
void lw_units_add_noun(struct lw_buf *out, int64_t count, const char *plural)
{
    size_t first = strcspn(plural, " "), len = strlen(plural);
    const char *last = strrchr(plural, ' ');
    bool is_first = first && plural[first - 1] == 's';
    const char *noun = is_first || !last ? plural : last + 1, *end;
    size_t noun_len = is_first ? first : len - (size_t)(noun - plural);

    if (count != 1) {
        lw_buf_add(out, plural, len);
        return;
    }
    lw_buf_add(out, plural, (size_t)(noun - plural));
    lw_buf_add(out, noun, singular_len(noun, noun_len, &end));
    lw_buf_add_text(out, end);
    lw_buf_add_text(out, noun + noun_len);
}

void lw_units_add_share(struct lw_buf *out, double share)
{
    if (isfinite(share))
        lw_buf_addf(out, "%.1f %%", share * 100);
    else
        lw_buf_add_char(out, '-'); /* of nothing */
}

void lw_units_add_time(struct lw_buf *out, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    char text[64];
    struct tm parts;

    if (localtime_r(&seconds, &parts) &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts))
        lw_buf_add_text(out, text);
}

/* Files may hold any number. */
static int64_t whole(double number)
{
    if (!(number < 0x1p63))
        return INT64_MAX;
    return number <= -0x1p63 ? INT64_MIN : (int64_t)llround(number);
}

void lw_units_add_value(struct lw_buf *out, enum lw_unit unit,
                        const struct lw_value *value)
{
    if (!value->present)
        return;
    switch (unit) {
    case LW_UNIT_TEXT:
        lw_text_add_printable(out, value->as.text.bytes, value->as.text.len);
        break;
    case LW_UNIT_COUNT: lw_units_add_count(out, value->as.integer); break;
    case LW_UNIT_NS: lw_units_add_ns(out, value->as.integer); break;
    case LW_UNIT_SECONDS: lw_buf_addf(out, "%.3f", value->as.number); break;
    case LW_UNIT_BYTES: lw_units_add_bytes(out, value->as.integer); break;
    case LW_UNIT_SHARE: lw_units_add_share(out, value->as.number); break;
    case LW_UNIT_TIME: lw_units_add_time(out, value->as.integer); break;
    case LW_UNIT_NUMBER: lw_buf_addf(out, "%.6g", value->as.number); break;
    case LW_UNIT_PERCENT: lw_units_add_share(out, value->as.number / 100); break;
    case LW_UNIT_BYTES_S:
        lw_units_add_bytes(out, whole(value->as.number));
        lw_buf_add_text(out, "/s");
        break;
    case LW_UNIT_OWN:
        if (value->unit == LW_UNIT_BYTES)
            lw_units_add_bytes(out, whole(value->as.number));
        else
            lw_units_add_value(out, (enum lw_unit)value->unit, value);
        break;
    }
}
