#include "analyses/op_flops.h"
#include "analyses/op_rows.h"
#include "base/alloc.h"
#include "readers/reader.h"
#include "test.h"

/* FLOPs */

static uint64_t flops_of(const char *name, const char *shapes, const char *values)
{
    return lw_op_flops(lw_op_flops_formula(name), shapes, strlen(shapes), values,
                       strlen(values));
}

TEST(flops_are_counted_as_torch_counts_them)
{
    const char *conv = "[\"\",\"\",\"\",\"[2, 2]\",\"[1, 1]\",\"[1, 1]\",\"1\"]";

    CHECK_EQ(flops_of("aten::mm", "[[16,1568],[1568,10]]", ""), 2 * 16 * 1568 * 10);
    CHECK_EQ(flops_of("aten::addmm", "[[10],[16,1568],[1568,10],[],[]]", ""),
             2 * 16 * 1568 * 10);
    CHECK_EQ(flops_of("aten::bmm", "[[3,4,5],[3,5,6]]", ""), 2 * 3 * 4 * 5 * 6);
    CHECK_EQ(flops_of("aten::baddbmm", "[[3,4,6],[3,4,5],[3,5,6]]", ""),
             2 * 3 * 4 * 5 * 6);
    CHECK_EQ(flops_of("aten::mul", "[[3,4],[1]]", ""), 12);
    /* 8 x 8 with a stride of 2 and a frame of 1 is 4 x 4 */
    CHECK_EQ(flops_of("aten::conv2d", "[[2,3,8,8],[4,3,3,3],[4],[],[],[],[]]", conv),
             2 * 2 * 4 * 3 * 9 * 16);
    /* in two groups each filter sees half of the channels */
    CHECK_EQ(flops_of("aten::conv2d", "[[2,4,8,8],[4,2,3,3],[4],[],[],[],[]]", conv),
             2 * 2 * 4 * 2 * 9 * 16);
}

TEST(flops_that_torch_does_not_count_are_others)
{
    const char *both = "[\"\",\"\",\"\",\"\",\"[1]\",\"[0]\",\"[1]\",\"False\",\"[0]\","
                       "\"1\",\"[True, True, False]\"]";
    const char *weights = "[\"\",\"\",\"\",\"\",\"[1]\",\"[0]\",\"[1]\",\"False\","
                          "\"[0]\",\"1\",\"[False, True, True]\"]";
    const char *shapes = "[[16,32,15,15],[16,16,32,32],[32,16,3,3]]";
    uint64_t one = 2ull * 16 * 225 * 32 * 16 * 9;

    CHECK(lw_op_flops_formula("aten::convolution_backward") >= LW_FLOPS_MORE);
    CHECK_EQ(flops_of("aten::convolution_backward", shapes, both), 2 * one);
    CHECK_EQ(flops_of("aten::convolution_backward", shapes, weights), one);
    CHECK_EQ(flops_of("aten::convolution_backward", shapes, ""), 2 * one);
    CHECK_EQ(flops_of("aten::_scaled_dot_product_flash_attention",
                      "[[2,4,10,8],[2,4,12,8],[2,4,12,8]]", ""),
             2 * 2 * 4 * 10 * 12 * (8 + 8));
    CHECK_EQ(flops_of("aten::_scaled_dot_product_flash_attention_backward",
                      "[[2,4,10,8],[2,4,10,8],[2,4,12,8],[2,4,12,8]]", ""),
             2 * 2 * 4 * 10 * 12 * 5 * 8);
    CHECK_EQ(flops_of("flash_attn::_flash_attn_forward",
                      "[[2,10,4,8],[2,12,4,8],[2,12,4,8]]", ""),
             2 * 2 * 4 * 10 * 12 * (8 + 8));
    CHECK_EQ(lw_op_flops_formula("aten::_scaled_dot_product_attention_math"),
             LW_FLOPS_NONE);
}

TEST(flops_of_what_is_not_told_are_none)
{
    static const char *const shapes[] = {
        "",
        "[",
        "[]",
        "{}",
        "[[16,1568]]",
        "[[16],[1568,10]]",
        "[[16,-1],[1568,10]]",
        "[[16,\"x\"],[1568,10]]",
        "[[[16,2]],[1568,10]]",
        "[null,[1568,10]]",
        "[[1,1,1,1,1,1,1,1,1,1],[1568,10]]",
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        CHECK_EQ(flops_of("aten::mm", shapes[i], ""), 0);
    /* without strides and padding it cannot be said how large the output is */
    CHECK_EQ(flops_of("aten::conv2d", "[[2,3,8,8],[4,3,3,3],[4]]", ""), 0);
    CHECK_EQ(flops_of("aten::conv2d", "[[2,3,8,8],[4,3,3,3],[4]]",
                      "[\"\",\"\",\"\",\"[0, 0]\",\"[0, 0]\"]"),
             0);
    CHECK_EQ(flops_of("aten::conv2d", "[[2,3,2,2],[4,3,3,3],[4]]",
                      "[\"\",\"\",\"\",\"[1, 1]\",\"[0, 0]\"]"),
             0);
}

/* Trees */

struct asked {
    struct lw_profile *profile;
    struct lw_trace_scope scope;
    struct lw_op_rows rows;
};

static void ask(struct asked *asked, const char *events, enum lw_op_tree_kind kind,
                enum lw_op_rows_by by)
{
    struct lw_op_rows_options options = { .kind = kind, .by = by, .stack_depth = 1 };
    struct lw_source source = { .path = "x", .name = "x.json" };
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_query query;
    struct lw_error err = { LW_OK, "" };
    const void *bytes = events;

    source.view.bytes = bytes;
    source.view.len = strlen(events);
    lw_query_init(&query);
    CHECK(lw_reader_chrome.read(&source, LW_WANT_TRACE, builder, &err));
    asked->profile = lw_builder_finish(builder, &err);
    CHECK(asked->profile != NULL);
    CHECK(lw_trace_scope_init(&asked->scope, asked->profile, &query, "ops", &err));
    CHECK(lw_op_rows_init(&asked->rows, &asked->scope, &options, &err));
    lw_query_release(&query);
}

static const struct lw_op_row *row_of(const struct asked *asked, const char *name)
{
    for (size_t i = 0; i < asked->rows.count; i++)
        if (strcmp(lw_profile_text(asked->profile, asked->rows.list[i].name), name) ==
            0)
            return &asked->rows.list[i];
    return NULL;
}

static void forget(struct asked *asked)
{
    lw_op_rows_release(&asked->rows);
    lw_trace_scope_release(&asked->scope);
    lw_profile_free(asked->profile);
}

#define EVENT(cat, name, ts, dur, args) \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name \
    "\",\"pid\":1,\"tid\":2,\"ts\":" ts ",\"dur\":" dur ",\"args\":{" args "}}"
#define OP(name, ts, dur, args) EVENT("cpu_op", name, ts, dur, args)
#define MEMORY(ts, tid, bytes) \
    "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":1,\"tid\":" tid \
    ",\"ts\":" ts ",\"s\":\"t\",\"args\":{\"Device Type\":0,\"Device Id\":-1," \
    "\"Addr\":1,\"Bytes\":" bytes "}}"

TEST(an_op_has_itself_what_no_child_has)
{
    struct asked asked;
    const struct lw_op_row *a;

    ask(&asked,
        "[" OP("a", "10", "10", "") "," OP("b", "11", "3", "") "," OP(
            "b", "15", "2", "") "," OP("c", "12", "1", "") "]",
        LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    a = row_of(&asked, "a");
    CHECK_EQ(a->host_self_ns, 5000);
    CHECK_EQ(a->host_ns, 10000);
    CHECK_EQ(row_of(&asked, "b")->calls, 2);
    CHECK_EQ(row_of(&asked, "b")->host_self_ns, 4000);
    CHECK_EQ(asked.rows.host_self_ns, 10000);
    forget(&asked);
}

TEST(the_profilers_own_ops_are_as_if_not_there)
{
    struct asked asked;

    ask(&asked, "[" OP("a", "10", "10", "") "," OP("aten::is_leaf", "11", "3", "") "]",
        LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(asked.rows.count, 1);
    CHECK_EQ(row_of(&asked, "a")->host_self_ns, 10000);
    forget(&asked);
}

TEST(an_op_that_only_calls_itself_is_one)
{
    struct asked asked;

    ask(&asked,
        "[" OP("a", "10", "10", "") "," OP("a", "11", "8", "") "," OP(
            "a", "12", "6", "") "," OP("b", "13", "1", "") "," OP("b", "15", "1",
                                                                  "") "]",
        LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->calls, 1);
    CHECK_EQ(row_of(&asked, "a")->host_self_ns, 8000);
    CHECK_EQ(row_of(&asked, "b")->calls, 2);
    forget(&asked);
}

/* b begins in a and ends after it: torch has them side by side, its plugin drops b. */
static const char overlapping[] = "[" OP("a", "10", "10", "") "," OP(
    "b", "15", "10", "") "," OP("c", "21", "1", "") "]";

TEST(of_two_that_overlap_none_is_in_the_other)
{
    struct asked asked;

    ask(&asked, overlapping, LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->host_self_ns, 10000);
    CHECK_EQ(row_of(&asked, "b")->host_self_ns, 9000);
    forget(&asked);
    ask(&asked, overlapping, LW_OP_TREE_TB, LW_OP_ROWS_BY_NAME);
    CHECK(!row_of(&asked, "b"));
    CHECK_EQ(row_of(&asked, "c")->calls, 1);
    forget(&asked);
}

TEST(memory_is_of_the_op_that_its_thread_was_in)
{
    static const char events[] =
        "[" OP("a", "10", "10", "") "," OP("b", "11", "3", "") "," MEMORY(
            "12", "2", "100") "," MEMORY("16", "2", "-30") "," MEMORY("12.5", "3",
                                                                      "7") "]";
    struct asked asked;

    ask(&asked, events, LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->host_memory.total_bytes, 70);
    CHECK_EQ(row_of(&asked, "a")->host_memory.self_bytes, -30);
    CHECK_EQ(row_of(&asked, "b")->host_memory.self_bytes, 100);
    forget(&asked);
    /* torch has it of all ops that run then */
    ask(&asked, events, LW_OP_TREE_TORCH, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->host_memory.total_bytes, 77);
    CHECK_EQ(row_of(&asked, "b")->host_memory.self_bytes, 107);
    forget(&asked);
}

TEST(rows_by_shape_are_told_apart_by_them)
{
    static const char events[] =
        "[" OP("a", "10", "1", "\"Input Dims\":[[2,3],[[4],[5]]]") "," OP(
            "a", "20", "1",
            "\"Input Dims\":[[2, 3], [[4], [5]]]") "," OP("a", "30", "1",
                                                          "\"Input Dims\":[[2,4],[[4],[5]]]") "]";
    struct asked asked;

    ask(&asked, events, LW_OP_TREE_OWN, LW_OP_ROWS_BY_SHAPE);
    CHECK_EQ(asked.rows.count, 2);
    CHECK_EQ(asked.rows.list[0].calls, 2);
    CHECK_STR(lw_strings_text(asked.rows.texts, asked.rows.list[0].place),
              "[[2, 3], [[4], [5]]]");
    forget(&asked);
    /* torch prints no lists of tensors */
    ask(&asked, events, LW_OP_TREE_TORCH, LW_OP_ROWS_BY_SHAPE);
    CHECK_STR(lw_strings_text(asked.rows.texts, asked.rows.list[0].place),
              "[[2, 3], []]");
    forget(&asked);
}

#define HUGE_BYTES "9223372036854775807"

TEST(sums_that_no_program_can_have_are_no_accident)
{
    static const char events[] = "[" OP("a", "10", "4000000000000000", "") "," MEMORY(
        "12", "2", HUGE_BYTES) "," MEMORY("13", "2",
                                          HUGE_BYTES) "," OP("a", "4000000000000100",
                                                             "4000000000000000",
                                                             "") "]";
    struct asked asked;

    ask(&asked, events, LW_OP_TREE_OWN, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->calls, 2);
    forget(&asked);
    ask(&asked, events, LW_OP_TREE_TORCH, LW_OP_ROWS_BY_NAME);
    CHECK_EQ(row_of(&asked, "a")->calls, 2);
    forget(&asked);
}

TEST(running_out_of_memory_leaves_nothing_behind)
{
    static const char events[] =
        "[" OP("a", "10", "10", "\"Call stack\":\"x.py(1): f;\",\"Sequence number\":1") "," OP(
            "b", "11", "3", "\"Input Dims\":[[1]]") "," MEMORY("12", "2", "100") "]";
    struct lw_op_rows_options options = { .kind = LW_OP_TREE_TORCH,
                                          .by = LW_OP_ROWS_BY_STACK,
                                          .stacks = LW_OP_STACKS_TORCH };
    struct asked asked;
    struct lw_error err = { LW_OK, "" };
    bool done = false;

    ask(&asked, events, LW_OP_TREE_TB, LW_OP_ROWS_BY_NAME);
    for (uint64_t request = 1; !done; request++) {
        struct lw_op_rows rows;

        lw_alloc_fail_in(request);
        done = lw_op_rows_init(&rows, &asked.scope, &options, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        lw_op_rows_release(&rows);
        CHECK(request < 1000);
    }
    forget(&asked);
}
