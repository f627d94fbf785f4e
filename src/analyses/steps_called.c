/* Samples, put together by what was called and by which line; see steps_view.h. */

#include <stdlib.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"

struct key {
    lw_frame_id function, caller;
};

void lw_called_init(struct lw_called_list *calls, const struct lw_profile *profile)
{
    memset(calls, 0, sizeof(*calls));
    calls->profile = profile;
    lw_map_init(&calls->map);
}

void lw_called_release(struct lw_called_list *calls)
{
    lw_map_release(&calls->map);
    lw_free(calls->list);
    memset(calls, 0, sizeof(*calls));
}

bool lw_called_is_same(const struct lw_profile *profile, lw_frame_id a, lw_frame_id b)
{
    const struct lw_frame *x = lw_profile_frame(profile, a);
    const struct lw_frame *y = lw_profile_frame(profile, b);

    return a == b || (x->name == y->name && x->file == y->file &&
                      x->first_line == y->first_line && x->kind == y->kind);
}

static bool same_call(const void *owner, uint32_t number, const void *key)
{
    const struct lw_called_list *calls = owner;
    const struct key *k = key;
    const struct lw_called *call = &calls->list[number - 1];
    const struct lw_frame *a = lw_profile_frame(calls->profile, call->caller);
    const struct lw_frame *b = lw_profile_frame(calls->profile, k->caller);

    return lw_called_is_same(calls->profile, call->function, k->function) &&
           lw_called_is_same(calls->profile, call->caller, k->caller) &&
           a->line == b->line;
}

static uint64_t hash_of(const struct lw_profile *profile, const struct key *key)
{
    const struct lw_frame *f = lw_profile_frame(profile, key->function);
    const struct lw_frame *c = lw_profile_frame(profile, key->caller);

    return lw_hash_u64(lw_hash_u64((uint64_t)f->name << 32 | f->first_line) ^
                       ((uint64_t)c->file << 32 | c->line));
}

bool lw_called_add(struct lw_called_list *calls, lw_frame_id function,
                   lw_frame_id caller, uint64_t ns, uint64_t samples,
                   struct lw_error *err)
{
    struct key key = { function, caller };
    uint64_t hash = hash_of(calls->profile, &key);
    uint32_t number = lw_map_find(&calls->map, hash, same_call, calls, &key);
    struct lw_called call = { .function = function, .caller = caller };

    if (number == 0) {
        if (!lw_grow(&calls->list, &calls->capacity, calls->count + 1, sizeof(call),
                     err) ||
            !lw_map_add(&calls->map, hash, (uint32_t)calls->count + 1, err))
            return false;
        calls->list[calls->count++] = call;
        number = (uint32_t)calls->count;
    }
    calls->list[number - 1].ns += ns;
    calls->list[number - 1].samples += samples;
    calls->samples += samples;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct lw_called *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->caller < y->caller ? -1 : x->caller > y->caller;
}

void lw_called_divide(struct lw_called_list *calls, uint64_t ns)
{
    double sampled_ns = 0;

    calls->ns = ns;
    for (size_t i = 0; i < calls->count; i++)
        sampled_ns += (double)calls->list[i].ns;
    for (size_t i = 0; i < calls->count; i++)
        calls->list[i].ns =
            (uint64_t)((double)calls->list[i].ns / sampled_ns * (double)ns);
    if (calls->count > 0) {
        qsort(calls->list, calls->count, sizeof(*calls->list), by_time);
        lw_map_release(&calls->map); /* its numbers are of another order */
    }
}

void lw_called_add_name(const struct lw_called_list *calls,
                        const struct lw_called *call, struct lw_buf *out)
{
    const struct lw_profile *profile = calls->profile;
    const struct lw_frame *place =
        lw_profile_frame(profile, call->caller ? call->caller : call->function);
    struct lw_function function, caller;
    uint32_t line = place->line ? place->line : place->first_line;

    lw_function_init(&function, profile, call->function);
    lw_function_init(&caller, profile, call->caller ? call->caller : call->function);
    lw_function_strip(&caller);
    lw_buf_add(out, function.name, function.name_len);
    if (call->function == call->caller)
        lw_buf_add_text(out, " itself");
    if (line > 0) {
        lw_buf_add_text(out, " (");
        lw_buf_add(out, caller.file, caller.file_len);
        lw_buf_addf(out, ":%u)", line);
    }
}
