/* Sentences for failures, and the end of the program for our own mistakes. */

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Formatted aside, because the arguments may well be the old err->text. */
static void set(struct lw_error *err, enum lw_error_code code, const char *format,
                va_list args) LW_PRINTF(3, 0);

static void set(struct lw_error *err, enum lw_error_code code, const char *format,
                va_list args)
{
    char text[sizeof(err->text)];

    vsnprintf(text, sizeof(text), format, args);
    memcpy(err->text, text, strlen(text) + 1);
    err->code = code;
}

bool lw_fail(struct lw_error *err, enum lw_error_code code, const char *format, ...)
{
    va_list args;

    if (!err)
        return false;
    va_start(args, format);
    set(err, code, format, args);
    va_end(args);
    return false;
}

bool lw_fail_errno(struct lw_error *err, const char *format, ...)
{
    int reason = errno;
    size_t len;
    va_list args;

    if (!err)
        return false;
    va_start(args, format);
    set(err, reason == ENOMEM ? LW_ERR_NOMEM : LW_ERR_IO, format, args);
    va_end(args);
    len = strlen(err->text);
    errno = reason;
    snprintf(err->text + len, sizeof(err->text) - len, ": %m");
    return false;
}

void lw_error_prefix(struct lw_error *err, const char *format, ...)
{
    char sentence[sizeof(err->text)];
    size_t len;
    va_list args;

    if (!err)
        return;
    memcpy(sentence, err->text, sizeof(sentence));
    va_start(args, format);
    set(err, err->code, format, args);
    va_end(args);
    len = strlen(err->text);
    snprintf(err->text + len, sizeof(err->text) - len, ": %s", sentence);
}

void lw_assert_failed(const char *condition, const char *file, int line)
{
    char text[500];
    int len = snprintf(text, sizeof(text), "lapwing: a bug: %s:%d: %s is not so\n",
                       file, line, condition);

    if (len > 0 && write(STDERR_FILENO, text, strnlen(text, sizeof(text))) < 0)
        abort(); /* nobody to tell; the core file says it */
    abort();
}
