/* A frame of the interpreter's, out of a copy of its bytes. */
#ifndef LW_SAMPLER_PY_FRAME_H
#define LW_SAMPLER_PY_FRAME_H

#include "sampler/layout.h"

struct lw_py_frame {
    uint64_t previous; /* address of its caller's */
    uint64_t code;
    uint64_t function; /* 0: it does not say (to 3.10) */
    uint64_t globals;
    uint64_t instruction;
    uint8_t owner;
    bool is_entry;
    bool is_executing;    /* or has called one that is */
    bool has_saved_stack; /* as every frame has that waits for a Python function which
                             the same run of the interpreter's loop runs; a frame that
                             runs itself has not, unless it is in C at the moment */
};

/* How much of a frame is read: what comes before its variables. */
uint32_t lw_py_frame_len(const struct lw_py_layout *layout);
/* BYTES are as many. */
struct lw_py_frame lw_py_frame_parse(const struct lw_py_layout *layout,
                                     const unsigned char *bytes);
/* Is it the interpreter's own, which stands for a call from C? */
bool lw_py_frame_is_shim(const struct lw_py_layout *layout,
                         const struct lw_py_frame *frame);
/* Where it is, in bytes into its bytecode; -1: it has not begun. */
int32_t lw_py_frame_instruction(const struct lw_py_layout *layout,
                                const struct lw_py_frame *frame);

#endif
