/* Ops of a recording, added up; see analyses/op_spans.h. */

#include "analyses/op_spans.h"
#include "span_fixture.h"

/* A recording of one process with two threads, made span by span. */
struct story {
    struct lw_builder *builder;
    struct lw_profile *profile;
    struct lw_op_spans ops;
};

static void begin(struct story *s)
{
    memset(s, 0, sizeof(*s));
    s->builder = span_fixture_begin(1, 2);
}

static void add(struct story *s, uint32_t thread, enum lw_frame_kind kind,
                const char *name, uint64_t start_ns, uint64_t end_ns)
{
    span_fixture_add(s->builder, thread, kind, name, start_ns, end_ns);
}

static void op(struct story *s, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    add(s, 0, LW_FRAME_OP, name, start_ns, end_ns);
}

static void sum_up(struct story *s, lw_op_group *group)
{
    s->profile = lw_builder_finish(s->builder, NULL);
    CHECK(s->profile != NULL);
    CHECK(lw_op_spans_init(&s->ops, s->profile, NULL, group, NULL, NULL));
}

static void end(struct story *s)
{
    lw_op_spans_release(&s->ops);
    lw_profile_free(s->profile);
}

/* The row of NAME; an empty one if there is none. */
static struct lw_op_span_row row_of(const struct story *s, const char *name)
{
    for (size_t i = 0; i < s->ops.count; i++) {
        lw_string_id id = lw_profile_frame(s->profile, s->ops.rows[i].frame)->name;

        if (strcmp(lw_profile_text(s->profile, id), name) == 0)
            return s->ops.rows[i];
    }
    return (struct lw_op_span_row){ 0 };
}

TEST(self_is_what_no_child_has)
{
    struct story s;

    begin(&s);
    op(&s, "aten::t", 110, 130);
    op(&s, "aten::expand", 145, 150);
    op(&s, "aten::addmm", 140, 180);
    op(&s, "aten::linear", 100, 200);
    op(&s, "aten::t", 210, 215);
    add(&s, 0, LW_FRAME_MARK, "a range", 90, 300);
    sum_up(&s, NULL);
    CHECK_EQ(s.ops.count, 5);
    CHECK_EQ(s.ops.op_count, 5);
    CHECK_EQ(row_of(&s, "aten::linear").self_ns, 100 - 20 - 40);
    CHECK_EQ(row_of(&s, "aten::linear").total_ns, 100);
    CHECK_EQ(row_of(&s, "aten::addmm").self_ns, 35);
    CHECK_EQ(row_of(&s, "aten::t").calls, 2);
    CHECK_EQ(row_of(&s, "aten::t").self_ns, 25);
    CHECK_EQ(row_of(&s, "aten::t").longest_ns, 20);
    CHECK_EQ(row_of(&s, "a range").self_ns, 210 - 100 - 5);
    CHECK_EQ(s.ops.self_ns, 210);
    end(&s);
}

TEST(an_only_child_of_the_same_name_is_merged)
{
    struct story s;

    begin(&s);
    op(&s, "aten::empty", 115, 120);
    op(&s, "aten::to", 112, 130);
    op(&s, "aten::to", 110, 140);
    op(&s, "aten::to", 100, 150);
    op(&s, "aten::to", 210, 220);
    op(&s, "aten::add", 221, 222);
    op(&s, "aten::to", 200, 230); /* has two children: both stay */
    sum_up(&s, NULL);
    CHECK_EQ(row_of(&s, "aten::to").calls, 1 + 2);
    CHECK_EQ(row_of(&s, "aten::to").total_ns, 50 + 10 + 30);
    CHECK_EQ(row_of(&s, "aten::to").self_ns, (50 - 5) + 10 + (30 - 10 - 1));
    end(&s);
}

TEST(what_the_profiler_does_itself_is_not_there)
{
    struct story s;

    begin(&s);
    op(&s, "profiler::_record_function_enter_new", 110, 115);
    op(&s, "aten::mm", 100, 120);
    add(&s, 0, LW_FRAME_PHASE, "forward", 90, 130);
    add(&s, 0, LW_FRAME_PYTHON, "main", 80, 140);
    sum_up(&s, NULL);
    CHECK_EQ(s.ops.count, 1);
    CHECK_EQ(row_of(&s, "aten::mm").self_ns, 20);
    end(&s);
}

TEST(threads_do_not_hold_each_others_ops)
{
    struct story s;

    begin(&s);
    add(&s, 1, LW_FRAME_OP, "aten::mul", 110, 130);
    op(&s, "aten::mm", 100, 140);
    sum_up(&s, NULL);
    CHECK_EQ(row_of(&s, "aten::mm").self_ns, 40);
    CHECK_EQ(row_of(&s, "aten::mul").self_ns, 20);
    end(&s);
}

TEST(spans_out_of_order_are_sorted)
{
    struct story s;

    begin(&s);
    op(&s, "aten::linear", 100, 200);
    op(&s, "aten::t", 110, 130);
    op(&s, "aten::mm", 140, 200);
    op(&s, "aten::add_", 50, 60);
    sum_up(&s, NULL);
    CHECK_EQ(row_of(&s, "aten::linear").self_ns, 100 - 20 - 60);
    end(&s);
}

TEST(a_range_over_very_many_ops_has_them_all)
{
    struct story s;

    begin(&s);
    for (uint64_t i = 0; i < 300000; i++)
        op(&s, "aten::add", 1000 + i * 10, 1000 + i * 10 + 4);
    add(&s, 0, LW_FRAME_MARK, "all", 1000, 1000 + 3000000);
    sum_up(&s, NULL);
    CHECK_EQ(row_of(&s, "aten::add").calls, 300000);
    CHECK_EQ(row_of(&s, "all").self_ns, 300000 * 6);
    end(&s);
}

static uint32_t by_hundred(const void *owner, const struct lw_span *span)
{
    (void)owner;
    return (uint32_t)(span->start_ns / 100);
}

TEST(rows_of_different_groups_are_apart)
{
    struct story s;

    begin(&s);
    op(&s, "aten::add", 110, 120);
    op(&s, "aten::add", 150, 160);
    op(&s, "aten::add", 210, 230);
    sum_up(&s, by_hundred);
    CHECK_EQ(s.ops.count, 2);
    CHECK_EQ(s.ops.rows[0].calls, 2);
    CHECK_EQ(s.ops.rows[1].total_ns, 20);
    end(&s);
}
