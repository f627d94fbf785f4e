/* A region as the agent keeps it: how much of it is mapped, and what others may write
 * there. What is counted in it is the business of test_agent_calls. */

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/calls.h"
#include "agent/names.h"
#include "whole_region.h"

enum { MB = 1 << 20 };

static struct lw_region region;

static void create(uint32_t flags, bool shared)
{
    struct lw_region_options options = { .flags = flags, .shared = shared };

    CHECK(lw_region_create(&region, &options));
}

/* Of this process. */
static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    CHECK(file);
    CHECK_EQ(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Calls of FUNCTION, wherever it was called from. */
static uint64_t calls_of(uint32_t function)
{
    uint32_t end = lw_region_blocks_used(&region) * LW_REGION_BLOCK_NODES;
    uint64_t calls = 0;

    for (uint32_t i = 1; i < end; i++)
        if (atomic_load(&lw_region_node(&region, i)->function) == function)
            calls += atomic_load(&lw_region_node(&region, i)->calls);
    return calls;
}

TEST(little_is_mapped_at_the_start)
{
    static const struct {
        uint32_t flags;
        bool shared;
        size_t most;
    } cases[] = {
        { LW_AGENT_CALLS, false, 2 * MB }, /* lapwing.Profile */
        { LW_AGENT_CALLS, true, 4 * MB },
        { LW_AGENT_OPS, true, 4 * MB },
        { LW_AGENT_CALLS | LW_AGENT_TIMELINE, true, 12 * MB },
        { LW_AGENT_ALL_OPS, true, 12 * MB },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t before = address_space();

        create(cases[i].flags, cases[i].shared);
        CHECK(address_space() - before < cases[i].most);
        lw_region_release(&region);
    }
}

TEST(a_ring_is_mapped_while_its_thread_lives)
{
    struct lw_calls_thread *threads[20];
    struct lw_agent_record record = { .kind = LW_RECORD_MARK };
    size_t before, live;

    create(LW_AGENT_TIMELINE, true);
    before = address_space();
    for (int i = 0; i < 20; i++)
        CHECK(threads[i] = lw_calls_thread_new(&region, 0));
    live = address_space() - before;
    CHECK(live >= 19 * 8 * (size_t)MB && live < 21 * 9 * (size_t)MB);
    for (int i = 0; i < 20; i++) {
        lw_calls_add_record(threads[i], &record);
        lw_calls_thread_free(threads[i], true);
    }
    CHECK(address_space() < before); /* the first thread's ring was there too */

    /* The recorder lets go of one; the thread that gets it goes on in its ring. */
    atomic_store(&region.threads[7].state, LW_THREAD_READ);
    CHECK(threads[7] = lw_calls_thread_new(&region, 0));
    CHECK_EQ(threads[7]->slot - region.threads, 7);
    lw_calls_add_record(threads[7], &record);
    CHECK_EQ(atomic_load(&threads[7]->ring->head), 2);
    CHECK_EQ(((struct lw_agent_record *)(threads[7]->ring + 1))[1].generation, 2);
    lw_calls_thread_free(threads[7], true);
    lw_region_release(&region);
}

TEST(each_thread_writes_into_the_ring_of_its_slot)
{
    struct lw_calls_thread *threads[40];
    struct whole_region whole;

    create(0, true);
    whole = whole_region_map(&region);
    for (uint32_t i = 0; i < 40; i++) {
        struct lw_agent_record record = { .kind = LW_RECORD_MARK, .id = 100 + i };

        CHECK(threads[i] = lw_calls_thread_new(&region, 0));
        lw_calls_add_record(threads[i], &record);
    }
    for (uint32_t i = 0; i < 40; i++) {
        struct lw_agent_ring *ring =
            (struct lw_agent_ring *)(void *)(whole.bytes + whole.as_made.rings_offset +
                                             i * whole.as_made.ring_bytes);

        CHECK_EQ(atomic_load(&ring->head), 1);
        CHECK_EQ(((struct lw_agent_record *)(ring + 1))->id, 100 + i);
        lw_calls_thread_free(threads[i], true);
    }
    whole_region_unmap(&whole);
    lw_region_release(&region);
}

TEST(a_thread_without_room_for_its_ring_counts_calls_and_loses_spans)
{
    struct lw_calls_thread *first, *second, *third;
    unsigned char *kept;

    create(LW_AGENT_TIMELINE, true);
    first = lw_calls_thread_new(&region, 0);
    kept = region.own->next_ring;
    region.own->next_ring = (unsigned char *)0x1000; /* where nothing is mapped */
    second = lw_calls_thread_new(&region, 0);
    CHECK(second && !second->ring);
    for (uint64_t i = 1; i <= 5; i++) {
        lw_calls_enter(second, 7, i);
        lw_calls_leave(second, i);
    }
    CHECK_EQ(calls_of(7), 5);
    CHECK_EQ(lw_calls_room(second), 0);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_ROOM]), 5);
    CHECK_EQ(atomic_load(&region.header->lost[LW_LOST_RECORDS]), 0);

    region.own->next_ring = kept; /* and there is room again */
    third = lw_calls_thread_new(&region, 0);
    CHECK(third->ring);
    lw_calls_thread_free(first, true);
    lw_calls_thread_free(second, true);
    lw_calls_thread_free(third, true);
    lw_region_release(&region);
}

TEST(nodes_and_names_beyond_what_was_mapped_first_are_where_the_layout_says)
{
    struct whole_region whole;
    struct lw_calls_thread *thread;
    struct lw_agent_name head = { .name_len = 100 };
    static const char text[100] = "name";
    uint64_t at = 0;

    create(LW_AGENT_CALLS, true);
    whole = whole_region_map(&region);
    thread = lw_calls_thread_new(&region, 0);
    for (uint32_t f = 1; f <= 200000; f++) {
        lw_calls_enter(thread, f, f);
        lw_calls_leave(thread, f);
    }
    for (uint32_t i = 4; i < 200000; i++) {
        struct lw_agent_node *node =
            (struct lw_agent_node *)(void *)(whole.bytes + whole.as_made.nodes_offset) +
            i;

        CHECK_EQ(atomic_load(&node->calls), 1);
        CHECK_EQ(node->parent, 1);
    }
    for (head.number = 1; head.number <= 50000; head.number++)
        CHECK(lw_region_add_name(&region, &head, "", text));
    for (uint32_t i = 1; i <= 50000; i++) {
        struct lw_agent_name record;

        memcpy(&record, whole_region_names(&whole) + at, sizeof(record));
        CHECK_EQ(record.number, i);
        CHECK_STR((char *)whole_region_names(&whole) + at + sizeof(record), "name");
        at += record.record_bytes;
    }
    CHECK_EQ(at, atomic_load(&region.header->names_used));
    lw_calls_thread_free(thread, true);
    whole_region_unmap(&whole);
    lw_region_release(&region);
}

/* The names of a parent with COUNT of them, in the region of its child, which adds one. */
static void check_copied_names(uint32_t count)
{
    struct lw_region_options options = { .shared = true };
    struct lw_agent_name head = { .name_len = 3000 };
    static const char text[3000];
    struct lw_region parent;
    struct whole_region whole;
    uint64_t at = 0;

    CHECK(lw_region_create(&parent, &options));
    for (head.number = 1; head.number <= count; head.number++)
        CHECK(lw_region_add_name(&parent, &head, "", text));
    create(LW_AGENT_FORKED, true);
    CHECK(lw_region_copy_names(&region, &parent));
    CHECK(lw_region_add_name(&region, &head, "", text));
    whole = whole_region_map(&region);
    for (uint32_t i = 1; i <= count + 1; i++) {
        struct lw_agent_name record;

        memcpy(&record, whole_region_names(&whole) + at, sizeof(record));
        CHECK_EQ(record.number, i);
        at += record.record_bytes;
    }
    CHECK_EQ(at, atomic_load(&region.header->names_used));
    whole_region_unmap(&whole);
    lw_region_release(&parent);
    lw_region_release(&region);
}

TEST(a_forked_child_has_all_names_of_its_parent)
{
    check_copied_names(0);
    check_copied_names(10);   /* they fit what is mapped at the start */
    check_copied_names(1000); /* 3 MB */
}

TEST(nobody_can_cut_the_memory_off)
{
    create(0, true);
    CHECK_EQ(ftruncate(region.fd, 4096), -1);
    CHECK_EQ(ftruncate(region.fd, (off_t)1 << 40), -1);
    CHECK_EQ(fcntl(region.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    lw_region_release(&region);
}

/* ---- others write there -------------------------------------------------------------- */

/* Bytes at random in every part that the agent has anything to do with. */
static void scribble(const struct whole_region *whole, unsigned *seed)
{
    const struct lw_agent_header *made = &whole->as_made;
    const uint64_t parts[] = { 0,
                               made->threads_offset,
                               made->blocks_offset,
                               made->nodes_offset,
                               made->names_offset,
                               made->rings_offset,
                               made->rings_offset + made->ring_bytes };

    for (int i = 0; i < 4000; i++) {
        uint64_t at = parts[(unsigned)rand_r(seed) % (sizeof(parts) / sizeof(*parts))];

        whole->bytes[at + (unsigned)rand_r(seed) % 2048] = (unsigned char)rand_r(seed);
    }
}

/* Every number that could be an index set to all ones, or to the next but none. */
static void fill(const struct whole_region *whole, int byte)
{
    const struct lw_agent_header *made = &whole->as_made;

    memset(whole->bytes, byte, made->header_bytes);
    memset(whole->bytes + made->threads_offset, byte, 65536);
    memset(whole->bytes + made->nodes_offset, byte, 65536);
    memset(whole->bytes + made->rings_offset, byte, 65536);
}

/* What a program does that is recorded. */
static void work(struct lw_calls_thread *thread, struct lw_names *names, unsigned *seed)
{
    for (uint64_t i = 1; i <= 300; i++) {
        struct lw_agent_record record = { .kind = LW_RECORD_MARK };
        char text[16];

        if (rand_r(seed) % 2)
            lw_calls_enter(thread, 1 + (uint32_t)rand_r(seed) % 200, i);
        else
            lw_calls_leave(thread, i);
        lw_calls_add_record(thread, &record);
        snprintf(text, sizeof(text), "%d", rand_r(seed));
        lw_names_intern(names, LW_NAME_MARK, "", 0, text, strlen(text));
    }
    lw_calls_leave_through(thread, 7, 1000);
    lw_calls_room(thread);
}

static void check_hostile(uint32_t flags,
                          void (*spoil)(const struct whole_region *, unsigned *))
{
    unsigned seed = 20261119;
    struct lw_calls_thread *first, *second;
    struct whole_region whole;
    struct lw_names names;

    create(flags, true);
    whole = whole_region_map(&region);
    CHECK(lw_names_init(&names));
    names.log = &region;
    CHECK(first = lw_calls_thread_new(&region, 0));
    for (int round = 0; round < 50; round++) {
        spoil(&whole, &seed);
        work(first, &names, &seed);
        spoil(&whole, &seed);
        second = lw_calls_thread_new(&region, 0);
        spoil(&whole, &seed);
        if (second)
            work(second, &names, &seed);
        lw_calls_thread_before_fork(first);
        lw_calls_thread_free(second, true);
    }
    CHECK(first->depth < 1u << 20);
    lw_calls_leave_all(first, 2000);
    lw_calls_thread_free(first, true);
    lw_names_release(&names);
    whole_region_unmap(&whole);
    lw_region_release(&region);
}

static void fill_with_ones(const struct whole_region *whole, unsigned *seed)
{
    (void)seed;
    fill(whole, 0xff);
}

static void fill_with_zeros(const struct whole_region *whole, unsigned *seed)
{
    (void)seed;
    fill(whole, 0);
}

TEST(whatever_others_write_there_the_agent_stays_in_its_memory)
{
    check_hostile(LW_AGENT_CALLS, scribble);
    check_hostile(LW_AGENT_TIMELINE, scribble);
    check_hostile(LW_AGENT_CALLS, fill_with_ones);
    check_hostile(LW_AGENT_TIMELINE, fill_with_ones);
    check_hostile(LW_AGENT_CALLS, fill_with_zeros);
}

/* A tree is the agent's own: what is written over its shared half costs numbers, and not
 * the way back. */
TEST(a_path_leads_home_though_the_shared_tree_is_overwritten)
{
    struct lw_calls_thread *thread;
    struct whole_region whole;

    create(LW_AGENT_CALLS, true);
    whole = whole_region_map(&region);
    thread = lw_calls_thread_new(&region, 0);
    for (uint32_t f = 1; f <= 10; f++)
        lw_calls_enter(thread, f, f);
    fill(&whole, 0xff);
    for (uint32_t f = 10; f >= 1; f--) {
        CHECK_EQ(lw_calls_function(thread), f);
        lw_calls_leave(thread, 20 - f);
    }
    CHECK_EQ(lw_calls_function(thread), LW_FUNCTION_ROOT);
    lw_calls_thread_free(thread, true);
    whole_region_unmap(&whole);
    lw_region_release(&region);
}
