/* One pass over the spans, a stack of those without a parent for each thread; see
 * analyses/op_spans.h. */

#include "analyses/op_spans.h"

#include <stdlib.h>
#include <string.h>

#include "analyses/op_tree.h"
#include "base/alloc.h"
#include "base/map.h"

/* An op that has ended, and that nothing holds so far. */
struct ended {
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t children_ns; /* of its children */
    uint32_t row;         /* index; LW_NONE: several, added up */
    uint32_t count;       /* how many it stands for */
};

/* A thread's may be so many; then the older half becomes one, whose parent, if it has one,
 * began before them all. Nothing that was ever recorded has so many children. */
enum { MOST_ENDED = 1 << 16 };

struct track {
    struct ended *ended; /* owned; by growing start, for what nests */
    size_t count, capacity;
};

struct adding {
    struct lw_op_spans *ops;
    const struct lw_profile *profile;
    const struct lw_frame *frames;
    const struct lw_stack *stacks;
    lw_op_group *group;
    const void *owner;
    struct track *tracks; /* owned; one a thread */
    struct lw_map map;    /* of rows: index + 1 */
    uint8_t *roles;       /* owned; of each frame, enum role */
};

/* What a frame is to us. */
enum role { ROLE_UNASKED, ROLE_NONE, ROLE_RANGE, ROLE_OP };

static bool same_row(const void *owner, uint32_t number, const void *key)
{
    const struct lw_op_span_row *a =
        &((const struct lw_op_spans *)owner)->rows[number - 1];
    const struct lw_op_span_row *b = key;

    return a->frame == b->frame && a->group == b->group;
}

static bool find_row(struct adding *a, lw_frame_id frame, uint32_t group, uint32_t *row,
                     struct lw_error *err)
{
    struct lw_op_spans *ops = a->ops;
    struct lw_op_span_row key = { .frame = frame, .group = group };
    uint64_t hash = lw_hash_u64((uint64_t)frame << 32 | group);
    uint32_t found = lw_map_find(&a->map, hash, same_row, ops, &key);

    if (!found) {
        if (!lw_grow(&ops->rows, &ops->capacity, ops->count + 1, sizeof(*ops->rows),
                     err) ||
            !lw_map_add(&a->map, hash, (uint32_t)ops->count + 1, err))
            return false;
        ops->rows[ops->count++] = key;
        found = (uint32_t)ops->count;
    }
    *row = found - 1;
    return true;
}

static enum role role_of(struct adding *a, lw_frame_id id)
{
    const struct lw_frame *frame = &a->frames[id];

    if (a->roles[id] == ROLE_UNASKED) {
        if (lw_op_tree_is_hidden(lw_profile_text(a->profile, frame->name)))
            a->roles[id] = ROLE_NONE;
        else if (frame->kind == LW_FRAME_OP)
            a->roles[id] = ROLE_OP;
        else
            a->roles[id] = frame->kind == LW_FRAME_MARK ? ROLE_RANGE : ROLE_NONE;
    }
    return (enum role)a->roles[id];
}

/* ---- nesting ------------------------------------------------------------------------ */

/* Make one of the older half of those that nothing holds. */
static void add_up_older(struct track *track)
{
    size_t half = track->count / 2;
    struct ended sum = { .start_ns = track->ended[0].start_ns, .row = LW_NONE };

    for (size_t i = 0; i < half; i++) {
        sum.duration_ns += track->ended[i].duration_ns;
        sum.count += track->ended[i].count;
    }
    track->ended[0] = sum;
    memmove(track->ended + 1, track->ended + half,
            (track->count - half) * sizeof(*track->ended));
    track->count -= half - 1;
}

static void add_to_row(struct lw_op_span_row *row, const struct ended *op)
{
    row->calls++;
    row->total_ns += op->duration_ns;
    row->self_ns = lw_op_plus(
        row->self_ns, lw_op_minus((int64_t)op->duration_ns, (int64_t)op->children_ns));
    if (op->duration_ns > row->longest_ns)
        row->longest_ns = op->duration_ns;
}

static void take_from_row(struct lw_op_span_row *row, const struct ended *op)
{
    row->calls--;
    row->total_ns -= op->duration_ns;
    row->self_ns = lw_op_minus(
        row->self_ns, lw_op_minus((int64_t)op->duration_ns, (int64_t)op->children_ns));
}

/* OP ends on TRACK: what began since it did is in it. */
static bool end_op(struct adding *a, struct track *track, struct ended op, bool is_op,
                   struct lw_error *err)
{
    struct ended only = { .row = LW_NONE };
    uint64_t children = 0;

    while (track->count > 0 && track->ended[track->count - 1].start_ns >= op.start_ns) {
        only = track->ended[--track->count];
        op.children_ns += only.duration_ns;
        children += only.count;
    }
    if (is_op && children == 1 && only.row == op.row) {
        take_from_row(&a->ops->rows[op.row], &only);
        op.children_ns = only.children_ns;
    }
    if (track->count >= MOST_ENDED)
        add_up_older(track);
    if (!lw_grow(&track->ended, &track->capacity, track->count + 1,
                 sizeof(*track->ended), err))
        return false;
    add_to_row(&a->ops->rows[op.row], &op);
    track->ended[track->count++] = op;
    return true;
}

static bool add_span(struct adding *a, const struct lw_span *span, struct lw_error *err)
{
    lw_frame_id frame = a->stacks[span->stack].frame;
    enum role role = span->stack == LW_NO_STACK ? ROLE_NONE : role_of(a, frame);
    struct ended op = { .start_ns = span->start_ns,
                        .duration_ns = span->duration_ns,
                        .count = 1 };

    return role == ROLE_NONE ||
           (find_row(a, frame, a->group ? a->group(a->owner, span) : 0, &op.row, err) &&
            end_op(a, &a->tracks[span->thread], op, role == ROLE_OP, err));
}

/* ---- order -------------------------------------------------------------------------- */

static uint64_t end_of(const struct lw_span *span)
{
    return span->start_ns + span->duration_ns;
}

static bool is_in_order(const struct lw_profile *profile, uint64_t *last_ends)
{
    for (size_t i = 0; i < profile->span_count; i++) {
        const struct lw_span *span = &profile->spans[i];

        if (end_of(span) < last_ends[span->thread])
            return false;
        last_ends[span->thread] = end_of(span);
    }
    return true;
}

static int compare_ends(const void *a, const void *b)
{
    const struct lw_span *x = *(const struct lw_span *const *)a;
    const struct lw_span *y = *(const struct lw_span *const *)b;

    if (end_of(x) != end_of(y))
        return end_of(x) < end_of(y) ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns > y->start_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Who writes a recording keeps to the order, but it may be anybody's file. */
static bool sort_spans(const struct lw_profile *profile, const struct lw_span ***sorted,
                       struct lw_error *err)
{
    uint64_t *last_ends = lw_zalloc(profile->thread_count + 1, sizeof(*last_ends), err);
    bool is_sorted = last_ends && is_in_order(profile, last_ends);

    *sorted = NULL;
    lw_free(last_ends);
    if (!last_ends || is_sorted)
        return is_sorted;
    *sorted = lw_alloc(profile->span_count * sizeof(**sorted), err);
    if (!*sorted)
        return false;
    for (size_t i = 0; i < profile->span_count; i++)
        (*sorted)[i] = &profile->spans[i];
    qsort(*sorted, profile->span_count, sizeof(**sorted), compare_ends);
    return true;
}

/* ---- all of it ---------------------------------------------------------------------- */

static bool add_all(struct adding *a, const bool *threads, struct lw_error *err)
{
    const struct lw_profile *profile = a->profile;
    const struct lw_span **sorted;
    bool done = sort_spans(profile, &sorted, err);

    for (size_t i = 0; done && i < profile->span_count; i++) {
        const struct lw_span *span = sorted ? sorted[i] : &profile->spans[i];

        if (!threads || threads[span->thread])
            done = add_span(a, span, err);
    }
    lw_free(sorted);
    return done;
}

/* Rows that nothing is left of were merged into others. */
static void finish(struct adding *a)
{
    struct lw_op_spans *ops = a->ops;
    size_t kept = 0;

    for (size_t i = 0; i < ops->count; i++) {
        const struct lw_op_span_row *row = &ops->rows[i];

        if (row->calls == 0)
            continue;
        ops->self_ns = lw_op_plus(ops->self_ns, row->self_ns);
        if (role_of(a, row->frame) == ROLE_OP)
            ops->op_count += row->calls;
        ops->rows[kept++] = *row;
    }
    ops->count = kept;
}

bool lw_op_spans_init(struct lw_op_spans *ops, const struct lw_profile *profile,
                      const bool *threads, lw_op_group *group, const void *owner,
                      struct lw_error *err)
{
    size_t frame_count, stack_count;
    struct adding a = {
        .ops = ops,
        .profile = profile,
        .frames = lw_stacks_frames(profile->stacks, &frame_count),
        .stacks = lw_stacks_list(profile->stacks, &stack_count),
        .group = group,
        .owner = owner,
    };
    bool done;

    memset(ops, 0, sizeof(*ops));
    lw_map_init(&a.map);
    a.tracks = lw_zalloc(profile->thread_count + 1, sizeof(*a.tracks), err);
    a.roles = a.tracks ? lw_zalloc(frame_count + 1, sizeof(*a.roles), err) : NULL;
    done = a.roles && add_all(&a, threads, err);
    if (done)
        finish(&a);
    for (size_t i = 0; a.tracks && i < profile->thread_count; i++)
        lw_free(a.tracks[i].ended);
    lw_free(a.tracks);
    lw_free(a.roles);
    lw_map_release(&a.map);
    return done;
}

void lw_op_spans_release(struct lw_op_spans *ops)
{
    lw_free(ops->rows);
    memset(ops, 0, sizeof(*ops));
}
