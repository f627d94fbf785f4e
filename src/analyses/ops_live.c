/* Ops of a recording, by name, by the phase of a step that they ran in, or by what called
 * them; see analyses/ops_live.h. */

#include "analyses/ops_live.h"

#include <inttypes.h>
#include <string.h>

#include "analyses/op_spans.h"
#include "analyses/op_windows.h"
#include "analyses/ops.h"
#include "analyses/ops_columns.h"
#include "analyses/ops_forward.h"
#include "analyses/steps.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

enum { BY_PHASE = 1, BY_STACK = 2 };

/* clang-format off */
static const struct lw_ops_column columns[] = {
    { { "calls", "calls", LW_UNIT_COUNT, false }, 0 },
    { { "host_self_ns", "host self", LW_UNIT_NS, false }, 0 },
    { { "host_self_share", "share", LW_UNIT_SHARE, false }, 0 },
    { { "host_total_ns", "host total", LW_UNIT_NS, false }, 0 },
    { { "host_mean_ns", "mean", LW_UNIT_NS, false }, 0 },
    { { "host_longest_ns", "longest", LW_UNIT_NS, false }, 0 },
    { { "name", "op", LW_UNIT_TEXT, true }, 0 },
    { { "kind", "kind", LW_UNIT_TEXT, false }, 0 },
    { { "phase", "phase", LW_UNIT_TEXT, false }, BY_PHASE },
    { { "stack", "called from", LW_UNIT_TEXT, true }, BY_STACK },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

struct showing {
    const struct lw_profile *profile;
    const struct lw_query *query;
    struct lw_op_spans ops;
    struct lw_steps steps;               /* by phase */
    const struct lw_step_track **tracks; /* owned; of each thread, whose steps its ops
                                            are in; NULL: nobody's */
    struct lw_strings *texts;            /* owned; by stack: of callers */
    lw_string_id *callers;               /* owned; of each stack, its text */
    unsigned has;                        /* BY_PHASE */
    struct lw_table *table;
};

/* ---- phases ------------------------------------------------------------------------- */

/* A thread's ops are in its own steps; those of a thread that has none (autograd's) in the
 * steps of the one that trains in its process. */
static bool find_tracks(struct showing *s, struct lw_error *err)
{
    const struct lw_profile *profile = s->profile;
    const struct lw_step_track **mains; /* of each process: the one with most steps */

    s->tracks = lw_zalloc(profile->thread_count + 1, sizeof(*s->tracks), err);
    mains =
        s->tracks ? lw_zalloc(profile->process_count + 1, sizeof(*mains), err) : NULL;
    if (!mains)
        return false;
    for (size_t i = 0; i < s->steps.track_count; i++) {
        const struct lw_step_track *track = &s->steps.tracks[i];
        const struct lw_step_track **most = &mains[track->process];

        s->tracks[track->thread] = track;
        if (!*most || track->step_count > (*most)->step_count)
            *most = track;
    }
    for (size_t i = 0; i < profile->thread_count; i++)
        if (!s->tracks[i])
            s->tracks[i] = mains[profile->threads[i].process];
    lw_free(mains);
    return true;
}

/* The phase that an op began in, from 1; 0: it was in no step. */
static uint32_t phase_of(const void *owner, const struct lw_span *span)
{
    const struct showing *s = owner;
    const struct lw_step_track *track = s->tracks[span->thread];
    const struct lw_step_piece *piece =
        track ? lw_steps_at(track, span->start_ns) : NULL;

    return piece && piece->step != LW_NONE ? piece->phase + 1u : 0;
}

/* ---- callers ------------------------------------------------------------------------ */

/* "model.py:12(forward);train.py:30(step)", the innermost first, as traces have it. */
static void add_callers(const struct showing *s, lw_stack_id stack, struct lw_buf *out)
{
    size_t count,
        depth = s->query->max_depth ? s->query->max_depth : LW_OPS_STACK_DEPTH;
    const struct lw_stack *stacks = lw_stacks_list(s->profile->stacks, &count);

    for (; stack != LW_NO_STACK && depth > 0; stack = stacks[stack].parent, depth--) {
        const struct lw_frame *frame =
            lw_profile_frame(s->profile, stacks[stack].frame);

        lw_buf_addf(out, "%s%s:%" PRIu32 "(%s)", out->len ? ";" : "",
                    lw_text_basename(lw_profile_text(s->profile, frame->file)),
                    frame->first_line, lw_profile_text(s->profile, frame->name));
    }
}

/* Give every stack that called something its text, once. */
static bool name_callers(struct showing *s, struct lw_error *err)
{
    const struct lw_profile *profile = s->profile;
    size_t count;
    const struct lw_stack *stacks = lw_stacks_list(profile->stacks, &count);
    struct lw_buf text;
    bool done;

    s->texts = lw_strings_new(err);
    s->callers = s->texts ? lw_zalloc(count, sizeof(*s->callers), err) : NULL;
    done = s->callers != NULL;
    lw_buf_init(&text, 0);
    for (size_t i = 0; done && i < profile->span_count; i++) {
        lw_stack_id stack = stacks[profile->spans[i].stack].parent;

        if (stack == LW_NO_STACK || s->callers[stack])
            continue;
        lw_buf_reset(&text);
        add_callers(s, stack, &text);
        done =
            lw_buf_check(&text, err) &&
            lw_strings_intern(s->texts, text.bytes, text.len, &s->callers[stack], err);
    }
    lw_buf_release(&text);
    return done;
}

/* What called it: a text's number; 0: no calls were recorded. */
static uint32_t callers_of(const void *owner, const struct lw_span *span)
{
    const struct showing *s = owner;
    size_t count;

    return s->callers[lw_stacks_list(s->profile->stacks, &count)[span->stack].parent];
}

static bool sum_up(struct showing *s, const bool *threads, struct lw_error *err)
{
    if (s->has & BY_STACK)
        return name_callers(s, err) &&
               lw_op_spans_init(&s->ops, s->profile, threads, callers_of, s, err);
    if (!(s->has & BY_PHASE))
        return lw_op_spans_init(&s->ops, s->profile, threads, NULL, NULL, err);
    return lw_steps_init(&s->steps, s->profile, NULL, err) && find_tracks(s, err) &&
           lw_op_spans_init(&s->ops, s->profile, threads, phase_of, s, err);
}

/* ---- the table ---------------------------------------------------------------------- */

static void add_row(const struct showing *s, const struct lw_op_span_row *row)
{
    const struct lw_frame *frame = lw_profile_frame(s->profile, row->frame);
    struct lw_table *table = s->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)row->calls);
    lw_table_add_integer(table, row->self_ns);
    lw_analysis_add_share(table, (double)row->self_ns, (double)s->ops.self_ns);
    lw_table_add_integer(table, (int64_t)row->total_ns);
    lw_table_add_integer(table, (int64_t)(row->total_ns / row->calls));
    lw_table_add_integer(table, (int64_t)row->longest_ns);
    lw_table_add_text(table, lw_profile_text(s->profile, frame->name),
                      lw_strings_len(s->profile->strings, frame->name));
    lw_ops_add_word(table, frame->kind == LW_FRAME_OP ? "op" : "range");
    if (s->has && row->group == 0)
        lw_table_add_none(table);
    else if (s->has & BY_PHASE)
        lw_ops_add_word(table, s->steps.phases[row->group - 1].text);
    else if (s->has & BY_STACK)
        lw_table_add_text(table, lw_strings_text(s->texts, row->group),
                          lw_strings_len(s->texts, row->group));
}

/* "12,345 ops in 41 rows; 12.3 ms on the host" */
static void set_title(const struct showing *s)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_counted(&text, (int64_t)s->ops.op_count, "op");
    lw_buf_add_text(&text, " in ");
    lw_units_add_count(&text, (int64_t)s->ops.count);
    lw_buf_addf(&text, " row%s; ", s->ops.count == 1 ? "" : "s");
    lw_units_add_ns(&text, s->ops.self_ns);
    lw_buf_add_text(&text, " on the host");
    lw_table_set_title(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static bool make_table(const struct showing *s, struct lw_error *err)
{
    struct lw_query query = *s->query; /* borrows what it refers to */

    if (!lw_ops_columns_init(s->table, columns, COLUMN_COUNT, s->has, err))
        return false;
    set_title(s);
    for (size_t i = 0; i < s->ops.count; i++)
        add_row(s, &s->ops.rows[i]);
    if (!lw_op_windows_note(s->profile, s->table, err))
        return false;
    lw_analysis_note_losses(s->profile, s->table);
    if (query.column_count == 0)
        query.columns[query.column_count++] = "host_self_ns";
    return lw_analysis_arrange(s->table, &query, err);
}

bool lw_ops_are_live(const struct lw_profile *profile)
{
    const char *format = lw_profile_fact(profile, "format");

    return !profile->trace && (!format || strcmp(format, "lap") == 0);
}

static bool has_ops(const struct lw_profile *profile)
{
    size_t frame_count;
    const struct lw_frame *frames = lw_stacks_frames(profile->stacks, &frame_count);

    for (size_t i = 0; profile->span_count > 0 && i < frame_count; i++)
        if (frames[i].kind == LW_FRAME_OP)
            return true;
    return false;
}

static bool has_callers(const struct lw_op_spans *ops)
{
    for (size_t i = 0; i < ops->count; i++)
        if (ops->rows[i].group != 0)
            return true;
    return false;
}

/* Why a run has no ops, by what the agent said of it and what it was asked. */
static bool fail_without_ops(const struct lw_profile *profile, struct lw_error *err)
{
    static const char told[] = "torch's ops are not recorded: ";
    const char *note = lw_profile_fact(profile, "note");
    const char *asked = lw_profile_fact(profile, "ops");
    const char *why = note ? strstr(note, told) : NULL;

    if (why) {
        why += sizeof(told) - 1;
        return lw_fail(err, LW_ERR_UNSUPPORTED, "this run has no ops of torch's: %.*s",
                       (int)strcspn(why, ";"), why);
    }
    if (asked && strcmp(asked, "off") == 0)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "this run has no ops of torch's: it was recorded with --ops=off");
    return lw_fail(err, LW_ERR_UNSUPPORTED,
                   "this run has no ops of torch's: the program used none, or trained "
                   "for less than two steps ('lapwing run --ops=all' records every "
                   "op)");
}

/* What was asked must be there to be shown. */
static bool check_query(const struct showing *s, struct lw_error *err)
{
    if (s->query->compat != LW_COMPAT_NONE || lw_query_is_by(s->query, "shape"))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "%s a trace of torch's profiler, and this run has none "
                       "(lapwing run --torch=shapes)",
                       s->query->compat != LW_COMPAT_NONE ? "--compat is for"
                                                          : "shapes of ops are in");
    return has_ops(s->profile) || fail_without_ops(s->profile, err);
}

static bool check_rows(const struct showing *s, struct lw_error *err)
{
    if (s->has & BY_STACK && !has_callers(&s->ops))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "this run does not have what called its ops: record it with "
                       "--calls as well (lapwing run --calls --ops=all)");
    if (s->has & BY_PHASE && s->steps.track_count == 0)
        return lw_fail(
            err, LW_ERR_UNSUPPORTED,
            "this run has no steps of a training, whose phases its ops could "
            "be in");
    return true;
}

bool lw_ops_live(const struct lw_profile *profile, const struct lw_query *query,
                 struct lw_table *table, struct lw_error *err)
{
    struct showing s = {
        .profile = profile,
        .query = query,
        .has = lw_query_is_by(query, "phase")   ? BY_PHASE
               : lw_query_is_by(query, "stack") ? BY_STACK
                                                : 0,
        .table = table,
    };
    bool *threads = NULL;
    bool done;

    if (lw_query_is_by(query, "forward"))
        return check_query(&s, err) && lw_ops_forward(profile, query, table, err);
    done = check_query(&s, err) && lw_query_threads(query, profile, &threads, err) &&
           sum_up(&s, threads, err) && check_rows(&s, err) && make_table(&s, err);
    lw_op_spans_release(&s.ops);
    lw_steps_release(&s.steps);
    lw_free(s.tracks);
    lw_strings_free(s.texts);
    lw_free(s.callers);
    lw_free(threads);
    return done;
}
