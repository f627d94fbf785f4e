#include "test.h"

#include "base/alloc.h"
#include "base/arena.h"

TEST(nothing_at_all_can_be_allocated_and_freed)
{
    void *memory = lw_alloc(0, NULL);

    CHECK(memory != NULL);
    lw_free(memory);
    lw_free(NULL);
}

TEST(zeroed_memory_is_zero)
{
    char *memory = lw_zalloc(100, 7, NULL);

    for (int i = 0; i < 700; i++)
        CHECK_EQ(memory[i], 0);
    lw_free(memory);
}

TEST(a_count_times_a_size_that_overflows_is_refused)
{
    struct lw_error err;
    volatile size_t half = SIZE_MAX / 2;

    CHECK(lw_zalloc(half, 4, &err) == NULL);
    CHECK_EQ(err.code, LW_ERR_NOMEM);
}

TEST(the_chosen_request_fails_and_only_that_one)
{
    struct lw_error err = { LW_OK, "" };
    void *first, *third;

    lw_alloc_fail_in(2);
    first = lw_alloc(1, &err);
    CHECK(first != NULL);
    CHECK(lw_alloc(10, &err) == NULL);
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    CHECK_STR(err.text, "out of memory (10 bytes wanted)");
    third = lw_alloc(1, &err);
    CHECK(third != NULL);
    lw_free(first);
    lw_free(third);
}

TEST(growing_keeps_what_was_there)
{
    uint32_t *numbers = NULL;
    size_t capacity = 0, moves = 0;

    for (uint32_t i = 0; i < 100000; i++) {
        size_t before = capacity;

        CHECK(lw_grow(&numbers, &capacity, i + 1, sizeof(*numbers), NULL));
        moves += capacity != before;
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < 100000; i++)
        CHECK_EQ(numbers[i], i);
    CHECK(moves < 40); /* it grew geometrically */
    lw_free(numbers);
}

TEST(what_is_large_can_be_filled_grown_and_freed)
{
    const size_t large = ((size_t)5 << 20) + 3;
    unsigned char *bytes = NULL, *alone = lw_alloc(large, NULL);
    size_t capacity = 0;

    memset(alone, 7, large);
    CHECK(lw_grow(&bytes, &capacity, large, 1, NULL));
    CHECK(capacity >= large);
    memcpy(bytes, alone, large);
    CHECK(lw_grow(&bytes, &capacity, 3 * large, 1, NULL));
    CHECK(memcmp(bytes, alone, large) == 0);
    memset(bytes, 8, 3 * large);
    lw_free(bytes);
    lw_free(alone);
}

TEST(growing_beyond_all_memory_leaves_the_items_as_they_were)
{
    uint64_t *numbers = NULL;
    size_t capacity = 0, before;
    struct lw_error err;

    CHECK(lw_grow(&numbers, &capacity, 1, sizeof(*numbers), NULL));
    numbers[0] = 42;
    before = capacity;
    CHECK(!lw_grow(&numbers, &capacity, SIZE_MAX / 8, sizeof(*numbers), &err));
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    CHECK(!lw_grow(&numbers, &capacity, SIZE_MAX, sizeof(*numbers), &err));
    lw_alloc_fail_in(1);
    CHECK(!lw_grow(&numbers, &capacity, 1000, sizeof(*numbers), &err));
    CHECK_EQ(capacity, before);
    CHECK_EQ(numbers[0], 42);
    lw_free(numbers);
}

TEST(copied_text_ends_in_nul)
{
    char *copy = lw_copy_text("lapwing", 3, NULL);

    CHECK_STR(copy, "lap");
    lw_free(copy);
    copy = lw_copy_text(NULL, 0, NULL);
    CHECK_STR(copy, "");
    lw_free(copy);
}

TEST(pieces_of_an_arena_are_aligned_and_apart)
{
    struct lw_arena arena;
    unsigned char *pieces[500];

    lw_arena_init(&arena);
    for (size_t i = 0; i < 500; i++) {
        pieces[i] = lw_arena_alloc(&arena, i * 7, NULL);
        CHECK(pieces[i] != NULL);
        CHECK_EQ((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), i * 7);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t j = 0; j < i * 7; j++)
            CHECK_EQ(pieces[i][j], i & 0xff);
    lw_arena_release(&arena);
    CHECK_EQ(arena.used_bytes, 0);
}

TEST(a_piece_larger_than_a_block_gets_its_own)
{
    struct lw_arena arena;
    char *small, *large, *next;

    lw_arena_init(&arena);
    small = lw_arena_copy(&arena, "small", 5, NULL);
    large = lw_arena_alloc(&arena, 5000000, NULL);
    next = lw_arena_copy(&arena, "next", 4, NULL);
    CHECK(large != NULL);
    memset(large, 1, 5000000);
    CHECK_STR(small, "small");
    CHECK_STR(next, "next");
    CHECK(next - small < 100); /* the first block is still in use */
    lw_arena_release(&arena);
}

TEST(an_arena_survives_running_out_of_memory)
{
    struct lw_arena arena;
    struct lw_error err;
    char *kept;

    lw_arena_init(&arena);
    lw_alloc_fail_in(1);
    CHECK(lw_arena_alloc(&arena, 10, &err) == NULL);
    CHECK_EQ(err.code, LW_ERR_NOMEM);
    kept = lw_arena_copy(&arena, "kept", 4, &err);
    lw_alloc_fail_in(1);
    CHECK(lw_arena_alloc(&arena, 100000, &err) == NULL);
    CHECK(lw_arena_alloc(&arena, SIZE_MAX - 3, &err) == NULL);
    CHECK(lw_arena_copy(&arena, "x", SIZE_MAX, &err) == NULL);
    CHECK_STR(kept, "kept");
    lw_arena_release(&arena);
}
