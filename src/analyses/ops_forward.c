/* Ops with the backward ops that came of them (model/op_links.h), added up by the line that
 * asked for them: what a line of a model costs in both passes. */

#include "analyses/ops_forward.h"

#include <inttypes.h>
#include <string.h>

#include "analyses/op_windows.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/op_links.h"
#include "model/units.h"

static const struct lw_column columns[] = {
    { "calls", "calls", LW_UNIT_COUNT, false },
    { "forward_ns", "forward", LW_UNIT_NS, false },
    { "backward_calls", "backward calls", LW_UNIT_COUNT, false },
    { "backward_ns", "backward", LW_UNIT_NS, false },
    { "total_ns", "both", LW_UNIT_NS, false },
    { "total_share", "share", LW_UNIT_SHARE, false },
    { "name", "op", LW_UNIT_TEXT, true },
    { "backward_name", "backward op", LW_UNIT_TEXT, true },
    { "line", "called from", LW_UNIT_TEXT, true },
};

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

struct row {
    lw_frame_id forward, backward; /* ops */
    lw_frame_id function;          /* whose line asked for it; 0: not known */
    uint32_t line;
    uint64_t calls, backward_calls;
    uint64_t forward_ns, backward_ns;
};

struct showing {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    struct lw_op_links links;
    struct row *rows; /* owned; in the order in which each was first met */
    size_t count, capacity;
    struct lw_map map;   /* of rows: index + 1 */
    uint8_t *was_met;    /* owned; a bit a span: its time as a forward op is in */
    struct row together; /* of all rows */
    struct lw_table *table;
};

/* ---- rows --------------------------------------------------------------------------- */

static bool same_row(const void *owner, uint32_t number, const void *key)
{
    const struct row *a = &((const struct showing *)owner)->rows[number - 1], *b = key;

    return a->forward == b->forward && a->backward == b->backward &&
           a->function == b->function && a->line == b->line;
}

static struct row *find_row(struct showing *s, const struct row *key,
                            struct lw_error *err)
{
    uint64_t hash = lw_hash_u64((uint64_t)key->forward << 32 | key->backward) ^
                    lw_hash_u64((uint64_t)key->function << 32 | key->line);
    uint32_t found = lw_map_find(&s->map, hash, same_row, s, key);

    if (!found) {
        if (!lw_grow(&s->rows, &s->capacity, s->count + 1, sizeof(*s->rows), err) ||
            !lw_map_add(&s->map, hash, (uint32_t)s->count + 1, err))
            return NULL;
        s->rows[s->count++] = *key;
        found = (uint32_t)s->count;
    }
    return &s->rows[found - 1];
}

/* An op may have several backward passes (retain_graph): its own time counts once. */
static bool is_new(struct showing *s, uint32_t span)
{
    uint8_t bit = (uint8_t)(1u << span % 8);
    bool was_there = s->was_met[span / 8] & bit;

    s->was_met[span / 8] |= bit;
    return !was_there;
}

static void add_link(struct row *row, const struct lw_span *forward,
                     const struct lw_span *backward)
{
    if (forward) {
        row->calls++;
        row->forward_ns += forward->duration_ns;
    }
    row->backward_calls++;
    row->backward_ns += backward->duration_ns;
}

static bool add_links(struct showing *s, const bool *threads, struct lw_error *err)
{
    const struct lw_span *spans = s->profile->spans;

    for (size_t i = 0; i < s->links.count; i++) {
        const struct lw_op_link *link = &s->links.list[i];
        const struct lw_span *forward = &spans[link->forward];
        const struct lw_span *backward = &spans[link->backward];
        struct row key = {
            .forward = s->stacks[forward->stack].frame,
            .backward = s->stacks[backward->stack].frame,
            .function = link->function,
            .line = link->line,
        };
        struct row *row;

        if (threads && !threads[forward->thread])
            continue;
        row = find_row(s, &key, err);
        if (!row)
            return false;
        if (!is_new(s, link->forward))
            forward = NULL;
        add_link(row, forward, backward);
        add_link(&s->together, forward, backward);
    }
    return true;
}

/* ---- the table ---------------------------------------------------------------------- */

static void add_frame(const struct showing *s, lw_frame_id id)
{
    lw_string_id name = lw_profile_frame(s->profile, id)->name;

    lw_table_add_text(s->table, lw_profile_text(s->profile, name),
                      lw_strings_len(s->profile->strings, name));
}

/* "model.py:12(Net.forward)" */
static void add_line(const struct showing *s, const struct row *row)
{
    const struct lw_frame *frame = lw_profile_frame(s->profile, row->function);
    struct lw_buf text;

    if (row->function == 0) {
        lw_table_add_none(s->table);
        return;
    }
    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "%s:%" PRIu32 "(%s)",
                lw_text_basename(lw_profile_text(s->profile, frame->file)), row->line,
                lw_profile_text(s->profile, frame->name));
    lw_table_add_text(s->table, lw_analysis_text(s->table, &text), text.len);
    lw_buf_release(&text);
}

static void add_row(const struct showing *s, const struct row *row)
{
    const struct row *all = &s->together;
    struct lw_table *table = s->table;

    lw_table_row(table, 0);
    lw_table_add_integer(table, (int64_t)row->calls);
    lw_table_add_integer(table, (int64_t)row->forward_ns);
    lw_table_add_integer(table, (int64_t)row->backward_calls);
    lw_table_add_integer(table, (int64_t)row->backward_ns);
    lw_table_add_integer(table, (int64_t)(row->forward_ns + row->backward_ns));
    lw_analysis_add_share(table, (double)(row->forward_ns + row->backward_ns),
                          (double)(all->forward_ns + all->backward_ns));
    add_frame(s, row->forward);
    add_frame(s, row->backward);
    add_line(s, row);
}

/* "1,234 backward ops of 1,200 ops in 41 rows; 12.3 ms forward, 23.4 ms backward" */
static void set_title(const struct showing *s)
{
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_units_add_counted(&text, (int64_t)s->together.backward_calls, "backward op");
    lw_buf_add_text(&text, " of ");
    lw_units_add_counted(&text, (int64_t)s->together.calls, "op");
    lw_buf_add_text(&text, " in ");
    lw_units_add_count(&text, (int64_t)s->count);
    lw_buf_addf(&text, " row%s; ", s->count == 1 ? "" : "s");
    lw_units_add_ns(&text, (int64_t)s->together.forward_ns);
    lw_buf_add_text(&text, " forward, ");
    lw_units_add_ns(&text, (int64_t)s->together.backward_ns);
    lw_buf_add_text(&text, " backward");
    lw_table_set_title(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static void note_lines(const struct showing *s)
{
    size_t known = 0;

    for (size_t i = 0; i < s->count; i++)
        known += s->rows[i].function != 0;
    lw_table_note(
        s->table, "%s",
        known ? "An op's line is the innermost that is not torch's own; each "
                "op is the one that torch made the backward op for."
              : "Which lines asked for these ops is not known: no Python did, or "
                "one whose frames are not as those we know.");
}

static void note_lone(const struct showing *s)
{
    struct lw_buf text;

    if (s->links.lone_count == 0)
        return;
    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)s->links.lone_count);
    lw_buf_addf(&text, " more backward op%s, ", s->links.lone_count == 1 ? "" : "s");
    lw_units_add_ns(&text, (int64_t)s->links.lone_ns);
    lw_buf_add_text(&text, ", came of what is not in the recording.");
    lw_table_note(s->table, "%s", lw_analysis_text(s->table, &text));
    lw_buf_release(&text);
}

static bool make_table(const struct showing *s, const struct lw_query *asked,
                       struct lw_error *err)
{
    struct lw_query query = *asked; /* borrows what it refers to */

    lw_table_init(s->table, columns, COLUMN_COUNT);
    set_title(s);
    for (size_t i = 0; i < s->count; i++)
        add_row(s, &s->rows[i]);
    note_lines(s);
    note_lone(s);
    if (!lw_op_windows_note(s->profile, s->table, err))
        return false;
    lw_analysis_note_losses(s->profile, s->table);
    if (query.column_count == 0)
        query.columns[query.column_count++] = "total_ns";
    return lw_analysis_arrange(s->table, &query, err);
}

static bool check_links(const struct showing *s, struct lw_error *err)
{
    if (s->count > 0)
        return true;
    if (s->links.count > 0)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "no op of these threads had a backward pass");
    return lw_fail(
        err, LW_ERR_UNSUPPORTED,
        "this run has no backward ops whose forward op is known: nothing was "
        "trained while ops were recorded, or an older lapwing recorded it");
}

bool lw_ops_forward(const struct lw_profile *profile, const struct lw_query *query,
                    struct lw_table *table, struct lw_error *err)
{
    size_t stack_count;
    struct showing s = {
        .profile = profile,
        .stacks = lw_stacks_list(profile->stacks, &stack_count),
        .table = table,
    };
    bool *threads = NULL;
    bool done;

    lw_map_init(&s.map);
    s.was_met = lw_zalloc(profile->span_count / 8 + 1, sizeof(*s.was_met), err);
    done = s.was_met && lw_query_threads(query, profile, &threads, err) &&
           lw_op_links_init(&s.links, profile, err) && add_links(&s, threads, err) &&
           check_links(&s, err) && make_table(&s, query, err);
    lw_op_links_release(&s.links);
    lw_map_release(&s.map);
    lw_free(s.rows);
    lw_free(s.was_met);
    lw_free(threads);
    return done;
}
