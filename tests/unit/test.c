/* The harness behind test.h: collects the tests of one program and runs them. */

#include "test.h"

#include <math.h>
#include <stdio.h>

#define TESTS_MAX 500 /* in one file; more want another file */

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

void lw_test_add(const char *name, void (*body)(void **state))
{
    if (test_count == TESTS_MAX)
        return;
    tests[test_count].name = name;
    tests[test_count].test_func = body;
    test_count++;
}

void lw_check_eq(uint64_t a, uint64_t b, const char *what, const char *file, int line)
{
    if (a == b)
        return;
    print_error("%s: %lld is not %lld\n", what, (long long)a, (long long)b);
    _fail(file, line);
}

void lw_check_str(const char *a, const char *b, const char *what, const char *file,
                  int line)
{
    if (a && b && strcmp(a, b) == 0)
        return;
    print_error("%s:\n  got  %s\n  want %s\n", what, a ? a : "NULL", b ? b : "NULL");
    _fail(file, line);
}

void lw_check_near(double a, double b, const char *what, const char *file, int line)
{
    if (fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)))
        return;
    print_error("%s: %.17g is not %.17g\n", what, a, b);
    _fail(file, line);
}

int main(void)
{
    if (test_count == TESTS_MAX) {
        print_error("more than %d tests in one file\n", TESTS_MAX - 1);
        return 1;
    }
    return _cmocka_run_group_tests("tests", tests, test_count, NULL, NULL);
}
