/* Memory from the C library, with a switch that makes a chosen request fail.
 *
 * The switch is there in every build: `LAPWING_TEST_FAIL_ALLOC=7 lapwing report x` is
 * how the torture tests walk through every request of a command. When it is off it
 * costs one relaxed load a request. */

#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Half a terabyte: what asks for more has read a length from a bad file. The C library
 * would say no as well, but the sanitizers end the program instead. */
#define LARGEST ((size_t)1 << 39)
#define SMALL_PAGE ((size_t)1 << 12)
#define LARGE_PAGE ((size_t)1 << 21)

/* Requests until the one that fails; 0: none does. The library's one variable. */
static _Atomic uint64_t requests_left;

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("LAPWING_TEST_FAIL_ALLOC");

    if (text)
        lw_alloc_fail_in(strtoull(text, NULL, 10));
}

void lw_alloc_fail_in(uint64_t requests)
{
    atomic_store_explicit(&requests_left, requests, memory_order_relaxed);
}

static bool shall_fail(void)
{
    if (atomic_load_explicit(&requests_left, memory_order_relaxed) == 0)
        return false;
    return atomic_fetch_sub_explicit(&requests_left, 1, memory_order_relaxed) == 1;
}

static bool fail_nomem(struct lw_error *err, size_t count, size_t size)
{
    if (count == 1)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory (%zu bytes wanted)", size);
    return lw_fail(err, LW_ERR_NOMEM, "out of memory (%zu times %zu bytes wanted)",
                   count, size);
}

/* What is large is mostly filled from end to end, and in large pages that is a fault for
 * each 2 MB, not for each 4 KB: a tenth of the time of reading a trace. All of the mapping
 * must be asked for, its first bytes (the C library's own) and its last, or it would be
 * two, which cannot grow in place. Where the system has none, nothing is lost. */
static void want_large_pages(void *memory)
{
    size_t size = malloc_usable_size(memory);
    uintptr_t page = (uintptr_t)memory & ~(SMALL_PAGE - 1);

    if (size >= 2 * LARGE_PAGE)
        madvise((void *)page, (uintptr_t)memory + size - page, MADV_HUGEPAGE);
}

/* SIZE bytes; what is large begins where a large page does, so that all of it is in such but
 * the rest behind the last. (It is copied once if it has to grow: it lies in two mappings.) */
static void *take(size_t size)
{
    size_t rest = size % LARGE_PAGE;
    void *memory;

    if (size < LARGE_PAGE)
        return malloc(size ? size : 1);
    memory = aligned_alloc(LARGE_PAGE, rest ? size - rest + LARGE_PAGE : size);
    if (memory)
        madvise(memory, size - rest, MADV_HUGEPAGE);
    return memory;
}

void *lw_alloc(size_t size, struct lw_error *err)
{
    void *memory = NULL;

    if (!shall_fail() && size <= LARGEST)
        memory = take(size);
    if (!memory)
        fail_nomem(err, 1, size);
    return memory;
}

void *lw_zalloc(size_t count, size_t size, struct lw_error *err)
{
    void *memory = NULL;

    if (!shall_fail() && (size == 0 || count <= LARGEST / size))
        memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory)
        fail_nomem(err, count, size);
    else
        want_large_pages(memory);
    return memory;
}

void lw_free(void *memory)
{
    free(memory);
}

char *lw_copy_text(const char *text, size_t len, struct lw_error *err)
{
    char *copy = lw_alloc(len < SIZE_MAX ? len + 1 : len, err);

    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

bool lw_grow_bytes(void *items, size_t *capacity, size_t need, size_t item_size,
                   struct lw_error *err)
{
    size_t most = LARGEST / item_size;
    size_t more = *capacity;
    void *memory;

    if (need <= *capacity)
        return true;
    if (need > most)
        return fail_nomem(err, need, item_size);
    more += more / 2; /* no overflow: the capacity is at most `most` */
    if (more > most)
        more = most;
    if (more < need)
        more = need;
    if (more < 8 && item_size <= 1024)
        more = 8; /* a first handful, so that short lists are made once */

    memcpy(&memory, items, sizeof(memory)); /* *items has any pointer type */
    if (shall_fail()) {
        memory = NULL;
    } else if (!memory) {
        memory = take(more * item_size);
    } else {
        memory = realloc(memory, more * item_size);
        if (memory)
            want_large_pages(memory);
    }
    if (!memory)
        return fail_nomem(err, more, item_size);
    memcpy(items, &memory, sizeof(memory));
    *capacity = more;
    return true;
}
