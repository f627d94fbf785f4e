/* What Python calls its threads: `threading._active` holds them by the identity that
 * their states have as well. It is looked up from `sys.modules` each time, since a
 * program may reload or replace it; whoever calls this does so rarely. */
#include <string.h>

#include "sampler/objects.h"
#include "sampler/target.h"

#define THREADS_MAX 10000u

static void name_thread(struct lw_target *target, const struct lw_objects *objects,
                        const struct lw_entry *entry)
{
    char name[sizeof(target->threads->name)];
    uint64_t identity;

    if (!lw_objects_u64(objects, entry->key, &identity) ||
        !lw_objects_name(objects, lw_objects_attribute(objects, entry->value, "_name"),
                         name, sizeof(name)))
        return;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        if (thread->has_stack && /* else there may be nothing to look at */
            lw_snapshot_words(&thread->snapshot, &target->layout, LW_SECOND)
                    .thread_id == identity)
            memcpy(thread->name, name, sizeof(name));
    }
}

static void name_threads_of(struct lw_target *target, const struct lw_objects *objects,
                            uint64_t interpreter)
{
    struct lw_entries active = { 0 };
    struct lw_object object;
    uint64_t modules, module;

    if (!lw_memory_u64(objects->memory,
                       interpreter + target->layout.interpreter_modules, &modules))
        return;
    module = lw_objects_item(objects, modules, "threading");
    if (lw_objects_look(objects, lw_objects_attribute(objects, module, "_active"),
                        &object) &&
        object.kind == LW_OBJECT_DICT &&
        lw_objects_entries(objects, &object, THREADS_MAX, &active)) {
        for (size_t i = 0; i < active.count; i++)
            name_thread(target, objects, &active.entries[i]);
    }
    lw_entries_release(&active);
}

void lw_target_name_threads(struct lw_target *target)
{
    const struct lw_objects objects = { &target->memory, &target->layout };

    for (size_t i = 0; i < target->interpreter_count; i++)
        name_threads_of(target, &objects, target->interpreters[i]);
}
