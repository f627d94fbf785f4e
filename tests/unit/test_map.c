#include "test.h"

#include "base/alloc.h"
#include "base/checksum.h"
#include "base/map.h"

static const uint64_t squares[] = { 0, 1, 4, 9, 16, 25 };

static bool is_square(const void *owner, uint32_t number, const void *key)
{
    return ((const uint64_t *)owner)[number] == *(const uint64_t *)key;
}

TEST(what_was_added_is_found_and_nothing_else)
{
    struct lw_map map;

    lw_map_init(&map);
    for (uint32_t i = 1; i < 6; i++)
        CHECK(lw_map_add(&map, lw_hash_u64(squares[i]), i, NULL));
    for (uint64_t key = 0; key < 30; key++) {
        uint32_t number = lw_map_find(&map, lw_hash_u64(key), is_square, squares, &key);

        if (key == 1 || key == 4 || key == 9 || key == 16 || key == 25)
            CHECK_EQ(squares[number], key);
        else
            CHECK_EQ(number, 0);
    }
    lw_map_release(&map);
}

TEST(an_empty_map_finds_nothing)
{
    struct lw_map map;
    uint64_t key = 1;

    lw_map_init(&map);
    CHECK_EQ(lw_map_find(&map, 0, is_square, squares, &key), 0);
    lw_map_reset(&map);
    lw_map_release(&map);
}

TEST(equal_hashes_are_told_apart_by_the_owner)
{
    struct lw_map map;

    lw_map_init(&map);
    for (uint32_t i = 1; i < 6; i++)
        CHECK(lw_map_add(&map, 12345, i, NULL));
    for (uint32_t i = 1; i < 6; i++)
        CHECK_EQ(lw_map_find(&map, 12345, is_square, squares, &squares[i]), i);
    lw_map_release(&map);
}

static bool is_itself(const void *owner, uint32_t number, const void *key)
{
    (void)owner;
    return number == *(const uint32_t *)key;
}

TEST(a_hundred_thousand_numbers_are_all_found_again)
{
    struct lw_map map;

    lw_map_init(&map);
    for (uint32_t i = 1; i <= 100000; i++)
        CHECK(lw_map_add(&map, lw_hash_u64(i), i, NULL));
    CHECK_EQ(map.count, 100000);
    for (uint32_t i = 1; i <= 100000; i++)
        CHECK_EQ(lw_map_find(&map, lw_hash_u64(i), is_itself, NULL, &i), i);
    lw_map_reset(&map);
    for (uint32_t i = 1; i <= 100; i++)
        CHECK_EQ(lw_map_find(&map, lw_hash_u64(i), is_itself, NULL, &i), 0);
    lw_map_release(&map);
}

TEST(a_map_that_cannot_grow_is_as_it_was)
{
    struct lw_map map;
    uint32_t count = 0, number = 1;

    lw_map_init(&map);
    lw_alloc_fail_in(1);
    CHECK(!lw_map_add(&map, 1, 1, NULL));
    for (; count < 12; count++)
        CHECK(lw_map_add(&map, lw_hash_u64(count + 1), count + 1, NULL));
    lw_alloc_fail_in(1);
    while (lw_map_add(&map, lw_hash_u64(count + 1), count + 1, NULL))
        count++;
    CHECK_EQ(map.count, count);
    for (; number <= count; number++)
        CHECK_EQ(lw_map_find(&map, lw_hash_u64(number), is_itself, NULL, &number),
                 number);
    lw_map_release(&map);
}

TEST(hashes_of_near_texts_lie_apart_in_their_high_half)
{
    /* 20,000 texts that differ in one digit: fewer than one pair in 32 bits expected. */
    static uint32_t tags[20000];
    size_t equal = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        char text[40] = "/usr/lib/python3.11/site-packages/00000";

        for (uint32_t n = i, at = 38; n; n /= 10)
            text[at--] = (char)('0' + n % 10);
        tags[i] = (uint32_t)(lw_hash_bytes(text, 39) >> 32);
    }
    for (uint32_t i = 0; i < 20000; i++)
        for (uint32_t j = i + 1; j < 20000 && j < i + 500; j++)
            equal += tags[i] == tags[j];
    CHECK(equal <= 2);
}

TEST(texts_that_differ_only_in_zero_bytes_hash_apart)
{
    CHECK(lw_hash_bytes("a\0", 2) != lw_hash_bytes("a", 1));
    CHECK(lw_hash_bytes("\0\0", 2) != lw_hash_bytes("\0", 1));
    CHECK(lw_hash_bytes("", 0) != lw_hash_bytes("\0", 1));
}

TEST(the_checksum_is_crc32c_as_everyone_computes_it)
{
    /* RFC 3720, appendix B.4 */
    unsigned char bytes[32];

    memset(bytes, 0, sizeof(bytes));
    CHECK_EQ(lw_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    CHECK_EQ(lw_crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    CHECK_EQ(lw_crc32c(0, bytes, 32), 0x46dd794e);
    CHECK_EQ(lw_crc32c(0, "123456789", 9), 0xe3069283);
    CHECK_EQ(lw_crc32c(0, "", 0), 0);
}

TEST(a_checksum_can_be_taken_in_parts)
{
    char bytes[1000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 31);
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 37)
        CHECK_EQ(lw_crc32c(lw_crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
                 lw_crc32c(0, bytes, sizeof(bytes)));
}

TEST(the_table_and_the_processor_agree)
{
    char bytes[100];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 113);
    CHECK_EQ(lw_crc32c_by_table(0, "123456789", 9), 0xe3069283);
    for (size_t start = 0; start < 8; start++)
        for (size_t len = 0; len < sizeof(bytes) - start; len++)
            CHECK_EQ(lw_crc32c_by_table(7, bytes + start, len),
                     lw_crc32c(7, bytes + start, len));
}
