#include "analyses/kernel_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void lw_kernel_groups_release(struct lw_kernel_groups *groups)
{
    lw_free(groups->list);
    lw_map_release(&groups->map);
    memset(groups, 0, sizeof(*groups));
}

static bool is_key(const void *owner, uint32_t number, const void *key)
{
    const struct lw_kernel_groups *groups = owner;

    return memcmp(&groups->list[number - 1].key, key, sizeof(struct lw_kernel_key)) ==
           0;
}

struct lw_kernel_group *lw_kernel_groups_get(struct lw_kernel_groups *groups,
                                             const struct lw_kernel_key *key,
                                             struct lw_error *err)
{
    uint64_t hash = lw_hash_bytes(key, sizeof(*key));
    uint32_t found = lw_map_find(&groups->map, hash, is_key, groups, key);
    struct lw_kernel_group made = { .key = *key };

    if (found)
        return &groups->list[found - 1];
    if (!lw_grow(&groups->list, &groups->capacity, groups->count + 1, sizeof(made),
                 err) ||
        !lw_map_add(&groups->map, hash, (uint32_t)groups->count + 1, err))
        return NULL;
    groups->list[groups->count] = made;
    return &groups->list[groups->count++];
}

static void add_call(struct lw_kernel_group *group, int64_t duration_ns)
{
    double away = (double)duration_ns - group->mean_ns;

    if (group->calls == 0 || duration_ns < group->min_ns)
        group->min_ns = duration_ns;
    if (group->calls == 0 || duration_ns > group->max_ns)
        group->max_ns = duration_ns;
    group->total_ns = (int64_t)((uint64_t)group->total_ns + (uint64_t)duration_ns);
    group->calls++;
    group->mean_ns += away / (double)group->calls; /* Welford's */
    group->squares += away * ((double)duration_ns - group->mean_ns);
}

void lw_kernel_group_add(struct lw_kernel_group *group, int64_t duration_ns,
                         const struct lw_work_detail *detail, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        add_call(group, duration_ns);
        if (detail && detail->blocks_per_sm >= 0) {
            group->blocks += detail->blocks_per_sm * (double)duration_ns;
            group->blocks_ns += (double)duration_ns;
        }
        if (detail && detail->occupancy >= 0) {
            group->occupancy += detail->occupancy / 100 * (double)duration_ns;
            group->occupancy_ns += (double)duration_ns;
        }
    }
}

double lw_kernel_group_sd(const struct lw_kernel_group *group)
{
    return group->calls > 1 ? sqrt(group->squares / (double)(group->calls - 1)) : 0;
}

/* Of equal ones the first that was met; a group does not know, but its calls, name and
 * shape tell them apart. */
static int compare(const void *a, const void *b)
{
    const struct lw_kernel_group *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    if (x->calls != y->calls)
        return x->calls > y->calls ? -1 : 1;
    return memcmp(&x->key, &y->key, sizeof(x->key));
}

void lw_kernel_groups_sort(struct lw_kernel_groups *groups)
{
    if (groups->count > 1)
        qsort(groups->list, groups->count, sizeof(*groups->list), compare);
    lw_map_release(&groups->map); /* its numbers are wrong now, and nobody adds more */
}
