/* Who made the batches: the workers of a loader, each with what a batch cost it. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "worker", "process", LW_UNIT_TEXT, false },
    { "of", "of process", LW_UNIT_TEXT, false },
    { "batches", "batches", LW_UNIT_COUNT, false },
    { "batch_ns", "a batch", LW_UNIT_NS, false },
    { "fetch_ns", "fetch", LW_UNIT_NS, false },
    { "collate_ns", "collate", LW_UNIT_NS, false },
    { "busy_ns", "busy", LW_UNIT_NS, false },
    { "busy_share", "busy", LW_UNIT_SHARE, false },
    { "lived_ns", "from first to last", LW_UNIT_NS, false },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

/* Of what a worker's dataset called, so many are named, if they are so much of fetch and so
 * many samples of them were taken. */
#define FETCH_ROWS 3
#define FETCH_SHARE 0.05
#define FETCH_SAMPLES 5

static void add_pid(struct lw_table *table, uint64_t pid)
{
    char text[24];

    if (pid == 0) {
        lw_table_add_none(table);
        return;
    }
    snprintf(text, sizeof(text), "%" PRIu64, pid);
    lw_table_add_text(table, text, strlen(text));
}

static void add_worker(struct lw_steps_view *view, const struct lw_step_worker *worker)
{
    const struct lw_process *process = &view->profile->processes[worker->process];
    uint64_t busy_ns = worker->fetch_ns + worker->collate_ns;
    uint64_t lived_ns = worker->end_ns - worker->start_ns;
    uint64_t batches = worker->batches ? worker->batches : 1;
    struct lw_table *table = view->table;

    lw_table_row(table, 0);
    add_pid(table, process->pid);
    add_pid(table, process->parent_pid);
    lw_table_add_integer(table, (int64_t)worker->batches);
    lw_table_add_integer(table, (int64_t)(busy_ns / batches));
    lw_table_add_integer(table, (int64_t)(worker->fetch_ns / batches));
    lw_table_add_integer(table, (int64_t)(worker->collate_ns / batches));
    lw_table_add_integer(table, (int64_t)busy_ns);
    lw_analysis_add_share(table, (double)busy_ns, (double)lived_ns);
    lw_table_add_integer(table, (int64_t)lived_ns);
}

static void add_fetch(struct lw_steps_view *view, const struct lw_step_worker *worker,
                      const struct lw_called_list *calls)
{
    uint64_t batches = worker->batches ? worker->batches : 1;
    struct lw_table *table = view->table;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    for (size_t i = 0; i < calls->count && i < FETCH_ROWS; i++) {
        const struct lw_called *call = &calls->list[i];
        const char *name;

        if ((double)call->ns < FETCH_SHARE * (double)calls->ns ||
            call->samples < FETCH_SAMPLES)
            break;
        lw_buf_reset(&text);
        lw_called_add_name(calls, call, &text);
        name = lw_analysis_text(table, &text);
        lw_table_row(table, 1);
        lw_table_add_text(table, name, strlen(name));
        lw_table_add_none(table); /* of process */
        lw_table_add_none(table); /* batches */
        lw_table_add_none(table); /* a batch */
        lw_table_add_integer(table, (int64_t)(call->ns / batches));
        lw_table_add_none(table); /* collate */
        lw_table_add_integer(table, (int64_t)call->ns);
        lw_table_add_none(table); /* of its time */
        lw_table_add_none(table);
    }
    lw_buf_release(&text);
}

/* What the process that trains fetched itself, where no worker did. */
static void note_own(struct lw_steps_view *view)
{
    uint64_t batches = 0, ns[2] = { 0, 0 };
    struct lw_buf text;

    for (size_t t = 0; t < view->steps.track_count; t++)
        for (size_t i = 0; i < view->steps.tracks[t].call_count; i++) {
            const struct lw_step_call *call = &view->steps.tracks[t].calls[i];
            const char *name = lw_profile_text(view->profile, call->name);
            bool is_fetch = strcmp(name, "fetch") == 0;

            if (call->phase != LW_PHASE_DATA ||
                (!is_fetch && strcmp(name, "collate") != 0))
                continue;
            batches += is_fetch ? call->count : 0;
            ns[is_fetch ? 0 : 1] += call->ns;
        }
    if (batches == 0) {
        lw_table_note(view->table, "No worker of a DataLoader was seen.");
        return;
    }
    lw_buf_init(&text, 0);
    lw_units_add_counted(&text, (int64_t)batches, "batch");
    lw_buf_add_text(&text, batches == 1 ? " was made" : " were made");
    lw_buf_add_text(&text, " by the training itself (num_workers=0), a batch in ");
    lw_units_add_ns(&text, (int64_t)(ns[0] / batches));
    lw_buf_add_text(&text, " of fetch and ");
    lw_units_add_ns(&text, (int64_t)(ns[1] / batches));
    lw_buf_add_text(&text, " of collate");
    lw_table_note(view->table, "%s.", lw_analysis_text(view->table, &text));
    lw_buf_release(&text);
}

static bool add_workers(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;
    struct lw_called_list *fetches =
        lw_zalloc(steps->worker_count + 1, sizeof(*fetches), err);
    bool done = fetches && lw_steps_find_fetches(fetches, steps, err);

    for (size_t i = 0; fetches && i < steps->worker_count; i++) {
        if (done) {
            add_worker(view, &steps->workers[i]);
            add_fetch(view, &steps->workers[i], &fetches[i]);
        }
        lw_called_release(&fetches[i]);
    }
    lw_free(fetches);
    return done;
}

bool lw_steps_by_worker(struct lw_steps_view *view, struct lw_error *err)
{
    const struct lw_steps *steps = &view->steps;
    uint64_t batches = 0;
    struct lw_buf text;

    lw_table_init(view->table, columns, COLUMN_COUNT);
    if (!add_workers(view, err))
        return false;
    for (size_t i = 0; i < steps->worker_count; i++)
        batches += steps->workers[i].batches;
    lw_buf_init(&text, 0);
    lw_units_add_count(&text, (int64_t)batches);
    lw_table_set_title(view->table, "who made the batches: %zu worker%s, %s batch%s",
                       steps->worker_count, steps->worker_count == 1 ? "" : "s",
                       lw_analysis_text(view->table, &text), batches == 1 ? "" : "es");
    lw_buf_release(&text);
    if (steps->worker_count == 0)
        note_own(view);
    else
        lw_table_note(view->table,
                      "Busy is fetch and collate, of the time from a worker's first "
                      "batch to its last; sending a batch is in neither. Below a "
                      "worker: what its dataset called in fetch, by its samples.");
    return true;
}
