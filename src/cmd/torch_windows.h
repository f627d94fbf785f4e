/* --torch and --schedule of `lapwing run`: which windows of torch's profiler to take. */

#ifndef LW_CMD_TORCH_WINDOWS_H
#define LW_CMD_TORCH_WINDOWS_H

#include "base/buf.h"

/* The words of --torch (LW_ARG_WORDS), and the bit of the last. */
#define LW_TORCH_WORDS "shapes,memory,stack,flops,modules,off"
#define LW_TORCH_STACK (2u << 2)
#define LW_TORCH_MODULES (2u << 4)
#define LW_TORCH_OFF (2u << 5)

/* WORDS and what they need: torch sees calls of modules among the calls of Python, which it
 * follows only for stacks; its with_modules alone is for TorchScript. */
static inline unsigned lw_torch_words_needed(unsigned words)
{
    return words & LW_TORCH_MODULES ? words | LW_TORCH_STACK : words;
}

struct lw_torch_windows {
    unsigned words;       /* of --torch; 0: not given */
    const char *schedule; /* "wait=1,active=3"; NULL: not given */
};

/* Append what LAPWING_AGENT shall say of it behind "torch=": the schedule, and what else
 * to record, parted by semicolons ("wait:1;warmup:1;active:3;repeat:1;shapes"); "auto"
 * first when nothing was asked for, which is one window where the program uses a GPU;
 * nothing at all for no window. Fails with LW_ERR_USAGE or for lack of memory. */
bool lw_torch_windows_add(const struct lw_torch_windows *windows, struct lw_buf *out,
                          struct lw_error *err) LW_MUST_CHECK;

#endif
