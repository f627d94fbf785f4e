/* Finds where the fields of a target's structures lie: the table, and from 3.13 on the
 * target's own word before it.
 *
 * Every number of a layout is a row of `numbers`, so that reading, completing and
 * checking are loops, and a new field is one line in layout.h. */
#include "sampler/layout.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sampler/lines.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The first that begins its _PyRuntime with _Py_DebugOffsets. */
#define FIRST_TELLING 0x030d0000u
/* No structure of CPython's comes near it (the largest, 3.12's runtime, has 450 KB):
 * what says more is no size. */
#define MAX_STRUCTURE_BYTES (16u << 20)

static const struct lw_py_layout layouts[] = {
#define LW_LAYOUT(name, ...) { .major = 3, .release = 0xf0, __VA_ARGS__ },
#define LW_OFFSETS(name, ...)
#include "sampler/layouts.def"
#undef LW_LAYOUT
#undef LW_OFFSETS
};

/* At which byte of _Py_DebugOffsets a number is told; 0, the cookie's: nowhere. */
struct told {
    uint16_t minor, micro;
    uint16_t told_bytes; /* of _Py_DebugOffsets itself */
    uint16_t
        gil_begin; /* where the GIL is: its fields are told from the interpreter on */

#define LW_STRUCTURE(structure) uint16_t structure##_bytes;
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) uint16_t structure##_##field;
    LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
};

static const struct told tellings[] = {
#define LW_LAYOUT(name, ...)
#define LW_OFFSETS(name, ...) { __VA_ARGS__ },
#include "sampler/layouts.def"
#undef LW_LAYOUT
#undef LW_OFFSETS
};

/* One number: its names, and where it is in a layout and in a `struct told`. */
struct number {
    const char *structure;
    const char *field; /* NULL: the structure's size */
    size_t in_layout;
    size_t in_told;
    size_t bytes_in_layout; /* the size of its structure */
};

/* Sizes first: fields are checked against them. */
static const struct number numbers[] = {
#define LW_STRUCTURE(structure) \
    { #structure, NULL, offsetof(struct lw_py_layout, structure##_bytes), \
      offsetof(struct told, structure##_bytes), \
      offsetof(struct lw_py_layout, structure##_bytes) },
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) \
    { #structure, #field, offsetof(struct lw_py_layout, structure##_##field), \
      offsetof(struct told, structure##_##field), \
      offsetof(struct lw_py_layout, structure##_bytes) },
        LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
};

static uint32_t get(const struct lw_py_layout *layout, size_t at)
{
    uint32_t value;

    memcpy(&value, (const char *)layout + at, sizeof(value));
    return value;
}

static void put(struct lw_py_layout *layout, size_t at, uint32_t value)
{
    memcpy((char *)layout + at, &value, sizeof(value));
}

/* Where NUMBER is told; 0: it is not. */
static size_t told_at(const struct told *told, const struct number *number)
{
    uint16_t at;

    memcpy(&at, (const char *)told + number->in_told, sizeof(at));
    return at;
}

/* "3.13.0", "3.15.0b2": VERSION as people write it. */
static const char *version_text(uint32_t version, char text[static 32])
{
    unsigned level = version >> 4 & 0xf;
    const char *release = level == 0xa ? "a" : level == 0xb ? "b" : "rc";
    int used = snprintf(text, 32, "%u.%u.%u", version >> 24, version >> 16 & 0xff,
                        version >> 8 & 0xff);

    if (level != 0xf && used > 0 && used < 32)
        snprintf(text + used, 32 - (size_t)used, "%s%u", release, version & 0xf);
    return text;
}

/* The row for VERSION: of its minor version the last that begins at or below it, or the
 * first. NULL: that minor version is not known. */
static const struct lw_py_layout *find_row(uint32_t version, bool is_free_threaded)
{
    const struct lw_py_layout *found = NULL;

    for (size_t i = 0; i < COUNT(layouts); i++) {
        const struct lw_py_layout *row = &layouts[i];

        if (version >> 24 != row->major || (version >> 16 & 0xff) != row->minor ||
            row->is_free_threaded != is_free_threaded)
            continue;
        if (!found || row->micro <= (version >> 8 & 0xff))
            found = row;
    }
    return found;
}

/* As find_row(). */
static const struct told *find_told(uint32_t version)
{
    const struct told *found = NULL;

    for (size_t i = 0; i < COUNT(tellings); i++) {
        const struct told *row = &tellings[i];

        if ((version >> 16 & 0xff) == row->minor &&
            (!found || row->micro <= (version >> 8 & 0xff)))
            found = row;
    }
    return found;
}

/* Start from the table's row, if there is one for a release like VERSION. */
static bool start(struct lw_py_layout *layout, uint32_t version, bool is_free_threaded,
                  struct lw_error *err)
{
    const struct lw_py_layout *row = find_row(version, is_free_threaded);
    const struct lw_py_layout *last = &layouts[COUNT(layouts) - 1];
    char text[32];

    if (!row)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "CPython %s is not known: this Lapwing knows %u.%u to %u.%u%s",
                       version_text(version, text), layouts[0].major, layouts[0].minor,
                       last->major, last->minor,
                       version >> 16 > ((uint32_t)last->major << 8 | last->minor)
                           ? "; a newer one may know it"
                           : "");
    /* Structures are final from the first release candidate on. */
    if ((version >> 4 & 0xf) < 0xc)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "CPython %s is a pre-release, whose structures are not those of "
                       "%u.%u: use a release of it",
                       version_text(version, text), row->major, row->minor);
    *layout = *row;
    layout->micro = version >> 8 & 0xff;
    layout->release = version & 0xff;
    return true;
}

/* Take what the WORDS of the target's _Py_DebugOffsets say. */
static bool take_told(struct lw_py_layout *layout, const struct told *told,
                      const uint64_t *words, struct lw_error *err)
{
    uint64_t gil_begin = words[told->gil_begin / sizeof(*words)];

    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        size_t at = told_at(told, number);
        uint64_t value = words[at / sizeof(*words)];

        if (!at)
            continue;
        /* What a build does not have is told as 0. */
        if (!value && get(layout, number->in_layout) == LW_NO_FIELD)
            continue;
        if (number->bytes_in_layout == offsetof(struct lw_py_layout, gil_bytes))
            value -= gil_begin;
        if (value >= MAX_STRUCTURE_BYTES)
            return lw_fail(err, LW_ERR_FORMAT,
                           "its _Py_DebugOffsets are damaged: %s of `%s` is %" PRIu64,
                           number->field ? number->field : "the size",
                           number->structure, value);
        put(layout, number->in_layout, (uint32_t)value);
    }
    return true;
}

/* How far the field of STRUCTURE that is told and lay nearest to WAS is from where the
 * table has it. */
static uint32_t moved_by(const struct lw_py_layout *layout,
                         const struct lw_py_layout *row, const struct told *told,
                         const struct number *wanted)
{
    uint32_t was = get(row, wanted->in_layout);
    uint32_t nearest = UINT32_MAX;
    uint32_t moved = 0;

    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        uint32_t there = get(row, number->in_layout);
        uint32_t distance = there < was ? was - there : there - was;

        if (number->bytes_in_layout != wanted->bytes_in_layout || !number->field ||
            there == LW_NO_FIELD || !told_at(told, number) || distance >= nearest)
            continue;
        nearest = distance;
        moved = get(layout, number->in_layout) - there; /* modulo 2^32 */
    }
    return moved;
}

/* Where a build's structures are not those of the table (one with more debugging,
 * another machine's), what is not told moves with its nearest neighbour that is. */
static void complete(struct lw_py_layout *layout, const struct lw_py_layout *row,
                     const struct told *told)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        uint32_t was = get(row, number->in_layout);

        if (number->field && was != LW_NO_FIELD && !told_at(told, number))
            put(layout, number->in_layout, was + moved_by(layout, row, told, number));
    }
}

/* Every field lies in its structure, and no two of one structure at the same place. */
static bool check(const struct lw_py_layout *layout, struct lw_error *err)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        uint32_t at = get(layout, number->in_layout);
        uint32_t bytes = get(layout, number->bytes_in_layout);

        if (!number->field || at == LW_NO_FIELD)
            continue;
        if (at >= bytes)
            return lw_fail(err, LW_ERR_FORMAT,
                           "its _Py_DebugOffsets are damaged: %s is at %" PRIu32
                           " of the %" PRIu32 " bytes of `%s`",
                           number->field, at, bytes, number->structure);
        for (size_t j = 0; j < i; j++) {
            if (numbers[j].field &&
                numbers[j].bytes_in_layout == number->bytes_in_layout &&
                get(layout, numbers[j].in_layout) == at)
                return lw_fail(
                    err, LW_ERR_FORMAT,
                    "its _Py_DebugOffsets are damaged: %s and %s are both at "
                    "%" PRIu32 " of `%s`",
                    numbers[j].field, number->field, at, number->structure);
        }
    }
    return true;
}

/* Structures that are copied whole before their fields are looked at: what is taken from a
 * copy must lie in it, and the copy in a buffer of ours (LW_LAYOUT_COPY_MAX). */
struct copied {
    const char *what;
    size_t in_layout; /* how many bytes are copied */
    struct {
        size_t in_layout;
        uint32_t bytes;
    } fields[12];
};

#define IN(field) offsetof(struct lw_py_layout, field)

static const struct copied copies[] = {
    { "frame",
      IN(frame_locals),
      { { IN(frame_previous), 8 },
        { IN(frame_function), 8 },
        { IN(frame_globals), 8 },
        { IN(frame_code), 8 },
        { IN(frame_instruction), 8 },
        { IN(frame_owner), 1 },
        { IN(frame_is_entry), 1 },
        { IN(frame_stack_depth), 4 },
        { IN(frame_stack_top), 8 } } },
    { "code",
      IN(code_bytes),
      { { IN(object_type), 8 },
        { IN(code_name), 8 },
        { IN(code_filename), 8 },
        { IN(code_linetable), 8 },
        { IN(code_first_line), 4 },
        { IN(code_nlocals), 4 },
        { IN(code_stacksize), 4 },
        { IN(code_framesize), 4 } } },
    { "function",
      IN(function_bytes),
      { { IN(function_code), 8 }, { IN(function_version), 4 } } },
    { "unicode",
      IN(unicode_ascii_size),
      { { IN(unicode_length), 8 }, { IN(unicode_state), 4 } } },
    { "bytes", IN(bytes_data), { { IN(sized_size), 8 } } },
    { "chunk", IN(chunk_data), { { IN(chunk_previous), 8 } } },
};

static bool check_copies(const struct lw_py_layout *layout, struct lw_error *err)
{
    for (size_t i = 0; i < COUNT(copies); i++) {
        const struct copied *copied = &copies[i];
        uint32_t len = get(layout, copied->in_layout);

        if (len > LW_LAYOUT_COPY_MAX)
            return lw_fail(err, LW_ERR_FORMAT,
                           "its _Py_DebugOffsets are damaged: `%s` has %" PRIu32
                           " bytes",
                           copied->what, len);
        for (size_t j = 0; j < COUNT(copied->fields) && copied->fields[j].bytes; j++) {
            uint32_t at = get(layout, copied->fields[j].in_layout);

            if (at != LW_NO_FIELD && (uint64_t)at + copied->fields[j].bytes > len)
                return lw_fail(err, LW_ERR_FORMAT,
                               "its _Py_DebugOffsets are damaged: a field at %" PRIu32
                               " is beyond the %" PRIu32 " bytes of `%s`",
                               at, len, copied->what);
        }
    }
    return true;
}

static bool read_runtime(struct lw_memory *memory, uint64_t runtime, void *bytes,
                         size_t len, struct lw_error *err)
{
    return lw_memory_get(memory, runtime, bytes, len) ||
           lw_fail(err, LW_ERR_IO,
                   "its _PyRuntime at 0x%" PRIx64 " cannot be read: it may have ended",
                   runtime);
}

/* The layout of a Python that tells it. */
static bool find_telling(struct lw_py_layout *layout, struct lw_memory *memory,
                         uint64_t runtime, uint32_t version, struct lw_error *err)
{
    struct {
        char cookie[8];
        uint64_t version;
        uint64_t free_threaded;
    } head;
    uint64_t words[128];
    const struct told *told;
    struct lw_py_layout row;
    char text[32];
    char other[32];

    if (!read_runtime(memory, runtime, &head, sizeof(head), err))
        return false;
    if (memcmp(head.cookie, "xdebugpy", sizeof(head.cookie)) != 0)
        return lw_fail(err, LW_ERR_FORMAT,
                       "no _Py_DebugOffsets at 0x%" PRIx64
                       ", where those of CPython %s should be",
                       runtime, version_text(version, text));
    if (head.version > UINT32_MAX || head.free_threaded > 1)
        return lw_fail(err, LW_ERR_FORMAT,
                       "its _Py_DebugOffsets are damaged: version is 0x%" PRIx64
                       ", free_threaded %" PRIu64,
                       head.version, head.free_threaded);
    if (head.version >> 16 != version >> 16)
        return lw_fail(err, LW_ERR_FORMAT,
                       "its _Py_DebugOffsets are those of CPython %s, but it is %s",
                       version_text((uint32_t)head.version, other),
                       version_text(version, text));
    if (!start(&row, (uint32_t)head.version, head.free_threaded, err))
        return false;
    told = find_told((uint32_t)head.version);
    lw_assert(told && told->told_bytes <= sizeof(words));
    *layout = row;
    if (!read_runtime(memory, runtime, words, told->told_bytes, err) ||
        !take_told(layout, told, words, err))
        return false;
    complete(layout, &row, told);
    return check(layout, err) && check_copies(layout, err);
}

bool lw_layout_find(struct lw_py_layout *layout, struct lw_memory *memory,
                    uint64_t runtime, uint32_t version, struct lw_error *err)
{
    if (version >= FIRST_TELLING && find_row(version, false))
        return find_telling(layout, memory, runtime, version, err);
#ifndef __x86_64__
    {
        char text[32];

        /* The sizes of locks differ between machines, and with them what follows. */
        if (find_row(version, false))
            return lw_fail(err, LW_ERR_UNSUPPORTED,
                           "CPython %s is known on x86-64 only: use 3.13 or later here",
                           version_text(version, text));
    }
#endif
    return start(layout, version, false, err);
}

void lw_layout_add_version(struct lw_buf *out, const struct lw_py_layout *layout)
{
    lw_buf_addf(out, "%u.%u", layout->major, layout->minor);
    if (layout->release)
        lw_buf_addf(out, ".%u", layout->micro);
}
