/* The agent writes and the recorder reads, at the same time and in the same memory: with
 * nothing lost, nothing read twice and, under TSan (`make tsan`), no race.
 *
 * TSan knows a memory by its address, so agent and recorder are threads of one process
 * here, and the recorder reads the header, the thread slots, the nodes and the names where
 * the agent has mapped them. What TSan cannot see that way:
 *   - rings, which the agent maps for as long as their thread lives, and the recorder by
 *     itself: that no record is lost or read half is known by counting them;
 *   - two processes: a death in the middle of a store (tests/live/test_kill.py), fork;
 *   - fields that one side alone should use, which a hostile process may change at any
 *     time: tests/unit/test_recorder_hostile.c, fuzz/fuzz_region.c;
 *   - whether a value that is read whole is also the right one: counted, too. */

#include <pthread.h>

#include "agent/names.h"
#include "agent/ticks.h"
#include "recorder_agent.h"

enum {
    WRITERS = 3,
    LIVES = 12,     /* threads that follow one another in each writer's place */
    ROUNDS = 150,   /* of calls in a life */
    FUNCTIONS = 40, /* called by all, so that names are asked for at once */
};

static struct agent agent;
static struct lw_names names;
static _Atomic unsigned writing;
/* One thread at a time may take or end a slot; in a program, Python's lock sees to it. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

static uint32_t number_of(unsigned function)
{
    char name[16];
    const struct lw_name_text *text;

    snprintf(name, sizeof(name), "f%u", function);
    text = lw_names_intern(&names, LW_NAME_PYTHON, "a.py", 4, name, strlen(name));
    return text ? text->number : LW_FUNCTION_UNKNOWN;
}

/* As the extension does it for a thread that Python has a name for. */
static void name_thread(struct lw_agent_thread *slot, unsigned life)
{
    int len = snprintf(slot->name, sizeof(slot->name), "writer %u", life);

    atomic_store_explicit(&slot->name_len, (uint32_t)len, memory_order_release);
}

static void live_once(unsigned life)
{
    struct lw_calls_thread *thread;

    pthread_mutex_lock(&taking);
    thread = lw_calls_thread_new(&agent.region, 0);
    pthread_mutex_unlock(&taking);
    lw_assert(thread);
    name_thread(thread->slot, life);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct lw_agent_record mark = { .kind = LW_RECORD_MARK };

        mark.id = number_of(round % FUNCTIONS);
        mark.ticks = lw_ticks_now(false);
        lw_calls_enter(thread, number_of((round + life) % FUNCTIONS),
                       lw_ticks_now(false));
        lw_calls_enter(thread, number_of(0), lw_ticks_now(false));
        mark.node = lw_calls_current(thread);
        mark.value = lw_ticks_now(false) - mark.ticks;
        lw_calls_leave(thread, lw_ticks_now(false));
        lw_calls_leave(thread, lw_ticks_now(false));
        lw_calls_add_record(thread, &mark);
        if (round % 50 == 0)
            lw_region_count_lost(&agent.region, LW_LOST_HOOKED);
    }
    pthread_mutex_lock(&taking);
    lw_calls_thread_free(thread, true);
    pthread_mutex_unlock(&taking);
}

static void *write_it(void *unused)
{
    (void)unused;
    for (unsigned life = 0; life < LIVES; life++)
        live_once(life);
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

/* Where the recorder has mapped the region. */
struct mapped {
    unsigned char *bytes;
    struct lw_shared_parts parts;
};

/* Have SHARED look at the agent's own mappings. */
static struct mapped look_where_the_agent_writes(struct lw_shared *shared)
{
    struct mapped mapped = { shared->bytes, *shared->parts };
    struct lw_region_own *own = agent.region.own;

    shared->bytes = (unsigned char *)agent.region.header;
    shared->parts->nodes.bytes = (unsigned char *)atomic_load(&own->chunks[0]);
    shared->parts->nodes.len = (size_t)LW_REGION_CHUNK_BLOCKS * LW_REGION_BLOCK_NODES *
                               sizeof(struct lw_agent_node);
    shared->parts->names.bytes = own->names_first;
    shared->parts->names.len = own->names_first_bytes;
    return mapped;
}

/* They did not outgrow what is mapped there; now it is as it was. */
static void look_elsewhere(struct lw_shared *shared, const struct mapped *mapped)
{
    CHECK_EQ(shared->parts->nodes.outgrown_count, 0);
    CHECK_EQ(shared->parts->names.outgrown_count, 0);
    shared->bytes = mapped->bytes;
    shared->parts->nodes = mapped->parts.nodes;
    shared->parts->names = mapped->parts.names;
}

/* All of the writers' records, while the recorder looks on. */
static struct lw_profile *record(uint32_t flags)
{
    struct recording recording;
    struct lw_profile *profile;
    pthread_t writers[WRITERS];
    struct mapped mapped;

    agent_open(&agent, flags);
    CHECK(lw_names_init(&names));
    names.log = &agent.region;
    recording_open(&recording, &agent);
    mapped = look_where_the_agent_writes(&recording.watched->shared);
    atomic_store(&writing, WRITERS);
    for (size_t i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_create(&writers[i], NULL, write_it, NULL), 0);
    while (atomic_load(&writing) > 0)
        CHECK(recording_read(&recording));
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    CHECK(recording_read(&recording));

    look_elsewhere(&recording.watched->shared, &mapped);
    profile = recording_close(&recording, 0);
    names.log = NULL;
    lw_names_release(&names);
    agent_close(&agent);
    return profile;
}

static uint64_t calls_of(const struct lw_profile *profile, const char *name)
{
    size_t len = strlen(name);
    uint64_t calls = 0;

    for (size_t i = 0; i < profile->call_count; i++) {
        const char *stack = stack_text(profile, profile->calls[i].stack);
        size_t stack_len = strlen(stack);

        if (stack_len >= len && strcmp(stack + stack_len - len, name) == 0 &&
            (stack_len == len || stack[stack_len - len - 1] == ';'))
            calls += profile->calls[i].calls;
    }
    return calls;
}

static void check(const struct lw_profile *profile)
{
    const uint64_t all = WRITERS * LIVES * ROUNDS;
    uint64_t outer = 0;

    for (unsigned i = 1; i < FUNCTIONS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "f%u", i);
        outer += calls_of(profile, name);
    }
    /* Function 0 is called in every round, and now and then as the outer one too. */
    CHECK_EQ(calls_of(profile, "f0") + outer, 2 * all);
    CHECK(calls_of(profile, "f0") >= all);
    CHECK_EQ(lost(profile, "made no sense in shared memory"), 0);
}

TEST(what_threads_record_while_the_recorder_reads_is_all_there)
{
    struct lw_profile *profile = record(0);

    check(profile);
    CHECK_EQ(profile->span_count, WRITERS * LIVES * ROUNDS); /* the marks */
    lw_profile_free(profile);
}

TEST(a_timeline_that_is_read_while_it_is_written_has_every_call)
{
    struct lw_profile *profile = record(LW_AGENT_TIMELINE);

    check(profile);
    CHECK_EQ(profile->span_count, 3 * WRITERS * LIVES * ROUNDS);
    lw_profile_free(profile);
}
