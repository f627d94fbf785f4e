/* Segments: what is written is read, and whatever is damaged costs no more than that. */

#include "held.h"
#include "lap_fixture.h"

#include "lap/chunk.h"
#include "lap/rows.h"

static struct lw_profile *read_bytes(const void *bytes, size_t len,
                                     struct lw_error *err)
{
    struct lw_builder *builder = lw_builder_new(NULL);

    CHECK(builder);
    if (!lw_lap_read_segment(bytes, len, "x.seg", LW_WANT_ALL, builder, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    return lw_builder_finish(builder, NULL);
}

/* A segment of ROUNDS flushes, in memory. */
static struct lw_file_view make_segment(uint64_t rounds)
{
    char *folder = fixture_folder();
    struct lw_file_view view;

    fixture_write(folder, 1, rounds, NULL);
    CHECK_DONE(lw_file_read(&view, in_folder(folder, "p0001-000001.seg"), 0, ERR));
    fixture_remove(folder);
    return view;
}

TEST(what_is_written_is_read)
{
    char *folder = fixture_folder(), *text;

    fixture_write(folder, 1, 2, NULL);
    text = fixture_dump(fixture_load(folder, LW_WANT_ALL));
    CHECK_STR(text, "process 4711 train.py --epochs 3 3.11.7 exit 0\n"
                    "thread 4711 MainThread of 0\n"
                    "thread 4712 worker of 0\n"
                    "calls 0: 2 201 main:1\n"
                    "calls 0: 10 14000 forward:10 main:1\n"
                    "calls 1: 4 600 forward:10 main:1\n"
                    "sample 0: 1000000 1000000 129 forward:10 main:1\n"
                    "sample 1: 1999000 1000100 2 main:1\n"
                    "sample 0: 51000000 1000000 129 forward:10 main:1\n"
                    "sample 1: 51999000 1000100 2 main:1\n"
                    "span 0: 1000050 40 forward:10 main:1\n"
                    "span 0: 1000000 100 main:1\n"
                    "span 0: 51000050 40 forward:10 main:1\n"
                    "span 0: 51000000 101 main:1\n"
                    "rss [bytes] 1000000 0\n"
                    "rss [bytes] 51000000 0.1\n"
                    "loss ring full: 6 spans\n");
    lw_free(text);
    fixture_remove(folder);
}

TEST(only_what_is_wanted_is_read)
{
    char *folder = fixture_folder();
    struct lw_profile *p;

    fixture_write(folder, 1, 3, NULL);
    p = fixture_load(folder, LW_WANT_CALLS);
    CHECK_EQ(p->call_count, 3);
    CHECK_EQ(p->sample_count + p->span_count + p->counter_count, 0);
    CHECK_EQ(fixture_loss(p, "ring full", "spans"), 9);
    lw_profile_free(p);

    p = fixture_load(folder, LW_WANT_SAMPLE_SUMS);
    CHECK_EQ(p->sample_count, 2);
    CHECK_EQ(p->samples[0].weight_ns, 3000000);
    CHECK_EQ(p->samples[0].time_ns, 1000000);
    CHECK_EQ(p->samples[0].state, LW_STATE_CPU | LW_STATE_HAS_GIL);
    CHECK_EQ(p->call_count, 0);
    lw_profile_free(p);

    p = fixture_load(folder, 0);
    CHECK_EQ(p->thread_count, 2);
    CHECK_STR(lw_profile_text(p, p->threads[1].name), "worker");
    CHECK_EQ(p->call_count + p->sample_count, 0);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(names_may_hold_any_bytes_and_long_ones_are_cut)
{
    static char name[LW_LAP_TEXT_MAX + 100];
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct lw_thread thread = { .tid = 1 };
    struct lw_profile *p;
    uint32_t number;

    memset(name, '\xf5', sizeof(name));
    memcpy(name, "a\0\n\x1b[31m" LW_CHUNK_SYNC, 12);
    CHECK_DONE(lw_lap_writer_string(w, name, sizeof(name), &thread.name, ERR));
    CHECK_DONE(lw_lap_writer_thread(w, &thread, &number, ERR));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(lw_strings_len(p->strings, p->threads[0].name), LW_LAP_TEXT_MAX);
    CHECK_BYTES(lw_profile_text(p, p->threads[0].name), name, LW_LAP_TEXT_MAX);
    CHECK_EQ(p->loss_count, 0);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(a_segment_cut_at_any_byte_reads_as_far_as_it_goes)
{
    struct lw_file_view whole = make_segment(3);
    size_t last_calls = 0;

    for (size_t len = 0; len <= whole.len; len++) {
        /* A copy of just that size, so that ASan sees a read beyond it. */
        char *bytes = lw_copy_text((const char *)whole.bytes, len, NULL);
        struct lw_error err = { LW_OK, "" };
        struct lw_profile *p = read_bytes(bytes, len, &err);

        CHECK_EQ(p != NULL, len >= LW_SEGMENT_HEAD_BYTES);
        if (p) {
            size_t calls = 0;

            for (size_t i = 0; i < p->call_count; i++)
                calls += p->calls[i].calls;
            CHECK(calls >= last_calls);
            last_calls = calls;
        } else {
            CHECK_EQ(err.code, LW_ERR_FORMAT);
            CHECK(err.text[0]);
        }
        lw_profile_free(p);
        lw_free(bytes);
    }
    CHECK_EQ(last_calls, 3 * 8);
    lw_file_close(&whole);
}

/* Whatever is wrong with the file, no row may get another row's values or names. */
static void check_rows(const struct lw_profile *p)
{
    size_t stack_count;
    const struct lw_stack *stacks = lw_stacks_list(p->stacks, &stack_count);

    for (size_t i = 0; i < p->call_count; i++) {
        const struct lw_call_row *row = &p->calls[i];
        const struct lw_frame *frame = lw_profile_frame(p, stacks[row->stack].frame);
        const char *name = lw_profile_text(p, frame->name);
        const char *thread = lw_profile_text(p, p->threads[row->thread].name);

        CHECK(strcmp(thread, "MainThread") == 0 || strcmp(thread, "worker") == 0 ||
              thread[0] == '\0');
        if (p->threads[row->thread].tid == 4712)
            CHECK(strcmp(name, "forward") == 0 && row->calls % 2 == 0);
        else if (strcmp(name, "forward") == 0)
            CHECK_EQ(row->calls % 5, 0);
        else
            CHECK(strcmp(name, "main") == 0 && row->calls <= 3);
    }
    for (size_t i = 0; i < p->span_count; i++) {
        const struct lw_frame *frame =
            lw_profile_frame(p, stacks[p->spans[i].stack].frame);
        const char *name = lw_profile_text(p, frame->name);

        CHECK_STR(name, p->spans[i].duration_ns == 40 ? "forward" : "main");
    }
}

TEST(a_flipped_bit_anywhere_is_seen_and_gives_no_row_a_wrong_name)
{
    struct lw_file_view whole = make_segment(3);
    char *bytes = lw_copy_text((const char *)whole.bytes, whole.len, NULL);

    for (size_t at = 0; at < whole.len; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct lw_error err = { LW_OK, "" };
            struct lw_profile *p;

            bytes[at] ^= (char)(1u << bit);
            p = read_bytes(bytes, whole.len, &err);
            bytes[at] ^= (char)(1u << bit);
            CHECK_EQ(p != NULL, at >= LW_SEGMENT_HEAD_BYTES);
            if (!p)
                continue;
            check_rows(p);
            /* Besides the loss that was written. */
            CHECK(p->loss_count > fixture_loss(p, "ring full", "spans") / 9);
            lw_profile_free(p);
        }
    lw_free(bytes);
    lw_file_close(&whole);
}

static struct lw_chunk_walk walk_of(const struct lw_file_view *segment)
{
    return (struct lw_chunk_walk){ .bytes = segment->bytes + LW_SEGMENT_HEAD_BYTES,
                                   .len = segment->len - LW_SEGMENT_HEAD_BYTES };
}

static uint64_t rows_of(const struct lw_file_view *segment, unsigned kind)
{
    struct lw_chunk_walk walk = walk_of(segment);
    struct lw_chunk chunk;
    uint64_t rows = 0;

    while (lw_chunk_next(&walk, &chunk))
        rows += chunk.kind == kind ? chunk.rows : 0;
    return rows;
}

TEST(a_lost_dictionary_chunk_costs_the_rows_that_need_it)
{
    struct lw_file_view whole = make_segment(3);
    struct lw_chunk_walk walk = walk_of(&whole);
    struct lw_chunk chunk;
    unsigned seen = 0;

    while (lw_chunk_next(&walk, &chunk)) {
        char *bytes = lw_copy_text((const char *)whole.bytes, whole.len, NULL);
        struct lw_profile *p;

        bytes[chunk.body - whole.bytes] ^= 1;
        p = read_bytes(bytes, whole.len, NULL);
        CHECK(p);
        if (chunk.kind == LW_CHUNK_FRAMES || chunk.kind == LW_CHUNK_STACKS) {
            CHECK_EQ(p->call_count + p->sample_count + p->span_count, 0);
            CHECK_EQ(fixture_loss(p, "damaged in the file", "call counts"),
                     rows_of(&whole, LW_CHUNK_CALLS));
            CHECK_EQ(fixture_loss(p, "damaged in the file", "samples"), 6);
            CHECK_EQ(fixture_loss(p, "damaged in the file", "spans"), 6);
            seen++;
        }
        lw_profile_free(p);
        lw_free(bytes);
    }
    CHECK_EQ(seen, 2);
    lw_file_close(&whole);
}

/* The bytes of a segment of our own making: a head, then what OUT gets. */
static void start_bytes(struct lw_buf *out)
{
    struct lw_segment_head head = {
        .major = LW_LAP_MAJOR, .process = 1, .segment = 1, .last = 1
    };
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];

    lw_segment_head_put(&head, bytes);
    lw_buf_add(out, bytes, sizeof(bytes));
}

TEST(unknown_kinds_and_more_columns_are_passed_over)
{
    struct lw_chunk_coder coder;
    struct lw_buf out = { 0 }, body = { 0 };
    struct lw_thread_row thread = { .number = 0, .tid = 7 };
    struct lw_profile *p;

    lw_chunk_coder_init(&coder);
    start_bytes(&out);
    lw_chunk_append(&coder, 999, 5, "something new", 13, 1, &out);
    lw_rows_encode(LW_CHUNK_THREADS, NULL, &thread, 1, &body);
    lw_buf_add_text(&body, "another column");
    lw_chunk_append(&coder, LW_CHUNK_THREADS, 1, body.bytes, body.len, 1, &out);
    p = read_bytes(out.bytes, out.len, NULL);
    CHECK(p);
    CHECK_EQ(p->thread_count, 1);
    CHECK_EQ(p->threads[0].tid, 7);
    CHECK_EQ(p->loss_count, 0);
    lw_profile_free(p);
    lw_buf_release(&out);
    lw_buf_release(&body);
    lw_chunk_coder_release(&coder);
}

TEST(hostile_numbers_are_damage_and_cost_no_memory)
{
    static const unsigned char huge[] = { 0xfe, 0xff, 0xff, 0xff, 0x0f }; /* 2^32-2 */
    struct lw_chunk_coder coder;
    struct lw_buf out = { 0 }, body = { 0 };
    struct lw_profile *p;

    lw_chunk_coder_init(&coder);
    start_bytes(&out);
    /* Strings whose first number is the last there is: fine, but far away. */
    lw_buf_add(&body, huge, sizeof(huge));
    lw_buf_add(&body, "\1x", 2);
    lw_chunk_append(&coder, LW_CHUNK_STRINGS, 1, body.bytes, body.len, 1, &out);
    /* The same numbers again. */
    lw_chunk_append(&coder, LW_CHUNK_STRINGS, 1, body.bytes, body.len, 1, &out);
    /* More rows than bytes. */
    lw_chunk_append(&coder, LW_CHUNK_SPANS, 60000, "\0\0\0\0", 4, 1, &out);
    /* A thread number beyond what we take. */
    lw_buf_reset(&body);
    lw_buf_add(&body, huge, sizeof(huge));
    lw_buf_add(&body, "\0\0\0\0", 4);
    lw_chunk_append(&coder, LW_CHUNK_THREADS, 1, body.bytes, body.len, 1, &out);
    /* A stack above itself. */
    lw_chunk_append(&coder, LW_CHUNK_STACKS, 1, "\5\0\0", 3, 1, &out);
    p = read_bytes(out.bytes, out.len, NULL);
    CHECK(p);
    CHECK_EQ(fixture_loss(p, "damaged", "names"), 1);
    CHECK_EQ(fixture_loss(p, "damaged", "spans"), 60000);
    CHECK_EQ(fixture_loss(p, "damaged", "threads"), 1);
    CHECK_EQ(fixture_loss(p, "damaged", "stacks"), 1);
    lw_profile_free(p);
    lw_buf_release(&out);
    lw_buf_release(&body);
    lw_chunk_coder_release(&coder);
}

TEST(what_is_not_a_segment_or_too_new_is_one_sentence)
{
    struct lw_segment_head head = {
        .major = LW_LAP_MAJOR + 1, .process = 1, .segment = 1, .last = 1
    };
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];
    struct lw_error err = { LW_OK, "" };

    CHECK(!read_bytes("", 0, &err));
    CHECK_STR(err.text, "x.seg: not a segment of a Lapwing recording");
    CHECK(!read_bytes("GIF89a, and so on", 17, &err));
    CHECK_STR(err.text, "x.seg: not a segment of a Lapwing recording");
    CHECK(!read_bytes(LW_SEGMENT_MAGIC, 8, &err));
    CHECK_STR(err.text, "x.seg: ends within the head of the segment");
    lw_segment_head_put(&head, bytes);
    CHECK(!read_bytes(bytes, sizeof(bytes), &err));
    CHECK_STR(err.text,
              "x.seg: recorded by a newer Lapwing (format 2.0, this one reads "
              "up to 1): please update lapwing");
    CHECK_EQ(err.code, LW_ERR_UNSUPPORTED);
    bytes[20] ^= 1;
    CHECK(!read_bytes(bytes, sizeof(bytes), &err));
    CHECK_STR(err.text, "x.seg: the head of the segment is damaged");
}

TEST(running_out_of_memory_while_reading_is_one_sentence_and_no_leak)
{
    char *folder = fixture_folder();
    unsigned failures = 0;

    fixture_write(folder, 1, 40, NULL); /* compressed chunks too */
    for (uint64_t n = 1; n < 200; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_profile *p;

        lw_alloc_fail_in(n);
        p = lw_lap_load(folder, LW_WANT_ALL | LW_WANT_SAMPLE_SUMS, &err);
        lw_alloc_fail_in(0);
        /* A few requests have another way, as the look for a living recorder. */
        CHECK(p ? p->loss_count == 1 && p->call_count == 3 && p->span_count == 80
                : err.code == LW_ERR_NOMEM && err.text[0]);
        failures += !p;
        lw_profile_free(p);
    }
    CHECK(failures > 20 && failures < 150);
    fixture_remove(folder);
}
