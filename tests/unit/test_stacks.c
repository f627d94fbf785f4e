#include "test.h"

#include "base/alloc.h"
#include "model/stacks.h"

static struct lw_frame function(lw_string_id name)
{
    struct lw_frame frame = { .name = name, .file = 2, .first_line = 10 };

    return frame;
}

TEST(the_empty_stack_and_the_unknown_frame_are_there_from_the_start)
{
    struct lw_stacks *t = lw_stacks_new(NULL);
    const struct lw_frame *frames;
    const struct lw_stack *stacks;
    struct lw_frame unknown;
    lw_frame_id id = 7;
    size_t count;

    lw_stacks_name_unknown(t, 1);
    frames = lw_stacks_frames(t, &count);
    CHECK_EQ(count, 1);
    CHECK_EQ(frames[0].name, 1);
    CHECK_EQ(frames[0].kind, LW_FRAME_NOTE);
    stacks = lw_stacks_list(t, &count);
    CHECK_EQ(count, 1);
    CHECK_EQ(stacks[0].parent, 0);
    CHECK_EQ(stacks[0].frame, 0);
    unknown = frames[0];
    CHECK(lw_stacks_frame(t, &unknown, &id, NULL));
    CHECK_EQ(id, 0);
    lw_stacks_free(t);
    lw_stacks_free(NULL);
}

TEST(frames_that_differ_in_anything_are_different_frames)
{
    struct lw_stacks *t = lw_stacks_new(NULL);
    struct lw_frame variants[7];
    lw_frame_id ids[7], again;

    for (int i = 0; i < 7; i++)
        variants[i] = function(1);
    variants[1].name = 5;
    variants[2].file = 5;
    variants[3].first_line = 5;
    variants[4].line = 5;
    variants[5].variant = 5;
    variants[6].kind = LW_FRAME_C;
    for (uint32_t i = 0; i < 7; i++) {
        CHECK(lw_stacks_frame(t, &variants[i], &ids[i], NULL));
        CHECK_EQ(ids[i], i + 1);
    }
    for (int i = 0; i < 7; i++) {
        CHECK(lw_stacks_frame(t, &variants[i], &again, NULL));
        CHECK_EQ(again, ids[i]);
    }
    lw_stacks_free(t);
}

TEST(the_same_path_is_the_same_stack)
{
    struct lw_stacks *t = lw_stacks_new(NULL);
    struct lw_frame a = function(1), b = function(2);
    lw_frame_id fa, fb;
    lw_stack_id sa, sab, sb, again;

    CHECK(lw_stacks_frame(t, &a, &fa, NULL));
    CHECK(lw_stacks_frame(t, &b, &fb, NULL));
    CHECK(lw_stacks_push(t, LW_NO_STACK, fa, &sa, NULL));
    CHECK(lw_stacks_push(t, sa, fb, &sab, NULL));
    CHECK(lw_stacks_push(t, LW_NO_STACK, fb, &sb, NULL));
    CHECK(sab != sb);
    CHECK(lw_stacks_push(t, sa, fb, &again, NULL));
    CHECK_EQ(again, sab);
    lw_stacks_free(t);
}

TEST(a_stack_ten_thousand_deep_has_parents_before_children)
{
    struct lw_stacks *t = lw_stacks_new(NULL);
    struct lw_frame frame = function(1);
    const struct lw_stack *stacks;
    lw_stack_id top = LW_NO_STACK;
    lw_frame_id f;
    size_t count, depth = 0;

    CHECK(lw_stacks_frame(t, &frame, &f, NULL));
    for (int i = 0; i < 10000; i++)
        CHECK(lw_stacks_push(t, top, f, &top, NULL));
    stacks = lw_stacks_list(t, &count);
    CHECK_EQ(count, 10001);
    for (size_t i = 1; i < count; i++)
        CHECK(stacks[i].parent < i);
    for (lw_stack_id s = top; s != LW_NO_STACK; s = stacks[s].parent)
        depth++;
    CHECK_EQ(depth, 10000);
    lw_stacks_free(t);
}

TEST(running_out_of_memory_leaves_frames_and_stacks_as_they_were)
{
    struct lw_stacks *t = lw_stacks_new(NULL);
    struct lw_error err;
    lw_frame_id f;
    lw_stack_id top = LW_NO_STACK;
    size_t frames = 1, stacks = 1, count, failures = 0;

    /* Every growth on the way is made to fail once, then tried again. */
    for (uint32_t i = 1; i <= 2000; i++) {
        struct lw_frame frame = function(i);

        lw_alloc_fail_in(1);
        while (!lw_stacks_frame(t, &frame, &f, &err)) {
            lw_stacks_frames(t, &count);
            CHECK_EQ(count, frames);
            CHECK_EQ(err.code, LW_ERR_NOMEM);
            failures++;
        }
        frames++;
        lw_alloc_fail_in(1);
        while (!lw_stacks_push(t, top, f, &top, &err)) {
            lw_stacks_list(t, &count);
            CHECK_EQ(count, stacks);
            failures++;
        }
        stacks++;
        CHECK_EQ(top, i);
    }
    lw_alloc_fail_in(0);
    CHECK(failures > 20);
    lw_stacks_free(t);
    for (unsigned n = 1; n <= 3; n++) {
        lw_alloc_fail_in(n);
        CHECK(lw_stacks_new(&err) == NULL);
    }
}
