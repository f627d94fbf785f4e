/* Words and lines of /proc. */

#include "recorder/proc_text.h"

#include <string.h>

#include "base/text.h"

#define SECTOR_BYTES 512 /* of /proc/diskstats, whatever the disk has */

bool lw_piece_line(struct lw_piece *rest, struct lw_piece *line)
{
    const char *end;

    if (rest->len == 0)
        return false;
    end = memchr(rest->bytes, '\n', rest->len);
    line->bytes = rest->bytes;
    line->len = end ? (size_t)(end - rest->bytes) : rest->len;
    rest->bytes += line->len + (end != NULL);
    rest->len -= line->len + (end != NULL);
    return true;
}

bool lw_piece_find(struct lw_piece text, const char *key, struct lw_piece *value)
{
    size_t key_len = strlen(key);
    struct lw_piece line;

    while (lw_piece_line(&text, &line)) {
        if (line.len < key_len || memcmp(line.bytes, key, key_len) != 0)
            continue;
        *value = (struct lw_piece){ line.bytes + key_len, line.len - key_len };
        return true;
    }
    return false;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

bool lw_piece_word(struct lw_piece text, size_t index, struct lw_piece *word)
{
    size_t at = 0, start;

    for (size_t i = 0;; i++) {
        while (at < text.len && is_space(text.bytes[at]))
            at++;
        start = at;
        while (at < text.len && !is_space(text.bytes[at]))
            at++;
        if (at == start)
            return false;
        if (i == index)
            break;
    }
    *word = (struct lw_piece){ text.bytes + start, at - start };
    return true;
}

bool lw_piece_number(struct lw_piece text, size_t index, uint64_t *number)
{
    struct lw_piece word;

    return lw_piece_word(text, index, &word) &&
           lw_text_u64(word.bytes, word.len, number);
}

/* The second field is the program's name in parentheses, which may hold any byte: the
 * others are counted from the last ')'. proc(5) numbers them from 1. */
bool lw_proc_stat_read(struct lw_proc_stat *stat, struct lw_piece text)
{
    const char *close = memrchr(text.bytes, ')', text.len);
    struct lw_piece rest;

    if (!close)
        return false;
    rest.bytes = close + 1;
    rest.len = text.len - (size_t)(rest.bytes - text.bytes);
    return lw_piece_number(rest, 12 - 3, &stat->major_faults) &&
           lw_piece_number(rest, 14 - 3, &stat->user_ticks) &&
           lw_piece_number(rest, 15 - 3, &stat->system_ticks) &&
           lw_piece_number(rest, 20 - 3, &stat->threads) &&
           lw_piece_number(rest, 22 - 3, &stat->start_ticks) &&
           lw_piece_number(rest, 24 - 3, &stat->rss_pages);
}

void lw_proc_disks_read(struct lw_proc_traffic *traffic, struct lw_piece text,
                        lw_proc_is_real *is_real, void *context)
{
    struct lw_piece line, name;
    uint64_t in, out;

    *traffic = (struct lw_proc_traffic){ 0 };
    while (lw_piece_line(&text, &line)) {
        if (!lw_piece_word(line, 2, &name) || !lw_piece_number(line, 5, &in) ||
            !lw_piece_number(line, 9, &out) || (in == 0 && out == 0) ||
            !is_real(context, name))
            continue;
        traffic->in_bytes += in * SECTOR_BYTES;
        traffic->out_bytes += out * SECTOR_BYTES;
    }
}

void lw_proc_network_read(struct lw_proc_traffic *traffic, struct lw_piece text,
                          lw_proc_is_real *is_real, void *context)
{
    struct lw_proc_traffic all = { 0 }, real = { 0 };
    bool has_real = false;
    struct lw_piece line;

    while (lw_piece_line(&text, &line)) {
        const char *colon = memchr(line.bytes, ':', line.len);
        struct lw_piece name, numbers;
        uint64_t in, out;

        if (!colon || !lw_piece_word(
                          (struct lw_piece){ line.bytes, (size_t)(colon - line.bytes) },
                          0, &name))
            continue;
        numbers.bytes = colon + 1;
        numbers.len = line.len - (size_t)(numbers.bytes - line.bytes);
        if (!lw_piece_number(numbers, 0, &in) || !lw_piece_number(numbers, 8, &out) ||
            (name.len == 2 && memcmp(name.bytes, "lo", 2) == 0))
            continue;
        all.in_bytes += in;
        all.out_bytes += out;
        if (!is_real(context, name))
            continue;
        has_real = true;
        real.in_bytes += in;
        real.out_bytes += out;
    }
    *traffic = has_real ? real : all;
}

/* Lines are "4:memory:/path" (of several controllers "2:cpu,cpuacct:/path") in version 1
 * and "0::/path" in version 2; where both are mounted, version 1 has the limits. */
bool lw_proc_cgroup_find(struct lw_piece text, const char *controller,
                         struct lw_piece *path, bool *is_v2)
{
    size_t wanted = strlen(controller);
    struct lw_piece line;
    bool found = false;

    while (lw_piece_line(&text, &line)) {
        const char *end = line.bytes + line.len;
        const char *names = memchr(line.bytes, ':', line.len);
        const char *colon =
            names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;

        if (!colon)
            continue;
        if (colon == names + 1 && !found) {
            *path = (struct lw_piece){ colon + 1, (size_t)(end - colon - 1) };
            *is_v2 = found = true;
        }
        for (const char *name = names + 1; name < colon;) {
            const char *comma = memchr(name, ',', (size_t)(colon - name));
            size_t len = (size_t)((comma ? comma : colon) - name);

            if (len == wanted && memcmp(name, controller, len) == 0) {
                *path = (struct lw_piece){ colon + 1, (size_t)(end - colon - 1) };
                *is_v2 = false;
                return true;
            }
            name += len + 1;
        }
    }
    return found;
}
