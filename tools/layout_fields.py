"""What tools/layouts.py asks of CPython's headers, by version.

An entry of FIELDS names a number of `struct lw_py_layout` and says from which minor
version on it is what: None where that Python does not have it. The name of a
structure is that of lw_py_layout; TYPES says what CPython calls it.
"""

from __future__ import annotations

FIRST_MINOR = 9

# Since is a minor version; the last entry at or below the one asked for counts.
Since = dict[int, str | None]

INCLUDES = [
    "opcode.h",
    "internal/pycore_object.h",
    "internal/pycore_runtime.h",
    "internal/pycore_interp.h",
    "internal/pycore_gc.h",
    "internal/pycore_gil.h",
    "internal/pycore_frame.h",
    "internal/pycore_interpframe.h",
    "internal/pycore_interpframe_structs.h",
    "internal/pycore_stackref.h",
    "internal/pycore_code.h",
    "internal/pycore_dict.h",
    "internal/pycore_tstate.h",
    "internal/pycore_genobject.h",
]

# `sizeof` of each is STRUCTURE_bytes.
TYPES: dict[str, Since] = {
    "runtime": {9: "_PyRuntimeState"},
    "interpreter": {9: "PyInterpreterState"},
    "gil": {9: "struct _gil_runtime_state"},
    "gc": {9: "struct _gc_runtime_state"},
    "thread": {9: "PyThreadState"},
    "cframe": {9: None, 11: "_PyCFrame", 13: None},
    "chunk": {9: None, 11: "_PyStackChunk"},
    "frame": {9: "PyFrameObject", 11: "_PyInterpreterFrame"},
    "code": {9: "PyCodeObject"},
    "function": {9: None, 11: "PyFunctionObject"},
    "object": {9: "PyObject"},
    "type": {9: "PyTypeObject"},
    "heaptype": {9: "PyHeapTypeObject"},
    "sized": {9: "PyVarObject"},
    "tuple": {9: "PyTupleObject"},
    "list": {9: "PyListObject"},
    "dict": {9: "PyDictObject"},
    "keys": {9: None, 11: "PyDictKeysObject"},
    "values": {9: None, 11: "PyDictValues"},
    "set": {9: "PySetObject"},
    "weakref": {9: "PyWeakReference"},
    "cell": {9: "PyCellObject"},
    "float": {9: "PyFloatObject"},
    "int": {9: "PyLongObject"},
    "bytes": {9: "PyBytesObject"},
    "unicode": {9: "PyUnicodeObject"},
    "generator": {9: "PyGenObject"},
}

# Of (structure, field): the member, and since when.
FIELDS: dict[tuple[str, str], Since] = {
    ("runtime", "interpreters_head"): {9: "interpreters.head"},
    ("runtime", "gil"): {9: "ceval.gil", 12: None},
    ("interpreter", "id"): {9: "id"},
    ("interpreter", "next"): {9: "next"},
    ("interpreter", "threads_head"): {9: "tstate_head", 11: "threads.head"},
    ("interpreter", "gc"): {9: "gc"},
    ("interpreter", "gil"): {9: None, 12: "ceval.gil"},
    ("interpreter", "modules"): {9: "modules", 12: "imports.modules"},
    ("gil", "locked"): {9: "locked"},
    ("gil", "last_holder"): {9: "last_holder"},
    ("gc", "collecting"): {9: "collecting"},
    ("thread", "next"): {9: "next"},
    ("thread", "thread_id"): {9: "thread_id"},
    ("thread", "native_thread_id"): {9: None, 11: "native_thread_id"},
    ("thread", "frame"): {9: "frame", 11: None, 13: "current_frame"},
    ("thread", "cframe"): {9: None, 11: "cframe", 13: None},
    ("thread", "datastack_chunk"): {9: None, 11: "datastack_chunk"},
    ("thread", "datastack_top"): {9: None, 11: "datastack_top"},
    ("thread", "status"): {9: None, 12: "_status"},
    ("thread", "state"): {9: None, 13: "state"},
    ("thread", "holds_gil"): {9: None, 14: "holds_gil"},
    ("thread", "gil_requested"): {9: None, 15: "gil_requested"},
    ("cframe", "current_frame"): {9: None, 11: "current_frame", 13: None},
    ("chunk", "previous"): {9: None, 11: "previous"},
    ("chunk", "size"): {9: None, 11: "size"},
    ("chunk", "top"): {9: None, 11: "top"},
    ("chunk", "data"): {9: None, 11: "data"},
    ("frame", "previous"): {9: "f_back", 11: "previous"},
    ("frame", "function"): {9: None, 11: "f_func", 12: "f_funcobj"},
    ("frame", "globals"): {9: "f_globals"},
    ("frame", "code"): {9: "f_code", 13: "f_executable"},
    ("frame", "instruction"): {9: "f_lasti", 11: "prev_instr", 13: "instr_ptr"},
    ("frame", "owner"): {9: None, 11: "owner"},
    ("frame", "is_entry"): {9: None, 11: "is_entry", 12: None},
    ("frame", "state"): {9: "f_executing", 10: "f_state", 11: None},
    ("frame", "locals"): {9: "f_localsplus", 11: "localsplus"},
    ("frame", "stack"): {9: None, 10: "f_valuestack", 11: None},
    ("frame", "stack_depth"): {9: None, 10: "f_stackdepth", 11: "stacktop", 14: None},
    ("frame", "stack_top"): {9: "f_stacktop", 10: None, 14: "stackpointer"},
    ("frame", "tlbc_index"): {9: None, 14: "tlbc_index"},
    ("code", "argcount"): {9: "co_argcount"},
    ("code", "nlocals"): {9: "co_nlocals", 11: "co_nlocalsplus"},
    ("code", "stacksize"): {9: "co_stacksize"},
    ("code", "framesize"): {9: None, 12: "co_framesize"},
    ("code", "first_line"): {9: "co_firstlineno"},
    ("code", "names"): {9: "co_varnames", 11: "co_localsplusnames"},
    ("code", "kinds"): {9: None, 11: "co_localspluskinds"},
    ("code", "cells"): {9: "co_cellvars", 11: None},
    ("code", "frees"): {9: "co_freevars", 11: None},
    ("code", "filename"): {9: "co_filename"},
    ("code", "name"): {9: "co_name"},
    ("code", "qualname"): {9: None, 11: "co_qualname"},
    ("code", "linetable"): {9: "co_lnotab", 10: "co_linetable"},
    ("code", "bytecode"): {9: "co_code", 11: "co_code_adaptive"},
    ("code", "tlbc"): {9: None, 14: "co_tlbc"},
    ("function", "code"): {9: None, 11: "func_code"},
    ("function", "version"): {9: None, 11: "func_version"},
    ("object", "type"): {9: "ob_type"},
    ("type", "name"): {9: "tp_name"},
    ("type", "flags"): {9: "tp_flags"},
    ("type", "dictoffset"): {9: "tp_dictoffset"},
    ("type", "basicsize"): {9: "tp_basicsize"},
    ("heaptype", "keys"): {9: "ht_cached_keys"},
    ("sized", "size"): {9: "ob_size"},
    ("tuple", "items"): {9: "ob_item"},
    ("list", "items"): {9: "ob_item"},
    ("dict", "used"): {9: "ma_used"},
    ("dict", "keys"): {9: "ma_keys"},
    ("dict", "values"): {9: "ma_values"},
    ("keys", "index_bytes"): {9: None, 11: "dk_log2_index_bytes"},
    ("keys", "kind"): {9: None, 11: "dk_kind"},
    ("keys", "slots"): {9: None},
    ("keys", "count"): {9: None, 11: "dk_nentries"},
    ("values", "valid"): {9: None, 13: "valid"},
    ("values", "items"): {9: None, 11: "values"},
    ("set", "used"): {9: "used"},
    ("set", "mask"): {9: "mask"},
    ("set", "table"): {9: "table"},
    ("weakref", "object"): {9: "wr_object"},
    ("cell", "value"): {9: "ob_ref"},
    ("float", "value"): {9: "ob_fval"},
    ("int", "tag"): {9: None, 12: "long_value.lv_tag"},
    ("int", "digits"): {9: "ob_digit", 12: "long_value.ob_digit"},
    ("bytes", "data"): {9: "ob_sval"},
    ("unicode", "length"): {9: "_base._base.length"},
    ("unicode", "state"): {9: "_base._base.state"},
    ("generator", "frame"): {9: "gi_frame", 11: "gi_iframe"},
    ("generator", "state"): {9: None, 11: "gi_frame_state"},
}

# An absent field, in the table as a word.
NO_FIELD = 0xFFFFFFFF
NO_FIELD_WORD = "LW_NO_FIELD"

# Of these only free-threaded builds know.
FREE_THREADED = {("frame", "tlbc_index"), ("code", "tlbc")}

# Numbers that are no offsets: any expression.
VALUES: dict[str, Since] = {
    "has_data_stack": {9: None, 11: "1"},
    "has_shims": {9: None, 12: "1"},
    "instruction_is_current": {9: None, 13: "1"},
    # No header says it: bpo-27129 made f_lasti count code units in 3.10.
    "lasti_counts_units": {9: None, 10: "1", 11: None},
    "code_is_tagged": {9: None, 13: "!IS_OBJECT(_PyInterpreterFrame, f_executable)"},
    # A frame that waits stands at the last word of what CALL remembers, or (3.13+) at
    # CALL itself.
    "called_version": {
        9: None,
        11: "AT(_PyCallCache, func_version) - SIZE(_PyCallCache) + SIZE(_Py_CODEUNIT)",
        13: "AT(_PyCallCache, func_version) + SIZE(_Py_CODEUNIT)",
    },
    "owner_generator": {9: "0xff", 11: "FRAME_OWNED_BY_GENERATOR"},
    "owner_shim": {
        9: "0xff",
        12: "FRAME_OWNED_BY_CSTACK",
        14: "FRAME_OWNED_BY_INTERPRETER",
    },
    "owner_shim_too": {9: "0xff", 14: "FRAME_OWNED_BY_CSTACK", 15: "0xff"},
    # f_executing of 3.9 is a truth value.
    "state_executing": {9: "1", 10: "FRAME_EXECUTING"},
    "state_awaiting": {9: "-1", 13: "FRAME_SUSPENDED_YIELD_FROM"},
    "state_awaiting_too": {
        9: "-1",
        13: "FRAME_SUSPENDED_YIELD_FROM",
        15: "FRAME_SUSPENDED_YIELD_FROM_LOCKED",
    },
    "opcode_yield_from": {9: "YIELD_FROM", 11: None},
    "resume_tells_await": {9: None, 11: "1", 13: None},
    # How 3.12 has it is the body of _PyObject_DictOrValuesPointer() there, and 3.11
    # has the values at the word before.
    "managed_dict": {
        9: None,
        11: "-MANAGED_DICT_OFFSET",
        12: "3 * SIZE(PyObject *)",
        13: "-MANAGED_DICT_OFFSET",
    },
    "managed_values": {9: None, 11: "4 * SIZE(PyObject *)", 12: None},
    "managed_dict_or_values": {9: None, 12: "1", 13: None},
    "has_inline_values": {9: None, 13: "1"},
    "tasks_behind_thread": {
        9: None,
        14: "AT(_PyThreadStateImpl, asyncio_tasks_head) - SIZE(PyThreadState)",
    },
    # Objects/dict-common.h of 3.9 and 3.10 is not installed.
    "keys_bytes": {9: "40", 11: None},
    "keys_slots": {9: "8", 11: None},
    "keys_count": {9: "32", 11: None},
    "values_bytes": {9: "8", 11: None},
    "values_items": {9: "0", 11: None},
    # The words are LINES. 3.9: Objects/lnotab_notes.txt; 3.10: PEP 626; 3.11: PEP 657.
    "lines": {9: "0", 10: "1", 11: "2"},
    "unicode_kind_shift": {9: "KIND_SHIFT"},
    "unicode_ascii_size": {9: "SIZE(PyASCIIObject)"},
    "unicode_compact_size": {9: "SIZE(PyCompactUnicodeObject)"},
}

FLAGS = {
    "is_free_threaded",
    "has_data_stack",
    "has_shims",
    "instruction_is_current",
    "lasti_counts_units",
    "code_is_tagged",
    "resume_tells_await",
    "managed_dict_or_values",
    "has_inline_values",
}
LINES = ["LW_LINES_LNOTAB", "LW_LINES_LINETABLE", "LW_LINES_LOCATIONS"]

# Where _Py_DebugOffsets tells a number.
TOLD: dict[str, Since] = {
    "runtime_bytes": {13: "runtime_state.size"},
    "runtime_interpreters_head": {13: "runtime_state.interpreters_head"},
    "interpreter_bytes": {13: "interpreter_state.size"},
    "interpreter_id": {13: "interpreter_state.id"},
    "interpreter_next": {13: "interpreter_state.next"},
    "interpreter_threads_head": {13: "interpreter_state.threads_head"},
    "interpreter_gc": {13: "interpreter_state.gc"},
    "interpreter_gil": {13: "interpreter_state.ceval_gil"},
    "interpreter_modules": {13: "interpreter_state.imports_modules"},
    # The two below count from the interpreter, in which this is where the GIL begins.
    "gil_begin": {13: "interpreter_state.gil_runtime_state"},
    "gil_locked": {13: "interpreter_state.gil_runtime_state_locked"},
    "gil_last_holder": {13: "interpreter_state.gil_runtime_state_holder"},
    "gc_bytes": {13: "gc.size"},
    "gc_collecting": {13: "gc.collecting"},
    "thread_bytes": {13: "thread_state.size"},
    "thread_next": {13: "thread_state.next"},
    "thread_thread_id": {13: "thread_state.thread_id"},
    "thread_native_thread_id": {13: "thread_state.native_thread_id"},
    "thread_frame": {13: "thread_state.current_frame"},
    "thread_datastack_chunk": {13: "thread_state.datastack_chunk"},
    "thread_status": {13: "thread_state.status"},
    "thread_holds_gil": {15: "thread_state.holds_gil"},
    "thread_gil_requested": {15: "thread_state.gil_requested"},
    "frame_bytes": {13: "interpreter_frame.size"},
    "frame_previous": {13: "interpreter_frame.previous"},
    "frame_code": {13: "interpreter_frame.executable"},
    "frame_instruction": {13: "interpreter_frame.instr_ptr"},
    "frame_owner": {13: "interpreter_frame.owner"},
    "frame_locals": {13: "interpreter_frame.localsplus"},
    "frame_tlbc_index": {14: "interpreter_frame.tlbc_index"},
    "code_bytes": {13: "code_object.size"},
    "code_argcount": {13: "code_object.argcount"},
    "code_first_line": {13: "code_object.firstlineno"},
    "code_names": {13: "code_object.localsplusnames"},
    "code_kinds": {13: "code_object.localspluskinds"},
    "code_filename": {13: "code_object.filename"},
    "code_name": {13: "code_object.name"},
    "code_qualname": {13: "code_object.qualname"},
    "code_linetable": {13: "code_object.linetable"},
    "code_bytecode": {13: "code_object.co_code_adaptive"},
    "code_tlbc": {14: "code_object.co_tlbc"},
    "object_bytes": {13: "pyobject.size"},
    "object_type": {13: "pyobject.ob_type"},
    "type_bytes": {13: "type_object.size"},
    "type_name": {13: "type_object.tp_name"},
    "type_flags": {13: "type_object.tp_flags"},
    "type_dictoffset": {15: "type_object.tp_dictoffset"},
    "sized_size": {13: "tuple_object.ob_size"},
    "tuple_bytes": {13: "tuple_object.size"},
    "tuple_items": {13: "tuple_object.ob_item"},
    "list_bytes": {13: "list_object.size"},
    "list_items": {13: "list_object.ob_item"},
    "dict_bytes": {13: "dict_object.size"},
    "dict_keys": {13: "dict_object.ma_keys"},
    "dict_values": {13: "dict_object.ma_values"},
    "set_bytes": {14: "set_object.size"},
    "set_used": {14: "set_object.used"},
    "set_mask": {14: "set_object.mask"},
    "set_table": {14: "set_object.table"},
    "float_bytes": {13: "float_object.size"},
    "float_value": {13: "float_object.ob_fval"},
    "int_bytes": {13: "long_object.size"},
    "int_tag": {13: "long_object.lv_tag"},
    "int_digits": {13: "long_object.ob_digit"},
    "bytes_bytes": {13: "bytes_object.size"},
    "bytes_data": {13: "bytes_object.ob_sval"},
    "unicode_bytes": {13: "unicode_object.size"},
    "unicode_length": {13: "unicode_object.length"},
    "unicode_state": {13: "unicode_object.state"},
    "unicode_ascii_size": {13: "unicode_object.asciiobject_size"},
    "unicode_compact_size": {15: "unicode_object.compactunicodeobject_size"},
    "generator_bytes": {14: "gen_object.size"},
    "generator_frame": {14: "gen_object.gi_iframe"},
    "generator_state": {14: "gen_object.gi_frame_state"},
}


def at(since: Since, minor: int) -> str | None:
    """What SINCE says for 3.MINOR."""
    known = [first for first in since if first <= minor]
    return since[max(known)] if known else None


def structure_of(name: str) -> str:
    """The structure that the number NAME belongs to; "" for flags."""
    structure = name.split("_", 1)[0]
    return structure if structure in TYPES and name not in FLAGS else ""


def layout_expressions(minor: int, free_threaded: bool) -> dict[str, str]:
    """C for every number of 3.MINOR, flags first, then structure by structure."""
    values = {
        name: value
        for name, since in VALUES.items()
        if (value := at(since, minor)) is not None
    }
    found = {name: value for name, value in values.items() if not structure_of(name)}
    for structure, names in TYPES.items():
        kind = at(names, minor)
        if kind is not None:
            found[f"{structure}_bytes"] = f"SIZE({kind})"
        for (owner, field), since in FIELDS.items():
            member = at(since, minor)
            if (owner, field) in FREE_THREADED and not free_threaded:
                member = None
            if owner == structure:
                found[f"{structure}_{field}"] = (
                    str(NO_FIELD) if member is None else f"AT({kind}, {member})"
                )
        for name, value in values.items():
            if structure_of(name) == structure:
                found[name] = value
    return found


def to_word(name: str, number: int) -> str:
    """The value of NAME as a person would write it in C."""
    if name in FLAGS:
        return "true" if number else "false"
    if name == "lines":
        return LINES[number]
    return NO_FIELD_WORD if number == NO_FIELD else str(number)


def from_word(word: str) -> int:
    """What to_word() made WORD of."""
    if word in LINES:
        return LINES.index(word)
    words = {NO_FIELD_WORD: NO_FIELD, "true": 1, "false": 0}
    return words[word] if word in words else int(word)


def told_expressions(minor: int) -> dict[str, str]:
    """C for the place of every number that 3.MINOR's _Py_DebugOffsets tells."""
    found = {}
    for name, since in TOLD.items():
        member = at(since, minor)
        if member is not None:
            found[name] = f"TOLD({member})"
    return {"told_bytes": "SIZE(_Py_DebugOffsets)", **found} if found else {}


def assertions(minor: int) -> list[str]:
    """What the walker takes for granted of 3.MINOR."""
    claims = ["sizeof(void *) == 8"]
    claims.append("Py_TPFLAGS_LONG_SUBCLASS == 1ul << 24")
    if minor >= 11:
        claims.append("Py_TPFLAGS_MANAGED_DICT == 1ul << 4")
        claims.append("CO_FAST_LOCAL == 0x20")
        claims.append("CO_FAST_CELL == 0x40")
        claims.append("CO_FAST_FREE == 0x80")
        claims.append("DICT_KEYS_GENERAL == 0")
        claims.append("SIZE(PyDictKeysObject) == AT(PyDictKeysObject, dk_indices)")
        claims.append(
            "FRAME_SPECIALS_SIZE * sizeof(PyObject *) == "
            "offsetof(_PyInterpreterFrame, localsplus)"
        )
    if minor >= 13:
        claims.append("Py_TPFLAGS_INLINE_VALUES == 1ul << 2")
        claims.append("offsetof(_PyRuntimeState, debug_offsets) == 0")
        claims.append("offsetof(_Py_DebugOffsets, cookie) == 0")
        claims.append("offsetof(_Py_DebugOffsets, version) == 8")
        claims.append("offsetof(_Py_DebugOffsets, free_threaded) == 16")
    return claims
