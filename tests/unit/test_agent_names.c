#include "test.h"

#include <pthread.h>
#include <stdio.h>

#include "agent/names.h"
#include "whole_region.h"

static struct lw_region region;
static struct lw_names names;

static void start(void)
{
    struct lw_region_options options = { .shared = true };

    CHECK(lw_region_create(&region, &options));
    CHECK(lw_names_init(&names));
    names.log = &region;
}

static void stop(void)
{
    lw_names_release(&names);
    lw_region_release(&region);
}

static uint32_t phase(const char *file, const char *name)
{
    const struct lw_name_text *text =
        lw_names_intern(&names, LW_NAME_PHASE, file, strlen(file), name, strlen(name));

    return text ? text->number : 0;
}

/* How many records are in the log; each must be whole and have the next number. */
static uint32_t logged(void)
{
    struct whole_region whole = whole_region_map(&region);
    uint64_t used = atomic_load(&region.header->names_used);
    uint32_t count = 0;

    for (uint64_t at = 0; at < used;) {
        struct lw_agent_name record;

        memcpy(&record, whole_region_names(&whole) + at, sizeof(record));
        CHECK_EQ(record.number, ++count);
        CHECK(sizeof(record) + record.file_len + record.name_len <=
              record.record_bytes);
        at += record.record_bytes;
    }
    whole_region_unmap(&whole);
    return count;
}

TEST(a_name_has_one_number_of_its_kind_and_file)
{
    uint32_t forward;

    start();
    forward = phase("Net", "forward");
    CHECK_EQ(forward, 1);
    CHECK_EQ(phase("Net", "forward"), forward);
    CHECK_EQ(phase("Head", "forward"), 2);
    CHECK_EQ(phase("Netf", "orward"), 3); /* the same bytes, parted elsewhere */
    CHECK_EQ(lw_names_intern(&names, LW_NAME_OP, "Net", 3, "forward", 7)->number, 4);
    CHECK_EQ(logged(), 4);
    stop();
}

TEST(functions_and_interned_names_share_one_row_of_numbers)
{
    struct lw_agent_name head = { .file_len = 4, .name_len = 5, .first_line = 7 };

    start();
    CHECK_EQ(phase("", "data"), 1);
    lw_names_lock(&names);
    CHECK_EQ(lw_names_take(&names, &head, "a.py", "train"), 2);
    lw_names_unlock(&names);
    CHECK_EQ(phase("", "step"), 3);
    CHECK_EQ(phase("", "data"), 1);
    CHECK_EQ(logged(), 3);
    stop();
}

TEST(a_second_log_hears_of_the_same_names)
{
    struct lw_region_options options = { .shared = true };
    struct lw_region first;

    start();
    CHECK_EQ(phase("", "data"), 1);
    lw_names_log_to_nobody(&names);
    CHECK_EQ(phase("SGD", "optimizer"), 2); /* between two recordings */
    first = region;
    CHECK(lw_region_create(&region, &options));
    lw_names_lock(&names);
    names.log = &region;
    CHECK(lw_names_log_interned(&names, 1));
    CHECK(lw_names_log_interned(&names, 2));
    CHECK(!lw_names_log_interned(&names, 3));
    lw_names_unlock(&names);
    CHECK_EQ(phase("", "data"), 1);
    CHECK_EQ(logged(), 2);
    lw_region_release(&first);
    stop();
}

TEST(names_may_be_empty_or_hold_any_byte_and_are_cut_where_nobody_reads_on)
{
    static char giant[LW_NAME_BYTES + 10];
    const struct lw_name_text *text;

    start();
    memset(giant, 'x', sizeof(giant));
    CHECK_EQ(phase("", ""), 1);
    CHECK_STR(lw_name_text_name(names.texts[0]), "");
    text = lw_names_intern(&names, LW_NAME_MARK, "", 0, "a\0\xff", 3);
    CHECK_EQ(text->name_len, 3);
    CHECK(memcmp(lw_name_text_name(text), "a\0\xff", 4) == 0);
    text = lw_names_intern(&names, LW_NAME_MARK, giant, sizeof(giant), giant,
                           sizeof(giant));
    CHECK_EQ(text->name_len, LW_NAME_BYTES);
    CHECK_EQ(lw_names_intern(&names, LW_NAME_MARK, giant, LW_NAME_BYTES, giant,
                             sizeof(giant) - 1)
                 ->number,
             text->number);
    CHECK_EQ(logged(), 3);
    stop();
}

TEST(a_program_that_makes_names_without_end_is_told_to_stop_and_it_is_counted)
{
    uint32_t made = 0;
    char name[32];

    start();
    while (snprintf(name, sizeof(name), "batch %u", made) > 0 && phase("", name))
        made++;
    CHECK(made >= 1000 && made <= 1 << 16);
    CHECK_EQ(phase("", name), 0);
    CHECK_EQ(phase("", "batch 0"), 1); /* those there are still found */
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_NAMES]), 2);
    CHECK_EQ(logged(), made);
    stop();
}

enum { THREADS = 4, SHARED_NAMES = 500 };

static uint32_t seen[THREADS][SHARED_NAMES];

static void *intern_all(void *row)
{
    uint32_t *numbers = row;
    char name[32];

    for (uint32_t i = 0; i < SHARED_NAMES; i++) {
        int len = snprintf(name, sizeof(name), "name %u", i);

        numbers[i] =
            lw_names_intern(&names, LW_NAME_MARK, "", 0, name, (size_t)len)->number;
    }
    return NULL;
}

TEST(threads_that_meet_the_same_names_at_once_get_the_same_numbers)
{
    pthread_t threads[THREADS];

    start();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, intern_all, seen[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(memcmp(seen[i], seen[0], sizeof(seen[0])) == 0);
    CHECK_EQ(logged(), SHARED_NAMES);
    stop();
}
