/* Where the interpreter is in a process: found by what is mapped there, whatever its
 * program is called and whoever loaded it. */
#ifndef LW_SAMPLER_PYTHON_H
#define LW_SAMPLER_PYTHON_H

#include "sampler/memory.h"

struct lw_python {
    uint64_t runtime;   /* address of _PyRuntime */
    uint64_t code_type; /* address of PyCode_Type */
    uint32_t version;   /* as PY_VERSION_HEX; of 3.9 and 3.10 only the minor */
};

/* False with a sentence: the process holds no Python, or one that cannot be read. */
bool lw_python_find(struct lw_python *python, struct lw_memory *memory, pid_t pid,
                    struct lw_error *err) LW_MUST_CHECK;

#endif
