/* What a unit test includes, and all it needs: no list of tests, no main().
 *
 *     TEST(same_text_has_one_number)
 *     {
 *         CHECK_EQ(lw_strings_count(t), 1);
 *     }
 *
 * A test's name is a sentence about behaviour. A failing check prints the line and
 * ends the test. Memory a test leaks fails the program under ASan. */
#ifndef LW_TEST_H
#define LW_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Adds a test; TEST calls it before main(). NAME must stay. */
void lw_test_add(const char *name, void (*body)(void **state));

#define TEST(name) \
    static void test_##name(void **state); \
    __attribute__((constructor)) static void add_##name(void) \
    { \
        lw_test_add(#name, test_##name); \
    } \
    static void test_##name(void **state __attribute__((unused)))

#define CHECK(condition) \
    _assert_true((condition) ? 1 : 0, #condition, __FILE__, __LINE__)

/* Integers (as 64 bits), text, bytes, and doubles within a relative 1e-9. */
#define CHECK_EQ(a, b) \
    lw_check_eq((uint64_t)(a), (uint64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) lw_check_str(a, b, #a " is " #b, __FILE__, __LINE__)
#define CHECK_BYTES(a, b, len) _assert_memory_equal(a, b, len, __FILE__, __LINE__)
#define CHECK_NEAR(a, b) lw_check_near(a, b, #a " is near " #b, __FILE__, __LINE__)

void lw_check_eq(uint64_t a, uint64_t b, const char *what, const char *file, int line);
void lw_check_str(const char *a, const char *b, const char *what, const char *file,
                  int line);
void lw_check_near(double a, double b, const char *what, const char *file, int line);

#endif
