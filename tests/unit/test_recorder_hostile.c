/* Regions that are broken, by a dying process or on purpose: the recorder says no, or
 * reads what makes sense, and never leaves its memory. */

#include <fcntl.h>
#include <sys/mman.h>

#include "recorder_agent.h"
#include "whole_region.h"

static bool opens(const struct agent *agent, struct lw_error *err)
{
    struct lw_shared shared;
    bool opened = lw_shared_open(&shared, agent->region.fd, err);

    lw_shared_close(&shared);
    return opened;
}

/* One field of the header made wrong at a time. */
#define REFUSED(field, value, sentence) \
    do { \
        struct agent agent; \
        struct lw_error err = { LW_OK, "" }; \
\
        agent_open(&agent, 0); \
        agent.region.header->field = (value); \
        CHECK(!opens(&agent, &err)); \
        CHECK(strstr(err.text, sentence)); \
        agent_close(&agent); \
    } while (0)

TEST(a_header_that_does_not_fit_the_file_is_refused)
{
    REFUSED(magic, 1, "not an agent's");
    REFUSED(version, 1, "another version");
    REFUSED(header_bytes, 8, "sizes");
    REFUSED(region_bytes, 1, "sizes");
    REFUSED(region_bytes, UINT64_MAX, "sizes");
    REFUSED(thread_bytes, 1, "sizes");
    REFUSED(thread_slots, 0, "counts");
    REFUSED(thread_slots, UINT32_MAX, "counts");
    REFUSED(block_nodes, 0, "counts");
    REFUSED(block_nodes, UINT32_MAX, "counts");
    REFUSED(block_count, 0, "counts");
    REFUSED(block_count, UINT32_MAX, "counts");
    REFUSED(ring_bytes, 0, "rings");
    REFUSED(ring_bytes, 64, "rings");
    REFUSED(ring_records, 0, "rings");
    REFUSED(ring_records, 3, "rings");
    REFUSED(ring_records, 1ull << 63, "rings");
    REFUSED(ring_bytes, UINT64_MAX - 7, "outside");
    REFUSED(threads_offset, 0, "outside");
    REFUSED(threads_offset, 4097, "outside");
    REFUSED(threads_offset, UINT64_MAX - 7, "outside");
    REFUSED(blocks_offset, agent.region.header->region_bytes - 8, "outside");
    REFUSED(nodes_offset, agent.region.header->region_bytes - 8, "outside");
    REFUSED(names_offset, agent.region.header->region_bytes - 8, "outside");
    REFUSED(names_bytes, UINT64_MAX, "outside");
    REFUSED(rings_offset, agent.region.header->region_bytes - 8, "outside");
    REFUSED(nodes_offset, agent.region.header->nodes_offset + 8, "wrong place");
    REFUSED(names_offset, agent.region.header->names_offset + 4096, "wrong place");
    REFUSED(rings_offset, agent.region.header->rings_offset + 64, "wrong place");
    REFUSED(clock, 77, "clock");
}

static int memory_file(size_t len, int seals)
{
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING);

    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)len), 0);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

TEST(a_file_that_could_shrink_under_us_is_refused)
{
    struct lw_shared shared;
    struct lw_error err;
    int fd = memory_file(1 << 20, 0);

    CHECK(!lw_shared_open(&shared, fd, &err));
    CHECK(strstr(err.text, "not sealed"));
    close(fd);
    fd = memory_file(1 << 20, F_SEAL_GROW);
    CHECK(!lw_shared_open(&shared, fd, &err));
    close(fd);
    fd = open("/proc/self/exe", O_RDONLY);
    CHECK(!lw_shared_open(&shared, fd, &err));
    close(fd);
    CHECK(!lw_shared_open(&shared, -1, &err));
}

TEST(a_file_too_small_or_not_writable_is_refused)
{
    struct lw_shared shared;
    struct lw_error err;
    int fd = memory_file(100, F_SEAL_SHRINK | F_SEAL_GROW);

    CHECK(!lw_shared_open(&shared, fd, &err));
    CHECK(strstr(err.text, "too small"));
    close(fd);
    fd = memory_file(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    CHECK(!lw_shared_open(&shared, fd, &err));
    CHECK(strstr(err.text, "cannot map"));
    close(fd);
}

TEST(parents_in_a_circle_end_the_climb)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_node *nodes;
    uint32_t a, b;
    uint64_t now;

    agent_open(&agent, 0);
    uint32_t f = agent_name(&agent, LW_NAME_PYTHON, "f");
    recording_open(&recording, &agent);
    nodes = lw_region_node(&agent.region, 0);
    now = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, f, ++now);
    a = lw_calls_current(agent.main);
    lw_calls_enter(agent.main, f, ++now);
    b = lw_calls_current(agent.main);
    nodes[a].parent = b;
    profile = recording_close(&recording, now);
    CHECK_EQ(profile->call_count, 2);
    CHECK_EQ(lost(profile, "made no sense in shared memory"), 1);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(parents_and_functions_out_of_range_lose_their_name_not_their_count)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_node *node;

    agent_open(&agent, 0);
    uint32_t f = agent_name(&agent, LW_NAME_PYTHON, "f");
    recording_open(&recording, &agent);
    lw_calls_enter(agent.main, f, agent.main->slot->start_ticks + 1);
    node = lw_region_node(&agent.region, lw_calls_current(agent.main));
    node->parent = UINT32_MAX - 5;
    atomic_store(&node->function, 123456);
    profile = recording_close(&recording, agent.main->slot->start_ticks + 1);
    CHECK_EQ(calls_at(profile, "(unknown)").calls, 1);
    CHECK_EQ(lost(profile, "made no sense in shared memory"), 1);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(a_thread_on_a_node_that_is_none_is_passed_over)
{
    struct agent agent;
    struct recording recording;

    agent_open(&agent, 0);
    recording_open(&recording, &agent);
    atomic_store(&agent.main->slot->current, UINT32_MAX);
    atomic_store(&agent.main->slot->name_len, UINT32_MAX);
    CHECK(recording_read(&recording));
    CHECK(recording_read(&recording));
    atomic_store(&agent.main->slot->current, 0);
    lw_profile_free(recording_close(&recording, 0));
    agent_close(&agent);
}

/* Damage the second record of the log and see that the first name is still good. */
static void check_damaged_name(struct lw_agent_name damaged)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    uint64_t used, now;

    agent_open(&agent, 0);
    uint32_t good = agent_name(&agent, LW_NAME_PYTHON, "good");
    used = atomic_load(&agent.region.header->names_used);
    memcpy(agent.region.own->names_first + used, &damaged, sizeof(damaged));
    atomic_store(&agent.region.header->names_used, used + 64);
    recording_open(&recording, &agent);
    now = agent.main->slot->start_ticks;
    lw_calls_enter(agent.main, good, ++now);
    lw_calls_enter(agent.main, 2, ++now);
    profile = recording_close(&recording, now);
    CHECK_EQ(calls_at(profile, "good").calls, 1);
    CHECK_EQ(calls_at(profile, "good;(unknown)").calls, 1);
    CHECK_EQ(lost(profile, "made no sense in shared memory"), 1);
    lw_profile_free(profile);
    agent_close(&agent);
}

TEST(garbage_in_the_name_log_ends_it)
{
    struct lw_agent_name sound = { .record_bytes = 64, .number = 2, .name_len = 10 };
    struct lw_agent_name damaged;

    damaged = sound, damaged.record_bytes = 0;
    check_damaged_name(damaged);
    damaged = sound, damaged.record_bytes = UINT32_MAX - 7;
    check_damaged_name(damaged);
    damaged = sound, damaged.record_bytes = 61;
    check_damaged_name(damaged);
    damaged = sound, damaged.number = 77;
    check_damaged_name(damaged);
    damaged = sound, damaged.name_len = UINT32_MAX;
    check_damaged_name(damaged);
    damaged = sound, damaged.file_len = UINT32_MAX;
    check_damaged_name(damaged);
    damaged = sound, damaged.file_len = 31;
    check_damaged_name(damaged);
}

TEST(counters_of_the_header_that_lie_are_bounded)
{
    struct agent agent;
    struct recording recording;

    agent_open(&agent, 0);
    recording_open(&recording, &agent);
    atomic_store(&agent.region.header->names_used, UINT64_MAX);
    atomic_store(&agent.region.header->blocks_used, UINT32_MAX);
    atomic_store(&agent.region.block_owners[1], UINT32_MAX);
    CHECK(recording_read(&recording));
    lw_profile_free(recording_close(&recording, 0));
    agent_close(&agent);
}

TEST(a_ring_that_lies_about_its_head_costs_a_ring)
{
    struct agent agent;
    struct recording recording;
    struct lw_profile *profile;
    struct lw_agent_ring *ring;
    struct lw_agent_record *records;

    agent_open(&agent, 0);
    recording_open(&recording, &agent);
    ring = agent.main->ring;
    records = (struct lw_agent_record *)(void *)(ring + 1);
    atomic_store(&ring->head, UINT64_MAX - 3);
    CHECK(recording_read(&recording));
    records[agent.region.ring_mask] = (struct lw_agent_record){ .kind = 99 };
    for (uint64_t i = 0; i < 3; i++) {
        records[i] = (struct lw_agent_record){ .kind = (uint32_t)i + 1,
                                               .id = UINT32_MAX - 9,
                                               .node = UINT32_MAX - 9,
                                               .generation = 1,
                                               .ticks = UINT64_MAX,
                                               .value = UINT64_MAX };
    }
    atomic_store(&ring->head, 3);
    CHECK(recording_read(&recording));
    profile = recording_close(&recording, 0);
    CHECK(lost(profile, "made no sense in shared memory") >= agent.region.ring_mask);
    lw_profile_free(profile);
    agent_close(&agent);
}

/* Everything behind the header random, again and again, while it is being read. */
TEST(random_memory_does_no_harm)
{
    unsigned seed = 20261115;

    for (int round = 0; round < 30; round++) {
        struct agent agent;
        struct recording recording;
        struct lw_agent_header *header;
        struct whole_region whole;

        agent_open(&agent, LW_AGENT_TIMELINE);
        header = agent.region.header;
        whole = whole_region_map(&agent.region);
        recording_open(&recording, &agent);
        for (int look = 0; look < 4; look++) {
            for (int i = 0; i < 20000; i++) {
                uint64_t parts[] = { header->threads_offset, header->blocks_offset,
                                     header->nodes_offset, header->names_offset,
                                     header->rings_offset };
                uint64_t at = parts[(unsigned)rand_r(&seed) % 5] +
                              (unsigned)rand_r(&seed) % 16384;

                whole.bytes[at] = (unsigned char)rand_r(&seed);
            }
            atomic_store(&header->blocks_used, (uint32_t)rand_r(&seed) % 70);
            atomic_store(&header->names_used, (uint64_t)rand_r(&seed) % 20000);
            if (!recording_read(&recording)) {
                /* Fine too. */
            }
        }
        lw_profile_free(recording_close(&recording, 0));
        whole_region_unmap(&whole);
        agent_close(&agent);
    }
}
