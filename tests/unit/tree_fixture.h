/* Profiles made by hand, for tests of what is computed from them. */
#ifndef LW_TREE_FIXTURE_H
#define LW_TREE_FIXTURE_H

#include <stdio.h>

#include "model/builder.h"
#include "test.h"

struct tree {
    struct lw_builder *builder;
    uint32_t process;
};

static inline struct tree make_tree(void)
{
    struct tree t = { .builder = lw_builder_new(NULL) };
    struct lw_process process = { .pid = 100, .rank = -1, .exit_code = -1 };

    CHECK(t.builder != NULL);
    CHECK(lw_builder_process(t.builder, &process, &t.process, NULL));
    return t;
}

static inline uint32_t add_thread(struct tree *t, const char *name, uint64_t tid)
{
    struct lw_thread thread = { .process = t->process, .tid = tid };
    uint32_t index;

    CHECK(lw_builder_string(t->builder, name, strlen(name), &thread.name, NULL));
    CHECK(lw_builder_thread(t->builder, &thread, &index, NULL));
    return index;
}

/* NAME in FILE (NULL: a builtin), at line 1. */
static inline lw_frame_id add_frame(struct tree *t, const char *file, const char *name,
                                    uint32_t line, uint16_t variant)
{
    struct lw_frame frame = { .first_line = file ? 1 : 0, .line = line };
    lw_frame_id id;

    frame.variant = variant;
    frame.kind = file ? LW_FRAME_PYTHON : LW_FRAME_C;
    CHECK(lw_builder_string(t->builder, name, strlen(name), &frame.name, NULL));
    if (file)
        CHECK(lw_builder_string(t->builder, file, strlen(file), &frame.file, NULL));
    CHECK(lw_builder_frame(t->builder, &frame, &id, NULL));
    return id;
}

static inline lw_stack_id push(struct tree *t, lw_stack_id parent, lw_frame_id frame)
{
    lw_stack_id id;

    CHECK(lw_builder_push(t->builder, parent, frame, &id, NULL));
    return id;
}

static inline void add_calls(struct tree *t, uint32_t thread, lw_stack_id stack,
                             uint64_t calls, uint64_t self_ns)
{
    struct lw_call_row row = { thread, stack, calls, self_ns };

    CHECK(lw_builder_calls(t->builder, &row, NULL));
}

static inline void add_sample(struct tree *t, uint32_t thread, lw_stack_id stack,
                              uint64_t weight_ns)
{
    struct lw_sample sample = { .weight_ns = weight_ns,
                                .thread = thread,
                                .stack = stack };

    CHECK(lw_builder_samples(t->builder, &sample, 1, NULL));
}

/* "a/b/c": the functions a, b and c of x.py, called by each other. */
static inline lw_stack_id add_path(struct tree *t, const char *path)
{
    lw_stack_id stack = LW_NO_STACK;

    while (*path) {
        char name[64];
        size_t len = strcspn(path, "/");

        snprintf(name, sizeof(name), "%.*s", (int)len, path);
        stack = push(t, stack, add_frame(t, "x.py", name, 0, 0));
        path += len + (path[len] == '/');
    }
    return stack;
}

static inline struct lw_profile *finish(struct tree *t)
{
    struct lw_profile *profile = lw_builder_finish(t->builder, NULL);

    CHECK(profile != NULL);
    return profile;
}

#endif
