/* Where the fields of CPython's structures lie: one value, filled once for a target, and
 * the only place that knows one Python from another.
 *
 * 3.13 and later say most of it themselves (_Py_DebugOffsets, the first thing in
 * _PyRuntime); what they leave out, and all of the older ones, is in layouts.def, made
 * from CPython's own headers by tools/layouts.py. Code that walks asks for features
 * (`has_data_stack`), never for versions. */
#ifndef LW_SAMPLER_LAYOUT_H
#define LW_SAMPLER_LAYOUT_H

#include "base/buf.h"
#include "sampler/memory.h"

/* An offset that this Python does not have. */
#define LW_NO_FIELD UINT32_MAX

/* No structure that is copied whole (a frame up to its variables, a code object, the head
 * of a str or of bytes) is larger: lw_layout_find() sees to it. */
#define LW_LAYOUT_COPY_MAX 512

/* The structures: LW_STRUCTURE(structure). `structure_bytes` is its size, 0 where this
 * Python has none. One that ends in a part of any length is counted with one entry. */
#define LW_LAYOUT_STRUCTURES(LW_STRUCTURE) \
    LW_STRUCTURE(runtime)     /* _PyRuntimeState */ \
    LW_STRUCTURE(interpreter) /* PyInterpreterState */ \
    LW_STRUCTURE(gil) \
    LW_STRUCTURE(gc) \
    LW_STRUCTURE(thread) /* PyThreadState */ \
    LW_STRUCTURE(cframe) /* 3.11, 3.12 */ \
    LW_STRUCTURE(chunk)  /* of a data stack; from 3.11 on */ \
    LW_STRUCTURE(frame) \
    LW_STRUCTURE(code) \
    LW_STRUCTURE(function) /* from 3.11 on */ \
    LW_STRUCTURE(object) \
    LW_STRUCTURE(type) \
    LW_STRUCTURE(heaptype) \
    LW_STRUCTURE(sized) /* PyVarObject */ \
    LW_STRUCTURE(tuple) \
    LW_STRUCTURE(list) \
    LW_STRUCTURE(dict) \
    LW_STRUCTURE(keys)   /* PyDictKeysObject, up to its indices */ \
    LW_STRUCTURE(values) /* PyDictValues */ \
    LW_STRUCTURE(set) \
    LW_STRUCTURE(weakref) \
    LW_STRUCTURE(cell) \
    LW_STRUCTURE(float) \
    LW_STRUCTURE(int) \
    LW_STRUCTURE(bytes) \
    LW_STRUCTURE(unicode) \
    LW_STRUCTURE(generator)

/* Every other number of a layout: LW_FIELD(structure, field). All are byte offsets within
 * the structure, LW_NO_FIELD where this Python has no such field, but those named *_size,
 * which are sizes. */
#define LW_LAYOUT_FIELDS(LW_FIELD) \
    LW_FIELD(runtime, interpreters_head) \
    LW_FIELD(runtime, gil) /* to 3.11; later each interpreter has its own */ \
    LW_FIELD(interpreter, id) \
    LW_FIELD(interpreter, next) \
    LW_FIELD(interpreter, threads_head) \
    LW_FIELD(interpreter, gc) \
    LW_FIELD(interpreter, gil) /* a pointer to it; from 3.12 on */ \
    LW_FIELD(interpreter, modules) \
    LW_FIELD(gil, locked) \
    LW_FIELD(gil, last_holder) \
    LW_FIELD(gc, collecting) \
    LW_FIELD(thread, next) \
    LW_FIELD(thread, thread_id)        /* pthread_t */ \
    LW_FIELD(thread, native_thread_id) /* the kernel's; from 3.11 on */ \
    LW_FIELD(thread, frame)            /* of an object (3.9, 3.10), or from 3.13 on */ \
    LW_FIELD(thread, cframe)           /* 3.11, 3.12 */ \
    LW_FIELD(thread, datastack_chunk) \
    LW_FIELD(thread, datastack_top) \
    LW_FIELD(thread, status)        /* bits of struct _status; from 3.12 on */ \
    LW_FIELD(thread, state)         /* attached or not; from 3.13 on */ \
    LW_FIELD(thread, holds_gil)     /* an int; from 3.14 on */ \
    LW_FIELD(thread, gil_requested) /* an int; from 3.15 on */ \
    LW_FIELD(cframe, current_frame) \
    LW_FIELD(chunk, previous) \
    LW_FIELD(chunk, size) \
    LW_FIELD(chunk, top) \
    LW_FIELD(chunk, data) \
    LW_FIELD(frame, previous) /* f_back of an object */ \
    LW_FIELD(frame, \
             function) /* a reference to it, tagged as `code` is; from 3.11 on */ \
    LW_FIELD(frame, globals) \
    LW_FIELD(frame, code)        /* f_code, f_executable */ \
    LW_FIELD(frame, instruction) /* prev_instr, instr_ptr, or f_lasti of an object */ \
    LW_FIELD(frame, owner) \
    LW_FIELD(frame, is_entry) /* 3.11 alone */ \
    LW_FIELD(frame, state)    /* f_executing (3.9), f_state (3.10) of an object */ \
    LW_FIELD(frame, locals) /* localsplus: the bytes of FRAME_SPECIALS_SIZE precede */ \
    LW_FIELD(frame, stack)  /* a pointer to it; 3.10 alone */ \
    LW_FIELD(frame, stack_depth) /* an int; of `stack`, or locals too (3.11-3.13) */ \
    LW_FIELD(frame, stack_top)  /* a pointer behind the last; 3.9, and from 3.14 on */ \
    LW_FIELD(frame, tlbc_index) /* int32_t; free-threaded, from 3.14 on */ \
    LW_FIELD(code, argcount) \
    LW_FIELD(code, nlocals) /* co_nlocals, co_nlocalsplus */ \
    LW_FIELD(code, stacksize) \
    LW_FIELD(code, \
             framesize) /* in words, specials too; from 3.12 on. In 3.11 it is     \
                               * nlocals + stacksize + specials */ \
    LW_FIELD(code, first_line) \
    LW_FIELD(code, names) /* co_varnames, co_localsplusnames */ \
    LW_FIELD(code, kinds) /* co_localspluskinds */ \
    LW_FIELD(code, cells) /* co_cellvars and co_freevars; to 3.10 */ \
    LW_FIELD(code, frees) \
    LW_FIELD(code, filename) \
    LW_FIELD(code, name) \
    LW_FIELD(code, qualname) \
    LW_FIELD(code, linetable) /* co_lnotab in 3.9 */ \
    LW_FIELD(code, bytecode)  /* co_code_adaptive; up to 3.10 co_code, an object */ \
    LW_FIELD(code, tlbc)      /* free-threaded, from 3.14 on */ \
    LW_FIELD(function, code) \
    LW_FIELD(function, version) /* no other function has it; 0: it has none */ \
    LW_FIELD(object, type) \
    LW_FIELD(type, name) \
    LW_FIELD(type, flags) \
    LW_FIELD(type, dictoffset) \
    LW_FIELD(type, basicsize) \
    LW_FIELD(heaptype, keys) /* what its instances' attributes are called */ \
    LW_FIELD(sized, size)    /* ob_size of tuples, bytes, and ints up to 3.11 */ \
    LW_FIELD(tuple, items) \
    LW_FIELD(list, items) /* a pointer to them */ \
    LW_FIELD(dict, used) \
    LW_FIELD(dict, keys) \
    LW_FIELD(dict, values) \
    LW_FIELD(keys, index_bytes) /* how many, as a logarithm; from 3.11 on */ \
    LW_FIELD(keys, kind)        /* 0: entries begin with a hash; from 3.11 on */ \
    LW_FIELD(keys, slots)       /* dk_size, where there is no `index_bytes` */ \
    LW_FIELD(keys, count)       /* of the entries, which lie behind the indices */ \
    LW_FIELD(values, valid)     /* 0: the dict has them; from 3.13 on */ \
    LW_FIELD(values, items) \
    LW_FIELD(set, used) \
    LW_FIELD(set, mask) \
    LW_FIELD(set, table) /* a pointer to pairs of key and hash */ \
    LW_FIELD(weakref, object) \
    LW_FIELD(cell, value) \
    LW_FIELD(float, value) \
    LW_FIELD(int, tag) /* lv_tag; from 3.12 on */ \
    LW_FIELD(int, digits) \
    LW_FIELD(bytes, data) \
    LW_FIELD(unicode, length) \
    LW_FIELD(unicode, state) \
    LW_FIELD(unicode, ascii_size)   /* where the text of ASCII begins */ \
    LW_FIELD(unicode, compact_size) /* and that of anything else */ \
    LW_FIELD(generator, frame)      /* gi_iframe, or up to 3.10 gi_frame: a pointer */ \
    LW_FIELD(generator, state)      /* an int8_t; from 3.11 on */

struct lw_py_layout {
    uint8_t major, minor;
    uint8_t micro, release; /* as in PY_VERSION_HEX: 0xf0 is a final one */
    bool is_free_threaded;

    /* What the walk asks. */
    bool has_data_stack; /* frames lie in chunks (3.11+), else they are objects */
    bool has_shims;      /* entries from C have a frame of their own (3.12+) */
    /* `instruction` is at the one being run (instr_ptr, 3.13+). Else it is prev_instr, the
     * code unit before the next instruction: the one being run or a cache entry of it, or,
     * in a frame that has not begun, the unit before the first. */
    bool instruction_is_current;
    bool lasti_counts_units; /* f_lasti counts code units (3.10), not bytes (3.9) */
    bool code_is_tagged; /* low bits of `code` are not of the address, and a frame that
                            returns clears it (3.14+) */
    /* Where a call to a Python function that the interpreter has specialised keeps
     * `version` of that function: so far from `instruction` of a frame that waits for it.
     * 0: nowhere (to 3.10). */
    int8_t called_version;
    uint8_t owner_generator; /* values of `owner`; 0xff: none has it */
    uint8_t owner_shim;      /* FRAME_OWNED_BY_CSTACK, or _INTERPRETER */
    uint8_t owner_shim_too;  /* 3.14 has both */
    int8_t state_executing;  /* value of `frame_state` or `generator_state`: it runs */
    /* Values of `generator_state`, where they tell that it awaits another (3.13+; else
     * equal to that of any that is suspended). */
    int8_t state_awaiting, state_awaiting_too;
    uint8_t opcode_yield_from; /* what it awaits with (3.9, 3.10); 0: none */
    bool resume_tells_await;   /* the RESUME it will go on with does (3.11, 3.12) */
    /* Attributes of an object: how many bytes before it is the pointer to its dict, and
     * to its values where they are in none; 0: not there. */
    uint8_t managed_dict, managed_values;
    bool managed_dict_or_values; /* odd: it is the values, less one (3.12) */
    bool has_inline_values;      /* they are behind the object (3.13+) */
    /* How far behind the end of a thread's state the list of its asyncio tasks begins
     * (3.14+; the state's own size is told, that of what is behind it is not); 0: none. */
    uint8_t tasks_behind_thread;
    uint8_t lines;              /* enum lw_line_format, see sampler/lines.h */
    uint8_t unicode_kind_shift; /* the bit of `state` where `kind` begins: 2, 8, 16 */

#define LW_STRUCTURE(structure) uint32_t structure##_bytes;
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) uint32_t structure##_##field;
    LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
};

/* The layout of the Python whose _PyRuntime is at RUNTIME. VERSION is its Py_Version
 * (PY_VERSION_HEX), if it has that symbol (3.11+), else made of the minor version in
 * the name of its program or library. 3.13 and later tell their own version, and are
 * believed in that and in all they say of their structures; what they leave out is
 * placed by the table, moved along where its neighbours moved. Every number is checked
 * to lie in its structure. False with a sentence that names the version and what to do. */
bool lw_layout_find(struct lw_py_layout *layout, struct lw_memory *memory,
                    uint64_t runtime, uint32_t version, struct lw_error *err)
    LW_MUST_CHECK;

/* Append "3.11.7", or "3.9" of a Python that does not say more. */
void lw_layout_add_version(struct lw_buf *out, const struct lw_py_layout *layout);

#endif
