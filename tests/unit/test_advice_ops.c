/* Advice on tiny ops, of recordings made step by step. */

#include "analyses/analysis.h"
#include "analyses/op_spans.h"
#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define US 1000ull
#define STEPS 6

/* What the optimizer of each step runs. The rest of a step is 2 ms of a forward and a
 * backward with one op each. */
struct story {
    unsigned ops;
    uint64_t op_ns, between_ns;
    unsigned held_up_every; /* 0: none; else one in so many takes 3 ms longer */
    bool is_recorded;       /* whether ops were, all the time */
};

struct recording {
    struct lw_builder *builder;
    uint64_t now_ns;
};

static void add(struct recording *r, enum lw_frame_kind kind, const char *name,
                uint64_t start_ns)
{
    struct lw_span span = { start_ns, r->now_ns - start_ns, 0, 0 };
    struct lw_frame frame = { .kind = (uint8_t)kind };
    lw_frame_id id;

    CHECK(lw_builder_string(r->builder, name, strlen(name), &frame.name, NULL) &&
          lw_builder_frame(r->builder, &frame, &id, NULL) &&
          lw_builder_push(r->builder, LW_NO_STACK, id, &span.stack, NULL) &&
          lw_builder_spans(r->builder, &span, 1, NULL));
}

static void add_large(struct recording *r, const char *phase)
{
    uint64_t start_ns = r->now_ns;

    r->now_ns += 1000 * US;
    add(r, LW_FRAME_OP, "aten::mm", start_ns);
    add(r, LW_FRAME_PHASE, phase, start_ns);
}

static void add_step(struct recording *r, const struct story *story)
{
    uint64_t start_ns;

    add_large(r, "forward");
    add_large(r, "backward");
    start_ns = r->now_ns;
    for (unsigned i = 0; i < story->ops; i++) {
        uint64_t op_start_ns = r->now_ns;

        r->now_ns += story->op_ns;
        if (story->held_up_every && i % story->held_up_every == 0)
            r->now_ns += 3000 * US;
        add(r, LW_FRAME_OP, i % 3 == 0 ? "aten::addcdiv_" : "aten::mul_", op_start_ns);
        r->now_ns += story->between_ns;
    }
    add(r, LW_FRAME_PHASE, "optimizer", start_ns);
}

static struct lw_profile *record(const struct story *story)
{
    struct recording r = { .builder = lw_builder_new(NULL), .now_ns = 1000 * US };
    struct lw_counter_point point = { .time_ns = 1, .value = story->is_recorded };
    struct lw_process process = { .pid = 7, .rank = -1, .end_ns = 1000000 * US };
    struct lw_thread thread = { .tid = 7 };
    struct lw_profile *profile;
    uint32_t index;

    CHECK(lw_builder_process(r.builder, &process, &index, NULL) &&
          lw_builder_thread(r.builder, &thread, &index, NULL) &&
          lw_builder_string(r.builder, LW_OP_SPANS_COUNTER, strlen(LW_OP_SPANS_COUNTER),
                            &point.name, NULL) &&
          lw_builder_counter(r.builder, &point, NULL));
    for (int i = 0; i < STEPS; i++)
        add_step(&r, story);
    profile = lw_builder_finish(r.builder, NULL);
    CHECK(profile != NULL);
    return profile;
}

/* The gain that is found at most, and at least; 0: nothing is found. */
struct gain {
    double low, high;
    bool is_fused; /* the change is the optimizer's */
};

static bool advise(const struct lw_profile *profile, struct gain *gain,
                   struct lw_error *err)
{
    const struct lw_analysis *advice = lw_analysis_find("advice");
    struct lw_query query;
    struct lw_table table;
    bool done;

    lw_query_init(&query);
    done = lw_analysis_run(advice, profile, &query, &table, err) &&
           lw_table_check(&table, err);
    for (size_t i = 0; done && i < table.row_count; i++) {
        const struct lw_value *rule = lw_table_value(&table, i, 0);
        const struct lw_value *change = lw_table_value(&table, i, 1);

        if (rule->as.text.len != 3 || memcmp(rule->as.text.bytes, "ops", 3) != 0)
            continue;
        gain->is_fused = strstr(change->as.text.bytes, "fused=True") != NULL;
        gain->low = lw_table_value(&table, i, 5)->as.number;
        gain->high = lw_table_value(&table, i, 6)->as.number;
    }
    lw_table_release(&table);
    lw_query_release(&query);
    return done;
}

static struct gain gain_of(const struct story *story)
{
    struct lw_profile *profile = record(story);
    struct gain gain = { 0 };

    CHECK(advise(profile, &gain, NULL));
    lw_profile_free(profile);
    return gain;
}

static bool is_near(double value, double wanted)
{
    return value > wanted - 0.005 && value < wanted + 0.005;
}

TEST(an_optimizer_of_tiny_ops_is_found)
{
    /* 400 * (3 + 2) us of a step of 4 ms. */
    struct gain gain = gain_of(&(struct story){ 400, 3 * US, 2 * US, 0, true });

    CHECK(gain.is_fused);
    CHECK(is_near(gain.high, 0.5));
    CHECK(is_near(gain.low, 0.15));
}

TEST(larger_ops_are_not_found)
{
    CHECK(gain_of(&(struct story){ 120, 15 * US, 2 * US, 0, true }).high == 0);
}

TEST(few_tiny_ops_are_not_found)
{
    CHECK(gain_of(&(struct story){ 90, 9 * US, 9 * US, 0, true }).high == 0);
}

TEST(a_loop_that_is_mostly_python_is_not_found)
{
    CHECK(gain_of(&(struct story){ 400, 1 * US, 9 * US, 0, true }).high == 0);
}

TEST(tiny_ops_that_are_held_up_now_and_then_are_found)
{
    /* 400 * 5 us and 4 * 3 ms, of a step that is 2 ms longer. */
    struct gain gain = gain_of(&(struct story){ 400, 3 * US, 2 * US, 100, true });

    CHECK(gain.is_fused);
    CHECK(is_near(gain.high, 14. / 16));
}

TEST(steps_whose_ops_were_not_recorded_say_nothing)
{
    CHECK(gain_of(&(struct story){ 400, 3 * US, 2 * US, 0, false }).high == 0);
}

TEST(running_out_of_memory_is_told)
{
    struct lw_profile *profile =
        record(&(struct story){ 400, 3 * US, 2 * US, 0, true });
    bool done = false;

    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct gain gain = { 0 };

        lw_alloc_fail_in(n);
        done = advise(profile, &gain, &err);
        lw_alloc_fail_in(0);
        if (!done)
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        else
            CHECK(gain.is_fused);
    }
    lw_profile_free(profile);
}
