"""Compares a layout of this very Python with what can be seen from within.

    layout_truth.py JSON

JSON: {"layout": the row of layouts.def, "told": its row of places, or {}}. Prints one
line a number that is wrong, then how many were compared.
"""

import ctypes
import gc
import json
import sys
import threading

ABSENT = 0xFFFFFFFF
layout = dict(json.loads(sys.argv[1])["layout"])
told = json.loads(sys.argv[1])["told"]
api = ctypes.pythonapi
api.PyThreadState_Get.restype = ctypes.c_void_p
api.PyInterpreterState_Get.restype = ctypes.c_void_p
thread = api.PyThreadState_Get()
interpreter = api.PyInterpreterState_Get()
runtime = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
compared = 0

# Not functions of our own: those would be frames themselves.
u64 = ctypes.c_uint64.from_address
i32 = ctypes.c_int32.from_address
u8 = ctypes.c_uint8.from_address


def same(name, got, want):
    global compared
    compared += 1
    if got != want:
        print("%s: %r, but it is %r" % (name, got, want))


def has(name):
    return layout.get(name, ABSENT) != ABSENT


def take_told():
    """What the interpreter says of itself counts; sizes only grow."""
    begin = u64(runtime + told["gil_begin"]).value
    same("cookie", ctypes.string_at(runtime, 8), b"xdebugpy")
    same("version", u64(runtime + 8).value, sys.hexversion)
    same("free_threaded", u64(runtime + 16).value, layout.get("is_free_threaded", 0))
    for name, place in told.items():
        if name in ("minor", "micro", "told_bytes", "gil_begin"):
            continue
        value = u64(runtime + place).value
        if name.startswith("gil_"):
            value -= begin
        if name.endswith("_bytes"):
            same(name + " in range", value >= layout[name], True)
        elif value or has(name):
            layout[name] = value


def threads():
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(3)]
    for other in others:
        other.start()
    at = u64(interpreter + layout["interpreter_threads_head"]).value
    found = {}
    while at and len(found) < 10:
        ident = u64(at + layout["thread_thread_id"]).value
        found[ident] = (
            u64(at + layout["thread_native_thread_id"]).value
            if has("thread_native_thread_id")
            else threading.get_native_id()
        )
        at = u64(at + layout["thread_next"]).value
    live = {one.ident: one.native_id for one in threading.enumerate()}
    if not has("thread_native_thread_id"):
        live = dict.fromkeys(live, threading.get_native_id())
    same("thread_next, ids", found, live)
    stop.set()
    for other in others:
        other.join()


def interpreters():
    at = runtime + layout["runtime_interpreters_head"]
    same("runtime_interpreters_head", u64(at).value, interpreter)
    same("interpreter_id", u64(interpreter + layout["interpreter_id"]).value, 0)
    same("interpreter_next", u64(interpreter + layout["interpreter_next"]).value, 0)
    at = interpreter + layout["interpreter_modules"]
    same("interpreter_modules", u64(at).value, id(sys.modules))


def locks():
    gil = runtime + layout["runtime_gil"] if has("runtime_gil") else None
    if gil is None:
        gil = u64(interpreter + layout["interpreter_gil"]).value
    free_threaded = layout.get("is_free_threaded", 0)
    if not free_threaded:
        same("gil_locked", i32(gil + layout["gil_locked"]).value, 1)
        same("gil_last_holder", u64(gil + layout["gil_last_holder"]).value, thread)
    for name in ("thread_state", "thread_holds_gil"):
        if has(name) and not (free_threaded and name == "thread_holds_gil"):
            same(name, i32(thread + layout[name]).value, 1)
    if has("thread_gil_requested"):
        at = thread + layout["thread_gil_requested"]
        same("thread_gil_requested", i32(at).value, 0)


def collector():
    at = interpreter + layout["interpreter_gc"] + layout["gc_collecting"]
    seen = []

    def look(phase, info):
        seen.append(i32(at).value)

    gc.callbacks.append(look)
    gc.collect()
    gc.callbacks.remove(look)
    same("gc_collecting", (seen, i32(at).value), ([1, 1], 0))


def frame_now():
    """The frame that calls this, as the interpreter has it."""
    if has("thread_cframe"):
        at = u64(thread + layout["thread_cframe"]).value
        at = u64(at + layout["cframe_current_frame"]).value
    else:
        at = u64(thread + layout["thread_frame"]).value
    return u64(at + layout["frame_previous"]).value


def frames(depth, from_c=False):
    """Walk the stack from DEPTH calls below; C is between the last two, FROM_C."""
    if depth > 1 or (depth and not from_c):
        return frames(depth - 1, from_c)
    if depth:
        return list(map(frames, [0], [from_c]))
    at = frame_now()
    shims = (layout["owner_shim"], layout["owner_shim_too"])
    mine = sys._getframe()
    units = 2 if layout.get("lasti_counts_units") else 1
    first = True
    while mine:
        if has("frame_owner") and u8(at + layout["frame_owner"]).value in shims:
            at = u64(at + layout["frame_previous"]).value
            continue
        code = u64(at + layout["frame_code"]).value
        if layout.get("code_is_tagged"):
            code &= ~7
        same("frame_code of " + mine.f_code.co_name, code, id(mine.f_code))
        if layout.get("has_data_stack"):
            lasti = u64(at + layout["frame_instruction"]).value
            lasti -= code + layout["code_bytecode"]
        else:
            same("frame is an object", at, id(mine))
            lasti = i32(at + layout["frame_instruction"]).value * units
        # Ours moves as we look; free threads have their bytecode elsewhere.
        if not first and not has("code_tlbc"):
            same("frame_instruction", lasti, mine.f_lasti)
        if first:
            same("frame_locals", u64(at + layout["frame_locals"]).value & ~7, id(0))
        if first and has("frame_is_entry"):
            same("frame_is_entry", u8(at + layout["frame_is_entry"]).value, from_c)
        if first and layout.get("has_data_stack"):
            data_stack(at, code)
        first = False
        at = u64(at + layout["frame_previous"]).value
        mine = mine.f_back
    return None


def data_stack(frame, code):
    """The caller's FRAME is in the chunk, and ours follows it there, up to the top."""
    chunk = u64(thread + layout["thread_datastack_chunk"]).value
    begin = chunk + layout["chunk_data"]
    end = chunk + u64(chunk + layout["chunk_size"]).value
    top = u64(thread + layout["thread_datastack_top"]).value
    same("chunk_data", begin <= frame < top <= end, True)
    same("chunk_previous", u64(chunk + layout["chunk_previous"]).value, 0)
    here = id(sys._getframe().f_code)
    same("frame sizes", frame + frame_bytes(code) + frame_bytes(here), top)


def frame_bytes(code):
    # This frame too is on the stack by now, but its size was not asked for.
    if has("code_framesize"):
        return 8 * i32(code + layout["code_framesize"]).value
    words = i32(code + layout["code_nlocals"]).value
    words += i32(code + layout["code_stacksize"]).value
    return 8 * words + layout["frame_locals"]


def codes():
    def sample(a, b, *, c=1):
        x = [a + b + c for _ in range(3)]
        print(a, b, (c, a, b, (c, a, b, (c, a, b))))
        return lambda: (x, a)

    code = sample.__code__
    at = id(code)
    for name, want in (
        ("code_argcount", code.co_argcount),
        ("code_stacksize", code.co_stacksize),
        ("code_first_line", code.co_firstlineno),
    ):
        same(name, i32(at + layout[name]).value, want)
    linetable = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    for name, want in (
        ("code_filename", code.co_filename),
        ("code_name", code.co_name),
        ("code_linetable", linetable),
        ("code_qualname", getattr(code, "co_qualname", None)),
    ):
        if has(name):
            same(name, u64(at + layout[name]).value, id(want))
    names = u64(at + layout["code_names"]).value
    nlocals = i32(at + layout["code_nlocals"]).value
    same("sized_size", u64(names + layout["sized_size"]).value, nlocals)
    if layout.get("has_data_stack"):
        want = code.co_varnames + tuple(
            name for name in code.co_cellvars if name not in code.co_varnames
        )
        got = tuple(
            ctypes.cast(
                u64(names + layout["tuple_items"] + 8 * i).value, ctypes.py_object
            ).value
            for i in range(nlocals)
        )
        same("code_names", got, want + code.co_freevars)
        kinds = u64(at + layout["code_kinds"]).value
        same("code_kinds", u64(kinds + layout["sized_size"]).value, nlocals)
        if not has("code_tlbc"):
            bytecode = code._co_code_adaptive
            got = ctypes.string_at(at + layout["code_bytecode"], len(bytecode))
            same("code_bytecode", got, bytecode)
    else:
        same("code_names", names, id(code.co_varnames))
        same("code_nlocals", nlocals, code.co_nlocals)
        same("code_bytecode", u64(at + layout["code_bytecode"]).value, id(code.co_code))


class Some:
    pass


def objects():
    some = Some()
    at = u64(id(some) + layout["object_type"]).value
    same("object_type", at, id(Some))
    same("type_name", ctypes.string_at(u64(at + layout["type_name"]).value), b"Some")
    same("type_flags", u64(at + layout["type_flags"]).value, Some.__flags__)
    offset = ctypes.c_int64.from_address(id(Exception) + layout["type_dictoffset"])
    same("type_dictoffset", offset.value, Exception.__dictoffset__)
    row = (some, at)
    same("tuple_items", u64(id(row) + layout["tuple_items"]).value, id(some))
    row = [at, some]
    items = u64(id(row) + layout["list_items"]).value
    same("list_items", u64(items + 8).value, id(some))
    same("list size", u64(id(row) + layout["sized_size"]).value, 2)
    table = {"a": 1, "b": 2, "c": 3}
    same("dict_used", u64(id(table) + layout["dict_used"]).value, 3)
    same("dict_keys", u64(id(table) + layout["dict_keys"]).value != 0, True)
    same("dict_values", u64(id(table) + layout["dict_values"]).value, 0)
    real = ctypes.c_double.from_address(id(2.5) + layout["float_value"])
    same("float_value", real.value, 2.5)
    number = 12345 + len(table)
    same("int_digits", i32(id(number) + layout["int_digits"]).value, 12348)
    if has("int_tag"):  # one digit, positive, and a bit or two below
        same("int_tag", u64(id(number) + layout["int_tag"]).value >> 3, 1)
    raw = b"raw bytes"
    same("bytes_data", ctypes.string_at(id(raw) + layout["bytes_data"]), raw)


def texts():
    for text, kind, size in (
        ("plain", 1, "unicode_ascii_size"),
        ("caf\xe9", 1, "unicode_compact_size"),
        ("\u20ac 5", 2, "unicode_compact_size"),
        ("\U0001f426", 4, "unicode_compact_size"),
    ):
        at = id(text)
        same("unicode_length", u64(at + layout["unicode_length"]).value, len(text))
        state = ctypes.c_uint32.from_address(at + layout["unicode_state"]).value
        same("kind", state >> layout["unicode_kind_shift"] & 7, kind)
        form = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind]
        got = ctypes.string_at(at + layout[size], kind * len(text))
        same(size, got.decode(form), text)


def generators():
    def steps():
        yield state_of(made)
        yield 2

    def state_of(one):
        at = id(one) + layout["generator_frame"]
        if has("generator_state"):
            return ctypes.c_int8.from_address(id(one) + layout["generator_state"]).value
        return ctypes.c_int8.from_address(u64(at).value + layout["frame_state"]).value

    made = steps()
    same("state_executing", next(made), layout["state_executing"])
    same("suspended", state_of(made) != layout["state_executing"], True)
    at = id(made) + layout["generator_frame"]
    if layout.get("has_data_stack"):
        owner = u8(at + layout["frame_owner"]).value
        same("owner_generator", owner, layout["owner_generator"])
        code = u64(at + layout["frame_code"]).value
        code = code & ~7 if layout.get("code_is_tagged") else code
        same("generator_frame", code, id(made.gi_code))
    else:
        same("generator_frame", u64(at).value, id(made.gi_frame))


if told:
    take_told()
threads()
interpreters()
locks()
collector()
frames(0)
frames(5)
frames(5, from_c=True)
codes()
objects()
texts()
generators()
print("%d compared" % compared)
