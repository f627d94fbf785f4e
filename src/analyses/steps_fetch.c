/* What datasets call to give their samples (reading, decoding, transforms), by worker.
 *
 *     ...  fetch  <listcomp>  __getitem__  __getitem__:31  augment  randint
 *          torch's fetch.py   ^ ways in, of a Subset and    ^ what is called
 *                               of the dataset itself */

#include <stdlib.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "base/text.h"

/* A span of "fetch" or "collate" on the thread of a worker. */
struct made {
    uint32_t worker;
    bool is_collate;
    uint64_t start_ns, end_ns;
};

struct looking {
    const struct lw_profile *profile;
    struct lw_called_list *lists; /* one a worker */
    uint32_t *worker_of;          /* owned: of each thread, its worker + 1; 0: none */
    struct made *made;            /* owned; by worker, then start */
    size_t made_count, made_capacity;
    lw_frame_id *ways;    /* owned: of each stack, the innermost way in; 0: no fetch */
    lw_frame_id *calleds; /* owned: of each stack, what that called; 0: nothing */
};

/* ---- stacks ------------------------------------------------------------------------- */

static bool is_way_in(const char *name)
{
    static const char *const ways[] = { "__getitem__", "__getitems__", "__iter__",
                                        "__next__",    "<listcomp>",   "<genexpr>" };

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        if (strcmp(name, ways[i]) == 0)
            return true;
    return false;
}

/* Parents come before their children, so each takes over what its parent knows. */
static void sort_stacks(struct looking *l)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(l->profile->stacks, &count);

    for (lw_stack_id s = 1; s < count; s++) {
        lw_stack_id parent = stacks[s].parent;
        const struct lw_frame *frame = lw_profile_frame(l->profile, stacks[s].frame);

        l->ways[s] = l->ways[parent];
        l->calleds[s] = l->calleds[parent];
        if (frame->kind == LW_FRAME_NOTE || l->calleds[s])
            continue;
        if (lw_text_ends(lw_profile_text(l->profile, frame->file), LW_FETCH_FILE) ||
            (l->ways[s] && is_way_in(lw_profile_text(l->profile, frame->name))))
            l->ways[s] = stacks[s].frame;
        else if (l->ways[s])
            l->calleds[s] = stacks[s].frame;
    }
}

/* ---- spans -------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct made *x = a, *y = b;

    if (x->worker != y->worker)
        return x->worker < y->worker ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static bool add_spans(struct looking *l, struct lw_error *err)
{
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(l->profile->stacks, &count);

    for (size_t i = 0; i < l->profile->span_count; i++) {
        const struct lw_span *span = &l->profile->spans[i];
        const struct lw_frame *frame =
            lw_profile_frame(l->profile, stacks[span->stack].frame);
        const char *name = lw_profile_text(l->profile, frame->name);
        bool is_collate = strcmp(name, "collate") == 0;

        if (l->worker_of[span->thread] == 0 || frame->kind != LW_FRAME_PHASE ||
            (!is_collate && strcmp(name, "fetch") != 0))
            continue;
        if (!lw_grow(&l->made, &l->made_capacity, l->made_count + 1, sizeof(*l->made),
                     err))
            return false;
        l->made[l->made_count++] = (struct made){
            .worker = l->worker_of[span->thread] - 1,
            .is_collate = is_collate,
            .start_ns = span->start_ns,
            .end_ns = span->start_ns + span->duration_ns,
        };
    }
    if (l->made_count > 0)
        qsort(l->made, l->made_count, sizeof(*l->made), by_start);
    return true;
}

/* Was WORKER in a fetch at TIME_NS? "collate" may be beside "fetch", or inside of it: what
 * began last counts, unless it has ended. */
static bool is_fetching(const struct looking *l, uint32_t worker, uint64_t time_ns)
{
    size_t low = 0, high = l->made_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct made *made = &l->made[middle];

        if (made->worker < worker ||
            (made->worker == worker && made->start_ns <= time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && l->made[low - 1].worker == worker &&
           !l->made[low - 1].is_collate && time_ns < l->made[low - 1].end_ns;
}

/* ---- samples ------------------------------------------------------------------------ */

static bool add_samples(struct looking *l, struct lw_error *err)
{
    for (size_t i = 0; i < l->profile->sample_count; i++) {
        const struct lw_sample *sample = &l->profile->samples[i];
        uint32_t number = l->worker_of[sample->thread];
        lw_frame_id way = l->ways[sample->stack];
        lw_frame_id called = l->calleds[sample->stack];

        if (number == 0 || sample->count == 0 || way == 0 ||
            !is_fetching(l, number - 1, sample->time_ns))
            continue;
        if (!lw_called_add(&l->lists[number - 1], called ? called : way, way,
                           sample->weight_ns, sample->count, err))
            return false;
    }
    return true;
}

static bool allocate(struct looking *l, struct lw_error *err)
{
    size_t count;

    lw_stacks_list(l->profile->stacks, &count);
    return (l->worker_of =
                lw_zalloc(l->profile->thread_count + 1, sizeof(*l->worker_of), err)) &&
           (l->ways = lw_zalloc(count + 1, sizeof(*l->ways), err)) &&
           (l->calleds = lw_zalloc(count + 1, sizeof(*l->calleds), err));
}

bool lw_steps_find_fetches(struct lw_called_list *lists, const struct lw_steps *steps,
                           struct lw_error *err)
{
    struct looking l = { .profile = steps->profile, .lists = lists };
    bool done = allocate(&l, err);

    for (size_t i = 0; i < steps->worker_count; i++) {
        lw_called_init(&lists[i], steps->profile);
        if (done)
            l.worker_of[steps->workers[i].thread] = (uint32_t)i + 1;
    }
    if (done)
        sort_stacks(&l);
    done = done && add_spans(&l, err) && add_samples(&l, err);
    for (size_t i = 0; i < steps->worker_count; i++)
        lw_called_divide(&lists[i], steps->workers[i].fetch_ns);
    lw_free(l.worker_of);
    lw_free(l.made);
    lw_free(l.ways);
    lw_free(l.calleds);
    return done;
}
