#include "sampler/native_merge.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- what a function is ------------------------------------------------------------- */

/* What stands between a Python function, or an operator, and what it calls. Names that end
 * in '*' are beginnings. */
static const char *const calling[] = {
    "PyCFunction_Call*",
    "PyEval_CallObject*",
    "PyEval_EvalCode*",
    "PyEval_EvalFrame*",
    "PyFunction_*",
    "PyGen_*",
    "PyIter_Next*",
    "PyIter_Send",
    "PyObject_Call*",
    "PyObject_Vectorcall*",
    "PyVectorcall_*",
    "_PyCFunction_*",
    "_PyEval_EvalCode*",
    "_PyEval_EvalFrame",
    "_PyEval_Vector",
    "_PyFunction_*",
    "_PyGen_*",
    "_PyMethodDef_*",
    "_PyMethodDescr_*",
    "_PyObject_Call*",
    "_PyObject_FastCall*",
    "_PyObject_MakeTpCall",
    "_PyObject_Vectorcall*",
    "_PyVectorcall_*",
    "call_function",
    "call_method",
    "cfunction_*",
    "do_call_core",
    "function_code_fastcall",
    "gen_iternext",
    "gen_send*",
    "method_call",
    "method_vectorcall*",
    "object_vacall",
    "slot_*",
    "trace_call_function",
    "vectorcall_*",
    "wrapperdescr_*",
};

static bool is_named(const char *name, size_t len, const char *pattern)
{
    size_t wanted = strlen(pattern);

    if (pattern[wanted - 1] == '*')
        return len >= wanted - 1 && memcmp(name, pattern, wanted - 1) == 0;
    return len == wanted && memcmp(name, pattern, len) == 0;
}

enum lw_native_kind lw_native_kind_of(const char *name)
{
    size_t len = strcspn(name, ".");

    if (is_named(name, len, LW_NATIVE_LOOP_NAME))
        return LW_NATIVE_LOOP;
    if (is_named(name, len, "_TAIL_CALL_*"))
        return LW_NATIVE_HANDLER;
    for (size_t i = 0; i < sizeof(calling) / sizeof(calling[0]); i++) {
        if (is_named(name, len, calling[i]))
            return LW_NATIVE_INNER;
    }
    return LW_NATIVE_PLAIN;
}

/* ---- merging ------------------------------------------------------------------------ */

struct merging {
    struct lw_merged *out;
    const struct lw_native_frame *frames; /* innermost first */
    size_t count;
    const struct lw_walk *walk;
    size_t next; /* frame of the walk */
    bool failed;
};

static void add(struct merging *at, uint32_t entry)
{
    if (!lw_grow(&at->out->entries, &at->out->capacity, at->out->count + 1,
                 sizeof(entry), NULL))
        at->failed = true;
    else
        at->out->entries[at->out->count++] = entry;
}

/* Does a run of the loop begin at frame I? A handler belongs to the loop that called
 * it. */
static bool is_loop(const struct merging *at, size_t i)
{
    switch (at->frames[i].kind) {
    case LW_NATIVE_LOOP: return true;
    case LW_NATIVE_HANDLER:
        return i + 1 == at->count || (at->frames[i + 1].kind != LW_NATIVE_LOOP &&
                                      at->frames[i + 1].kind != LW_NATIVE_HANDLER);
    default: return false;
    }
}

static size_t count_loops(const struct merging *at)
{
    size_t loops = 0;

    for (size_t i = 0; i < at->count; i++)
        loops += is_loop(at, i);
    return loops;
}

/* Runs of the loop that the Python frames tell of. The first frame begins one whatever
 * it says. */
static size_t count_entries(const struct lw_walk *walk)
{
    size_t entries = walk->count > 0;

    for (size_t i = 1; i < walk->count; i++)
        entries += walk->frames[i].is_entry;
    return entries;
}

/* The Python frames of one run of the loop. */
static void add_run(struct merging *at)
{
    do
        add(at, (uint32_t)at->next++);
    while (at->next < at->walk->count && !at->walk->frames[at->next].is_entry);
}

static void add_functions(struct merging *at)
{
    for (size_t i = at->count; i-- > 0;)
        add(at, LW_MERGED_FUNCTION | at->frames[i].function);
}

/* From the outside in. The first run of the loop that is seen is that of entry FIRST. */
static void add_both(struct merging *at, size_t first)
{
    bool met_loop = first > 0;

    while (first-- > 0)
        add_run(at);
    for (size_t i = at->count; i-- > 0;) {
        if (is_loop(at, i)) {
            met_loop = true;
            if (at->next < at->walk->count)
                add_run(at);
        } else if (met_loop && at->frames[i].kind == LW_NATIVE_PLAIN)
            add(at, LW_MERGED_FUNCTION | at->frames[i].function);
    }
}

bool lw_native_merge(struct lw_merged *out, const struct lw_native_frame *frames,
                     size_t count, bool is_whole, const struct lw_walk *walk)
{
    struct merging at = { .out = out, .frames = frames, .count = count, .walk = walk };
    size_t entries = count_entries(walk), loops = count_loops(&at);

    out->count = 0;
    if (entries == 0)
        add_functions(&at);
    else if (loops == entries)
        add_both(&at, 0);
    else if (is_whole && loops == entries + 1)
        add_both(&at, 0); /* the innermost has only just begun, or is about to end */
    else if (!is_whole && loops < entries)
        add_both(&at, entries - loops);
    else
        at.failed = true;
    if (at.failed)
        out->count = 0;
    return !at.failed;
}
