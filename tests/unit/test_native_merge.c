#include "test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "sampler/native_merge.h"

/* Stacks are written as text, the outermost first: of machine code, "main" is a plain
 * function, and names of the interpreter are what they are there; of Python, '*' before
 * a function says that C called it. */

#define FRAMES_MAX 64

struct stacks {
    struct lw_native_frame native[FRAMES_MAX]; /* innermost first */
    const char *native_names[FRAMES_MAX];      /* by number */
    size_t native_count;
    struct lw_walk_frame python[FRAMES_MAX];
    const char *python_names[FRAMES_MAX];
    size_t python_count;
    char text[1024];
};

static size_t split(char *text, const char **words)
{
    size_t count = 0;

    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

static void parse(struct stacks *stacks, const char *native, const char *python)
{
    size_t len = strlen(native) + 1;

    memset(stacks, 0, sizeof(*stacks));
    memcpy(stacks->text, native, len);
    memcpy(stacks->text + len, python, strlen(python) + 1);
    stacks->native_count = split(stacks->text, stacks->native_names);
    stacks->python_count = split(stacks->text + len, stacks->python_names);
    for (size_t i = 0; i < stacks->native_count; i++)
        stacks->native[stacks->native_count - 1 - i] = (struct lw_native_frame){
            (uint32_t)i, (uint8_t)lw_native_kind_of(stacks->native_names[i])
        };
    for (size_t i = 0; i < stacks->python_count; i++) {
        stacks->python[i].is_entry = stacks->python_names[i][0] == '*';
        stacks->python_names[i] += stacks->python[i].is_entry;
    }
}

/* What both come to; "mismatch" if they do not belong together. */
static const char *merged(const char *native, const char *python, bool is_whole)
{
    static char text[1024];
    struct lw_merged out = { NULL };
    struct stacks stacks;
    struct lw_walk walk;
    size_t len = 0;

    parse(&stacks, native, python);
    walk = (struct lw_walk){ .frames = stacks.python, .count = stacks.python_count };
    text[0] = '\0';
    if (!lw_native_merge(&out, stacks.native, stacks.native_count, is_whole, &walk)) {
        CHECK_EQ(out.count, 0);
        snprintf(text, sizeof(text), "mismatch");
    }
    for (size_t i = 0; i < out.count; i++) {
        uint32_t entry = out.entries[i];

        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "",
                                entry & LW_MERGED_FUNCTION
                                    ? stacks.native_names[entry & ~LW_MERGED_FUNCTION]
                                    : stacks.python_names[entry]);
    }
    lw_free(out.entries);
    return text;
}

#define LOOP "_PyEval_EvalFrameDefault"

TEST(a_run_of_the_loop_becomes_its_python_frames)
{
    CHECK_STR(merged("_start main Py_RunMain " LOOP " time_sleep clock_nanosleep",
                     "*module run wait", true),
              "module run wait time_sleep clock_nanosleep");
    CHECK_STR(merged("main " LOOP, "*module", true), "module");
}

TEST(each_run_of_the_loop_takes_the_frames_up_to_the_next_that_c_called)
{
    CHECK_STR(merged("main " LOOP " PyObject_Vectorcall PyCFuncPtr_call qsort closure "
                     "_PyObject_Call _PyFunction_Vectorcall " LOOP " list_sort",
                     "*module sort *less key", true),
              "module sort PyCFuncPtr_call qsort closure less key list_sort");
    CHECK_STR(merged("main " LOOP " " LOOP " " LOOP, "*a *b *c", true), "a b c");
}

TEST(parts_that_a_compiler_made_of_the_loop_are_the_loop)
{
    CHECK_STR(merged("main " LOOP ".cold f " LOOP ".lto_priv.0.cold g", "*a *b", true),
              "a f b g");
    CHECK_STR(merged("main _PyEval_EvalFrameDefaultish", "", true),
              "main _PyEval_EvalFrameDefaultish");
}

TEST(an_instruction_that_is_a_function_belongs_to_the_loop_that_called_it)
{
    CHECK_STR(merged("main " LOOP " _TAIL_CALL_CALL builtin_sum " LOOP
                     " _TAIL_CALL_BINARY_OP float_add",
                     "*a *b", true),
              "a builtin_sum b float_add");
    CHECK_STR(merged("main _TAIL_CALL_CALL f", "*a", true), "a f");
}

TEST(a_loop_that_has_only_just_begun_has_no_frames_yet)
{
    CHECK_STR(merged("main " LOOP " f " LOOP, "*a", true), "a f");
}

TEST(a_thread_without_python_frames_is_its_machine_code)
{
    CHECK_STR(merged("clone3 start_thread worker futex_wait", "", true),
              "clone3 start_thread worker futex_wait");
}

TEST(stacks_that_do_not_fit_are_not_merged)
{
    CHECK_STR(merged("main f", "*a", true), "mismatch");
    CHECK_STR(merged("main " LOOP " f", "*a *b", true), "mismatch");
    CHECK_STR(merged("main " LOOP " f " LOOP " " LOOP, "*a", true), "mismatch");
    CHECK_STR(merged(LOOP " " LOOP " f", "*a", false), "mismatch");
}

TEST(without_its_outer_part_a_stack_is_fitted_from_the_inner_end)
{
    CHECK_STR(merged("qsort " LOOP " f", "*a b *c d", false), "a b qsort c d f");
    CHECK_STR(merged("f g", "*a b", false), "a b f g");
    CHECK_STR(merged("qsort " LOOP " f", "*c d", false), "c d f");
}

TEST(running_out_of_memory_is_no_stack)
{
    lw_alloc_fail_in(1);
    CHECK_STR(merged("main " LOOP " f", "*a", true), "mismatch");
    lw_alloc_fail_in(0);
}
