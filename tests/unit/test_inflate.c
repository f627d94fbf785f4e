#include "test.h"

#include <isa-l/igzip_lib.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/inflate.h"

/* TEXT as a gzip member, appended to OUT. */
static void pack(struct lw_buf *out, const void *text, size_t len)
{
    struct isal_zstream *stream = lw_zalloc(1, sizeof(*stream), NULL);
    size_t room = len + 1000, before = out->len;

    isal_deflate_stateless_init(stream);
    stream->gzip_flag = IGZIP_GZIP;
    stream->end_of_stream = 1;
    stream->next_in = (uint8_t *)(uintptr_t)text;
    stream->avail_in = (uint32_t)len;
    stream->next_out = lw_buf_extend(out, room);
    stream->avail_out = (uint32_t)room;
    CHECK_EQ(isal_deflate_stateless(stream), COMP_OK);
    out->len = before + room - stream->avail_out;
    lw_free(stream);
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

TEST(what_was_packed_comes_out)
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

TEST(members_follow_each_other_and_zeros_behind_them_are_nothing)
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

TEST(large_files_come_in_pieces)
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

TEST(every_cut_is_said)
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

TEST(damage_is_found)
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
    CHECK_EQ(err.code, LW_ERR_FORMAT);
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST(a_bomb_is_left_alone)
{
    size_t len = (size_t)100 << 20;
    char *zeros = lw_zalloc(len, 1, NULL);
    struct lw_error err = { LW_OK, "" };
    struct lw_buf packed, out;

    lw_buf_init(&packed, 0);
    lw_buf_init(&out, 0);
    pack(&packed, zeros, len);
    lw_free(zeros);
    if (packed.len * LW_INFLATE_RATIO + LW_INFLATE_FREE_BYTES < len) {
        CHECK(!lw_inflate(packed.bytes, packed.len, &out, &err));
        CHECK_EQ(err.code, LW_ERR_LIMIT);
        CHECK(out.len <= packed.len * LW_INFLATE_RATIO + LW_INFLATE_FREE_BYTES);
    } else {
        CHECK(lw_inflate(packed.bytes, packed.len, &out, &err));
    }
    lw_buf_release(&packed);
    lw_buf_release(&out);
}

TEST(the_head_can_be_had_from_the_first_bytes)
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
