/* Which line of the program asked for an op.
 *
 * torch calls us without the GIL, in the thread that ran the line: what this thread's own
 * frames say does not change under us, and their code objects live as long as they do. So
 * the frames are read as they lie (compat.h), with no reference taken and nothing asked of
 * Python that writes. Of functions in torch itself the caller is taken: a person looks for
 * the line of theirs, not for that in which torch.nn.Linear calls its own function.
 *
 * What was found is kept, a place in the code at a time: a line is looked up once, and
 * then costs a few loads for each frame between it and the op. */
#ifndef PY_LAPWING_OPS_LINES_H
#define PY_LAPWING_OPS_LINES_H

#include "tracer.h"

#define PY_OPS_LINES 512 /* places that a thread remembers; a power of two */

struct py_ops_lines {
    struct py_ops_line {
        const void *code, *instruction; /* NULL: none */
        const void *file, *name,
            *table;      /* of the code: another may come to lie there */
        uint32_t number; /* of the function's name; 0: it is torch's own;
                            LW_FUNCTION_MORE: it has none */
        uint32_t line;
    } places[PY_OPS_LINES];
};

/* Make ready for TORCH, the module. Where this Python's frames are not as we know them,
 * no lines are found from then on. Never raises. With the GIL, while no op is recorded. */
void py_ops_lines_start(PyObject *torch);

/* The calling thread's line: *NUMBER is that of its function's name, 0: there is none. */
void py_ops_lines_find(struct py_ops_lines *lines, uint32_t *number, uint32_t *line);

#endif
