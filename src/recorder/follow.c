#include "recorder/follow.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "recorder/facts.h"
#include "recorder/kept_out.h"
#include "recorder/processes.h"
#include "recorder/recorder.h"
#include "sampler/os.h"

#define MS 1000000ull
/* Children of a main thread are looked for often, those of other threads (of which a
 * training has hundreds) now and then. */
#define CHILDREN_NS (100 * MS)
#define ALL_CHILDREN_NS (1000 * MS)
/* How long a process has to say hello before it is taken for one that will not. */
#define HELLO_NS (300 * MS)
/* A program that is just starting is no Python yet. */
#define RETRY_NS (50 * MS)
#define RETRIES_NS (2000 * MS)

void lw_follow_release(struct lw_follow *follow)
{
    lw_free(follow->list);
    lw_free(follow->folder);
    memset(follow, 0, sizeof(*follow));
}

static struct lw_followed *find(struct lw_follow *follow, pid_t pid)
{
    for (size_t i = 0; i < follow->count; i++) {
        if (follow->list[i].pid == pid)
            return &follow->list[i];
    }
    return NULL;
}

bool lw_follow_add(struct lw_follow *follow, pid_t pid, struct lw_error *err)
{
    if (find(follow, pid))
        return true;
    if (!lw_grow(&follow->list, &follow->capacity, follow->count + 1,
                 sizeof(*follow->list), err))
        return false;
    follow->list[follow->count++] = (struct lw_followed){ .pid = pid };
    return true;
}

/* ---- who is there ------------------------------------------------------------------- */

static void add_children(struct lw_follow *follow, bool of_all_threads)
{
    pid_t *children = NULL;
    size_t capacity = 0;

    /* The list grows as it is walked: children's children are met in the same round. */
    for (size_t i = 0; i < follow->count; i++) {
        size_t count =
            of_all_threads
                ? lw_os_children(follow->list[i].pid, &children, &capacity)
                : lw_os_main_children(follow->list[i].pid, &children, &capacity);

        for (size_t j = 0; j < count; j++) {
            if (follow->only_ours && !find(follow, children[j]) &&
                !lw_os_is_ours(children[j]))
                continue;
            if (!lw_follow_add(follow, children[j], NULL))
                break; /* the next round finds it */
        }
    }
    lw_free(children);
}

static void drop_dead(struct lw_follow *follow)
{
    size_t kept = 0;

    for (size_t i = 0; i < follow->count; i++) {
        if (lw_os_lives(follow->list[i].pid))
            follow->list[kept++] = follow->list[i];
    }
    follow->count = kept;
}

/* ---- whom to adopt ------------------------------------------------------------------ */

static bool is_recorded(const struct lw_recorder *recorder, pid_t pid)
{
    for (size_t i = 0; i < recorder->process_count; i++) {
        const struct lw_watched *watched = recorder->processes[i];

        if ((pid_t)watched->pid == pid && !watched->death_ns && !watched->is_replaced)
            return true;
    }
    return false;
}

/* TARGET is a Python without our agent: tell the user why, if that can be seen. True: it
 * has been told. */
static bool explain(struct lw_recorder *recorder, const struct lw_target *target)
{
    const char *folder = recorder->follow.folder;
    const char *cause = folder ? lw_kept_out(target->pid, folder) : NULL;
    char sentence[400];

    if (!cause)
        return false;
    if (recorder->sampler) {
        snprintf(sentence, sizeof(sentence),
                 "a Python was %s: without Lapwing's agent it is sampled, and nothing "
                 "else of it is recorded",
                 cause);
        lw_processes_add_note(recorder, sentence);
    } else {
        snprintf(sentence, sizeof(sentence), "a Python was %s", cause);
        lw_processes_note_loss(recorder, sentence, 1);
        recorder->refused_count++;
    }
    return true;
}

static void try_one(struct lw_recorder *recorder, struct lw_followed *followed,
                    uint64_t now_ns)
{
    struct lw_follow *follow = &recorder->follow;
    uint64_t image = lw_facts_image(followed->pid);
    struct lw_target *target;
    bool is_missing = false;

    if (image != followed->image) { /* new, or another program than before */
        followed->image = image;
        followed->since_ns = now_ns;
        followed->is_explained = false;
        /* Why one will say no hello is known at once. */
        followed->next_ns =
            follow->is_eager || !recorder->sampler ? now_ns : now_ns + HELLO_NS;
    }
    if (now_ns < followed->next_ns)
        return;
    target = lw_target_open(followed->pid, -1, NULL);
    if (target && target->has_started && !followed->is_explained)
        followed->is_explained = explain(recorder, target);
    if (target && target->has_started && recorder->sampler)
        is_missing = !lw_processes_adopt(recorder, target);
    else
        lw_target_free(target);
    /* One that could not be recorded is counted as missing, and is so once. */
    followed->next_ns = !is_missing && now_ns - followed->since_ns < RETRIES_NS
                            ? now_ns + RETRY_NS
                            : UINT64_MAX;
}

void lw_follow_look(struct lw_recorder *recorder, uint64_t now_ns)
{
    struct lw_follow *follow = &recorder->follow;

    if (!(recorder->sampler || follow->folder) || now_ns < follow->next_ns)
        return;
    follow->next_ns = now_ns + (follow->is_eager ? CHILDREN_NS / 2 : CHILDREN_NS);
    /* Whoever is next has said nothing, if it did not speak since this moment. */
    lw_processes_take_hellos(recorder);
    drop_dead(follow);
    if (!follow->no_children)
        add_children(follow, now_ns >= follow->next_all_ns);
    if (now_ns >= follow->next_all_ns)
        follow->next_all_ns = now_ns + ALL_CHILDREN_NS;
    /* Where too many hellos came to take them all, nobody is known to say nothing. */
    for (size_t i = 0; i < follow->count && !recorder->has_more_hellos; i++) {
        if (!is_recorded(recorder, follow->list[i].pid))
            try_one(recorder, &follow->list[i], now_ns);
    }
}
