/* What Python calls its threads: `threading._active` holds them by the identity that
 * their states have as well. It is looked up from `sys.modules` each time, since a
 * program may reload or replace it; whoever calls this does so rarely. */
#include <string.h>

#include "sampler/objects.h"
#include "sampler/target.h"

#define THREADS_MAX 10000u
/* Reads of its memory at one time: a tenth of a second. */
#define CALLS_MAX 100000u

/* The thread that has IDENTITY, if it was read. */
static struct lw_target_thread *find_thread(struct lw_target *target, uint64_t identity)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        struct lw_target_thread *thread = &target->threads[i];

        if (thread->has_stack && /* else there may be nothing to look at */
            lw_snapshot_words(&thread->snapshot, &target->layout, LW_SECOND)
                    .thread_id == identity)
            return thread;
    }
    return NULL;
}

static void name_thread(struct lw_target *target, const struct lw_objects *objects,
                        const struct lw_entry *entry, bool all)
{
    struct lw_target_thread *thread;
    char name[sizeof(thread->name)];
    uint64_t identity;

    if (!lw_objects_u64(objects, entry->key, &identity))
        return;
    thread = find_thread(target, identity);
    if (!thread || (thread->is_named && !all) ||
        !lw_objects_name(objects, lw_objects_attribute(objects, entry->value, "_name"),
                         name, sizeof(name)))
        return;
    memcpy(thread->name, name, sizeof(name));
    thread->is_named = true;
}

static void name_threads_of(struct lw_target *target, const struct lw_objects *objects,
                            uint64_t interpreter, bool all)
{
    struct lw_entries active = { 0 };
    struct lw_object object;
    uint64_t modules, module, calls = objects->memory->calls;

    if (!lw_memory_u64(objects->memory,
                       interpreter + target->layout.interpreter_modules, &modules))
        return;
    module = lw_objects_item(objects, modules, "threading");
    if (lw_objects_look(objects, lw_objects_attribute(objects, module, "_active"),
                        &object) &&
        object.kind == LW_OBJECT_DICT &&
        lw_objects_entries(objects, &object, THREADS_MAX, &active)) {
        for (size_t i = 0;
             i < active.count && objects->memory->calls - calls < CALLS_MAX; i++)
            name_thread(target, objects, &active.entries[i], all);
    }
    lw_entries_release(&active);
}

void lw_target_name_threads(struct lw_target *target, bool all)
{
    const struct lw_objects objects = { &target->memory, &target->layout };

    for (size_t i = 0; i < target->interpreter_count; i++)
        name_threads_of(target, &objects, target->interpreters[i], all);
}
