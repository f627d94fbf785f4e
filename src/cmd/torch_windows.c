/* From the words of a person to those of the agent. */

#include "cmd/torch_windows.h"

#include <string.h>

#include "base/text.h"

#define NUMBER_MAX 1000000000u /* steps that nobody waits for */

/* As torch.profiler.schedule() calls them, which starts a window again and again unless
 * told how often; here one is enough unless more are asked for. */
enum { WAIT, WARMUP, ACTIVE, REPEAT, SKIP_FIRST, SKIP_FIRST_WAIT, NUMBERS };

static const char *const names[NUMBERS] = { "wait",   "warmup",     "active",
                                            "repeat", "skip_first", "skip_first_wait" };

/* Without a word from anybody: past what is slow only once, three steps. */
static const uint64_t automatic[NUMBERS] = { 5, 1, 3, 1, 0, 0 };
static const uint64_t usual[NUMBERS] = { 1, 1, 3, 1, 0, 0 };

static size_t find_name(const char *text, size_t len)
{
    size_t i = 0;

    while (i < NUMBERS && (strlen(names[i]) != len || memcmp(names[i], text, len) != 0))
        i++;
    return i;
}

/* One "wait=1" of LEN bytes. */
static bool take_word(uint64_t *numbers, unsigned *seen, const char *word, size_t len,
                      struct lw_error *err)
{
    const char *equals = memchr(word, '=', len);
    size_t name_len = equals ? (size_t)(equals - word) : len;
    size_t i = find_name(word, name_len);

    if (!equals || i == NUMBERS)
        return lw_fail(
            err, LW_ERR_USAGE,
            "run: --schedule takes wait=N, warmup=N, active=N, repeat=N, "
            "skip_first=N and skip_first_wait=N parted by commas, not '%.*s'",
            (int)len, word);
    if (!lw_text_u64(equals + 1, len - name_len - 1, &numbers[i]) ||
        numbers[i] > NUMBER_MAX)
        return lw_fail(err, LW_ERR_USAGE,
                       "run: --schedule takes a whole number from 0 to %u as %s, not "
                       "'%.*s'",
                       NUMBER_MAX, names[i], (int)(len - name_len - 1), equals + 1);
    if (*seen & 1u << i)
        return lw_fail(err, LW_ERR_USAGE, "run: --schedule says %s twice", names[i]);
    *seen |= 1u << i;
    return true;
}

static bool take_schedule(uint64_t *numbers, const char *text, struct lw_error *err)
{
    unsigned seen = 0;

    while (text) {
        size_t len = strcspn(text, ",");

        if (!take_word(numbers, &seen, text, len, err))
            return false;
        text = text[len] ? text + len + 1 : NULL;
    }
    return numbers[ACTIVE] > 0 ||
           lw_fail(err, LW_ERR_USAGE,
                   "run: --schedule with active=0 would record nothing: it is how many "
                   "steps a window has, at least 1");
}

/* The words that were given, each behind a semicolon, but "off". */
static void add_words(struct lw_buf *out, unsigned words)
{
    const char *word = LW_TORCH_WORDS;

    for (unsigned bit = 2; bit < LW_TORCH_OFF; bit <<= 1) {
        size_t len = strcspn(word, ",");

        if (words & bit) {
            lw_buf_add_char(out, ';');
            lw_buf_add(out, word, len);
        }
        word += len + 1;
    }
}

bool lw_torch_windows_add(const struct lw_torch_windows *windows, struct lw_buf *out,
                          struct lw_error *err)
{
    unsigned words = lw_torch_words_needed(windows->words);
    uint64_t numbers[NUMBERS];

    if (words & LW_TORCH_OFF && words & ~(LW_TORCH_OFF | 1))
        return lw_fail(err, LW_ERR_USAGE, "run: --torch=off goes with no other word");
    if (windows->schedule && (!words || words & LW_TORCH_OFF))
        return lw_fail(
            err, LW_ERR_USAGE,
            "run: --schedule says when --torch takes windows: give that too");
    if (words & LW_TORCH_OFF)
        return true;
    memcpy(numbers, words ? usual : automatic, sizeof(numbers));
    if (windows->schedule && !take_schedule(numbers, windows->schedule, err))
        return false;
    if (!words)
        lw_buf_add_text(out, "auto;");
    for (size_t i = 0; i < NUMBERS; i++)
        lw_buf_addf(out, "%s%s:%llu", i ? ";" : "", names[i],
                    (unsigned long long)numbers[i]);
    add_words(out, words);
    return lw_buf_check(out, err);
}
