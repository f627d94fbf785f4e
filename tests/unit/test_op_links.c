/* Which op a backward node came of (model/op_links.h), and what a recording keeps of it. */

#include "held.h"
#include "lap_fixture.h"

#include "lap/thin.h"
#include "model/op_links.h"
#include "span_fixture.h"

/* Two processes; threads 0 and 1 are of the first, 2 and 3 of the second. */
struct story {
    struct lw_builder *builder;
    struct lw_profile *profile;
    struct lw_op_links links;
};

static void begin(struct story *s)
{
    memset(s, 0, sizeof(*s));
    s->builder = span_fixture_begin(2, 2);
}

static void op(struct story *s, uint32_t thread, const char *name, uint64_t start_ns,
               uint64_t end_ns)
{
    span_fixture_add(s->builder, thread, LW_FRAME_OP, name, start_ns, end_ns);
}

static void origin(struct story *s, uint32_t thread, uint64_t start_ns,
                   uint32_t forward_thread, uint64_t sequence, bool is_backward)
{
    struct lw_origin row = { .start_ns = start_ns,
                             .sequence = sequence,
                             .thread = thread,
                             .forward_thread = forward_thread,
                             .line = (uint32_t)start_ns,
                             .is_backward = is_backward };

    CHECK(lw_builder_origins(s->builder, &row, 1, NULL));
}

static void join(struct story *s)
{
    s->profile = lw_builder_finish(s->builder, NULL);
    CHECK(s->profile && lw_op_links_init(&s->links, s->profile, NULL));
}

static void end(struct story *s)
{
    lw_op_links_release(&s->links);
    lw_profile_free(s->profile);
}

static const char *name_of(const struct story *s, uint32_t span)
{
    const struct lw_profile *profile = s->profile;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &(size_t){ 0 });

    return lw_profile_text(
        profile,
        lw_profile_frame(profile, stacks[profile->spans[span].stack].frame)->name);
}

/* Is link INDEX from FORWARD to BACKWARD? */
static void check_link(const struct story *s, size_t index, const char *forward,
                       const char *backward)
{
    CHECK(index < s->links.count);
    CHECK_STR(name_of(s, s->links.list[index].forward), forward);
    CHECK_STR(name_of(s, s->links.list[index].backward), backward);
}

TEST(of_ops_with_a_nodes_number_the_one_that_began_last_made_it)
{
    struct story s;

    begin(&s);
    op(&s, 0, "select", 10, 20); /* made no node, and left its number */
    origin(&s, 0, 10, 1, 7, false);
    op(&s, 0, "t", 32, 35);
    origin(&s, 0, 32, 1, 7, false);
    op(&s, 0, "addmm", 40, 50);
    origin(&s, 0, 40, 1, 8, false);
    op(&s, 0, "linear", 30, 60); /* which began before both */
    origin(&s, 0, 30, 1, 7, false);
    op(&s, 0, "AddmmBackward0", 70, 75);
    origin(&s, 0, 70, 1, 8, true);
    op(&s, 0, "TBackward0", 80, 85);
    origin(&s, 0, 80, 1, 7, true);
    join(&s);
    CHECK_EQ(s.links.count, 2);
    check_link(&s, 0, "addmm", "AddmmBackward0");
    check_link(&s, 1, "t", "TBackward0");
    CHECK_EQ(s.links.list[1].line, 32);
    CHECK_EQ(s.links.lone_count, 0);
    end(&s);
}

TEST(each_thread_and_process_has_numbers_of_its_own)
{
    struct story s;

    begin(&s);
    op(&s, 0, "sin", 10, 11);
    origin(&s, 0, 10, 1, 3, false);
    op(&s, 1, "cos", 12, 13);
    origin(&s, 1, 12, 2, 3, false);
    op(&s, 2, "tan", 14, 15); /* in the other process torch counts from 1, too */
    origin(&s, 2, 14, 1, 3, false);
    op(&s, 0, "CosBackward0", 20, 21); /* a thread may go back over another's */
    origin(&s, 0, 20, 2, 3, true);
    op(&s, 1, "SinBackward0", 22, 23);
    origin(&s, 1, 22, 1, 3, true);
    op(&s, 2, "TanBackward0", 24, 25);
    origin(&s, 2, 24, 1, 3, true);
    join(&s);
    CHECK_EQ(s.links.count, 3);
    check_link(&s, 0, "cos", "CosBackward0");
    check_link(&s, 1, "sin", "SinBackward0");
    check_link(&s, 2, "tan", "TanBackward0");
    end(&s);
}

TEST(a_graph_can_be_gone_over_twice_and_a_node_be_told_twice)
{
    struct story s;

    begin(&s);
    op(&s, 0, "exp", 10, 11);
    origin(&s, 0, 10, 1, 0, false);
    origin(&s, 0, 10, 1, 0, false);
    op(&s, 0, "ExpBackward0", 20, 21);
    origin(&s, 0, 20, 1, 0, true);
    origin(&s, 0, 20, 1, 0, true);
    op(&s, 0, "ExpBackward0", 30, 31);
    origin(&s, 0, 30, 1, 0, true);
    join(&s);
    CHECK_EQ(s.links.count, 2);
    CHECK_EQ(s.links.list[0].forward, s.links.list[1].forward);
    CHECK(s.links.list[0].backward < s.links.list[1].backward);
    end(&s);
}

TEST(what_is_not_in_the_recording_is_not_made_up)
{
    struct story s;

    begin(&s);
    origin(&s, 0, 5, 1, 1, false); /* its span was lost */
    op(&s, 0, "relu", 10, 11);
    origin(&s, 0, 10, 1, 2, false);
    op(&s, 0, "ThresholdBackward0", 20, 27);
    origin(&s, 0, 20, 1, 1, true);
    origin(&s, 0, 30, 1, 2, true); /* no span here either */
    op(&s, 0, "AccumulateGrad", 40, 41);
    join(&s);
    CHECK_EQ(s.links.count, 0);
    CHECK_EQ(s.links.lone_count, 1);
    CHECK_EQ(s.links.lone_ns, 7);
    end(&s);
}

TEST(running_out_of_memory_is_said)
{
    struct story s;
    struct lw_error err;
    bool done = false;

    begin(&s);
    op(&s, 0, "exp", 10, 11);
    origin(&s, 0, 10, 1, 0, false);
    op(&s, 0, "ExpBackward0", 20, 21);
    origin(&s, 0, 20, 1, 0, true);
    s.profile = lw_builder_finish(s.builder, NULL);
    for (uint64_t n = 1; !done; n++) {
        CHECK(n < 20);
        lw_alloc_fail_in(n);
        done = lw_op_links_init(&s.links, s.profile, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        CHECK(!done || s.links.count == 1);
        lw_op_links_release(&s.links);
    }
    lw_profile_free(s.profile);
}

TEST(hostile_rows_are_refused)
{
    struct story s;
    struct lw_origin row = { .thread = 4 };

    begin(&s);
    CHECK(!lw_builder_origins(s.builder, &row, 1, NULL));
    row = (struct lw_origin){ .function = 99 };
    CHECK(!lw_builder_origins(s.builder, &row, 1, NULL));
    lw_builder_free(s.builder);
}

/* ---- in a recording ----------------------------------------------------------------- */

/* ROUNDS flushes, each with a span and its origin. */
static void write_origins(const char *folder, uint64_t rounds,
                          const struct lw_lap_writer_options *options)
{
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, options, NULL);
    struct fixture_ids ids;

    CHECK(w);
    ids = fixture_begin(w);
    for (uint64_t i = 0; i < rounds; i++) {
        struct lw_origin row = { .start_ns = 1000 + i,
                                 .sequence = (1ull << 40) - 1 - i,
                                 .thread = ids.worker,
                                 .forward_thread = 5,
                                 .function = 1,
                                 .line = 12,
                                 .is_backward = i % 2 };
        struct lw_span span = { 1000 + i, 1, ids.worker, ids.leaf };

        CHECK_DONE(lw_lap_writer_spans(w, &span, 1, ERR));
        CHECK_DONE(lw_lap_writer_origins(w, &row, 1, ERR));
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
    }
    CHECK_DONE(lw_lap_writer_close(w, ERR));
}

static void check_origins(const struct lw_profile *p, uint64_t rounds)
{
    CHECK_EQ(p->origin_count, rounds);
    for (uint64_t i = 0; i < rounds; i++) {
        const struct lw_origin *row = &p->origins[i];

        CHECK_EQ(row->start_ns, 1000 + i);
        CHECK_EQ(row->sequence, (1ull << 40) - 1 - i);
        CHECK_EQ(p->threads[row->thread].tid, 4712);
        CHECK_EQ(row->forward_thread, 5);
        CHECK_STR(lw_profile_text(p, lw_profile_frame(p, row->function)->name), "main");
        CHECK_EQ(row->line, 12);
        CHECK_EQ(row->is_backward, i % 2);
    }
}

TEST(a_recording_keeps_them_also_when_its_chunks_are_joined)
{
    struct lw_lap_writer_options joins = { .join_bytes = 1 };

    for (int join = 0; join < 2; join++) {
        char *folder = fixture_folder();
        struct lw_profile *p;

        write_origins(folder, 50, join ? &joins : NULL);
        p = fixture_load(folder, LW_WANT_ALL | LW_WANT_ORIGINS);
        CHECK_EQ(p->span_count, 50);
        check_origins(p, 50);
        lw_profile_free(p);
        p = fixture_load(folder, LW_WANT_ALL);
        CHECK_EQ(p->origin_count, 0);
        CHECK_EQ(p->loss_count, 0);
        lw_profile_free(p);
        fixture_remove(folder);
    }
}

TEST(they_go_where_their_spans_go)
{
    struct lw_lap_writer_options small = { .segment_bytes = 1 };
    char *folder = fixture_folder();
    struct lw_profile *p;
    uint64_t bytes;

    write_origins(folder, 10, &small);
    CHECK_DONE(lw_lap_thin(held(folder), 1, &bytes, ERR));
    p = fixture_load(folder, LW_WANT_ALL | LW_WANT_ORIGINS);
    CHECK_EQ(p->span_count, 0);
    CHECK_EQ(p->origin_count, 0);
    CHECK_EQ(fixture_loss(p, "to keep the run small", "spans"), 10);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(a_writer_refuses_numbers_that_it_did_not_give)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_origin row = { .thread = 9 };

    CHECK(!lw_lap_writer_origins(w, &row, 1, NULL));
    row = (struct lw_origin){ .thread = ids.main, .function = 99 };
    CHECK(!lw_lap_writer_origins(w, &row, 1, NULL));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    fixture_remove(folder);
}
