#include "analyses/tb_calls.h"

#include <string.h>

#include "base/alloc.h"

struct external {
    uint32_t rank;
    uint64_t id;
};

static uint64_t hash_external(const struct external *key)
{
    return lw_hash_u64(key->id * 31 + key->rank);
}

static struct external external_of(const struct lw_tb_calls *c, uint32_t index)
{
    const struct lw_event *event = &c->tree->scope->trace->events[index];
    struct external key = { c->tree->scope->trace->tracks[event->track].rank,
                            event->external };

    return key;
}

static bool is_external(const void *owner, uint32_t number, const void *key)
{
    struct external a = external_of(owner, number - 1);
    const struct external *b = key;

    return a.rank == b->rank && a.id == b->id;
}

static uint32_t find_external(const struct lw_tb_calls *c, const struct external *key)
{
    uint32_t found =
        key->id ? lw_map_find(&c->externals, hash_external(key), is_external, c, key)
                : 0;

    return found ? found - 1 : LW_NONE;
}

/* The event of TRACK that is the first in the tree; LW_NONE: none. With IS_WITHOUT_ID, of
 * those without an id. */
static uint32_t first_of_track(const struct lw_tb_calls *c,
                               const struct lw_track *track, bool is_without_id)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const struct lw_event *event = &c->tree->scope->trace->events[i];

        if (c->tree->nodes[i].is_in &&
            (!is_without_id || !event->external || event->kind == LW_EVENT_PYTHON))
            return i;
    }
    return LW_NONE;
}

/* To the plugin no id is an id as any other: the calls without belong to the first
 * event without, which is a module, on the thread that began first. */
static bool find_without_id(struct lw_tb_calls *c, struct lw_error *err)
{
    const struct lw_trace *trace = c->tree->scope->trace;
    uint64_t *starts_ns = lw_zalloc(trace->rank_count + 1, sizeof(*starts_ns), err);

    c->without_id =
        starts_ns ? lw_alloc((trace->rank_count + 1) * sizeof(*c->without_id), err)
                  : NULL;
    if (!c->without_id) {
        lw_free(starts_ns);
        return false;
    }
    memset(c->without_id, 0xff, (trace->rank_count + 1) * sizeof(*c->without_id));
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct lw_track *track = &trace->tracks[i];
        uint32_t first = first_of_track(c, track, false);
        uint32_t without = first_of_track(c, track, true);

        if (without == LW_NONE ||
            (c->without_id[track->rank] != LW_NONE &&
             trace->events[first].start_ns >= starts_ns[track->rank]))
            continue;
        c->without_id[track->rank] = without;
        starts_ns[track->rank] = trace->events[first].start_ns;
    }
    lw_free(starts_ns);
    return true;
}

static bool add_externals(struct lw_tb_calls *c, struct lw_error *err)
{
    for (uint32_t i = 0; i < c->tree->scope->trace->event_count; i++) {
        struct external key = external_of(c, i);

        if (c->tree->nodes[i].is_in &&
            c->tree->scope->trace->events[i].kind != LW_EVENT_PYTHON && key.id &&
            find_external(c, &key) == LW_NONE &&
            !lw_map_add(&c->externals, hash_external(&key), i + 1, err))
            return false;
    }
    return true;
}

uint32_t lw_tb_calls_owner(const struct lw_tb_calls *c, uint32_t call)
{
    struct external key = external_of(c, call);

    return key.id ? find_external(c, &key) : c->without_id[key.rank];
}

bool lw_tb_calls_init(struct lw_tb_calls *c, const struct lw_op_tree *tree,
                      struct lw_error *err)
{
    memset(c, 0, sizeof(*c));
    c->tree = tree;
    return find_without_id(c, err) && add_externals(c, err);
}

void lw_tb_calls_release(struct lw_tb_calls *c)
{
    lw_free(c->without_id);
    lw_map_release(&c->externals);
    memset(c, 0, sizeof(*c));
}
