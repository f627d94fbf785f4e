#include "test.h"

#include <stdio.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/deflate.h"
#include "base/gzip.h"
#include "base/inflate.h"

/* A test for each of the libraries, whichever the program would choose. */
#define TEST_EACH(name) \
    static void name(void); \
    TEST(name##_by_isal) \
    { \
        CHECK(lw_gzip_isal() != NULL); \
        lw_gzip_use(lw_gzip_isal()); \
        name(); \
    } \
    TEST(name##_by_zlib) \
    { \
        lw_gzip_use(&lw_gzip_zlib); \
        name(); \
    } \
    static void name(void)

/* TEXT as a gzip member as small as can be, appended to OUT. */
static void pack(struct lw_buf *out, const void *text, size_t len)
{
    size_t room = len + 1000, before = out->len;
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)text,
        .avail_in = (uInt)len,
        .next_out = lw_buf_extend(out, room),
        .avail_out = (uInt)room,
    };

    CHECK_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
             Z_OK);
    CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out->len = before + room - stream.avail_out;
    deflateEnd(&stream);
}

static void check_fails(const struct lw_buf *packed, size_t len, const char *sentence)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_buf out;

    lw_buf_init(&out, 0);
    CHECK(!lw_inflate(packed->bytes, len, &out, &err));
    CHECK_STR(err.text, sentence);
    lw_buf_release(&out);
}

TEST_EACH(what_was_packed_comes_out)
{
    struct lw_buf packed, out;

    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    pack(&packed, "main;train 4\n", 13);
    CHECK(lw_inflate_is_gzip(packed.bytes, packed.len));
    CHECK(lw_inflate(packed.bytes, packed.len, &out, NULL));
    CHECK_STR(out.bytes, "main;train 4\n");
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(members_follow_each_other_and_zeros_behind_them_are_nothing)
{
    struct lw_buf packed, out;

    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    pack(&packed, "one ", 4);
    pack(&packed, "", 0);
    pack(&packed, "two", 3);
    lw_buf_add_repeat(&packed, '\0', 512);
    CHECK(lw_inflate(packed.bytes, packed.len, &out, NULL));
    CHECK_STR(out.bytes, "one two");
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(large_files_come_in_pieces)
{
    struct lw_buf text, packed, out;

    lw_buf_init(&text, 0);
    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    for (unsigned i = 0; i < 200000; i++)
        lw_buf_addf(&text, "main;f%u;g%u %u\n", i % 97, i * 31 % 1009, i);
    pack(&packed, text.bytes, text.len);
    CHECK(lw_inflate(packed.bytes, packed.len, &out, NULL));
    CHECK_EQ(out.len, text.len);
    CHECK_BYTES(out.bytes, text.bytes, text.len);
    lw_buf_release(&text);
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(every_cut_is_said)
{
    struct lw_buf packed;
    char sentence[80];

    lw_buf_init(&packed, 0);
    pack(&packed, "main;train;forward 4\n", 21);
    for (size_t len = 2; len < packed.len; len++) {
        snprintf(sentence, sizeof(sentence),
                 "gzip: the file ends too early, at byte %zu", len);
        check_fails(&packed, len, sentence);
    }
    lw_buf_release(&packed);
}

TEST_EACH(damage_is_found)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_buf packed, out;

    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    pack(&packed, "main;train;forward 4\n", 21);
    packed.bytes[packed.len - 6] ^= 1; /* of the checksum */
    CHECK(!lw_inflate(packed.bytes, packed.len, &out, &err));
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    CHECK(strstr(err.text, "the checksum does not fit") != NULL);
    packed.bytes[2] = 7; /* no such method */
    CHECK(!lw_inflate(packed.bytes, packed.len, &out, &err));
    CHECK(strstr(err.text, "this is not the head of a gzip member") != NULL);
    packed.bytes[2] = 8;
    packed.bytes[10] = 7; /* no such kind of block */
    CHECK(!lw_inflate(packed.bytes, packed.len, &out, &err));
    CHECK(strstr(err.text, "what is compressed there is damaged") != NULL);
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(a_bomb_is_left_alone)
{
    size_t len = (size_t)100 << 20;
    char *zeros = lw_zalloc(len, 1, NULL);
    struct lw_error err = { LW_OK, "" };
    struct lw_buf packed, out;

    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    pack(&packed, zeros, len);
    lw_free(zeros);
    CHECK(packed.len * LW_INFLATE_RATIO + LW_INFLATE_FREE_BYTES < len);
    CHECK(!lw_inflate(packed.bytes, packed.len, &out, &err));
    CHECK_EQ(err.code, LW_ERR_LIMIT);
    CHECK(out.len <= packed.len * LW_INFLATE_RATIO + LW_INFLATE_FREE_BYTES);
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(the_head_can_be_had_from_the_first_bytes)
{
    struct lw_buf packed;
    char head[16];
    size_t len = sizeof(head);

    lw_buf_init(&packed, 0);
    pack(&packed, "main;train;forward;conv2d;more;and;more 4\n", 42);
    lw_inflate_head(packed.bytes, packed.len - 12, head, &len);
    CHECK_EQ(len, sizeof(head));
    CHECK_BYTES(head, "main;train;forwa", 16);
    len = sizeof(head);
    lw_inflate_head("\x1f\x8b", 2, head, &len);
    CHECK_EQ(len, 0);
    lw_buf_release(&packed);
}

TEST_EACH(what_we_pack_both_can_unpack)
{
    struct lw_buf text, packed, out;

    lw_buf_init(&text, 0);
    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    for (unsigned i = 0; i < 200000; i++)
        lw_buf_addf(&text, "main;f%u;g%u %u\n", i % 97, i * 31 % 1009, i);
    CHECK(lw_deflate(text.bytes, text.len, &packed, NULL));
    CHECK(lw_deflate("", 0, &packed, NULL));
    CHECK(packed.len < text.len / 2);
    lw_gzip_use(&lw_gzip_zlib);
    CHECK(lw_inflate(packed.bytes, packed.len, &out, NULL));
    CHECK_EQ(out.len, text.len);
    CHECK_BYTES(out.bytes, text.bytes, text.len);
    lw_buf_reset(&out);
    lw_gzip_use(lw_gzip_isal());
    CHECK(lw_inflate(packed.bytes, packed.len, &out, NULL));
    CHECK_EQ(out.len, text.len);
    CHECK_BYTES(out.bytes, text.bytes, text.len);
    lw_buf_release(&text);
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST_EACH(running_out_of_memory_is_said)
{
    struct lw_error err;
    struct lw_buf packed, out;
    bool done = false;
    size_t len = 0;

    lw_buf_init(&packed, 0);
    pack(&packed, "main;train;forward 4\n", 21);
    for (uint64_t request = 1; !done; request++) {
        lw_buf_init(&out, 0);
        err.code = LW_OK;
        lw_alloc_fail_in(request);
        done = lw_inflate(packed.bytes, packed.len, &out, &err);
        lw_alloc_fail_in(0);
        CHECK_EQ(err.code, done ? LW_OK : LW_ERR_NOMEM);
        lw_buf_release(&out);
    }
    for (uint64_t request = 1; len == 0; request++) {
        lw_buf_init(&out, 0);
        err.code = LW_OK;
        lw_alloc_fail_in(request);
        if (lw_deflate(packed.bytes, packed.len, &out, &err))
            len = out.len;
        lw_alloc_fail_in(0);
        CHECK_EQ(err.code, len ? LW_OK : LW_ERR_NOMEM);
        lw_buf_release(&out);
    }
    lw_buf_release(&packed);
}
