/* A stand-in for a watched program, for the recorder's tests: the agent's own region
 * and tree, filled by hand. Times are ticks of a nanosecond clock. */
#ifndef LW_TEST_RECORDER_AGENT_H
#define LW_TEST_RECORDER_AGENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/calls.h"
#include "agent/region.h"
#include "base/clock.h"
#include "base/file.h"
#include "held.h"
#include "lap/reader.h"
#include "recorder/watched.h"
#include "test.h"

struct agent {
    struct lw_region region;
    struct lw_calls_thread *main; /* the thread that calls agent_open() */
    uint32_t name_count;
};

static inline void agent_open(struct agent *agent, uint32_t flags)
{
    struct lw_region_options options = { .flags = LW_AGENT_CALLS | flags,
                                         .shared = true };

    memset(agent, 0, sizeof(*agent));
    CHECK(lw_region_create(&agent->region, &options));
    agent->main = lw_calls_thread_new(&agent->region, 0);
    CHECK(agent->main);
}

static inline void agent_close(struct agent *agent)
{
    if (agent->main)
        lw_calls_thread_free(agent->main, false);
    lw_region_release(&agent->region);
}

/* The number of a new function or mark. */
static inline uint32_t agent_name(struct agent *agent, uint16_t kind, const char *name)
{
    struct lw_agent_name head = {
        .number = ++agent->name_count,
        .first_line = 7,
        .kind = kind,
        .file_len = 4,
        .name_len = (uint32_t)strlen(name),
    };

    CHECK(lw_region_add_name(&agent->region, &head, "a.py", name));
    return head.number;
}

/* A run's folder, and the process of AGENT recorded in it as number 1. */
struct recording {
    char folder[64];
    struct lw_watched *watched;
    struct lw_calibration calibration;
};

static inline void recording_open(struct recording *recording,
                                  const struct agent *agent)
{
    struct lw_watched_facts facts = { .pid = (uint64_t)getpid(), .rank = -1 };
    struct lw_error err;

    snprintf(recording->folder, sizeof(recording->folder), "/tmp/lapwing-test-XXXXXX");
    CHECK(mkdtemp(recording->folder));
    lw_calibration_init(&recording->calibration);
    recording->watched =
        lw_watched_open(held(recording->folder), 1, agent->region.fd, -1, &facts, &err);
    if (!recording->watched)
        print_error("%s\n", err.text);
    CHECK(recording->watched);
}

static inline struct lw_watched_look recording_look(struct recording *recording)
{
    lw_calibration_look(&recording->calibration);
    return (struct lw_watched_look){ .calibration = &recording->calibration };
}

static inline bool recording_read(struct recording *recording)
{
    struct lw_watched_look look = recording_look(recording);
    double fill;

    return lw_watched_read(recording->watched, &look, &fill, NULL);
}

/* Take the last look, and give back what the recording holds; its folder is gone.
 * END_TICKS as in struct lw_watched_look. */
static inline struct lw_profile *recording_close(struct recording *recording,
                                                 uint64_t end_ticks)
{
    struct lw_watched_look look = recording_look(recording);
    struct lw_profile *profile;
    struct lw_error err;

    look.is_last = true;
    look.end_ticks = end_ticks;
    CHECK(lw_watched_close(recording->watched, &look, 0, &err));
    profile = lw_lap_load(recording->folder, LW_WANT_ALL | LW_WANT_ORIGINS, &err);
    if (!profile)
        print_error("%s\n", err.text);
    CHECK(profile);
    CHECK(lw_file_remove_folder(recording->folder, NULL));
    return profile;
}

/* The stack as text, root first: "main;train;step". Good until the next call. */
static inline const char *stack_text(const struct lw_profile *profile,
                                     lw_stack_id stack)
{
    static char text[1000];
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &(size_t){ 0 });
    size_t at = sizeof(text) - 1;

    text[at] = '\0';
    for (; stack != LW_NO_STACK; stack = stacks[stack].parent) {
        const struct lw_frame *frame = lw_profile_frame(profile, stacks[stack].frame);
        const char *name = lw_profile_text(profile, frame->name);
        size_t len = strlen(name);

        if (len + 1 > at)
            break;
        if (text[at] != '\0')
            text[--at] = ';';
        at -= len;
        memcpy(&text[at], name, len);
    }
    return &text[at];
}

/* The calls of all threads at STACK, added up. */
static inline struct lw_call_row calls_at(const struct lw_profile *profile,
                                          const char *stack)
{
    struct lw_call_row sum = { 0 };

    for (size_t i = 0; i < profile->call_count; i++) {
        if (strcmp(stack_text(profile, profile->calls[i].stack), stack) != 0)
            continue;
        sum.calls += profile->calls[i].calls;
        sum.self_ns += profile->calls[i].self_ns;
    }
    return sum;
}

static inline uint64_t lost(const struct lw_profile *profile, const char *cause)
{
    for (size_t i = 0; i < profile->loss_count; i++) {
        if (strcmp(lw_profile_text(profile, profile->losses[i].cause), cause) == 0)
            return profile->losses[i].count;
    }
    return 0;
}

#endif
