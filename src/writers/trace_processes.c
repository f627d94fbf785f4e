/* Two passes over the tracks: the first finds the processes and lets whoever comes first
 * keep a number, the second numbers the rest. */

#include "writers/trace_processes.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"

#define FIRST_OWN 1000000000u /* Linux has at most 2^22 processes and threads */

bool lw_trace_is_alone(const struct lw_profile *profile, struct lw_error *err)
{
    if (!profile->span_count && !profile->call_count && !profile->sample_count &&
        !profile->function_count)
        return true;
    return lw_fail(
        err, LW_ERR_UNSUPPORTED,
        "a run and a torch profiler's trace have no clock in common, so they "
        "cannot be one timeline: export each by itself");
}

struct finding {
    const struct lw_profile *profile;
    struct lw_trace_processes *out;
    size_t capacity;
    struct lw_map by_rank, by_pid;  /* of processes: index + 1 */
    struct lw_map by_number;        /* of the same */
    struct lw_map by_thread_number; /* of tracks: index + 1 */
};

static uint64_t hash_pid(uint32_t rank, lw_string_id pid)
{
    return lw_hash_u64((uint64_t)rank << 32 | pid);
}

static bool is_process(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_processes *out = owner;
    const struct lw_track *track = key;

    return out->list[number - 1].rank == track->rank &&
           out->list[number - 1].pid == track->pid;
}

static bool is_pid(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_processes *out = owner;

    return out->list[number - 1].pid == *(const lw_string_id *)key;
}

static bool is_number(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_processes *out = owner;

    return out->list[number - 1].number == *(const uint32_t *)key;
}

static bool is_thread_number(const void *owner, uint32_t number, const void *key)
{
    const struct lw_trace_processes *out = owner;

    return out->threads[number - 1] == *(const uint32_t *)key;
}

/* The number that a pid or tid is; 0: none that fits, or none that is free. */
static uint32_t own_number(const struct finding *f, lw_string_id text,
                           const struct lw_map *taken, lw_map_same *same)
{
    const char *digits = lw_profile_text(f->profile, text);
    uint64_t value;
    uint32_t number;

    if (!lw_text_u64(digits, lw_strings_len(f->profile->strings, text), &value) ||
        value == 0 || value > INT32_MAX)
        return 0;
    number = (uint32_t)value;
    return lw_map_find(taken, lw_hash_u64(number), same, f->out, &number) ? 0 : number;
}

static bool add_process(struct finding *f, uint32_t track, struct lw_error *err)
{
    const struct lw_track *t = &f->profile->trace->tracks[track];
    struct lw_trace_processes *out = f->out;
    uint32_t index = (uint32_t)out->count;
    struct lw_trace_process process = { .rank = t->rank,
                                        .pid = t->pid,
                                        .track = track };

    process.keeps_pid =
        !lw_map_find(&f->by_pid, lw_hash_u64(t->pid), is_pid, out, &t->pid);
    process.number = own_number(f, t->pid, &f->by_number, is_number);
    if (!lw_grow(&out->list, &f->capacity, out->count + 1, sizeof(process), err) ||
        !lw_map_add(&f->by_rank, hash_pid(t->rank, t->pid), index + 1, err) ||
        (process.keeps_pid &&
         !lw_map_add(&f->by_pid, lw_hash_u64(t->pid), index + 1, err)) ||
        (process.number &&
         !lw_map_add(&f->by_number, lw_hash_u64(process.number), index + 1, err)))
        return false;
    out->list[out->count++] = process;
    out->of_track[track] = index;
    if (out->of_rank[t->rank] == LW_NONE)
        out->of_rank[t->rank] = index;
    return true;
}

static bool find_process(struct finding *f, uint32_t track, struct lw_error *err)
{
    const struct lw_track *t = &f->profile->trace->tracks[track];
    struct lw_trace_process *process;
    uint32_t found =
        lw_map_find(&f->by_rank, hash_pid(t->rank, t->pid), is_process, f->out, t);

    f->out->of_track[track] = found - 1;
    if (!found && !add_process(f, track, err))
        return false;
    process = &f->out->list[f->out->of_track[track]];
    if (!process->name)
        process->name = t->process_name;
    if (!process->labels)
        process->labels = t->process_labels;
    if (!process->sort_index)
        process->sort_index = t->process_sort_index;
    f->out->threads[track] =
        own_number(f, t->tid, &f->by_thread_number, is_thread_number);
    return !f->out->threads[track] ||
           lw_map_add(&f->by_thread_number, lw_hash_u64(f->out->threads[track]),
                      track + 1, err);
}

/* The next number from *NEXT on that nobody has taken. */
static uint32_t free_number(const struct finding *f, const struct lw_map *taken,
                            lw_map_same *same, uint32_t *next)
{
    while (lw_map_find(taken, lw_hash_u64(*next), same, f->out, next))
        ++*next;
    return (*next)++;
}

static bool find_all(struct finding *f, struct lw_error *err)
{
    const struct lw_trace *trace = f->profile->trace;
    uint32_t next = FIRST_OWN, next_thread = FIRST_OWN;

    for (uint32_t i = 0; i < trace->track_count; i++)
        if (!find_process(f, i, err))
            return false;
    for (size_t i = 0; i < f->out->count; i++)
        if (!f->out->list[i].number)
            f->out->list[i].number = free_number(f, &f->by_number, is_number, &next);
    for (size_t i = 0; i < trace->track_count; i++)
        if (!f->out->threads[i])
            f->out->threads[i] =
                free_number(f, &f->by_thread_number, is_thread_number, &next_thread);
    return true;
}

bool lw_trace_processes_init(struct lw_trace_processes *processes,
                             const struct lw_profile *profile, struct lw_error *err)
{
    size_t tracks = profile->trace->track_count, ranks = profile->trace->rank_count;
    struct finding f = { .profile = profile, .out = processes };
    bool done;

    memset(processes, 0, sizeof(*processes));
    processes->of_track = lw_zalloc(tracks, sizeof(uint32_t), err);
    processes->threads = lw_zalloc(tracks, sizeof(uint32_t), err);
    processes->of_rank = lw_zalloc(ranks, sizeof(uint32_t), err);
    done = processes->of_track && processes->threads && processes->of_rank;
    for (size_t i = 0; done && i < ranks; i++)
        processes->of_rank[i] = LW_NONE;
    done = done && find_all(&f, err);
    lw_map_release(&f.by_rank);
    lw_map_release(&f.by_pid);
    lw_map_release(&f.by_number);
    lw_map_release(&f.by_thread_number);
    return done;
}

void lw_trace_processes_release(struct lw_trace_processes *processes)
{
    lw_free(processes->list);
    lw_free(processes->of_track);
    lw_free(processes->threads);
    lw_free(processes->of_rank);
    memset(processes, 0, sizeof(*processes));
}

static void add_text(const struct lw_profile *profile, lw_string_id id,
                     struct lw_buf *out)
{
    lw_buf_add(out, lw_profile_text(profile, id), lw_strings_len(profile->strings, id));
}

void lw_trace_process_add_name(const struct lw_profile *profile,
                               const struct lw_trace_process *process,
                               struct lw_buf *out)
{
    const struct lw_trace_rank *rank = &profile->trace->ranks[process->rank];
    lw_string_id name = process->name     ? process->name
                        : process->labels ? process->labels
                                          : process->pid;

    if (profile->trace->rank_count == 1) {
        add_text(profile, name, out);
        return;
    }
    if (rank->rank >= 0)
        lw_buf_addf(out, "rank %" PRId64, rank->rank);
    else
        lw_buf_add_text(out, lw_text_basename(lw_profile_text(profile, rank->file)));
    if (lw_strings_len(profile->strings, name)) {
        lw_buf_add_text(out, ": ");
        add_text(profile, name, out);
    }
    if (process->labels && process->name) {
        lw_buf_add_text(out, ", ");
        add_text(profile, process->labels, out);
    }
}
