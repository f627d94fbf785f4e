#include "analyses/steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/builder.h"
#include "test.h"

#define MS 1000000ull
#define DEPTH 8

/* What a thread did, drawn: "D2 F3 .1 B4 O(F1 B1 .1) [" is 2 ms of data, 3 of forward, 1
 * of nothing that was announced, ... an optimizer around a forward and a backward, and
 * where lapwing.step() was called. */
struct drawing {
    struct lw_builder *builder;
    uint64_t now_ns, step_ns; /* of the last lapwing.step(); 0: none yet */
    struct {
        char letter;
        uint64_t start_ns;
    } open[DEPTH];
    size_t depth;
};

static const struct {
    char letter;
    const char *name, *of;
} letters[] = {
    { 'D', "data", "Iter" },         { 'T', "transfer", "" },
    { 'F', "forward", "Net" },       { 'G', "forward", "Generator" },
    { 'L', "loss", "MSELoss" },      { 'B', "backward", "" },
    { 'O', "optimizer", "SGD" },     { 'Z', "zero_grad", "SGD" },
    { 'E', "eval", "Net" },          { 'C', "eval", "MSELoss" },
    { 'P', "augment", "" },          { 'f', "fetch", "Fetcher" },
    { 'c', "collate", "" },          { '[', "step", "" },
    { 'S', "scaler", "GradScaler" }, { 'I', "loader_pass", "Iter" },
};

static void add_span(struct drawing *d, uint32_t thread, char letter, uint64_t start_ns)
{
    struct lw_frame frame = { .kind = LW_FRAME_PHASE };
    struct lw_span span = { .start_ns = start_ns,
                            .duration_ns = d->now_ns - start_ns,
                            .thread = thread };
    lw_frame_id id;
    size_t i = 0;

    while (letters[i].letter != letter)
        i++;
    CHECK(lw_builder_string(d->builder, letters[i].name, strlen(letters[i].name),
                            &frame.name, NULL));
    CHECK(lw_builder_string(d->builder, letters[i].of, strlen(letters[i].of),
                            &frame.file, NULL));
    CHECK(lw_builder_frame(d->builder, &frame, &id, NULL));
    CHECK(lw_builder_push(d->builder, LW_NO_STACK, id, &span.stack, NULL));
    CHECK(lw_builder_spans(d->builder, &span, 1, NULL));
}

static void draw(struct drawing *d, uint32_t thread, const char *text)
{
    for (const char *p = text; *p; p++) {
        uint64_t start_ns = d->now_ns;
        char letter = *p;

        if (letter == ' ')
            continue;
        if (letter == '[') {
            if (d->step_ns)
                add_span(d, thread, '[', d->step_ns);
            d->step_ns = d->now_ns;
            continue;
        }
        if (letter == ')') {
            d->depth--;
            add_span(d, thread, d->open[d->depth].letter, d->open[d->depth].start_ns);
            continue;
        }
        if (p[1] == '(') {
            CHECK(d->depth < DEPTH);
            d->open[d->depth].letter = letter;
            d->open[d->depth++].start_ns = d->now_ns;
            p++;
            continue;
        }
        d->now_ns += strtoull(p + 1, (char **)&p, 10) * MS;
        p--;
        if (letter != '.')
            add_span(d, thread, letter, start_ns);
    }
}

static struct drawing make_drawing(int32_t exit_code)
{
    struct drawing d = { .builder = lw_builder_new(NULL), .now_ns = 1000 * MS };
    struct lw_process process = { .pid = 1, .rank = -1, .exit_code = exit_code };
    struct lw_thread thread = { .tid = 1 };
    uint32_t index;

    CHECK(d.builder != NULL);
    CHECK(lw_builder_process(d.builder, &process, &index, NULL));
    CHECK(lw_builder_thread(d.builder, &thread, &index, NULL));
    return d;
}

struct found {
    struct lw_profile *profile;
    struct lw_steps steps;
};

static struct found find(struct drawing *d)
{
    struct found found = { .profile = lw_builder_finish(d->builder, NULL) };

    CHECK(found.profile != NULL);
    CHECK(lw_steps_init(&found.steps, found.profile, NULL, NULL));
    return found;
}

/* The steps of one thread that began a pass over a loader (if it has one), did TEXT, TIMES
 * times over, then END. */
static struct found steps_of(const char *text, size_t times, const char *end)
{
    struct drawing d = make_drawing(0);

    draw(&d, 0, "I0 ");
    for (size_t i = 0; i < times; i++)
        draw(&d, 0, text);
    draw(&d, 0, end);
    return find(&d);
}

static void release(struct found *found)
{
    lw_steps_release(&found->steps);
    lw_profile_free(found->profile);
}

static const struct lw_step_track *only_track(const struct found *found)
{
    CHECK_EQ(found->steps.track_count, 1);
    return &found->steps.tracks[0];
}

/* In whole ms. */
static uint64_t ms_of(const struct lw_step *step, enum lw_phase phase)
{
    return step->ns[phase] / MS;
}

static uint64_t length_ms(const struct lw_step *step)
{
    return (step->end_ns - step->start_ns) / MS;
}

/* Every moment of a track is in one piece, and those of a step add up to it. */
static void check_sums(const struct found *found, const struct lw_step_track *track)
{
    for (size_t i = 0; i + 1 < track->piece_count; i++)
        CHECK(track->pieces[i].start_ns < track->pieces[i + 1].start_ns);
    for (size_t i = 0; i < track->step_count; i++) {
        const struct lw_step *step = &track->steps[i];
        uint64_t sum_ns = 0;

        for (size_t p = 0; p < found->steps.phase_count; p++)
            sum_ns += step->ns[p];
        CHECK_EQ(sum_ns, step->end_ns - step->start_ns);
        if (i > 0)
            CHECK(step->start_ns >= track->steps[i - 1].end_ns);
        if (step->piece_count > 0) {
            CHECK_EQ(track->pieces[step->first_piece].start_ns, step->start_ns);
            CHECK_EQ(track->pieces[step->first_piece + step->piece_count].start_ns,
                     step->end_ns);
        }
    }
}

TEST(a_step_goes_from_one_batch_to_the_next)
{
    struct found found = steps_of("D2 .1 F3 .1 L1 .1 B4 O2 Z1 .5 ", 4, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->bound, LW_BOUND_DATA);
    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->update_count, 4);
    CHECK_EQ(track->eval_count, 0);
    CHECK_EQ(track->cut_count, 0);
    CHECK_EQ(track->epoch_count, 1);
    for (size_t i = 0; i < 4; i++) {
        const struct lw_step *step = &track->steps[i];

        CHECK_EQ(step->index, i);
        CHECK_EQ(length_ms(step), 21);
        CHECK_EQ(ms_of(step, LW_PHASE_DATA), 2);
        CHECK_EQ(ms_of(step, LW_PHASE_FORWARD), 3);
        CHECK_EQ(ms_of(step, LW_PHASE_LOSS), 3); /* the module, and around it */
        CHECK_EQ(ms_of(step, LW_PHASE_BACKWARD), 4);
        CHECK_EQ(ms_of(step, LW_PHASE_OPTIMIZER), 3);
        CHECK_EQ(ms_of(step, LW_PHASE_OTHER), 6);
    }
    check_sums(&found, track);
    release(&found);
}

TEST(gradients_zeroed_before_backward_leave_the_loss_around_it)
{
    struct found found = steps_of("D2 F3 .1 Z1 .2 B4 O2 ", 3, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_LOSS), 3);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OPTIMIZER), 3);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 0);
    check_sums(&found, track);
    release(&found);
}

TEST(what_a_scaler_does_is_the_optimizers_and_no_update)
{
    struct found found = steps_of("D2 F3 B4 S1 .2 S(.1 O2 .1) S1 .5 ", 4, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->update_count, 4);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OPTIMIZER), 6);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 7);
    check_sums(&found, track);
    release(&found);

    found = steps_of("F3 B4 S(.1 O2 .1) S1 .5 ", 4, "");
    track = only_track(&found);
    CHECK_EQ(track->bound, LW_BOUND_OPTIMIZER);
    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->update_count, 4);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OPTIMIZER), 5);
    CHECK_EQ(length_ms(&track->steps[1]), 17);
    check_sums(&found, track);
    release(&found);
}

TEST(only_what_was_announced_is_a_transfer)
{
    struct found found = steps_of("D2 .1 T3 .1 F3 B4 O2 ", 3, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_TRANSFER), 3);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 2);
    release(&found);
}

TEST(what_is_called_inside_data_is_data)
{
    struct found found = steps_of("D(.1 f(.1 E2 c2) .1) F3 B4 O2 ", 3, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->eval_count, 0);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_DATA), 7);
    CHECK_EQ(found.steps.worker_count, 0);
    check_sums(&found, track);
    release(&found);
}

TEST(an_epoch_ends_with_a_batch_that_is_none)
{
    struct drawing d = make_drawing(0);
    struct found found;
    const struct lw_step_track *track;

    for (size_t epoch = 0; epoch < 3; epoch++) {
        /* It saves a checkpoint, evaluates, and prints. */
        draw(&d, 0, "I0 D20 F3 B4 O2 D2 F3 B4 O2 .1 D1 .50");
        draw(&d, 0, "I0 D2 E3 .1 D2 E3 .1 D1 .7");
    }
    found = find(&d);
    track = only_track(&found);
    CHECK_EQ(track->train_count, 6);
    CHECK_EQ(track->eval_count, 6);
    CHECK_EQ(track->epoch_count, 3);
    CHECK_EQ(track->steps[0].epoch, 0);
    CHECK(track->steps[0].is_first);
    CHECK(!track->steps[1].is_first);
    CHECK_EQ(length_ms(&track->steps[1]), 12); /* not the checkpoint */
    CHECK_EQ(track->steps[4].epoch, 1);
    CHECK(track->steps[4].is_first);
    CHECK(track->steps[2].is_eval);
    CHECK_EQ(length_ms(&track->steps[2]), 6);
    CHECK_EQ(ms_of(&track->steps[2], LW_PHASE_FORWARD), 3);
    CHECK_EQ(length_ms(&track->steps[3]), 6); /* not the printing */
    check_sums(&found, track);
    release(&found);
}

TEST(evaluation_in_the_middle_of_an_epoch_does_not_end_it)
{
    struct found found =
        steps_of("D2 F3 B4 O2 D2 F3 B4 O2 .1 I0 D2 E3 D2 E3 D1 D2 F3 B4 O2 ", 1, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 3);
    CHECK_EQ(track->eval_count, 2);
    CHECK_EQ(track->epoch_count, 1);
    CHECK_EQ(track->steps[track->step_count - 1].epoch, 0);
    release(&found);
}

TEST(an_evaluation_that_needs_no_loader_is_between_epochs)
{
    struct found found = steps_of("I0 D2 F3 B4 O2 D2 F3 B4 O2 D1 .5 E9 .5 ", 3, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 6);
    CHECK_EQ(track->eval_count, 3);
    CHECK_EQ(track->epoch_count, 3);
    CHECK_EQ(length_ms(&track->steps[1]), 11);
    release(&found);
}

TEST(a_loader_that_is_asked_ahead_gives_a_step_a_batch)
{
    /* The first question is for the first batch, the last says that there is none. */
    struct found found =
        steps_of("I0 D5 D2 F3 B4 O2 D2 F3 B4 O2 D2 F3 B4 O2 D1 F3 B4 O2 .1 ", 2, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 8);
    CHECK_EQ(track->update_count, 8);
    CHECK_EQ(length_ms(&track->steps[0]), 16);
    CHECK_EQ(length_ms(&track->steps[3]), 11);
    CHECK_EQ(track->epoch_count, 2);
    CHECK_EQ(track->steps[4].epoch, 1);
    CHECK(track->steps[4].is_first);
    CHECK_EQ(ms_of(&track->steps[4], LW_PHASE_DATA), 7);
    check_sums(&found, track);
    release(&found);
}

TEST(a_loop_that_knows_when_its_loader_is_over_has_epochs_too)
{
    /* It counts its batches, and asks for no more. */
    struct found found =
        steps_of("I0 .2 D9 F3 B4 O2 D2 F3 B4 O2 .3 I0 .1 D2 E3 D2 E3 .1 ", 3, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 6);
    CHECK_EQ(track->eval_count, 6);
    CHECK_EQ(track->epoch_count, 3);
    CHECK_EQ(length_ms(&track->steps[1]), 14); /* as far as the other loader's start */
    CHECK_EQ(length_ms(&track->steps[3]), 6);
    CHECK(track->steps[2].is_eval && track->steps[2].is_first);
    CHECK(track->steps[4].is_first);
    CHECK_EQ(track->steps[4].epoch, 1);
    CHECK_EQ(ms_of(&track->steps[4], LW_PHASE_DATA), 9);
    check_sums(&found, track);
    release(&found);

    found = steps_of("D2 F3 B4 O2 ", 5, ""); /* and breaks off in the middle of one */
    CHECK_EQ(only_track(&found)->epoch_count, 0);
    CHECK_EQ(only_track(&found)->steps[4].epoch, 0);
    release(&found);
}

TEST(a_second_loader_that_goes_round_begins_no_epoch)
{
    struct found found = steps_of("D1 D2 F3 B4 O2 ", 3, "D1 D1 I0 D2 F3 B4 O2 D1 ");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->epoch_count, 1);
    CHECK_EQ(length_ms(&track->steps[2]), 12);
    CHECK_EQ(length_ms(&track->steps[3]), 13);
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_DATA), 4);
    CHECK(!track->steps[3].is_first);
    check_sums(&found, track);
    release(&found);
}

TEST(a_pass_for_each_batch_is_part_of_its_step)
{
    struct found found = steps_of("I0 .5 D2 F3 B4 O2 ", 4, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->epoch_count, 0);
    CHECK_EQ(length_ms(&track->steps[1]), 16);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 5);
    CHECK(!track->steps[1].is_first);
    check_sums(&found, track);
    release(&found);
}

TEST(several_batches_may_make_one_update)
{
    struct found found = steps_of("D2 F3 B4 D2 F3 B4 D2 F3 B4 O2 Z1 ", 4, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 12);
    CHECK_EQ(track->update_count, 4);
    CHECK_EQ(track->steps[2].updates, 1);
    CHECK_EQ(track->steps[3].updates, 0);
    release(&found);
}

TEST(loaders_that_are_zipped_give_one_step)
{
    struct found found = steps_of("I0 I0 D1 D2 F3 B4 O2 D1 D2 F3 B4 O2 D1 .9 ", 2, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->epoch_count, 2);
    CHECK_EQ(length_ms(&track->steps[0]), 12);
    CHECK_EQ(length_ms(&track->steps[1]), 12);
    CHECK_EQ(ms_of(&track->steps[2], LW_PHASE_DATA), 3);
    check_sums(&found, track);
    release(&found);
}

TEST(epochs_of_one_batch_are_no_zipped_loaders)
{
    struct found found = steps_of("I0 D2 F3 B4 O2 .1 D1 .9 ", 4, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->epoch_count, 4);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(length_ms(&track->steps[i]), 12);
    release(&found);

    found = steps_of("I0 D2 F3 B4 O2 D2 F3 B4 O2 D1 .5 I0 D2 E3 D1 .5 ", 4, "");
    track = only_track(&found);
    CHECK_EQ(track->train_count, 8);
    CHECK_EQ(track->eval_count, 4);
    CHECK_EQ(track->epoch_count, 4);
    CHECK_EQ(track->train_ns, 8 * 11 * MS);
    CHECK_EQ(track->eval_ns, 4 * 5 * MS);
    release(&found);
}

TEST(a_pass_over_the_data_before_the_training_is_no_step)
{
    struct found found =
        steps_of("D2 .1 D2 .1 D2 .1 D1 .5 I0 D2 F3 B4 O2 D2 F3 B4 O2 ", 1, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 2);
    CHECK_EQ(length_ms(&track->steps[0]), 11);
    CHECK_EQ(track->steps[0].start_ns, 1015 * MS);
    release(&found);
}

TEST(all_of_the_data_in_one_batch_leaves_the_steps_to_the_optimizer)
{
    struct drawing d = make_drawing(0);
    struct found found;

    draw(&d, 0, "D9 .3 ");
    for (size_t i = 0; i < 10; i++)
        draw(&d, 0, "Z1 F3 B4 O2 ");
    found = find(&d);
    CHECK_EQ(only_track(&found)->bound, LW_BOUND_OPTIMIZER);
    CHECK_EQ(only_track(&found)->train_count, 10);
    CHECK_EQ(length_ms(&only_track(&found)->steps[0]), 10);
    release(&found);
}

TEST(a_loop_without_a_loader_after_one_with_it_has_steps_too)
{
    struct drawing d = make_drawing(0);
    struct found found;
    const struct lw_step_track *track;

    draw(&d, 0, "I0 D2 F3 B4 O2 D2 F3 B4 O2 D2 F3 B4 O2 .1 D1 .9 ");
    for (size_t i = 0; i < 6; i++)
        draw(&d, 0, "F3 B4 O2 .1 ");
    found = find(&d);
    track = only_track(&found);
    CHECK_EQ(track->bound, LW_BOUND_DATA);
    CHECK_EQ(track->train_count, 9);
    CHECK_EQ(track->update_count, 9);
    CHECK_EQ(length_ms(&track->steps[2]), 12);
    CHECK_EQ(length_ms(&track->steps[3]), 9); /* from its forward */
    CHECK_EQ(length_ms(&track->steps[8]), 10);
    CHECK_EQ(track->steps[8].epoch, 1);
    check_sums(&found, track);
    release(&found);
}

TEST(without_a_loader_a_step_ends_with_the_optimizer)
{
    struct found found = steps_of("F3 .1 B4 .1 O2 .5 ", 6, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->bound, LW_BOUND_OPTIMIZER);
    CHECK_EQ(track->train_count, 6);
    CHECK_EQ(track->cut_count, 0);
    CHECK_EQ(length_ms(&track->steps[0]), 11);
    CHECK_EQ(length_ms(&track->steps[1]), 16);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_LOSS), 1);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 6);
    check_sums(&found, track);
    release(&found);
}

TEST(what_zeroes_gradients_belongs_to_the_step_that_it_follows_or_begins)
{
    struct found found = steps_of("F3 B4 O2 Z1 .5 ", 4, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(length_ms(&track->steps[0]), 10);
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_OPTIMIZER), 3);
    CHECK_EQ(track->cut_count, 0);
    check_sums(&found, track);
    release(&found);

    found = steps_of("Z1 F3 B4 O2 .5 ", 4, "");
    track = only_track(&found);
    CHECK_EQ(length_ms(&track->steps[0]), 10);
    CHECK_EQ(length_ms(&track->steps[1]), 15);
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_OPTIMIZER), 3);
    check_sums(&found, track);
    release(&found);
}

TEST(optimizers_that_take_turns_make_one_step)
{
    struct found found = steps_of("E1 F2 F2 .1 B3 O2 Z1 G2 F2 .1 B3 O1 ", 5, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 5);
    CHECK_EQ(track->update_count, 10);
    CHECK_EQ(track->eval_count, 0);
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ(length_ms(&track->steps[i]), 21);
    CHECK_EQ(ms_of(&track->steps[2], LW_PHASE_FORWARD), 9); /* without gradients too */
    CHECK_EQ(ms_of(&track->steps[2], LW_PHASE_LOSS), 2);
    check_sums(&found, track);
    release(&found);
}

TEST(half_of_a_cycle_at_the_end_is_cut)
{
    struct found found = steps_of("F2 B3 O2 G2 B3 O1 ", 5, "F2 B3 O2");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 5);
    CHECK_EQ(track->cut_count, 1);
    CHECK(track->steps[5].is_cut);
    release(&found);
}

TEST(a_closure_counts_for_what_runs_in_it)
{
    struct found found = steps_of("O(.1 Z1 F3 .1 B4 .1 Z1 F3 .1 B4 .2) .3 ", 4, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->update_count, 4);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_FORWARD), 6);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_BACKWARD), 8);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_LOSS), 2);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OPTIMIZER), 6);
    CHECK_EQ(ms_of(&track->steps[1], LW_PHASE_OTHER), 3);
    check_sums(&found, track);
    release(&found);
}

TEST(evaluation_between_optimizers_is_apart)
{
    struct drawing d = make_drawing(0);
    struct found found;
    const struct lw_step_track *track;

    for (size_t i = 0; i < 6; i++)
        draw(&d, 0, i == 3 ? ".2 E5 .1 E5 .1 F3 B4 O2 Z1 " : ".2 F3 B4 O2 Z1 ");
    found = find(&d);
    track = only_track(&found);
    CHECK_EQ(track->train_count, 6);
    CHECK_EQ(track->eval_count, 2);
    CHECK_EQ(length_ms(&track->steps[1]), 12);
    CHECK_EQ(length_ms(&track->steps[2]), 14); /* what it logged before that, too */
    CHECK(track->steps[3].is_eval);
    CHECK_EQ(length_ms(&track->steps[3]), 6);
    CHECK_EQ(length_ms(&track->steps[4]), 5);
    CHECK_EQ(length_ms(&track->steps[5]), 11);
    check_sums(&found, track);
    release(&found);
}

TEST(gradients_that_are_applied_by_hand_bound_steps_by_backward)
{
    struct found found = steps_of("F3 .1 B4 .5 ", 6, "");

    CHECK_EQ(only_track(&found)->bound, LW_BOUND_BACKWARD);
    CHECK_EQ(only_track(&found)->train_count, 6);
    CHECK_EQ(only_track(&found)->update_count, 0);
    release(&found);
}

TEST(lapwing_step_overrides_all_others)
{
    struct found found = steps_of("[ D2 F3 B4 O2 D2 F3 B4 O2 P5 .1 ", 4, "[ D2 F3");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->bound, LW_BOUND_MARKS);
    CHECK_EQ(track->train_count, 4);
    CHECK_EQ(track->update_count, 8);
    CHECK_EQ(track->cut_count, 1);
    CHECK_EQ(length_ms(&track->steps[3]), 28);
    CHECK_EQ(found.steps.phase_count, LW_PHASE_OWN + 1);
    CHECK_STR(found.steps.phases[LW_PHASE_OWN].text, "augment");
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_OWN), 5);
    check_sums(&found, track);
    release(&found);
}

TEST(evaluation_now_and_then_inside_a_step_is_told_from_its_forward)
{
    struct drawing d = make_drawing(0);
    struct found found;
    const struct lw_step_track *track;

    for (size_t i = 0; i < 6; i++)
        draw(&d, 0, i == 3 ? "D2 F3 B4 O2 E9 " : "D2 F3 B4 O2 ");
    found = find(&d);
    track = only_track(&found);
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_EVAL), 9);
    CHECK_EQ(ms_of(&track->steps[3], LW_PHASE_FORWARD), 3);
    release(&found);
}

TEST(what_the_end_of_a_killed_process_leaves_is_cut)
{
    struct drawing killed = make_drawing(137), ended = make_drawing(0);
    struct found found;

    draw(&killed, 0, "I0 D2 F3 B4 O2 D2 F3 B4 O2 D2");
    found = find(&killed);
    CHECK_EQ(only_track(&found)->train_count, 2);
    CHECK_EQ(only_track(&found)->cut_count, 1);
    CHECK_EQ(only_track(&found)->epoch_count, 0);
    release(&found);

    draw(&ended, 0, "I0 D2 F3 B4 O2 D2 F3 B4 O2 D2");
    found = find(&ended);
    CHECK_EQ(only_track(&found)->cut_count, 0);
    CHECK_EQ(only_track(&found)->epoch_count, 1);
    release(&found);
}

TEST(a_last_batch_without_what_all_others_had_is_cut)
{
    struct found found = steps_of("D2 F3 B4 O2 ", 3, "D2 F3 B4");

    CHECK_EQ(only_track(&found)->train_count, 3);
    CHECK_EQ(only_track(&found)->cut_count, 1);
    release(&found);

    found = steps_of("D2 F3 B4 O2 ", 3, "D2 F3");
    CHECK_EQ(only_track(&found)->train_count, 3);
    CHECK_EQ(only_track(&found)->eval_count, 0);
    CHECK_EQ(only_track(&found)->cut_count, 1);
    release(&found);
}

TEST(steps_that_lost_their_spans_are_cut)
{
    struct drawing d = make_drawing(0);
    struct lw_process process = { .pid = 1, .rank = -1, .exit_code = 0 };
    struct found found;

    draw(&d, 0, "D2 F3 B4 O2 D2 F3 ");
    process.thinned_start_ns = d.now_ns;
    draw(&d, 0, ".500 ");
    process.thinned_end_ns = d.now_ns;
    draw(&d, 0, "B4 O2 D2 F3 B4 O2 D1");
    CHECK(lw_builder_update_process(d.builder, 0, &process, NULL));
    found = find(&d);
    CHECK_EQ(only_track(&found)->train_count, 2);
    CHECK_EQ(only_track(&found)->train_ns, 22 * MS);
    CHECK_EQ(only_track(&found)->cut_count, 1);
    release(&found);
}

TEST(threads_that_only_help_have_no_steps)
{
    struct drawing d = make_drawing(0);
    struct lw_thread helper = { .tid = 2 };
    struct found found;
    uint32_t index;

    CHECK(lw_builder_thread(d.builder, &helper, &index, NULL));
    draw(&d, 0, "D2 F3 B4 O2 D2 F3 B4 O2 D1");
    d.now_ns = 1000 * MS;
    draw(&d, index, ".2 F1 .5 F1 .5");
    found = find(&d);
    CHECK_EQ(only_track(&found)->thread, 0);
    CHECK_EQ(found.steps.span_count, 11);
    release(&found);
}

TEST(a_model_that_is_only_called_has_steps_of_evaluation)
{
    struct found found = steps_of("E4 .2 ", 5, "");

    CHECK_EQ(only_track(&found)->bound, LW_BOUND_CALLS);
    CHECK_EQ(only_track(&found)->eval_count, 5);
    CHECK_EQ(only_track(&found)->eval_ns, 20 * MS);
    release(&found);
}

TEST(what_is_called_after_a_model_is_of_the_same_step_of_evaluation)
{
    struct found found = steps_of("E4 .1 C1 .2 ", 5, "");

    CHECK_EQ(only_track(&found)->eval_count, 5);
    CHECK_EQ(only_track(&found)->eval_ns, 30 * MS);
    release(&found);

    found = steps_of("F3 B4 O2 F3 B4 O2 F3 B4 O2 F3 B4 O2 E4 C1 .2 E4 C1 .2 ", 2, "");
    CHECK_EQ(only_track(&found)->train_count, 8);
    CHECK_EQ(only_track(&found)->eval_count, 4);
    release(&found);
}

TEST(who_only_makes_batches_is_a_worker)
{
    struct found found = steps_of("f(.6 c2) .4 ", 3, "");

    CHECK_EQ(found.steps.track_count, 0);
    CHECK_EQ(found.steps.worker_count, 1);
    CHECK_EQ(found.steps.workers[0].batches, 3);
    CHECK_EQ(found.steps.workers[0].fetch_ns, 18 * MS);
    CHECK_EQ(found.steps.workers[0].collate_ns, 6 * MS);
    CHECK_EQ(found.steps.workers[0].end_ns - found.steps.workers[0].start_ns, 32 * MS);
    release(&found);
}

TEST(a_moment_is_found_in_its_piece)
{
    struct found found = steps_of("D2 F3 B4 O2 ", 2, "D1");
    const struct lw_step_track *track = only_track(&found);

    CHECK(lw_steps_at(track, 1000 * MS - 1) == NULL);
    CHECK_EQ(lw_steps_at(track, 1000 * MS)->phase, LW_PHASE_DATA);
    CHECK_EQ(lw_steps_at(track, 1002 * MS)->phase, LW_PHASE_FORWARD);
    CHECK_EQ(lw_steps_at(track, 1012 * MS)->step, 1);
    CHECK_EQ(lw_steps_at(track, 1022 * MS - 1)->phase, LW_PHASE_OPTIMIZER);
    CHECK(lw_steps_at(track, 1022 * MS) == NULL);
    release(&found);
}

TEST(calls_are_counted_without_what_they_called)
{
    struct found found = steps_of("O(.1 F3 B4) ", 3, "");
    const struct lw_step_track *track = only_track(&found);

    CHECK_EQ(track->call_count, 3);
    for (size_t i = 0; i < track->call_count; i++) {
        const struct lw_step_call *call = &track->calls[i];

        CHECK_EQ(call->count, 3);
        CHECK(!call->is_eval);
        if (call->phase == LW_PHASE_OPTIMIZER) {
            CHECK_EQ(call->ns, 3 * MS);
            CHECK_STR(lw_profile_text(found.profile, call->of), "SGD");
        }
    }
    release(&found);
}

TEST(more_phases_of_its_own_than_fit_are_one)
{
    struct drawing d = make_drawing(0);
    struct found found;

    draw(&d, 0, "D2 F3 B4 O2 ");
    for (unsigned i = 0; i < 2 * LW_PHASES_MAX; i++) {
        struct lw_frame frame = { .kind = LW_FRAME_PHASE };
        struct lw_span span = { .start_ns = d.now_ns, .duration_ns = MS };
        lw_frame_id id;
        char name[16];

        snprintf(name, sizeof(name), "part %u", i);
        CHECK(lw_builder_string(d.builder, name, strlen(name), &frame.name, NULL));
        CHECK(lw_builder_frame(d.builder, &frame, &id, NULL));
        CHECK(lw_builder_push(d.builder, LW_NO_STACK, id, &span.stack, NULL));
        CHECK(lw_builder_spans(d.builder, &span, 1, NULL));
        d.now_ns += MS;
    }
    draw(&d, 0, "D1");
    found = find(&d);
    CHECK_EQ(found.steps.phase_count, LW_PHASES_MAX);
    CHECK_STR(found.steps.phases[LW_PHASES_MAX - 1].text, "(more)");
    CHECK_EQ(only_track(&found)->steps[0].ns[LW_PHASES_MAX - 1],
             (2 * LW_PHASES_MAX - (LW_PHASES_MAX - LW_PHASE_OWN - 1)) * MS);
    check_sums(&found, only_track(&found));
    release(&found);
}

TEST(a_profile_without_phases_has_no_steps)
{
    struct drawing d = make_drawing(0);
    struct found found = find(&d);

    CHECK_EQ(found.steps.track_count, 0);
    CHECK_EQ(found.steps.span_count, 0);
    release(&found);
}

TEST(spans_that_cross_are_taken_to_nest)
{
    struct drawing d = make_drawing(0);
    struct found found;

    draw(&d, 0, "D2 ");
    d.now_ns += 5 * MS;
    add_span(&d, 0, 'P', d.now_ns - 5 * MS);
    d.now_ns += 2 * MS;
    add_span(&d, 0, 'F', d.now_ns - 4 * MS); /* 2 ms of it after the one around it */
    draw(&d, 0, "B4 O2 D1");
    found = find(&d);
    CHECK_EQ(ms_of(&only_track(&found)->steps[0], LW_PHASE_OWN), 3);
    CHECK_EQ(ms_of(&only_track(&found)->steps[0], LW_PHASE_FORWARD), 2);
    check_sums(&found, only_track(&found));
    release(&found);
}

TEST(running_out_of_memory_is_said)
{
    struct drawing d = make_drawing(0);
    struct lw_profile *profile;
    bool done = false;

    draw(&d, 0, "D2 F3 B4 O2 D2 E3 D1 [ F3 B4 O(F3 B4) [ P1 .1 f(.6 c2)");
    profile = lw_builder_finish(d.builder, NULL);
    CHECK(profile != NULL);
    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_steps steps;

        lw_alloc_fail_in(n);
        done = lw_steps_init(&steps, profile, NULL, &err);
        lw_alloc_fail_in(0);
        if (!done)
            CHECK_EQ(err.code, LW_ERR_NOMEM);
        lw_steps_release(&steps);
    }
    lw_profile_free(profile);
}
