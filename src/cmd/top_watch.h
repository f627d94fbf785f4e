/* The processes that `lapwing top` watches: who they are, what is sampled of them, and
 * what they take. */

#ifndef LW_CMD_TOP_WATCH_H
#define LW_CMD_TOP_WATCH_H

#include "cmd/family.h"
#include "sampler/sampler.h"
#include "tui/top.h"

struct lw_watched_process {
    struct lw_sampled *sampled; /* the sampler's; NULL: it is not Python (yet) */
    uint64_t image;             /* lw_facts_image() when it was last tried */
    uint32_t *threads;          /* top's numbers of the log's threads; owned */
    size_t thread_count, thread_capacity;
    uint64_t cpu_ticks; /* used until the last look */
    bool has_cpu;
};

struct lw_watch {
    struct lw_sampler *sampler;
    struct lw_family family;
    struct lw_watched_process *processes; /* one for each member of the family; owned */
    size_t process_count, process_capacity;
    bool no_children;
    uint64_t looked_ns;              /* when the family was last looked at */
    struct lw_sampler_counts counts; /* at that time */
    struct lw_buf command, python;
    struct lw_top_frame *frames; /* scratch: a stack; owned */
    size_t frame_capacity;

    struct lw_top_status status; /* as of now */
};

struct lw_watch_options {
    double rate;        /* samples a second */
    bool native, pause; /* as for the sampler (sampler/sampler.h) */
    bool no_children;
    bool all_users; /* struct lw_family */
};

/* Begin to sample the processes that WORDS (COUNT of them) name, and those that they have
 * started. Fails if one of them cannot be looked into, or none of all is Python. Release
 * WATCH either way. */
bool lw_watch_start(struct lw_watch *watch, const struct lw_watch_options *options,
                    char **words, int count, struct lw_error *err) LW_MUST_CHECK;
void lw_watch_release(struct lw_watch *watch); /* zeroed is fine */

/* Tell TOP what was sampled since the last time, and look now and then for new processes
 * and at what all of them take. */
bool lw_watch_take(struct lw_watch *watch, struct lw_top *top, uint64_t now_ns,
                   struct lw_error *err) LW_MUST_CHECK;

#endif
