/* Samples into sums.
 *
 * An entry is a thread's function or line. A sample adds to the entries of its frames:
 * self to the leaf's, total to each once, however often a function recurs. Recent sums
 * fade at each tick by exp(-gap / FADE), all at once, and so does the time they are
 * divided by. */

#include "tui/top.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define FADE_NS 2e9 /* what was so long ago counts 1/e: steady to read, yet prompt */
#define ENTRIES_MAX 200000 /* 25 MB; a program has some thousands */

static const struct lw_top_frame moving = { .name = "(moving)",
                                            .name_len = sizeof("(moving)") - 1 };
static const struct lw_top_frame more = { .name = "(more)",
                                          .name_len = sizeof("(more)") - 1 };

bool lw_top_init(struct lw_top *top, struct lw_error *err)
{
    *top = (struct lw_top){ 0 };
    lw_map_init(&top->by_key);
    lw_buf_init(&top->filter, 0);
    lw_buf_init(&top->typing, 0);
    lw_buf_init(&top->message, 0);
    top->strings = lw_strings_new(err);
    top->stacks = top->strings ? lw_stacks_new(err) : NULL;
    if (top->stacks)
        return true;
    lw_top_release(top);
    return false;
}

void lw_top_release(struct lw_top *top)
{
    lw_strings_free(top->strings);
    lw_stacks_free(top->stacks);
    lw_free(top->entries);
    lw_map_release(&top->by_key);
    lw_free(top->threads);
    lw_pattern_release(&top->pattern);
    lw_buf_release(&top->filter);
    lw_buf_release(&top->typing);
    lw_buf_release(&top->message);
    *top = (struct lw_top){ 0 };
}

bool lw_top_thread(struct lw_top *top, pid_t pid, pid_t tid, const char *name,
                   uint32_t *number, struct lw_error *err)
{
    struct lw_top_thread *thread = NULL;

    for (size_t i = 0; i < top->thread_count && !thread; i++)
        if (top->threads[i].pid == pid && top->threads[i].tid == tid)
            thread = &top->threads[i];
    if (!thread) {
        if (!lw_grow(&top->threads, &top->thread_capacity, top->thread_count + 1,
                     sizeof(*top->threads), err))
            return false;
        thread = &top->threads[top->thread_count++];
        *thread = (struct lw_top_thread){ .pid = pid, .tid = tid };
    }
    if (name)
        snprintf(thread->name, sizeof(thread->name), "%s", name);
    *number = (uint32_t)(thread - top->threads);
    return true;
}

struct key {
    uint32_t thread;
    lw_frame_id frame;
};

static bool is_same(const void *owner, uint32_t number, const void *key)
{
    const struct lw_top *top = owner;
    const struct lw_top_entry *entry = &top->entries[number - 1];
    const struct key *wanted = key;

    return entry->thread == wanted->thread && entry->frame == wanted->frame;
}

static struct lw_top_entry *find_entry(struct lw_top *top, struct key key,
                                       struct lw_error *err)
{
    uint64_t hash = lw_hash_u64((uint64_t)key.thread << 32 | key.frame);
    uint32_t number = lw_map_find(&top->by_key, hash, is_same, top, &key);

    if (!number) {
        if (!lw_grow(&top->entries, &top->entry_capacity, top->entry_count + 1,
                     sizeof(*top->entries), err) ||
            !lw_map_add(&top->by_key, hash, (uint32_t)top->entry_count + 1, err))
            return NULL;
        number = (uint32_t)++top->entry_count;
        top->entries[number - 1] =
            (struct lw_top_entry){ .thread = key.thread, .frame = key.frame };
    }
    return &top->entries[number - 1];
}

/* The times that a sample in STATE counts for. */
static bool counts_for(uint8_t state, enum lw_top_time time)
{
    uint8_t what = state & (uint8_t)~LW_STATE_HAS_GIL;

    if (time == LW_TOP_RUNNING) /* what is not known is not taken for idle */
        return what != LW_STATE_WAIT && what != LW_STATE_GIL_WAIT;
    return time == LW_TOP_WALL || (state & LW_STATE_HAS_GIL);
}

static bool add_to(struct lw_top *top, const struct lw_top_sample *sample,
                   const struct lw_frame *frame, bool is_leaf, struct lw_error *err)
{
    struct key key = { .thread = sample->thread };
    struct lw_top_entry *entry;
    double weight = (double)sample->weight_ns;
    bool is_first;

    if (!lw_stacks_frame(top->stacks, frame, &key.frame, err))
        return false;
    entry = find_entry(top, key, err);
    if (!entry)
        return false;
    is_first = entry->seen_in != top->samples;
    entry->seen_in = top->samples;
    for (int time = 0; time < LW_TOP_TIMES; time++) {
        if (!counts_for(sample->state, (enum lw_top_time)time))
            continue;
        if (is_first) {
            entry->all[time].total_ns += weight;
            entry->recent[time].total_ns += weight;
        }
        if (is_leaf) {
            entry->all[time].self_ns += weight;
            entry->recent[time].self_ns += weight;
        }
    }
    return true;
}

/* Both as the function and as the line it is at. A program that makes functions without
 * end, or a sampler gone wrong, fills the last entries with "(more)". */
static bool add_frame(struct lw_top *top, const struct lw_top_sample *sample,
                      const struct lw_top_frame *frame, bool is_leaf,
                      struct lw_error *err)
{
    struct lw_frame function = { .variant = LW_TOP_FUNCTION }, line;

    if (top->entry_count >= ENTRIES_MAX) {
        top->folded++;
        frame = &more;
    }
    if (!lw_strings_intern(top->strings, frame->name, frame->name_len, &function.name,
                           err) ||
        !lw_strings_intern(top->strings, frame->file, frame->file_len, &function.file,
                           err))
        return false;
    function.first_line = frame->first_line;
    line = function;
    line.line = frame->line;
    line.variant = LW_TOP_LINE;
    return add_to(top, sample, &function, is_leaf, err) &&
           add_to(top, sample, &line, is_leaf, err);
}

bool lw_top_add(struct lw_top *top, const struct lw_top_sample *sample,
                struct lw_error *err)
{
    if (top->is_paused)
        return true;
    top->samples++;
    top->moving += sample->is_moving;
    if (sample->state & LW_STATE_HAS_GIL)
        top->gil_ns += (double)sample->weight_ns;
    top->threads[sample->thread].last_ns = top->now_ns;
    for (size_t i = 0; i < sample->frame_count; i++) {
        bool is_leaf = i + 1 == sample->frame_count && !sample->is_moving;

        if (!add_frame(top, sample, &sample->frames[i], is_leaf, err))
            return false;
    }
    return !sample->is_moving || add_frame(top, sample, &moving, true, err);
}

void lw_top_tick(struct lw_top *top, uint64_t now_ns)
{
    double gap =
        top->now_ns && now_ns > top->now_ns ? (double)(now_ns - top->now_ns) : 0;
    double kept = exp(-gap / FADE_NS);

    top->now_ns = now_ns;
    if (top->is_paused || gap == 0)
        return;
    for (size_t i = 0; i < top->entry_count; i++)
        for (int time = 0; time < LW_TOP_TIMES; time++) {
            top->entries[i].recent[time].self_ns *= kept;
            top->entries[i].recent[time].total_ns *= kept;
        }
    top->gil_ns *= kept;
    /* The samples of this gap, which are counted already, faded with the rest; so does
     * the gap itself. */
    top->recent_ns = (top->recent_ns + gap) * kept;
    top->elapsed_ns += gap;
}
