/* Two tables over the origins: by where their spans begin, to find these, and by number,
 * to find the last op of each; see model/op_links.h. */

#include "model/op_links.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

struct joining {
    const struct lw_profile *profile;
    struct lw_map starts;  /* of origins: index + 1, by thread and start */
    struct lw_map numbers; /* of forward origins: the last of each number */
    uint32_t *spans;       /* owned; of each origin, its span; LW_NONE: not there */
    uint32_t *lasts;       /* owned; by index of a number's first origin: its last */
};

/* ---- spans -------------------------------------------------------------------------- */

static uint64_t start_hash(uint32_t thread, uint64_t start_ns)
{
    return lw_hash_u64(start_ns ^ lw_hash_u64(thread));
}

static bool same_start(const void *owner, uint32_t number, const void *key)
{
    const struct joining *j = owner;
    const struct lw_origin *origin = &j->profile->origins[number - 1];
    const struct lw_span *span = key;

    return origin->start_ns == span->start_ns && origin->thread == span->thread;
}

/* An origin may be there twice (recorder/ring.c); the second says the same. */
static bool index_starts(struct joining *j, struct lw_error *err)
{
    const struct lw_profile *profile = j->profile;

    for (size_t i = 0; i < profile->origin_count; i++) {
        const struct lw_origin *origin = &profile->origins[i];
        struct lw_span key = { .start_ns = origin->start_ns, .thread = origin->thread };
        uint64_t hash = start_hash(key.thread, key.start_ns);

        j->spans[i] = LW_NONE;
        if (lw_map_find(&j->starts, hash, same_start, j, &key) == 0 &&
            !lw_map_add(&j->starts, hash, (uint32_t)i + 1, err))
            return false;
    }
    return true;
}

static bool is_op(const struct lw_profile *profile, const struct lw_stack *stacks,
                  const struct lw_span *span)
{
    return span->stack != LW_NO_STACK &&
           lw_profile_frame(profile, stacks[span->stack].frame)->kind == LW_FRAME_OP;
}

static void find_spans(struct joining *j)
{
    const struct lw_profile *profile = j->profile;
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &count);

    for (size_t i = 0; i < profile->span_count; i++) {
        const struct lw_span *span = &profile->spans[i];
        uint32_t found;

        if (!is_op(profile, stacks, span))
            continue;
        found = lw_map_find(&j->starts, start_hash(span->thread, span->start_ns),
                            same_start, j, span);
        if (found && j->spans[found - 1] == LW_NONE)
            j->spans[found - 1] = (uint32_t)i;
    }
}

/* ---- numbers ------------------------------------------------------------------------ */

static uint32_t process_of(const struct lw_profile *profile,
                           const struct lw_origin *origin)
{
    return profile->threads[origin->thread].process;
}

static uint64_t number_hash(const struct lw_profile *profile,
                            const struct lw_origin *origin)
{
    uint64_t place =
        (uint64_t)process_of(profile, origin) << 32 | origin->forward_thread;

    return lw_hash_u64(origin->sequence ^ lw_hash_u64(place));
}

static bool same_number(const void *owner, uint32_t number, const void *key)
{
    const struct joining *j = owner;
    const struct lw_origin *a = &j->profile->origins[number - 1], *b = key;

    return a->sequence == b->sequence && a->forward_thread == b->forward_thread &&
           process_of(j->profile, a) == process_of(j->profile, b);
}

static bool index_numbers(struct joining *j, struct lw_error *err)
{
    const struct lw_origin *origins = j->profile->origins;

    for (uint32_t i = 0; i < j->profile->origin_count; i++) {
        uint64_t hash = number_hash(j->profile, &origins[i]);
        uint32_t found;

        if (origins[i].is_backward || j->spans[i] == LW_NONE)
            continue;
        found = lw_map_find(&j->numbers, hash, same_number, j, &origins[i]);
        if (found == 0) {
            if (!lw_map_add(&j->numbers, hash, i + 1, err))
                return false;
            j->lasts[i] = i;
        } else if (origins[i].start_ns > origins[j->lasts[found - 1]].start_ns) {
            j->lasts[found - 1] = i;
        }
    }
    return true;
}

/* ---- both --------------------------------------------------------------------------- */

static int compare_links(const void *a, const void *b)
{
    const struct lw_op_link *x = a, *y = b;

    return x->backward < y->backward ? -1 : x->backward > y->backward;
}

static void add_lone(struct lw_op_links *links, const struct lw_span *span)
{
    links->lone_count++;
    links->lone_ns += span->duration_ns;
}

static bool join(struct joining *j, struct lw_op_links *links, struct lw_error *err)
{
    const struct lw_profile *profile = j->profile;
    size_t capacity = 0;

    for (uint32_t i = 0; i < profile->origin_count; i++) {
        const struct lw_origin *origin = &profile->origins[i], *forward;
        uint32_t found;

        if (!origin->is_backward || j->spans[i] == LW_NONE)
            continue;
        found = lw_map_find(&j->numbers, number_hash(profile, origin), same_number, j,
                            origin);
        if (found == 0) {
            add_lone(links, &profile->spans[j->spans[i]]);
            continue;
        }
        if (!lw_grow(&links->list, &capacity, links->count + 1, sizeof(*links->list),
                     err))
            return false;
        forward = &profile->origins[j->lasts[found - 1]];
        links->list[links->count++] = (struct lw_op_link){
            .forward = j->spans[j->lasts[found - 1]],
            .backward = j->spans[i],
            .function = forward->function,
            .line = forward->line,
        };
    }
    if (links->count)
        qsort(links->list, links->count, sizeof(*links->list), compare_links);
    return true;
}

bool lw_op_links_init(struct lw_op_links *links, const struct lw_profile *profile,
                      struct lw_error *err)
{
    struct joining j = { .profile = profile };
    bool done = true;

    memset(links, 0, sizeof(*links));
    if (profile->origin_count == 0)
        return true;
    if (profile->origin_count >= LW_NONE || profile->span_count >= LW_NONE)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 ops");
    lw_map_init(&j.starts);
    lw_map_init(&j.numbers);
    j.spans = lw_alloc(profile->origin_count * sizeof(*j.spans), err);
    j.lasts = j.spans ? lw_alloc(profile->origin_count * sizeof(*j.lasts), err) : NULL;
    done = j.lasts && index_starts(&j, err);
    if (done)
        find_spans(&j);
    done = done && index_numbers(&j, err) && join(&j, links, err);
    lw_free(j.spans);
    lw_free(j.lasts);
    lw_map_release(&j.starts);
    lw_map_release(&j.numbers);
    return done;
}

void lw_op_links_release(struct lw_op_links *links)
{
    lw_free(links->list);
    memset(links, 0, sizeof(*links));
}
