/* Why something failed, as one sentence made where the facts are.
 *
 * A function that can fail returns bool (true: done) or a pointer (NULL: not
 * done), is marked LW_MUST_CHECK and takes `struct lw_error *err` last; NULL is
 * allowed there. The sentence is lower case, has no newline, and names the file,
 * line or pid. Callers pass it up unchanged or add a prefix once. */
#ifndef LW_BASE_ERROR_H
#define LW_BASE_ERROR_H

#include <stdbool.h>

#define LW_MUST_CHECK __attribute__((warn_unused_result))
#define LW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum lw_error_code {
    LW_OK = 0,
    LW_ERR_NOMEM,       /* memory ran out */
    LW_ERR_IO,          /* the operating system said no */
    LW_ERR_FORMAT,      /* the bytes are not what they should be */
    LW_ERR_UNSUPPORTED, /* understood, but not something we can do */
    LW_ERR_LIMIT,       /* larger than we are willing to take */
    LW_ERR_USAGE,       /* the person asked for something that is not there */
};

struct lw_error {
    enum lw_error_code code;
    char text[1000]; /* long enough for two paths and a reason */
};

/* Fill *ERR, if there is one, and return false, so that a failure is one line:
 * `return lw_fail(err, LW_ERR_FORMAT, "line %zu: no weight", n);` */
bool lw_fail(struct lw_error *err, enum lw_error_code code, const char *format, ...)
    LW_PRINTF(3, 4);

/* As lw_fail with ": " and what errno means behind the sentence. */
bool lw_fail_errno(struct lw_error *err, const char *format, ...) LW_PRINTF(2, 3);

/* Put "PREFIX: " before the sentence; for the one caller that knows the file. */
void lw_error_prefix(struct lw_error *err, const char *format, ...) LW_PRINTF(2, 3);

/* For what only our own bug can break; never for input, remote memory or the OS. */
#define lw_assert(condition) \
    ((condition) ? (void)0 : lw_assert_failed(#condition, __FILE__, __LINE__))
void lw_assert_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn));

#endif
