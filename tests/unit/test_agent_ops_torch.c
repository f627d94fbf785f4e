/* Finding out how a torch keeps its functions; see agent/ops_torch.h. The real one is in
 * tests/live/test_ops_live.py; here is one that fails. */

#include "agent/ops_torch.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "test.h"

enum {
    AS_TORCH,
    TWO_SCOPES,
    NAME_NOWHERE,
    END_FIRST,
    KEEPS_CALLING,
    FALLS,
    ANOTHER_CLASS
};
enum { NO_ASYNC_FLAG = 7 };

/* Open the stand-in, with this wrong with it. */
static void open_stand_in(struct lw_torch *torch, int mode)
{
    const char *path = getenv("TORCH_STAND_IN");
    void *handle = path ? dlopen(path, RTLD_NOW) : NULL;
    int *mode_of = handle ? dlsym(handle, "stand_in_mode") : NULL;
    const char *reason = "";

    CHECK(mode_of != NULL);
    *mode_of = mode;
    CHECK(lw_torch_open(torch, path, &reason));
}

static void expect_refusal(int mode)
{
    const char *reason = NULL;
    struct lw_torch torch;

    open_stand_in(&torch, mode);
    CHECK(!lw_torch_check(&torch, &reason));
    CHECK(reason != NULL && strlen(reason) > 0);
}

TEST(a_torch_as_we_know_it_is_found_out)
{
    const char *reason = "";
    struct lw_torch torch;

    open_stand_in(&torch, AS_TORCH);
    CHECK(lw_torch_try(&torch, &reason));
    CHECK_EQ(torch.scope_at, 0); /* what was tried in a copy stays there */
    CHECK(lw_torch_check(&torch, &reason));
    CHECK_EQ(torch.scope_at, 16);
    CHECK_EQ(torch.sequence_at, 72);
    CHECK_EQ(torch.forward_thread_at, 80);
    CHECK(lw_torch_cost(&torch, false) < 1000000000);
}

TEST(a_scope_in_two_places_is_refused)
{
    expect_refusal(TWO_SCOPES);
}

TEST(a_name_that_cannot_be_read_is_refused_unread)
{
    expect_refusal(NAME_NOWHERE);
}

TEST(calls_out_of_order_are_refused)
{
    expect_refusal(END_FIRST);
}

TEST(a_callback_that_does_not_go_away_is_refused)
{
    expect_refusal(KEEPS_CALLING);
}

TEST(an_object_of_another_class_is_refused)
{
    expect_refusal(ANOTHER_CLASS);
}

TEST(without_a_forward_thread_the_rest_works)
{
    const char *reason = "";
    struct lw_torch torch;

    open_stand_in(&torch, NO_ASYNC_FLAG);
    CHECK(lw_torch_check(&torch, &reason));
    CHECK_EQ(torch.forward_thread_at, 0);
}

TEST(what_ends_a_process_ends_a_copy_of_it)
{
    const char *reason = "";
    struct lw_torch torch;

    open_stand_in(&torch, FALLS);
    CHECK(!lw_torch_try(&torch, &reason));
    CHECK_STR(reason, "this torch is not like those we know");
}

TEST(a_library_without_torch_is_refused)
{
    const char *reason = "";
    struct lw_torch torch;

    CHECK(!lw_torch_open(&torch, "/nonexistent/libtorch.so", &reason));
    CHECK_STR(reason, "its library is not loaded");
    CHECK(!lw_torch_open(&torch, "libc.so.6", &reason));
    CHECK_STR(reason, "this torch does not have the functions for it");
}
