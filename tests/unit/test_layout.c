#include "test.h"

#include "sampler/layout.h"
#include "sampler/lines.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RUNTIME 0x7f0000001000u

/* The table, once more: what the code makes of it is compared with what it says. */
static const struct lw_py_layout rows[] = {
#define LW_LAYOUT(name, ...) { .major = 3, __VA_ARGS__ },
#define LW_OFFSETS(name, ...)
#include "sampler/layouts.def"
#undef LW_LAYOUT
#undef LW_OFFSETS
};

/* Where _Py_DebugOffsets has which number. */
struct places {
    uint16_t minor, micro, told_bytes, gil_begin;
#define LW_STRUCTURE(structure) uint16_t structure##_bytes;
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) uint16_t structure##_##field;
    LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
};

static const struct places places[] = {
#define LW_LAYOUT(name, ...)
#define LW_OFFSETS(name, ...) { __VA_ARGS__ },
#include "sampler/layouts.def"
#undef LW_LAYOUT
#undef LW_OFFSETS
};

/* A target that is nothing but its _Py_DebugOffsets. */
struct target {
    uint64_t words[128];
    size_t bytes;
    struct lw_memory_piece piece;
    struct lw_memory memory;
};

static const struct places *places_of(uint8_t minor)
{
    for (size_t i = 0; i < COUNT(places); i++) {
        if (places[i].minor == minor)
            return &places[i];
    }
    return NULL;
}

static const struct lw_py_layout *row_of(uint8_t minor, bool is_free_threaded)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].minor == minor && rows[i].is_free_threaded == is_free_threaded)
            return &rows[i];
    }
    return NULL;
}

static uint32_t version_of(const struct lw_py_layout *row)
{
    return 3u << 24 | (uint32_t)row->minor << 16 | (uint32_t)row->micro << 8 | 0xf0;
}

/* The _Py_DebugOffsets of a Python laid out as ROW. */
static void make_target(struct target *target, const struct lw_py_layout *row)
{
    const struct places *at = places_of(row->minor);
    uint64_t gil_begin = 5000;

    memset(target, 0, sizeof(*target));
    CHECK(at && at->told_bytes <= sizeof(target->words));
    target->bytes = at->told_bytes;
    memcpy(target->words, "xdebugpy", 8);
    target->words[1] = version_of(row);
    target->words[2] = row->is_free_threaded;
#define LW_STRUCTURE(structure) \
    if (at->structure##_bytes) \
        target->words[at->structure##_bytes / 8] = row->structure##_bytes;
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) \
    if (at->structure##_##field && row->structure##_##field != LW_NO_FIELD) \
        target->words[at->structure##_##field / 8] = row->structure##_##field;
    LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
    target->words[at->gil_begin / 8] = gil_begin;
    target->words[at->gil_locked / 8] += gil_begin;
    target->words[at->gil_last_holder / 8] += gil_begin;
    target->piece = (struct lw_memory_piece){ RUNTIME, target->words, target->bytes };
    lw_memory_image(&target->memory, &target->piece, 1);
}

static bool find(struct target *target, uint32_t version, struct lw_py_layout *layout,
                 struct lw_error *err)
{
    *err = (struct lw_error){ LW_OK, "" };
    memset(layout, 0, sizeof(*layout));
    return lw_layout_find(layout, &target->memory, RUNTIME, version, err);
}

static void check_same(const struct lw_py_layout *got, const struct lw_py_layout *want)
{
#define LW_STRUCTURE(structure) \
    CHECK_EQ(got->structure##_bytes, want->structure##_bytes);
    LW_LAYOUT_STRUCTURES(LW_STRUCTURE)
#undef LW_STRUCTURE
#define LW_FIELD(structure, field) \
    CHECK_EQ(got->structure##_##field, want->structure##_##field);
    LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
    CHECK_EQ(got->minor, want->minor);
    CHECK_EQ(got->is_free_threaded, want->is_free_threaded);
    CHECK_EQ(got->has_data_stack, want->has_data_stack);
    CHECK_EQ(got->owner_shim, want->owner_shim);
    CHECK_EQ(got->lines, want->lines);
}

TEST(every_field_of_a_row_lies_in_its_structure)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
#define LW_FIELD(structure, field) \
    CHECK(rows[i].structure##_##field == LW_NO_FIELD || \
          rows[i].structure##_##field < rows[i].structure##_bytes);
        LW_LAYOUT_FIELDS(LW_FIELD)
#undef LW_FIELD
    }
}

TEST(every_python_from_3_9_to_3_15_has_a_row_and_free_threading_from_3_13_on)
{
    for (uint8_t minor = 9; minor <= 15; minor++) {
        CHECK(row_of(minor, false));
        CHECK_EQ(row_of(minor, true) != NULL, minor >= 13);
        CHECK_EQ(places_of(minor) != NULL, minor >= 13);
    }
}

TEST(a_row_has_what_every_walk_needs)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct lw_py_layout *row = &rows[i];
        const uint32_t needed[] = {
            row->runtime_interpreters_head,
            row->interpreter_id,
            row->interpreter_next,
            row->interpreter_threads_head,
            row->interpreter_gc,
            row->interpreter_modules,
            row->gil_locked,
            row->gil_last_holder,
            row->gc_collecting,
            row->thread_next,
            row->thread_thread_id,
            row->frame_previous,
            row->frame_code,
            row->frame_instruction,
            row->frame_locals,
            row->code_argcount,
            row->code_nlocals,
            row->code_stacksize,
            row->code_first_line,
            row->code_names,
            row->code_filename,
            row->code_name,
            row->code_linetable,
            row->code_bytecode,
            row->object_type,
            row->type_name,
            row->type_flags,
            row->type_dictoffset,
            row->sized_size,
            row->tuple_items,
            row->list_items,
            row->dict_used,
            row->dict_keys,
            row->dict_values,
            row->float_value,
            row->int_digits,
            row->bytes_data,
            row->unicode_length,
            row->unicode_state,
            row->unicode_ascii_size,
            row->unicode_compact_size,
            row->generator_frame,
        };

        for (size_t j = 0; j < COUNT(needed); j++)
            CHECK(needed[j] != LW_NO_FIELD);
        /* A thread has its frame by one way, and the GIL is in one place. */
        CHECK((row->thread_frame == LW_NO_FIELD) !=
              (row->thread_cframe == LW_NO_FIELD));
        CHECK((row->runtime_gil == LW_NO_FIELD) !=
              (row->interpreter_gil == LW_NO_FIELD));
        CHECK_EQ(row->cframe_current_frame == LW_NO_FIELD,
                 row->thread_cframe == LW_NO_FIELD);
        CHECK(row->unicode_kind_shift >= 2 && row->unicode_kind_shift <= 16);
    }
}

TEST(a_row_has_what_its_features_need)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct lw_py_layout *row = &rows[i];

        if (row->has_data_stack) {
            CHECK(row->thread_native_thread_id != LW_NO_FIELD);
            CHECK(row->thread_datastack_chunk != LW_NO_FIELD);
            CHECK(row->thread_datastack_top != LW_NO_FIELD);
            CHECK(row->chunk_previous != LW_NO_FIELD);
            CHECK(row->chunk_size != LW_NO_FIELD);
            CHECK(row->chunk_top != LW_NO_FIELD);
            CHECK(row->chunk_data != LW_NO_FIELD);
            CHECK(row->frame_owner != LW_NO_FIELD);
            CHECK(row->code_qualname != LW_NO_FIELD);
            CHECK(row->code_kinds != LW_NO_FIELD);
            CHECK(row->generator_state != LW_NO_FIELD);
            CHECK(row->owner_generator != 0xff);
            CHECK_EQ(row->lines, LW_LINES_LOCATIONS);
            /* A frame's size is told, or it is said which frames C entered. */
            CHECK((row->code_framesize != LW_NO_FIELD) == row->has_shims);
            CHECK((row->frame_is_entry == LW_NO_FIELD) == row->has_shims);
        } else {
            CHECK(row->frame_state != LW_NO_FIELD);
            CHECK_EQ(row->owner_generator, 0xff);
        }
        CHECK_EQ(row->owner_shim != 0xff, row->has_shims);
        CHECK_EQ(row->frame_tlbc_index != LW_NO_FIELD, row->code_tlbc != LW_NO_FIELD);
        CHECK(row->is_free_threaded || row->code_tlbc == LW_NO_FIELD);
    }
}

TEST(pythons_up_to_3_12_are_known_without_a_look_at_them)
{
    struct target nothing = { .bytes = 0 };
    struct lw_py_layout layout;
    struct lw_error err;

    lw_memory_image(&nothing.memory, NULL, 0);
    for (uint8_t minor = 9; minor <= 12; minor++) {
        const struct lw_py_layout *row = row_of(minor, false);

        /* Also older and newer ones than the headers in the table were of. */
        CHECK(find(&nothing, version_of(row), &layout, &err));
        check_same(&layout, row);
        CHECK(find(&nothing, 3u << 24 | (uint32_t)minor << 16 | 0xf0, &layout, &err));
        check_same(&layout, row);
        CHECK(find(&nothing, 3u << 24 | (uint32_t)minor << 16 | 0x63f0, &layout, &err));
        check_same(&layout, row);
        CHECK_EQ(layout.micro, 0x63);
        CHECK_EQ(layout.release, 0xf0);
    }
}

TEST(a_python_that_tells_its_offsets_is_read)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    for (uint8_t minor = 13; minor <= 15; minor++) {
        for (int t = 0; t < 2; t++) {
            const struct lw_py_layout *row = row_of(minor, t);

            make_target(&target, row);
            CHECK(find(&target, version_of(row), &layout, &err));
            check_same(&layout, row);
        }
    }
}

/* The positions are those of CPython's headers, read by a person. */
TEST(the_numbers_are_taken_from_where_cpython_puts_them)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row_of(13, false));
    target.words[5] = 640;   /* runtime_state.interpreters_head */
    target.words[21] = 16;   /* thread_state.next */
    target.words[41] = 88;   /* code_object.localsplusnames */
    target.words[17] = 5048; /* interpreter_state.gil_runtime_state_locked */
    CHECK(find(&target, 0x030d00f0, &layout, &err));
    CHECK_EQ(layout.runtime_interpreters_head, 640);
    CHECK_EQ(layout.thread_next, 16);
    CHECK_EQ(layout.code_names, 88);
    CHECK_EQ(layout.gil_locked, 48);
}

TEST(the_target_knows_its_micro_version_and_threading_best)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row_of(14, true));
    target.words[1] = 0x030e0cf0;
    CHECK(find(&target, 0x030e00f0, &layout, &err));
    CHECK_EQ(layout.micro, 12);
    CHECK(layout.is_free_threaded);
    CHECK_EQ(layout.object_type, row_of(14, true)->object_type);
    CHECK_EQ(layout.unicode_kind_shift, row_of(14, true)->unicode_kind_shift);
}

TEST(what_is_not_told_moves_with_its_neighbour)
{
    const struct lw_py_layout *row = row_of(13, false);
    const struct places *at = places_of(13);
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row);
    target.words[at->thread_bytes / 8] += 64;
    target.words[at->thread_datastack_chunk / 8] += 64;
    target.words[at->dict_keys / 8] += 8;
    target.words[at->dict_values / 8] += 8;
    target.words[at->dict_bytes / 8] += 8;
    CHECK(find(&target, version_of(row), &layout, &err));
    CHECK_EQ(layout.thread_datastack_chunk, row->thread_datastack_chunk + 64);
    CHECK_EQ(layout.thread_datastack_top, row->thread_datastack_top + 64);
    CHECK_EQ(layout.thread_state, row->thread_state);
    CHECK_EQ(layout.dict_used, row->dict_used + 8);
    CHECK_EQ(layout.code_framesize, row->code_framesize);
}

/* Break one word of a 3.14's offsets and see what is said. */
static void check_refused(size_t word, uint64_t value, const char *said)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row_of(14, false));
    target.words[word] = value;
    CHECK(!find(&target, 0x030e08f0, &layout, &err));
    CHECK_STR(err.text, said);
}

TEST(damaged_offsets_are_refused)
{
    const struct places *at = places_of(14);
    const struct lw_py_layout *row = row_of(14, false);

    check_refused(
        0, 0x7970677562656478 + 1,
        "no _Py_DebugOffsets at 0x7f0000001000, where those of CPython 3.14.8 "
        "should be");
    check_refused(1, 0x030d05f0,
                  "its _Py_DebugOffsets are those of CPython 3.13.5, but it is 3.14.8");
    check_refused(
        1, 0x100000000 | 0x030e08f0,
        "its _Py_DebugOffsets are damaged: version is 0x1030e08f0, free_threaded 0");
    check_refused(
        2, 2,
        "its _Py_DebugOffsets are damaged: version is 0x30e08f0, free_threaded 2");
    check_refused(at->object_type / 8, 16,
                  "its _Py_DebugOffsets are damaged: type is at 16 of the 16 bytes of "
                  "`object`");
    check_refused(at->thread_bytes / 8, 0,
                  "its _Py_DebugOffsets are damaged: next is at 8 of the 0 bytes of "
                  "`thread`");
    check_refused(
        at->code_bytes / 8, 1ull << 40,
        "its _Py_DebugOffsets are damaged: the size of `code` is 1099511627776");
    check_refused(at->frame_owner / 8, UINT64_MAX,
                  "its _Py_DebugOffsets are damaged: owner of `frame` is "
                  "18446744073709551615");
    check_refused(
        at->frame_code / 8, row->frame_previous,
        "its _Py_DebugOffsets are damaged: previous and code are both at 8 of "
        "`frame`");
    /* The GIL's fields are told from the interpreter on: this one is before the GIL. */
    check_refused(at->gil_locked / 8, 4992,
                  "its _Py_DebugOffsets are damaged: locked of `gil` is "
                  "18446744073709551608");
}

TEST(a_target_that_is_gone_is_said_to_be)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row_of(13, false));
    target.piece.len = 100; /* the head alone */
    CHECK(!find(&target, 0x030d00f0, &layout, &err));
    CHECK_STR(err.text,
              "its _PyRuntime at 0x7f0000001000 cannot be read: it may have ended");
    target.piece.len = 20;
    CHECK(!find(&target, 0x030d00f0, &layout, &err));
    CHECK_STR(err.text,
              "its _PyRuntime at 0x7f0000001000 cannot be read: it may have ended");
}

TEST(other_versions_are_named_with_what_is_known)
{
    struct target nothing = { .bytes = 0 };
    struct lw_py_layout layout;
    struct lw_error err;

    lw_memory_image(&nothing.memory, NULL, 0);
    CHECK(!find(&nothing, 0x031000f0, &layout, &err));
    CHECK_EQ(err.code, LW_ERR_UNSUPPORTED);
    CHECK_STR(err.text,
              "CPython 3.16.0 is not known: this Lapwing knows 3.9 to 3.15; a "
              "newer one may know it");
    CHECK(!find(&nothing, 0x030812f0, &layout, &err));
    CHECK_STR(err.text, "CPython 3.8.18 is not known: this Lapwing knows 3.9 to 3.15");
    CHECK(!find(&nothing, 0x02071200 | 0xf0, &layout, &err));
    CHECK_STR(err.text, "CPython 2.7.18 is not known: this Lapwing knows 3.9 to 3.15");
    CHECK(!find(&nothing, 0x030c00b2, &layout, &err));
    CHECK_STR(err.text, "CPython 3.12.0b2 is a pre-release, whose structures are not "
                        "those of 3.12: use a release of it");
}

TEST(release_candidates_are_taken_and_what_came_before_is_not)
{
    struct target target;
    struct lw_py_layout layout;
    struct lw_error err;

    make_target(&target, row_of(15, false));
    target.words[1] = 0x030f00c1;
    CHECK(find(&target, 0x030f00c1, &layout, &err));
    CHECK_EQ(layout.release, 0xc1);
    target.words[1] = 0x030f00b4;
    CHECK(!find(&target, 0x030f00b4, &layout, &err));
    CHECK_STR(err.text, "CPython 3.15.0b4 is a pre-release, whose structures are not "
                        "those of 3.15: use a release of it");
}
