#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/deflate.h"
#include "base/stream.h"

#define BYTES 300000 /* more than a window */

static char text[BYTES];

static void fill_text(void)
{
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (char)('a' + i * i % 26);
}

TEST(how_much_comes_is_the_size_of_a_file)
{
    char path[] = "/tmp/lapwing-test-XXXXXX";
    int fd = mkstemp(path);
    struct lw_stream stream;

    fill_text();
    CHECK(write(fd, text, BYTES) == BYTES);
    CHECK(lw_stream_open(&stream, path, path, NULL));
    CHECK(!stream.is_at_end);
    CHECK_EQ(lw_stream_expected(&stream), BYTES);
    CHECK(lw_stream_slide(&stream, stream.len, NULL));
    CHECK_EQ(lw_stream_expected(&stream), BYTES);
    lw_stream_close(&stream);
    close(fd);
    unlink(path);
}

TEST(how_much_comes_is_the_size_of_bytes)
{
    struct lw_stream stream;

    fill_text();
    CHECK(lw_stream_open_bytes(&stream, text, BYTES, 0, NULL));
    CHECK_EQ(lw_stream_expected(&stream), BYTES);
    CHECK(lw_stream_slide(&stream, stream.len, NULL));
    CHECK_EQ(lw_stream_expected(&stream), BYTES);
    lw_stream_close(&stream);
}

TEST(how_much_comes_of_gzip_is_a_guess)
{
    struct lw_stream stream;
    struct lw_buf packed;

    fill_text();
    lw_buf_init(&packed, 0);
    CHECK(lw_deflate(text, BYTES, &packed, NULL));
    CHECK(lw_stream_open_bytes(&stream, packed.bytes, packed.len, 0, NULL));
    CHECK_EQ(lw_stream_expected(&stream), packed.len * LW_STREAM_PACKED);
    lw_stream_close(&stream);
    lw_buf_release(&packed);
}

TEST(how_much_comes_of_a_pipe_cannot_be_told)
{
    char path[64];
    int ends[2];
    struct lw_stream stream;

    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "[]", 2) == 2);
    close(ends[1]);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    CHECK(lw_stream_open(&stream, path, path, NULL));
    CHECK_EQ(stream.len, 2);
    CHECK_EQ(lw_stream_expected(&stream), 0);
    lw_stream_close(&stream);
    close(ends[0]);
}
