/* The walk on recorded memory of every Python: each thread's stack is the one that the
 * program saw itself. */

#include "image.h"
#include "sampler/elf.h"
#include "test.h"

static struct image image;

static void open_image(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/tests/unit/images/%s.gz", getenv("SRCDIR"), name);
    CHECK(image_open(&image, path));
    CHECK(image.thread_count == 2 && image.piece_count > 20);
}

static struct lw_target *open_target(const char *name)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_target *target;

    open_image(name);
    target = image_target(&image, NULL, &err);
    CHECK_STR(err.text, "");
    return target;
}

static void close_target(struct lw_target *target)
{
    lw_target_free(target);
    image_release(&image);
}

static const struct lw_target_thread *thread_of(const struct lw_target *target,
                                                unsigned long tid)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        if (target->threads[i].tid == tid && target->threads[i].has_python)
            return &target->threads[i];
    }
    return NULL;
}

/* By what the program says of itself: see tests/programs/recorded.py. */
static bool is_called_by_c(const struct lw_target *target,
                           const struct image_frame *frame, unsigned depth)
{
    if (strcmp(frame->name, "run") == 0) /* threading has it run in a context */
        return target->layout.minor >= 14;
    return depth == 0 || strcmp(frame->name, "<module>") == 0 ||
           strncmp(frame->name, "entry_", strlen("entry_")) == 0;
}

static void check_frame(const struct lw_target *target,
                        const struct lw_walk_frame *walked,
                        const struct image_frame *wanted, unsigned depth)
{
    const struct lw_py_code *code = &target->codes.codes[walked->code];
    struct lw_position position;

    CHECK_STR(code->name, wanted->name);
    CHECK_EQ(code->first_line, wanted->first_line);
    CHECK(lw_target_position(target, walked, &position));
    CHECK_EQ(position.line, wanted->line);
    if (target->layout.has_data_stack)
        CHECK_EQ(walked->is_entry, is_called_by_c(target, wanted, depth));
}

static void check_threads(const struct lw_target *target)
{
    unsigned empty = 0;

    CHECK_EQ(target->thread_count, image.thread_count + image.empty);
    for (unsigned i = 0; i < image.thread_count; i++) {
        const struct image_thread *wanted = &image.threads[i];
        const struct lw_target_thread *thread = thread_of(target, wanted->tid);

        CHECK(thread && thread->has_stack && !thread->walk.is_moving);
        CHECK_EQ(thread->walk.count, wanted->count);
        for (unsigned j = 0; j < wanted->count; j++)
            check_frame(target, &thread->walk.frames[j],
                        &image.frames[wanted->first + j], j);
    }
    for (size_t i = 0; i < target->thread_count; i++)
        empty += target->threads[i].has_stack && !target->threads[i].has_python;
    CHECK_EQ(empty, image.empty);
    CHECK_EQ(target->unreadable, 0);
}

static void check_walk(const char *name)
{
    struct lw_target *target = open_target(name);

    CHECK(lw_target_sample(target, 1));
    check_threads(target);
    /* With what was learnt, and nothing was forgotten that is still used. */
    CHECK(lw_target_sample(target, 2));
    check_threads(target);
    CHECK_EQ(target->stacks, 2 * target->thread_count);
    close_target(target);
}

#define WALK(minor) \
    TEST(every_stack_of_python_3_##minor) \
    { \
        check_walk("3." #minor); \
    }

WALK(9)
WALK(10)
WALK(11)
WALK(12)
WALK(13)
WALK(14)
WALK(15)

static unsigned char *word_at(uint64_t address)
{
    for (unsigned i = 0; i < image.piece_count; i++) {
        const struct lw_memory_piece *piece = &image.pieces[i];

        if (address >= piece->address && address + 8 <= piece->address + piece->len)
            return (unsigned char *)(uintptr_t)piece->bytes +
                   (address - piece->address);
    }
    return NULL;
}

/* ---- where the current frame is told ------------------------------------------------- */

static void check_cframes(const struct lw_snapshot *snapshot, uint64_t start,
                          uint64_t end)
{
    CHECK_EQ(snapshot->cframes.address, start);
    CHECK_EQ(snapshot->cframes.len, end - start);
}

TEST(places_that_tell_the_current_frame_are_read_together_while_they_lie_close)
{
    struct lw_target *target = open_target("3.11");
    struct lw_snapshot snapshot;
    size_t count;

    lw_snapshot_init(&snapshot, 0x1000);
    CHECK(!lw_snapshot_learn_cframe(&snapshot, 0x7000));
    check_cframes(&snapshot, 0x7000, 0x7008);
    CHECK(!lw_snapshot_learn_cframe(&snapshot, 0x7000)); /* it was not read yet */
    CHECK(lw_snapshot_prepare(&snapshot, &target->layout, &count));
    CHECK_EQ(count, 4);
    CHECK(lw_snapshot_learn_cframe(&snapshot, 0x7000));

    CHECK(!lw_snapshot_learn_cframe(&snapshot, 0x7100));
    CHECK(!lw_snapshot_learn_cframe(&snapshot, 0x6f00));
    check_cframes(&snapshot, 0x6f00, 0x7108);
    CHECK(lw_snapshot_prepare(&snapshot, &target->layout, &count));
    CHECK_EQ(count, 4);
    CHECK(lw_snapshot_learn_cframe(&snapshot, 0x7080));
    check_cframes(&snapshot, 0x6f00, 0x7108);

    CHECK(!lw_snapshot_learn_cframe(&snapshot, 0x70000)); /* another stack */
    check_cframes(&snapshot, 0x70000, 0x70008);
    lw_snapshot_drop_cframes(&snapshot);
    CHECK(lw_snapshot_prepare(&snapshot, &target->layout, &count));
    CHECK_EQ(count, 2);
    lw_snapshot_release(&snapshot);
    close_target(target);
}

/* ---- a stack that moves ------------------------------------------------------------- */

/* Change what was read of RANGE, if ADDRESS is in it. */
static void change(const struct lw_memory_range *range, uint64_t address,
                   const void *bytes, size_t len)
{
    if (range->address <= address && address - range->address + len <= range->len)
        memcpy((char *)range->bytes + (address - range->address), bytes, len);
}

/* Where THREAD says which frame it runs. */
static uint64_t current_address(const struct lw_target *target,
                                const struct lw_target_thread *thread)
{
    return thread->snapshot.cframes.len > 0
               ? thread->snapshot.cframes.address
               : thread->snapshot.thread + target->layout.thread_frame;
}

/* Reads of the image whose second copy of everything is as if the function on top had
 * returned meanwhile: the thread's current frame is the one below. */
static struct {
    uint64_t address; /* of the word that says which frame runs */
    uint64_t now;     /* what it says from its second reading on */
    unsigned seen;
} moved;

static size_t read_moving(struct lw_memory *memory,
                          const struct lw_memory_range *ranges, size_t count)
{
    struct lw_memory plain;

    lw_memory_image(&plain, memory->pieces, memory->piece_count);
    for (size_t i = 0; i < count; i++) {
        const struct lw_memory_range *range = &ranges[i];

        if (lw_memory_read(&plain, range, 1) != 1)
            return i;
        if (range->address <= moved.address &&
            moved.address - range->address < range->len && moved.seen++ > 0)
            change(range, moved.address, &moved.now, sizeof(moved.now));
    }
    return count;
}

static const struct lw_target_thread *deepest(const struct lw_target *target)
{
    const struct lw_target_thread *found = &target->threads[0];

    for (size_t i = 1; i < target->thread_count; i++) {
        if (target->threads[i].walk.count > found->walk.count)
            found = &target->threads[i];
    }
    return found;
}

/* Sample again, while the function on top returns before the second look. */
static const struct lw_target_thread *sample_returning(struct lw_target *target)
{
    const struct lw_target_thread *thread = deepest(target);

    moved.address = current_address(target, thread);
    moved.now = thread->walk.frames[thread->walk.count - 2].address;
    moved.seen = 0;
    target->memory.read = read_moving;
    CHECK(lw_target_sample(target, 2));
    CHECK(thread->has_stack);
    for (size_t j = 0; j < thread->walk.count; j++)
        CHECK_STR(target->codes.codes[thread->walk.frames[j].code].name,
                  image.frames[image.threads[1].first + j].name);
    return thread;
}

static void forget_calls(struct lw_target *target)
{
    lw_edges_release(&target->codes.edges);
    lw_edges_init(&target->codes.edges);
}

TEST(a_stack_whose_leaf_returns_before_the_second_look_is_that_of_the_first)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_target *target = open_target(image_names[i]);
        const struct lw_target_thread *thread;
        size_t depth;

        CHECK(lw_target_sample(target, 1));
        depth = deepest(target)->walk.count;
        forget_calls(target);
        thread = sample_returning(target);
        CHECK(!thread->walk.is_moving);
        CHECK_EQ(thread->walk.count, depth);
        close_target(target);
    }
}

/* ---- a function that is gone at the second look --------------------------------------- */

/* Reads of the image in which a frame waits at the first look and runs at the second: what
 * it called has returned. The interpreter's own notes of calls, which are not recorded, are
 * there for one function. */
static struct {
    const struct lw_py_layout *layout;
    /* The word that says whether the frame runs, and what it says at the second look. */
    uint64_t stack_address, stack;
    uint64_t current_address, current; /* which frame does, after that look */
    unsigned seen;
    uint64_t noted_address; /* of the version that the call notes; 0: none is noted */
    uint64_t function, code;
    uint32_t noted, version;
} gone;

static bool read_note(const struct lw_memory_range *range)
{
    if (gone.noted_address && range->address == gone.noted_address) {
        memcpy(range->bytes, &gone.noted, sizeof(gone.noted));
        return true;
    }
    if (gone.function && range->address == gone.function) {
        memset(range->bytes, 0, range->len);
        change(range, gone.function + gone.layout->function_code, &gone.code,
               sizeof(gone.code));
        change(range, gone.function + gone.layout->function_version, &gone.version,
               sizeof(gone.version));
        return true;
    }
    return false;
}

static size_t read_gone(struct lw_memory *memory, const struct lw_memory_range *ranges,
                        size_t count)
{
    const bool has_top = gone.layout->frame_stack_top != LW_NO_FIELD;
    struct lw_memory plain;

    lw_memory_image(&plain, memory->pieces, memory->piece_count);
    for (size_t i = 0; i < count; i++) {
        const struct lw_memory_range *range = &ranges[i];
        bool has_stack = range->address <= gone.stack_address &&
                         gone.stack_address - range->address < range->len;

        if (read_note(range))
            continue;
        if (lw_memory_read(&plain, range, 1) != 1)
            return i;
        if (has_stack && gone.seen++ > 0)
            change(range, gone.stack_address, &gone.stack, has_top ? 8 : 4);
        if (gone.seen > 1)
            change(range, gone.current_address, &gone.current, sizeof(gone.current));
    }
    return count;
}

/* Sample again, as if what the first frame of THREAD called were gone at the second
 * look. IS_BACK: then that frame runs, else it waits again. */
static void sample_gone(struct lw_target *target, const struct lw_target_thread *thread,
                        bool is_back)
{
    const struct lw_py_layout *layout = &target->layout;
    const bool has_top = layout->frame_stack_top != LW_NO_FIELD;
    uint64_t caller = thread->walk.frames[0].address;

    gone.layout = layout;
    gone.stack_address =
        caller + (has_top ? layout->frame_stack_top : layout->frame_stack_depth);
    gone.stack = !is_back ? 8 : has_top ? 0 : UINT64_MAX;
    gone.current_address = current_address(target, thread);
    gone.current = caller;
    gone.seen = 0;
    target->memory.read = read_gone;
    CHECK(lw_target_sample(target, 2));
    CHECK(thread->has_stack);
    CHECK_EQ(gone.seen, 2);
}

/* Who is called by whom was seen in the stack that held still before. */
TEST(a_function_that_is_gone_at_the_second_look_is_known_by_its_call)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_target *target = open_target(image_names[i]);
        const struct lw_target_thread *thread;

        gone.noted_address = gone.function = 0;
        CHECK(lw_target_sample(target, 1));
        if (target->layout.has_data_stack) {
            thread = thread_of(target, image.threads[0].tid);
            for (int is_back = 0; is_back < 2; is_back++) {
                sample_gone(target, thread, is_back);
                CHECK(!thread->walk.is_moving);
                check_threads(target);
            }
            forget_calls(target);
            sample_gone(target, thread, true);
            CHECK(!thread->walk.is_moving);
            CHECK_EQ(thread->walk.count, 1);
            forget_calls(target);
            sample_gone(target, thread, false);
            CHECK(thread->walk.is_moving);
            CHECK_EQ(thread->walk.count, 1);
        }
        close_target(target);
    }
}

static uint64_t u64_at(uint64_t address)
{
    uint64_t value;

    CHECK(word_at(address) != NULL);
    memcpy(&value, word_at(address), sizeof(value));
    return value;
}

/* The call notes which function it is specialised for. Of the other calls it is known. */
TEST(a_function_that_never_held_still_is_known_by_what_its_call_notes)
{
    static const struct {
        uint32_t noted, version;
        bool is_known;
    } cases[] = { { 7, 8, false }, { 0, 0, false }, { 7, 7, true } };

    for (size_t i = 0; i < IMAGE_COUNT * 3; i++) {
        struct lw_target *target = open_target(image_names[i / 3]);
        const struct lw_py_layout *layout = &target->layout;
        const struct lw_target_thread *thread;

        CHECK(lw_target_sample(target, 1));
        if (layout->has_data_stack) {
            thread = thread_of(target, image.threads[0].tid);
            const struct lw_walk_frame *frames = thread->walk.frames;

            gone.noted_address = u64_at(frames[0].address + layout->frame_instruction) +
                                 (uint64_t)layout->called_version;
            gone.function =
                u64_at(frames[1].address + layout->frame_function) & ~(uint64_t)7;
            gone.code = u64_at(frames[1].address + layout->frame_code) & ~(uint64_t)7;
            gone.noted = cases[i % 3].noted;
            gone.version = cases[i % 3].version;
            forget_calls(target);
            lw_edges_add(&target->codes.edges,
                         (struct lw_edge){ frames[1].code, frames[1].instruction,
                                           frames[2].code });
            sample_gone(target, thread, false);
            CHECK_EQ(thread->walk.is_moving, !cases[i % 3].is_known);
            CHECK_EQ(thread->walk.count,
                     cases[i % 3].is_known ? image.threads[0].count : 1);
        }
        close_target(target);
    }
}

/* ---- what cannot be read ------------------------------------------------------------- */

TEST(without_memory_here_a_thread_is_left_out_and_counted)
{
    struct lw_target *target = open_target("3.13");

    for (uint64_t n = 1; n < 60; n++) {
        lw_alloc_fail_in(n);
        if (lw_target_sample(target, n)) {
            lw_alloc_fail_in(0);
            CHECK_EQ(target->stacks + target->unreadable, target->samples * 3);
        }
    }
    lw_alloc_fail_in(0);
    target->stacks = target->unreadable = 0;
    CHECK(lw_target_sample(target, 100));
    check_threads(target);
    close_target(target);
}

/* ---- a target that lies ------------------------------------------------------------- */

/* Say of the frame at ADDRESS that it is being run. */
static void set_running(const struct lw_target *target, uint64_t address)
{
    const struct lw_py_layout *layout = &target->layout;
    bool has_top = layout->frame_stack_top != LW_NO_FIELD;
    unsigned char *at = word_at(
        address + (has_top ? layout->frame_stack_top : layout->frame_stack_depth));

    CHECK(at != NULL);
    memset(at, has_top ? 0 : 0xff, has_top ? 8 : 4);
}

/* Say that it was only just made. */
static void set_new(const struct lw_target *target, uint64_t address)
{
    const struct lw_py_layout *layout = &target->layout;
    unsigned char *at = word_at(address + layout->frame_instruction);
    const unsigned char *code = word_at(address + layout->frame_code);
    uint64_t start;

    CHECK(at != NULL && code != NULL);
    memcpy(&start, code, sizeof(start));
    start = (start & ~(uint64_t)7) + layout->code_bytecode;
    memcpy(at, &start, sizeof(start));
}

/* The index of the first frame that another called directly. */
static size_t first_direct(const struct lw_walk *walk)
{
    size_t callee = 1;

    for (; walk->frames[callee].is_entry; callee++)
        CHECK(callee + 1 < walk->count);
    return callee;
}

/* After SET the first frame that called another directly cannot have. */
static void check_callers(void (*set)(const struct lw_target *, uint64_t))
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_target *target = open_target(image_names[i]);
        const struct lw_target_thread *thread;
        size_t callee;

        CHECK(lw_target_sample(target, 1));
        thread = deepest(target);
        if (target->layout.has_data_stack) {
            callee = first_direct(&thread->walk);
            set(target, thread->walk.frames[callee - 1].address);
            CHECK(lw_target_sample(target, 2));
            CHECK(thread->has_stack && !thread->walk.is_moving);
            CHECK_EQ(thread->walk.count, callee);
        }
        close_target(target);
    }
}

/* It was at that place, but not when the one above it was called. */
TEST(a_frame_that_runs_itself_has_called_nobody)
{
    check_callers(set_running);
}

TEST(a_frame_that_has_not_begun_has_called_nobody)
{
    check_callers(set_new);
}

/* What the interpreter puts around __init__ calls it and does nothing before. */
TEST(a_frame_of_the_interpreters_own_calls_though_it_has_not_begun)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_target *target = open_target(image_names[i]);
        const struct lw_target_thread *thread;
        const struct lw_walk_frame *caller;
        size_t count;

        CHECK(lw_target_sample(target, 1));
        thread = deepest(target);
        count = thread->walk.count;
        if (target->layout.has_data_stack) {
            caller = &thread->walk.frames[first_direct(&thread->walk) - 1];
            set_new(target, caller->address);
            target->codes.codes[caller->code].is_made_up = true;
            CHECK(lw_target_sample(target, 2));
            CHECK(thread->has_stack && !thread->walk.is_moving);
            CHECK(thread->walk.count < count);
        }
        close_target(target);
    }
}

static bool can_sample(void)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_target *target = image_target(&image, NULL, &err);
    bool done = target && lw_target_sample(target, 1);

    if (!target)
        CHECK(err.code != LW_OK && err.text[0]);
    lw_target_free(target);
    return done;
}

/* Under ASan: what a Python says of itself is used only as far as our buffers go. A word
 * is a field's place; the size of its structure is told some words before it, and grows
 * along, as else the field would lie outside and be refused for that. */
static void check_every_word(const char *name)
{
    static const uint64_t values[] = { 0, 249, 505, 600, 1ull << 40 };
    unsigned refused = 0, sampled = 0;

    open_image(name);
    for (uint64_t address = image.runtime; word_at(address); address += 8) {
        unsigned char *word = word_at(address), was[8];

        memcpy(was, word, 8);
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            memcpy(word, &values[i], 8);
            for (unsigned before = 0; before < 12; before++) {
                unsigned char *size = word_at(address - 8 * before), size_was[8];

                if (!size)
                    break;
                memcpy(size_was, size, 8);
                if (before > 0)
                    memcpy(size, &(uint64_t){ 1u << 20 }, 8);
                if (can_sample())
                    sampled++;
                else
                    refused++;
                memcpy(size, size_was, 8);
            }
        }
        memcpy(word, was, 8);
    }
    image_release(&image);
    CHECK(refused > 100 && sampled > 100);
}

TEST(no_word_that_a_python_says_of_itself_leads_out_of_our_memory)
{
    check_every_word("3.13");
    check_every_word("3.14");
    check_every_word("3.15");
}

/* The root's caller is the leaf: a circle, on every Python. */
TEST(frames_in_a_circle_end)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct lw_target *target = open_target(image_names[i]);
        const struct lw_target_thread *thread;
        uint64_t root, leaf;

        CHECK(lw_target_sample(target, 1));
        thread = deepest(target);
        root = thread->walk.frames[0].address;
        leaf = thread->walk.frames[thread->walk.count - 1].address;
        memcpy(word_at(root + target->layout.frame_previous), &leaf, sizeof(leaf));
        CHECK(lw_target_sample(target, 2));
        CHECK(thread->has_stack && thread->walk.is_moving);
        close_target(target);
    }
}
