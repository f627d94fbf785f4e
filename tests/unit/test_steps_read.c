/* What `report steps` reads of a recording: phases, and not the millions of ops beside
 * them; and what it is told where a recording was made smaller. */

#include "analyses/steps.h"
#include "base/clock.h"
#include "held.h"
#include "lap/thin.h"
#include "lap_fixture.h"

#define FIRST_NS 1000u

static lw_stack_id push(struct lw_lap_writer *w, lw_stack_id parent, uint8_t kind,
                        const char *name)
{
    struct lw_frame frame = { .kind = kind };
    lw_stack_id stack;
    lw_frame_id id;

    CHECK_DONE(lw_lap_writer_string(w, name, strlen(name), &frame.name, ERR));
    CHECK_DONE(lw_lap_writer_frame(w, &frame, &id, ERR));
    CHECK_DONE(lw_lap_writer_push(w, parent, id, &stack, ERR));
    return stack;
}

/* COUNT steps of four phases, each with an op in its forward; flushed one by one, at the
 * times that they say, since a segment knows when it was written. The data of step N takes
 * FIRST_NS + N, so that each can be told. */
static char *write_training(size_t count, uint64_t segment_bytes)
{
    static const char *const names[] = { "data", "forward", "backward", "optimizer" };
    struct lw_lap_writer_options options = { .segment_bytes = segment_bytes };
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, &options, NULL);
    struct lw_span span = { 0 };
    lw_stack_id stacks[4], op;

    CHECK(w != NULL);
    span.thread = fixture_thread(w, "MainThread", 1);
    for (size_t i = 0; i < 4; i++)
        stacks[i] = push(w, LW_NO_STACK, LW_FRAME_PHASE, names[i]);
    op = push(w, stacks[1], LW_FRAME_OP, "aten::mm");
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < 4; p++) {
            uint64_t end_ns = span.start_ns + span.duration_ns, now_ns = lw_clock_ns();

            span.stack = stacks[p];
            span.start_ns = now_ns > end_ns ? now_ns : end_ns;
            span.duration_ns = p == 0 ? FIRST_NS + i : 100;
            CHECK_DONE(lw_lap_writer_spans(w, &span, 1, ERR));
            if (p == 1) {
                span.stack = op;
                CHECK_DONE(lw_lap_writer_spans(w, &span, 1, ERR));
            }
        }
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
    }
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    return folder;
}

TEST(who_wants_phases_gets_no_ops)
{
    char *folder = write_training(5, 0);
    struct lw_profile *all = lw_lap_load(folder, LW_WANT_SPANS, NULL);
    struct lw_profile *phases = lw_lap_load(folder, LW_WANT_PHASES, NULL);
    struct lw_profile *none = lw_lap_load(folder, LW_WANT_SAMPLES, NULL);

    CHECK(all && phases && none);
    CHECK_EQ(all->span_count, 25);
    CHECK_EQ(phases->span_count, 20);
    CHECK_EQ(none->span_count, 0);
    lw_profile_free(all);
    lw_profile_free(phases);
    lw_profile_free(none);
    fixture_remove(folder);
}

TEST(the_step_in_which_spans_were_dropped_is_cut)
{
    char *folder = write_training(3000, 1000);
    struct lw_profile *profile;
    struct lw_steps steps;
    uint64_t bytes, dropped = 0, holes = 0;

    CHECK_DONE(lw_lap_thin(held(folder), 20000, &bytes, ERR));
    profile = lw_lap_load(folder, LW_WANT_PHASES, NULL);
    CHECK(profile != NULL);
    for (size_t i = 0; i < profile->loss_count; i++)
        dropped += profile->losses[i].count;
    CHECK(dropped > 0 && dropped < 15000);
    CHECK(profile->processes[0].thinned_end_ns >
          profile->processes[0].thinned_start_ns);

    CHECK_DONE(lw_steps_init(&steps, profile, NULL, ERR));
    CHECK_EQ(steps.track_count, 1);
    CHECK(steps.tracks[0].train_count > 0);
    for (size_t i = 0; i + 1 < steps.tracks[0].step_count; i++) {
        const struct lw_step *step = &steps.tracks[0].steps[i];
        bool has_lost = step[1].ns[LW_PHASE_DATA] != step->ns[LW_PHASE_DATA] + 1;

        CHECK(!has_lost || step->is_cut);
        holes += has_lost;
    }
    CHECK_EQ(holes, 1);
    lw_steps_release(&steps);
    lw_profile_free(profile);
    fixture_remove(folder);
}
