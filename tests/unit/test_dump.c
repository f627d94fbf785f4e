#include "test.h"

#include "base/alloc.h"
#include "cmd/dump_stacks.h"
#include "model/profile.h"

static bool push(struct lw_dump *dump, lw_stack_id *stack, const char *name,
                 const char *file, uint32_t line, struct lw_error *err)
{
    struct lw_dump_frame frame = { name, file, strlen(name), strlen(file), 1, line };

    return lw_dump_push(dump, stack, &frame, err);
}

/* A process in which COUNT threads wait and one runs in a recursion. */
static bool add_process(struct lw_dump *dump, pid_t pid, unsigned count,
                        struct lw_error *err)
{
    struct lw_dump_about about = { .pid = pid,
                                   .command = "train.py\n--lr 3",
                                   .python = "3.11.7",
                                   .is_stopped = pid == 200 };
    lw_stack_id waits = LW_NO_STACK, runs = LW_NO_STACK;

    if (!lw_dump_add_process(dump, &about, err) ||
        !push(dump, &waits, "run", "threading.py", 900, err) ||
        !push(dump, &waits, "wait", "threading.py", 305, err) ||
        !push(dump, &runs, "main", "train.py", 3, err))
        return false;
    for (unsigned i = 0; i < (unsigned)pid / 50; i++)
        if (!push(dump, &runs, "walk", "train.py", 7, err))
            return false;
    if (!lw_dump_push_note(dump, &runs, "(moving)", err))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!lw_dump_add_thread(dump, (uint64_t)pid + 1 + i, "pool",
                                i == 1 ? LW_STATE_GIL_WAIT : LW_STATE_WAIT, waits, err))
            return false;
    return lw_dump_add_thread(dump, pid == 100 ? 100 : 0, "",
                              LW_STATE_CPU | LW_STATE_HAS_GIL, runs, err);
}

static void check_text(struct lw_dump *dump,
                       bool (*show)(struct lw_dump *, struct lw_buf *,
                                    struct lw_error *),
                       const char *want)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    CHECK(show(dump, &out, NULL));
    CHECK_STR(out.bytes, want);
    lw_buf_release(&out);
}

TEST(the_odd_one_out_comes_first_and_equals_are_together)
{
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    CHECK(add_process(&dump, 100, 3, NULL));
    CHECK(add_process(&dump, 200, 1, NULL));
    dump.other_count = 2;
    check_text(&dump, lw_dump_add_text,
               "process 100: Python 3.11.7, train.py\\x0a--lr 3\n"
               "process 200: Python 3.11.7, train.py\\x0a--lr 3 (stopped)\n"
               "2 processes more are not a Python that can be looked into\n"
               "\n"
               "thread 100 of process 100, running, has the GIL\n"
               "    (moving)\n"
               "    walk (train.py:7)\n"
               "    walk (train.py:7)\n"
               "    main (train.py:3)\n"
               "\n"
               "thread (number not known) of process 200, running, has the GIL\n"
               "    (moving)\n"
               "    walk (train.py:7)\n"
               "    walk (train.py:7)\n"
               "    walk (train.py:7)\n"
               "    ... the same 1 times more\n"
               "    main (train.py:3)\n"
               "\n"
               "4 of 6 threads\n"
               "  process 100, waiting: 101 (pool), 103 (pool)\n"
               "  process 100, waiting for the GIL: 102 (pool)\n"
               "  process 200, waiting: 201 (pool)\n"
               "    wait (threading.py:305)\n"
               "    run (threading.py:900)\n");
    lw_dump_release(&dump);
}

TEST(one_process_need_not_be_named_with_each_thread)
{
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    CHECK(add_process(&dump, 50, 1, NULL));
    check_text(&dump, lw_dump_add_text,
               "process 50: Python 3.11.7, train.py\\x0a--lr 3\n"
               "\n"
               "thread 51 (pool), waiting\n"
               "    wait (threading.py:305)\n"
               "    run (threading.py:900)\n"
               "\n"
               "thread (number not known), running, has the GIL\n"
               "    (moving)\n"
               "    walk (train.py:7)\n"
               "    main (train.py:3)\n");
    lw_dump_release(&dump);
}

TEST(a_process_that_cannot_be_seen_says_why)
{
    struct lw_dump_about about = { 7, "x", "", "process 7 belongs to root", false };
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    CHECK(lw_dump_add_process(&dump, &about, NULL));
    check_text(&dump, lw_dump_add_text, "not looked at: process 7 belongs to root\n");
    check_text(&dump, lw_dump_add_json,
               "{\n"
               "  \"processes\": [\n"
               "    {\n"
               "      \"pid\": 7,\n"
               "      \"command\": \"x\",\n"
               "      \"python\": null,\n"
               "      \"is_stopped\": false,\n"
               "      \"problem\": \"process 7 belongs to root\",\n"
               "      \"tasks_problem\": null\n"
               "    }\n"
               "  ],\n"
               "  \"other_processes\": 0,\n"
               "  \"stacks\": [],\n"
               "  \"tasks\": []\n"
               "}\n");
    lw_dump_release(&dump);
}

static bool push_local(struct lw_dump *dump, lw_stack_id *stack, const char *name,
                       enum lw_local_kind kind, const char *value, struct lw_error *err)
{
    struct lw_dump_local local = { .kind = kind };

    return lw_strings_intern(dump->strings, name, strlen(name), &local.name, err) &&
           lw_strings_intern(dump->strings, value, strlen(value), &local.value, err) &&
           lw_dump_push_local(dump, stack, &local, err);
}

TEST(variables_follow_their_call_and_keep_threads_apart)
{
    struct lw_dump_about about = { .pid = 9, .command = "x", .python = "3.11.7" };
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    dump.has_locals = true;
    CHECK(lw_dump_add_process(&dump, &about, NULL));
    for (unsigned i = 0; i < 2; i++) {
        lw_stack_id stack = LW_NO_STACK;

        CHECK(push_local(&dump, &stack, "rank", LW_LOCAL_FREE, i ? "1" : "0", NULL));
        CHECK(push_local(&dump, &stack, "step", LW_LOCAL_PLAIN, "12", NULL));
        CHECK(push(&dump, &stack, "train", "train.py", 4, NULL));
        CHECK(lw_dump_add_thread(&dump, i + 1, "", LW_STATE_WAIT, stack, NULL));
    }
    check_text(&dump, lw_dump_add_text,
               "process 9: Python 3.11.7, x\n"
               "\n"
               "thread 1, waiting\n"
               "    train (train.py:4)\n"
               "        step = 12\n"
               "        rank (free) = 0\n"
               "\n"
               "thread 2, waiting\n"
               "    train (train.py:4)\n"
               "        step = 12\n"
               "        rank (free) = 1\n");
    lw_dump_release(&dump);
}

static bool add_tasks(struct lw_dump *dump, unsigned count, struct lw_error *err)
{
    static const char *const awaited[] = { "a", "b", "c", "d", "e", "f", "g" };
    struct lw_dump_task task = { .name = "gather", .awaits = "_GatheringFuture" };
    lw_stack_id sleeps = LW_NO_STACK;

    if (!push_local(dump, &task.stack, "n", LW_LOCAL_CELL, "1", err) ||
        !push(dump, &task.stack, "all", "x.py", 1, err) ||
        !lw_dump_add_task(dump, &task, err))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!lw_dump_add_wait(dump, awaited[i], err))
            return false;
    task = (struct lw_dump_task){ .awaits = "" };
    if (!push(dump, &sleeps, "sleep", "tasks.py", 2, err))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        task.name = awaited[i];
        task.is_running = i == 1;
        task.stack = sleeps;
        if (!lw_dump_add_task(dump, &task, err))
            return false;
    }
    return lw_dump_miss_tasks(dump, "process 50: 1 of its asyncio tasks were not read",
                              err);
}

TEST(tasks_are_behind_the_threads_with_whom_they_wait_for)
{
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    CHECK(add_process(&dump, 50, 0, NULL));
    CHECK(add_tasks(&dump, 7, NULL));
    check_text(&dump, lw_dump_add_text,
               "process 50: Python 3.11.7, train.py\\x0a--lr 3\n"
               "process 50: 1 of its asyncio tasks were not read\n"
               "\n"
               "thread (number not known), running, has the GIL\n"
               "    (moving)\n"
               "    walk (train.py:7)\n"
               "    main (train.py:3)\n"
               "\n"
               "task gather, waiting for a, b, c, d, e and 2 more\n"
               "    all (x.py:1)\n"
               "        n (cell) = 1\n"
               "\n"
               "2 of 3 tasks\n"
               "  process 50, running: b\n"
               "  process 50, waiting: a\n"
               "    sleep (tasks.py:2)\n");
    lw_dump_release(&dump);
}

TEST(tasks_and_variables_are_in_the_json)
{
    struct lw_dump_about about = { .pid = 9, .command = "x", .python = "3.11.7" };
    struct lw_dump_task task = { .name = "gather", .awaits = "_GatheringFuture" };
    struct lw_dump dump;

    CHECK(lw_dump_init(&dump, NULL));
    dump.has_locals = true;
    CHECK(lw_dump_add_process(&dump, &about, NULL));
    CHECK(push_local(&dump, &task.stack, "n", LW_LOCAL_CELL, "1", NULL));
    CHECK(push(&dump, &task.stack, "all", "x.py", 1, NULL));
    CHECK(lw_dump_add_task(&dump, &task, NULL));
    CHECK(lw_dump_add_wait(&dump, "child", NULL));
    check_text(&dump, lw_dump_add_json,
               "{\n"
               "  \"processes\": [\n"
               "    {\n"
               "      \"pid\": 9,\n"
               "      \"command\": \"x\",\n"
               "      \"python\": \"3.11.7\",\n"
               "      \"is_stopped\": false,\n"
               "      \"problem\": null,\n"
               "      \"tasks_problem\": null\n"
               "    }\n"
               "  ],\n"
               "  \"other_processes\": 0,\n"
               "  \"stacks\": [],\n"
               "  \"tasks\": [\n"
               "    {\n"
               "      \"tasks\": [\n"
               "        {\n"
               "          \"pid\": 9,\n"
               "          \"name\": \"gather\",\n"
               "          \"state\": \"wait\",\n"
               "          \"awaits\": \"_GatheringFuture\",\n"
               "          \"waits_for\": [\n"
               "            \"child\"\n"
               "          ]\n"
               "        }\n"
               "      ],\n"
               "      \"frames\": [\n"
               "        {\n"
               "          \"function\": \"all\",\n"
               "          \"file\": \"x.py\",\n"
               "          \"first_line\": 1,\n"
               "          \"line\": 1,\n"
               "          \"locals\": [\n"
               "            {\n"
               "              \"name\": \"n\",\n"
               "              \"kind\": \"cell\",\n"
               "              \"value\": \"1\"\n"
               "            }\n"
               "          ]\n"
               "        }\n"
               "      ]\n"
               "    }\n"
               "  ]\n"
               "}\n");
    lw_dump_release(&dump);
}

static bool make(struct lw_buf *out, struct lw_error *err)
{
    struct lw_dump dump;
    bool done = lw_dump_init(&dump, err) && add_process(&dump, 100, 3, err) &&
                add_tasks(&dump, 3, err) && lw_dump_add_text(&dump, out, err) &&
                lw_dump_add_json(&dump, out, err);

    lw_dump_release(&dump);
    return done;
}

TEST(running_out_of_memory_at_any_point_is_told)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_buf out;
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        lw_buf_init(&out, 0);
        lw_alloc_fail_in(n);
        done = make(&out, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        lw_buf_release(&out);
        CHECK(n < 1000);
    }
}
