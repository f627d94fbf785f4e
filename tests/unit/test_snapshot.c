#include "base/alloc.h"
#include "readers/reader.h"
#include "readers/snapshot_pickle.h"
#include "test.h"

/* Pickles */

static bool read_bytes(struct lw_pickle *pickle, const char *bytes, size_t len,
                       struct lw_error *err)
{
    return lw_pickle_read(pickle, bytes, len, err);
}

#define READ(pickle, literal, err) read_bytes(pickle, literal, sizeof(literal) - 1, err)

static void check_failure(const char *bytes, size_t len, const char *sentence)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_pickle pickle;

    CHECK(!read_bytes(&pickle, bytes, len, &err));
    CHECK_STR(err.text, sentence);
    lw_pickle_release(&pickle);
}

#define CHECK_FAILURE(literal, sentence) \
    check_failure(literal, sizeof(literal) - 1, sentence)

static int64_t integer(const struct lw_pickle *pickle, lw_pickle_value value)
{
    int64_t number = 0;

    CHECK(lw_pickle_integer(pickle, value, &number));
    return number;
}

TEST(integers_of_every_length_are_read)
{
    struct lw_pickle pickle;
    struct lw_pickle_walk walk;
    const int64_t numbers[] = { 255,       65535,     -2,        0,         -1, 128,
                                INT64_MIN, INT64_MAX, INT64_MAX, INT64_MIN, 1 };
    lw_pickle_value value;

    CHECK(READ(&pickle,
               "\x80\x02(K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\0\x8a\1\xff\x8a\2\x80\0"
               "\x8a\x08\0\0\0\0\0\0\0\x80"
               "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
               "\x8a\x09\0\0\0\0\0\0\0\x80\0"       /* 2^63: too large */
               "\x8a\x09\0\0\0\0\0\0\0\0\xff"       /* -2^64 */
               "\x8b\x0a\0\0\0\1\0\0\0\0\0\0\0\0\0" /* 1, of ten bytes */
               "t.",
               NULL));
    walk = lw_pickle_walk(&pickle, pickle.root);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        CHECK(lw_pickle_next(&pickle, &walk, &value));
        CHECK_EQ(integer(&pickle, value), numbers[i]);
    }
    CHECK(!lw_pickle_next(&pickle, &walk, &value));
    lw_pickle_release(&pickle);
}

TEST(a_list_filled_in_pieces_is_one_list)
{
    struct lw_pickle pickle;
    struct lw_pickle_walk walk;
    lw_pickle_value value;

    CHECK(READ(&pickle, "\x80\x04]\x94(K\1K\2eK\3a(e(K\4e.", NULL));
    CHECK_EQ(lw_pickle_count(&pickle, pickle.root), 4);
    walk = lw_pickle_walk(&pickle, pickle.root);
    for (int64_t i = 1; i <= 4; i++) {
        CHECK(lw_pickle_next(&pickle, &walk, &value));
        CHECK_EQ(integer(&pickle, value), i);
    }
    lw_pickle_release(&pickle);
}

TEST(of_a_key_that_comes_twice_the_last_counts)
{
    struct lw_pickle pickle;

    CHECK(READ(&pickle, "\x80\x02}(U\1aK\1U\1bK\2uU\1aK\3s.", NULL));
    CHECK_EQ(integer(&pickle, lw_pickle_find(&pickle, pickle.root, "a")), 3);
    CHECK_EQ(integer(&pickle, lw_pickle_find(&pickle, pickle.root, "b")), 2);
    CHECK_EQ(lw_pickle_kind(lw_pickle_find(&pickle, pickle.root, "c")), LW_PICKLE_NONE);
    CHECK_EQ(lw_pickle_kind(lw_pickle_find(&pickle, LW_PICKLE_NONE, "a")),
             LW_PICKLE_NONE);
    lw_pickle_release(&pickle);
}

TEST(a_list_may_hold_itself)
{
    struct lw_pickle pickle;
    struct lw_pickle_walk walk;
    lw_pickle_value value;

    CHECK(READ(&pickle, "\x80\x02]q\0h\0a.", NULL));
    walk = lw_pickle_walk(&pickle, pickle.root);
    CHECK(lw_pickle_next(&pickle, &walk, &value));
    CHECK_EQ(value, pickle.root);
    lw_pickle_release(&pickle);
}

TEST(texts_tuples_and_the_rest_are_data)
{
    struct lw_pickle pickle;
    const char *text;
    size_t len;

    CHECK(READ(&pickle,
               "\x80\x05\x95\0\0\0\0\0\0\0\0"
               "(\x8d\2\0\0\0\0\0\0\0hi" /* a str with a length of 8 bytes */
               "C\1x\x96\1\0\0\0\0\0\0\0yB\1\0\0\0zT\1\0\0\0wX\1\0\0\0v"
               "G\0\0\0\0\0\0\0\0N\x88\x89)\x8f(K\1\x90(K\1\x91(K\1l(K\1K\2d2"
               "K\1\x85K\1K\2\x86K\1K\2K\3\x87(0(1K\7r\1\0\0\0j\1\0\0\0t.",
               NULL));
    CHECK_EQ(lw_pickle_kind(pickle.root), LW_PICKLE_LIST);
    CHECK(lw_pickle_text(&pickle,
                         pickle.items[pickle.chunks[pickle.chunk_count - 1].first],
                         &text, &len));
    CHECK_EQ(len, 2);
    CHECK_BYTES(text, "hi", 2);
    CHECK(!lw_pickle_text(&pickle, pickle.root, &text, &len));
    CHECK_EQ(lw_pickle_count(&pickle, LW_PICKLE_NONE), 0);
    lw_pickle_release(&pickle);
}

TEST(what_would_have_to_be_executed_is_refused)
{
    const char *sentence =
        "at byte 2: the pickle holds an object of a class, which would "
        "have to be executed to be read; a snapshot holds only data";
    const char opcodes[] = "cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98";

    for (size_t i = 0; i < sizeof(opcodes) - 1; i++) {
        char bytes[] = "\x80\2?os\nsystem\n(U\2lst.";

        bytes[2] = opcodes[i];
        check_failure(bytes, sizeof(bytes) - 1, sentence);
    }
}

TEST(bytes_that_are_no_pickle_are_refused_in_a_sentence)
{
    CHECK_FAILURE("", "at byte 0: the file ends in the middle of a value; it was cut "
                      "short");
    CHECK_FAILURE("\x80\x06.", "at byte 0: a newer protocol of pickle than 5");
    CHECK_FAILURE("\0.", "at byte 0: 0x00 is no instruction of pickle for data");
    CHECK_FAILURE(".", "at byte 0: a value that is not there is taken");
    CHECK_FAILURE("0.", "at byte 0: a value that is not there is taken");
    CHECK_FAILURE("(q\0.", "at byte 1: a value that is not there is taken");
    CHECK_FAILURE("K\1e.", "at byte 2: the end of a group that never began");
    CHECK_FAILURE("(K\1e.", "at byte 3: items for what is no list and no dict");
    CHECK_FAILURE("NK\1a.", "at byte 3: items for what is no list and no dict");
    CHECK_FAILURE("}(K\1u.", "at byte 4: a key without a value");
    CHECK_FAILURE("h\0.", "at byte 0: a reference to what was not noted");
    CHECK_FAILURE("Nr\1\0\0\0h\0.", "at byte 6: a reference to what was not noted");
    CHECK_FAILURE("Nr\xff\xff\xff\xff.",
                  "at byte 1: a value is noted under a number too large");
    CHECK_FAILURE(
        "X\xff\xff\xff\xff.",
        "at byte 6: the file ends in the middle of a value; it was cut short");
    CHECK_FAILURE(
        "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        "at byte 10: the file ends in the middle of a value; it was cut short");
}

TEST(a_dict_of_very_many_keys_is_not_searched)
{
    char bytes[1 + 2 * (LW_PICKLE_KEYS_MAX + 1) + 8] = "}(";
    size_t len = 2;
    struct lw_pickle pickle;

    for (size_t i = 0; i <= LW_PICKLE_KEYS_MAX; i++) {
        bytes[len++] = 'N';
        bytes[len++] = 'N';
    }
    bytes[len++] = 'u';
    bytes[len++] = '.';
    CHECK(read_bytes(&pickle, bytes, len, NULL));
    CHECK_EQ(lw_pickle_count(&pickle, pickle.root), 2 * (LW_PICKLE_KEYS_MAX + 1));
    CHECK_EQ(lw_pickle_kind(lw_pickle_find(&pickle, pickle.root, "a")), LW_PICKLE_NONE);
    lw_pickle_release(&pickle);
}

/* Snapshots */

/* One segment of three blocks, one of which is free; a trace of six entries, one of them
 * of an unknown kind. Made by pickletools.optimize(pickle.dumps(snapshot, 2)). */
static const char snapshot[] =
    "\200\002}(X\010\000\000\000segments]}(X\006\000\000\000deviceK\000X\007\000"
    "\000\000addressq\000M\000\020X\012\000\000\000total_sizeM\000\010X\013\000"
    "\000\000active_sizeM\000\003X\006\000\000\000streamK\000X\014\000\000\000"
    "segment_typeX\005\000\000\000smallX\006\000\000\000blocks](}(h\000M\000\020"
    "X\004\000\000\000sizeq\001M\000\002X\016\000\000\000requested_sizeq\002M"
    "\364\001X\005\000\000\000stateq\003X\020\000\000\000active_allocatedq\004"
    "X\006\000\000\000framesq\005]q\006(}(X\004\000\000\000nameq\007X\025\000"
    "\000\000at::_ops::mm::call(x)X\010\000\000\000filenameq\010X\002\000\000"
    "\000\077\077X\004\000\000\000lineq\011K\000u}(h\007X\004\000\000\000step"
    "h\010X\010\000\000\000train.pyh\011K\011ueu}(h\000M\000\022h\001M\000\001"
    "h\002M\000\001h\003h\004h\005]u}(h\000M\000\023h\001M\000\005h\002K\000h"
    "\003X\010\000\000\000inactiveh\005]ueuaX\015\000\000\000device_traces]]("
    "}(X\006\000\000\000actionq\012X\016\000\000\000free_completedX\004\000\000"
    "\000addrq\013M\000\024h\001KdX\007\000\000\000time_usq\014K\012h\005]u}("
    "h\012X\015\000\000\000segment_alloch\013M\000\020h\001M\000\010h\014K\013"
    "h\005h\006u}(h\012X\005\000\000\000alloch\013M\000\020h\001M\000\002h\014"
    "K\014h\005h\006u}(h\012X\016\000\000\000free_requestedh\013K\011h\001K\001"
    "h\014K\015u}(h\012X\003\000\000\000oomh\001M\347\003h\014K\016X\013\000\000"
    "\000device_freeK\005u}(h\012X\004\000\000\000whath\001K\001h\014K\017uea"
    "u.";

static struct lw_profile *open_snapshot(const char *bytes, size_t len,
                                        struct lw_error *err)
{
    struct lw_source source = { .path = "x.pickle", .name = "x.pickle" };
    struct lw_builder *builder = lw_builder_new(err);

    source.head = source.view.bytes = (const unsigned char *)bytes;
    source.head_len = source.view.len = len;
    if (!builder)
        return NULL;
    if (!lw_reader_snapshot.read(&source, LW_WANT_TRACE, builder, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    return lw_builder_finish(builder, err);
}

static void check_event(const struct lw_memory_event *event, enum lw_memory_kind kind,
                        uint64_t address, int64_t bytes, int64_t allocated,
                        int64_t reserved)
{
    CHECK_EQ(event->kind, kind);
    CHECK_EQ(event->address, address);
    CHECK_EQ(event->bytes, bytes);
    CHECK_EQ(event->allocated, allocated);
    CHECK_EQ(event->reserved, reserved);
}

TEST(what_the_trace_does_not_know_was_before_it)
{
    struct lw_profile *profile = open_snapshot(snapshot, sizeof(snapshot) - 1, NULL);
    const struct lw_trace *trace = profile->trace;

    CHECK_EQ(trace->memory_count, 6);
    check_event(&trace->memory[0], LW_MEMORY_BEFORE, 5120, 100, 100, 0);
    check_event(&trace->memory[1], LW_MEMORY_BEFORE, 4608, 256, 356, 0);
    check_event(&trace->memory[2], LW_MEMORY_BLOCK, 5120, -100, 256, 0);
    check_event(&trace->memory[3], LW_MEMORY_SEGMENT, 4096, 2048, 256, 2048);
    check_event(&trace->memory[4], LW_MEMORY_BLOCK, 4096, 512, 768, 2048);
    check_event(&trace->memory[5], LW_MEMORY_FAILED, 0, 999, 768, 2048);
    CHECK_EQ(trace->memory[0].time_ns, 10000);
    CHECK_EQ(trace->memory[4].time_ns, 12000);
    CHECK_EQ(trace->segment_count, 1);
    CHECK_EQ(trace->segments[0].active_bytes, trace->memory[5].allocated);
    CHECK_EQ(trace->segments[0].bytes, trace->memory[5].reserved);
    CHECK_EQ(trace->segments[0].block_count, 3);
    CHECK_STR(lw_profile_text(profile, trace->blocks[2].state), "inactive");
    CHECK_EQ(profile->loss_count, 1);
    CHECK_EQ(profile->losses[0].count, 1);
    lw_profile_free(profile);
}

TEST(frames_become_a_stack_with_the_leaf_on_top)
{
    struct lw_profile *profile = open_snapshot(snapshot, sizeof(snapshot) - 1, NULL);
    lw_stack_id leaf = profile->trace->memory[4].stack;
    const struct lw_stack *stacks;
    const struct lw_frame *frame;
    size_t count;

    stacks = lw_stacks_list(profile->stacks, &count);
    CHECK_EQ(profile->trace->blocks[0].stack, leaf);
    frame = lw_profile_frame(profile, stacks[leaf].frame);
    CHECK_STR(lw_profile_text(profile, frame->name), "at::_ops::mm::call(x)");
    CHECK_EQ(frame->kind, LW_FRAME_NATIVE);
    frame = lw_profile_frame(profile, stacks[stacks[leaf].parent].frame);
    CHECK_STR(lw_profile_text(profile, frame->file), "train.py");
    CHECK_EQ(frame->line, 9);
    CHECK_EQ(stacks[stacks[leaf].parent].parent, LW_NO_STACK);
    lw_profile_free(profile);
}

TEST(a_snapshot_cut_at_any_byte_is_refused_in_a_sentence)
{
    for (size_t len = 0; len < sizeof(snapshot) - 1; len++) {
        struct lw_error err = { LW_OK, "" };

        CHECK(!open_snapshot(snapshot, len, &err));
        CHECK_EQ(err.code, LW_ERR_FORMAT);
    }
}

TEST(a_snapshot_survives_every_lack_of_memory)
{
    struct lw_profile *profile = NULL;

    for (uint64_t i = 1; !profile; i++) {
        struct lw_error err = { LW_OK, "" };

        lw_alloc_fail_in(i);
        profile = open_snapshot(snapshot, sizeof(snapshot) - 1, &err);
        lw_alloc_fail_in(0);
        CHECK(profile || err.code == LW_ERR_NOMEM);
    }
    lw_profile_free(profile);
}

TEST(a_pickle_that_is_no_snapshot_is_said_to_be_none)
{
    const char bytes[] = "\x80\2}(U\x08segmentsK\1u.";
    struct lw_error err = { LW_OK, "" };

    CHECK(!open_snapshot(bytes, sizeof(bytes) - 1, &err));
    CHECK_STR(err.text, "is a pickle, but no snapshot of torch's allocator: it has no "
                        "segments");
}

/* A list of blocks that a thousand segments refer to. */
TEST(references_cannot_make_more_than_the_file_has_bytes)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_buf bytes;

    lw_buf_init(&bytes, 0);
    lw_buf_add(&bytes, "\x80\2}(U\x08segments](}(U\x0atotal_sizeK\1U\6blocks](", 42);
    lw_buf_add(&bytes, "}(U\4sizeK\1uq\0", 13);
    for (size_t i = 0; i < 1000; i++)
        lw_buf_add(&bytes, "h\0", 2);
    lw_buf_add(&bytes, "euq\1", 4);
    for (size_t i = 0; i < 1000; i++)
        lw_buf_add(&bytes, "h\1", 2);
    lw_buf_add(&bytes, "eu.", 3);
    CHECK(!open_snapshot(bytes.bytes, bytes.len, &err));
    CHECK_STR(err.text, "the snapshot has more entries than bytes; it was not made by "
                        "torch");
    lw_buf_release(&bytes);
}

/* As torch.cuda.memory_snapshot() had it before there were traces, without addresses and
 * times. */
TEST(a_list_of_segments_is_a_snapshot)
{
    const char bytes[] =
        "\x80\2](}(U\x0atotal_sizeK\x0aU\6device"
        "K\1U\7addressM\0\1U\6blocks](}(U\4sizeK\4U\5stateU\1au}(U\4size"
        "K\6U\5stateU\x08inactiveueue.";
    struct lw_profile *profile = open_snapshot(bytes, sizeof(bytes) - 1, NULL);

    CHECK_EQ(profile->trace->memory_count, 1);
    check_event(&profile->trace->memory[0], LW_MEMORY_BEFORE, 256, 4, 4, 10);
    CHECK_EQ(profile->trace->memory[0].device, 1);
    CHECK_EQ(profile->trace->blocks[1].address, 260);
    lw_profile_free(profile);
}
