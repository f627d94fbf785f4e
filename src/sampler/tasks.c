/* Where tasks are listed differs: up to 3.13 in weak sets of `asyncio.tasks`; from 3.14 on
 * in a list that runs through the tasks themselves and begins in each thread's state, and
 * in those sets only if they are not `_asyncio`'s. (The tasks of a thread that has ended
 * are in a list of the interpreter's; no loop runs them any more, and they are not
 * shown.)
 *
 * Where a task has its fields no header says; tasks.def does. What is found there has to
 * be what it should be, a coroutine and a name, or the task counts as unreadable. */
#include "sampler/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "sampler/awaits.h"

/* Bounds on what a broken or hostile target can make us do. */
#define TASKS_MAX 100000u
#define AWAITS_MAX 1000u
#define WAITERS_MAX 1000u
/* Reads of its memory: a second or two. */
#define CALLS_MAX 1000000u

/* Places in a task, from its start. */
struct layout {
    unsigned minor, micro;
    uint32_t name, coro, waiter;
    uint32_t awaited_by, node; /* from 3.14 on */
};

static const struct layout layouts[] = {
#define LW_TASKS(row, ...) { __VA_ARGS__ },
#include "sampler/tasks.def"
#undef LW_TASKS
};

/* The table is of Pythons whose objects begin so; free-threaded ones have more in front. */
#define OBJECT_BYTES 16u

#define NOWHERE UINT32_MAX /* no place in the list */

struct context {
    struct lw_tasks *tasks;
    struct lw_target *target;
    struct lw_objects objects;
    struct layout layout;
    uint64_t now_ns;
    uint64_t calls;           /* of the target's memory when this began */
    struct lw_map by_address; /* the tasks' places in the list, from 1 on */
};

void lw_tasks_release(struct lw_tasks *tasks)
{
    for (size_t i = 0; i < tasks->count; i++)
        lw_free(tasks->tasks[i].frames);
    lw_free(tasks->tasks);
    lw_free(tasks->waits);
    memset(tasks, 0, sizeof(*tasks));
}

static bool no_memory(struct lw_error *err)
{
    return lw_fail(err, LW_ERR_NOMEM, "no memory for the list of asyncio tasks");
}

static bool is_over_budget(const struct context *at)
{
    return at->objects.memory->calls - at->calls > CALLS_MAX;
}

/* ---- listing ------------------------------------------------------------------------ */

static bool is_at(const void *owner, uint32_t number, const void *key)
{
    const struct lw_tasks *tasks = owner;

    return tasks->tasks[number - 1].address == *(const uint64_t *)key;
}

/* The place of the task at ADDRESS in the list. */
static uint32_t find(const struct context *at, uint64_t address)
{
    uint32_t number =
        lw_map_find(&at->by_address, lw_hash_u64(address), is_at, at->tasks, &address);

    return number > 0 ? number - 1 : NOWHERE;
}

static bool add(struct context *at, uint64_t address, struct lw_error *err)
{
    struct lw_tasks *tasks = at->tasks;

    if (address == 0 || find(at, address) != NOWHERE)
        return true;
    if (tasks->count >= TASKS_MAX || is_over_budget(at)) {
        tasks->unreadable++;
        return true;
    }
    if (!lw_grow(&tasks->tasks, &tasks->capacity, tasks->count + 1,
                 sizeof(*tasks->tasks), NULL) ||
        !lw_map_add(&at->by_address, lw_hash_u64(address), (uint32_t)tasks->count + 1,
                    NULL))
        return no_memory(err);
    tasks->tasks[tasks->count++] = (struct lw_task){ .address = address };
    return true;
}

/* The tasks in the set NAME of the module: of references to them, or of themselves. */
static bool add_set(struct context *at, uint64_t module, const char *name,
                    struct lw_error *err)
{
    const struct lw_objects *objects = &at->objects;
    uint64_t set = lw_objects_attribute(objects, module, name);
    struct lw_entries entries = { 0 };
    struct lw_object object;
    bool is_weak, done = true;

    if (!lw_objects_look(objects, set, &object))
        return true;
    is_weak = object.kind != LW_OBJECT_SET;
    if (is_weak &&
        !lw_objects_look(objects, lw_objects_attribute(objects, set, "data"), &object))
        return true;
    if (object.kind == LW_OBJECT_SET &&
        lw_objects_entries(objects, &object, TASKS_MAX, &entries)) {
        for (size_t i = 0; done && i < entries.count; i++) {
            uint64_t task = entries.entries[i].key;

            if (is_weak &&
                !lw_memory_u64(objects->memory, task + objects->layout->weakref_object,
                               &task))
                continue;
            done = add(at, task, err);
        }
    }
    lw_entries_release(&entries);
    return done;
}

/* The circle of tasks that begins in the state of a thread. */
static bool add_circle(struct context *at, uint64_t thread, struct lw_error *err)
{
    const struct lw_py_layout *layout = at->objects.layout;
    uint64_t head = thread + layout->thread_bytes + layout->tasks_behind_thread;
    uint64_t link = head;

    for (unsigned i = 0; i < TASKS_MAX; i++) {
        if (!lw_memory_u64(at->objects.memory, link, &link) || link == 0 ||
            link == head)
            return true;
        if (!add(at, link - at->layout.node, err))
            return false;
    }
    return true;
}

static bool list(struct context *at, uint64_t module, struct lw_error *err)
{
    static const char *const sets[] = { "_all_tasks", "_scheduled_tasks",
                                        "_eager_tasks" };

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        if (!add_set(at, module, sets[i], err))
            return false;
    }
    if (!at->objects.layout->tasks_behind_thread || at->layout.node == LW_NO_FIELD)
        return true;
    for (size_t i = 0; i < at->target->thread_count; i++) {
        if (!add_circle(at, at->target->threads[i].snapshot.thread, err))
            return false;
    }
    return true;
}

/* ---- one task ----------------------------------------------------------------------- */

static bool push(struct lw_task *task, const struct lw_walk_frame *frame)
{
    if (!lw_grow(&task->frames, &task->capacity, task->count + 1, sizeof(*task->frames),
                 NULL))
        return false;
    task->frames[task->count++] = *frame;
    return true;
}

/* The stack of whichever thread runs FRAME, from it on up. */
static bool push_running(const struct context *at, struct lw_task *task,
                         const struct lw_walk_frame *frame)
{
    for (size_t i = 0; i < at->target->thread_count; i++) {
        const struct lw_walk *walk = &at->target->threads[i].walk;

        for (size_t j = 0; j < walk->count; j++) {
            if (walk->frames[j].address != frame->address)
                continue;
            for (; j < walk->count; j++) {
                if (!push(task, &walk->frames[j]))
                    return false;
            }
            return true;
        }
    }
    return push(task, frame); /* it began after the stacks were read */
}

/* From CORO down to what is no coroutine. */
static bool follow(struct context *at, struct lw_task *task, uint64_t coro)
{
    for (unsigned i = 0; coro && i < AWAITS_MAX; i++) {
        struct lw_await await =
            lw_await_look(&at->objects, &at->target->codes, coro, at->now_ns);

        if (await.kind == LW_AWAIT_RUNNING) {
            task->is_running = true;
            return push_running(at, task, &await.frame);
        }
        if (await.kind == LW_AWAIT_WAITING && !push(task, &await.frame))
            return false;
        if (await.kind == LW_AWAIT_END || await.kind == LW_AWAIT_FINISHED)
            return true;
        coro = await.next;
    }
    return true;
}

static uint64_t word(const struct context *at, uint64_t address, uint32_t offset)
{
    uint64_t value;

    return lw_memory_u64(at->objects.memory, address + offset, &value) ? value : 0;
}

/* A name that nobody asked for yet is only a number. */
static bool read_name(const struct context *at, struct lw_task *task, uint64_t name)
{
    struct lw_object object;
    uint64_t number;

    if (!lw_objects_look(&at->objects, name, &object))
        return false;
    if (object.kind == LW_OBJECT_INT && lw_objects_u64(&at->objects, name, &number)) {
        snprintf(task->name, sizeof(task->name), "Task-%" PRIu64, number);
        return true;
    }
    return object.kind == LW_OBJECT_TEXT &&
           lw_objects_name(&at->objects, name, task->name, sizeof(task->name));
}

/* What a task holds, written in C or in Python. */
struct parts {
    uint64_t name, coro, waiter;
};

static struct parts parts_of(const struct context *at, uint64_t task)
{
    const struct lw_objects *objects = &at->objects;
    struct parts parts = { 0 };

    if (!lw_objects_is(objects, task, "_asyncio.Task"))
        parts.coro = lw_objects_attribute(objects, task, "_coro");
    if (parts.coro) {
        parts.name = lw_objects_attribute(objects, task, "_name");
        parts.waiter = lw_objects_attribute(objects, task, "_fut_waiter");
    } else {
        parts.name = word(at, task, at->layout.name);
        parts.coro = word(at, task, at->layout.coro);
        parts.waiter = word(at, task, at->layout.waiter);
    }
    return parts;
}

/* ---- who waits for whom ------------------------------------------------------------- */

static bool add_wait(struct context *at, uint32_t waiter, uint32_t awaited)
{
    struct lw_tasks *tasks = at->tasks;

    if (waiter == NOWHERE || awaited == NOWHERE)
        return true;
    if (!lw_grow(&tasks->waits, &tasks->wait_capacity, tasks->wait_count + 1,
                 sizeof(*tasks->waits), NULL))
        return false;
    tasks->waits[tasks->wait_count++] = (struct lw_task_wait){ waiter, awaited };
    return true;
}

/* The future at WAITER may be a task, or stand for several (asyncio.gather). */
static bool add_awaited(struct context *at, uint32_t task, uint64_t waiter)
{
    const struct lw_objects *objects = &at->objects;
    uint32_t awaited = find(at, waiter);
    struct lw_entries children = { 0 };
    struct lw_object object;
    bool done = true;

    if (awaited != NOWHERE)
        return add_wait(at, task, awaited);
    if (lw_objects_look(objects, lw_objects_attribute(objects, waiter, "_children"),
                        &object) &&
        object.kind == LW_OBJECT_LIST &&
        lw_objects_entries(objects, &object, WAITERS_MAX, &children)) {
        for (size_t i = 0; done && i < children.count; i++)
            done = add_wait(at, task, find(at, children.entries[i].value));
    }
    lw_entries_release(&children);
    return done;
}

/* From 3.14 on the task itself knows who waits for it: a task, or a set of them. */
static bool add_awaiting(struct context *at, uint32_t task, uint64_t by)
{
    struct lw_entries waiters = { 0 };
    struct lw_object object;
    bool done = true;

    if (!lw_objects_look(&at->objects, by, &object))
        return true;
    if (object.kind != LW_OBJECT_SET)
        return add_wait(at, find(at, by), task);
    if (lw_objects_entries(&at->objects, &object, WAITERS_MAX, &waiters)) {
        for (size_t i = 0; done && i < waiters.count; i++)
            done = add_wait(at, find(at, waiters.entries[i].key), task);
    }
    lw_entries_release(&waiters);
    return done;
}

static int compare_waits(const void *left, const void *right)
{
    const struct lw_task_wait *a = left, *b = right;
    int by = a->waiter < b->waiter ? -1 : a->waiter > b->waiter;

    return by ? by : a->awaited < b->awaited ? -1 : a->awaited > b->awaited;
}

static bool add_waits(struct context *at)
{
    bool knows_waiters = at->layout.awaited_by != LW_NO_FIELD;

    for (uint32_t i = 0; i < at->tasks->count; i++) {
        struct lw_task *task = &at->tasks->tasks[i];
        struct lw_object object;

        if (task->is_running || is_over_budget(at))
            continue;
        if (lw_objects_look(&at->objects, task->waiter, &object) &&
            object.kind != LW_OBJECT_NONE)
            memcpy(task->awaits, object.type_name, sizeof(task->awaits));
        if (!knows_waiters && !add_awaited(at, i, task->waiter))
            return false;
    }
    for (uint32_t i = 0; knows_waiters && i < at->tasks->count && !is_over_budget(at);
         i++) {
        uint64_t by = word(at, at->tasks->tasks[i].address, at->layout.awaited_by);

        if (!add_awaiting(at, i, by))
            return false;
    }
    if (at->tasks->wait_count > 0)
        qsort(at->tasks->waits, at->tasks->wait_count, sizeof(*at->tasks->waits),
              compare_waits);
    return true;
}

/* ---- all of them -------------------------------------------------------------------- */

static bool find_layout(struct context *at, struct lw_error *err)
{
    const struct lw_py_layout *python = at->objects.layout;
    uint32_t more = python->object_bytes - OBJECT_BYTES;
    const struct layout *found = NULL;

    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        if (layouts[i].minor == python->minor &&
            (!found || layouts[i].micro <= python->micro))
            found = &layouts[i];
    }
    if (!found)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "process %d: the asyncio tasks of CPython %u.%u are not known",
                       (int)at->target->pid, python->major, python->minor);
    at->layout = *found;
    at->layout.name += more;
    at->layout.coro += more;
    at->layout.waiter += more;
    if (found->node != LW_NO_FIELD) {
        at->layout.awaited_by += more;
        at->layout.node += more;
    }
    return true;
}

/* Read the listed ones, and leave out those that cannot be, or have ended. */
static bool read_all(struct context *at, struct lw_error *err)
{
    struct lw_tasks *tasks = at->tasks;
    size_t kept = 0;

    lw_map_reset(&at->by_address); /* their places change */
    for (size_t i = 0; i < tasks->count; i++) {
        struct lw_task task = tasks->tasks[i];
        struct parts parts;
        struct lw_await first;
        bool has_memory;

        if (is_over_budget(at)) {
            tasks->unreadable += tasks->count - i;
            break;
        }
        parts = parts_of(at, task.address);
        task.waiter = parts.waiter;
        first = lw_await_look(&at->objects, &at->target->codes, parts.coro, at->now_ns);
        if (first.kind == LW_AWAIT_END || !read_name(at, &task, parts.name)) {
            tasks->unreadable++;
            continue;
        }
        has_memory = follow(at, &task, parts.coro);
        if (task.count == 0)
            continue;
        tasks->tasks[kept++] = task;
        if (!has_memory || !lw_map_add(&at->by_address, lw_hash_u64(task.address),
                                       (uint32_t)kept, NULL)) {
            tasks->count = kept;
            return no_memory(err);
        }
    }
    tasks->count = kept;
    return true;
}

static bool read_interpreter(struct context *at, uint64_t interpreter,
                             struct lw_error *err)
{
    uint64_t modules, module;

    if (!lw_memory_u64(at->objects.memory,
                       interpreter + at->objects.layout->interpreter_modules, &modules))
        return true;
    module = lw_objects_item(&at->objects, modules, "asyncio.tasks");
    return module == 0 || list(at, module, err);
}

bool lw_tasks_read(struct lw_tasks *tasks, struct lw_target *target, uint64_t now_ns,
                   struct lw_error *err)
{
    struct context at = {
        .tasks = tasks,
        .target = target,
        .objects = { &target->memory, &target->layout },
        .now_ns = now_ns,
        .calls = target->memory.calls,
    };
    bool done = find_layout(&at, err);

    memset(tasks, 0, sizeof(*tasks));
    lw_map_init(&at.by_address);
    for (size_t i = 0; done && i < target->interpreter_count; i++)
        done = read_interpreter(&at, target->interpreters[i], err);
    done = done && read_all(&at, err);
    if (done && tasks->count == 0 && tasks->unreadable > 0)
        done =
            lw_fail(err, LW_ERR_UNSUPPORTED,
                    "process %d: its %zu asyncio tasks do not lie as CPython %u.%u's "
                    "should, and cannot be shown",
                    (int)target->pid, tasks->unreadable, target->layout.major,
                    target->layout.minor);
    if (done && !add_waits(&at))
        done = no_memory(err);
    lw_map_release(&at.by_address);
    if (!done)
        lw_tasks_release(tasks);
    return done;
}
