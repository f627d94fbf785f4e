/* One look at one process: names, threads, rings, trees; then one flush. */

#include "recorder/watched.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "recorder/facts.h"

/* What the agent lost, in the words of a report: "CAUSE: 12 UNIT". */
static const struct {
    const char *cause;
    const char *unit;
} losses[LW_LOSS_COUNT] = {
    [LW_LOST_NODES] = { "call tree full, paths folded under (more)", "calls" },
    [LW_LOST_FUNCTIONS] = { "function table full, shown as (unknown)", "functions" },
    [LW_LOST_THREADS] = { "no free thread slot", "threads" },
    [LW_LOST_RECORDS] = { "ring full", "spans" },
    [LW_LOST_MISMATCH] = { "returns without a call (greenlets, foreign hooks)",
                           "returns" },
    [LW_LOST_HOOKED] = { "the program's own profile function shut ours out", "times" },
    [LW_LOST_NAMES] = { "name log full", "names" },
    [LW_LOST_FORKS] = { "forked, but the recorder was stopped or busy, or memory or "
                        "descriptors ran out",
                        "processes" },
    [LW_LOST_TOOLS] = { "the program had all tool ids of sys.monitoring, and no call was "
                        "counted meanwhile",
                        "times" },
    [LW_LOST_DEEP] = { "deep recursion under the program's own profile function, whose calls "
                       "were not counted",
                       "times" },
    [LW_LOST_GETITEM] = { "the program's own profile function shut ours out, which alone "
                          "sees a[i] call a __getitem__",
                          "times" },
    [LW_LOST_ROOM] = { "no address space for a ring (ulimit -v)", "spans" },
};

/* What a counter that has jumped cannot be told apart from: a look that came late. */
#define JUMP_SLACK_NS 10000000u

static void free_watched(struct lw_watched *watched)
{
    if (watched->pid_fd >= 0)
        close(watched->pid_fd);
    lw_name_log_release(&watched->log);
    lw_trees_release(&watched->trees);
    lw_shared_close(&watched->shared);
    lw_samples_release(&watched->samples);
    lw_free(watched->threads);
    lw_free(watched->rows);
    lw_free(watched);
}

static bool write_facts(struct lw_watched *watched,
                        const struct lw_watched_facts *facts, uint64_t start_ns,
                        struct lw_error *err)
{
    struct lw_lap_writer *writer = watched->writer;
    bool c_calls = watched->shared.flags & LW_AGENT_C_CALLS;

    return lw_lap_writer_meta_u64(writer, "pid", facts->pid, err) &&
           lw_lap_writer_meta_u64(writer, "ppid",
                                  watched->shared.bytes ? watched->shared.parent_pid
                                                        : facts->parent_pid,
                                  err) &&
           (facts->rank < 0 ||
            lw_lap_writer_meta_u64(writer, "rank", (uint64_t)facts->rank, err)) &&
           (!facts->command ||
            lw_lap_writer_meta(writer, "command", facts->command, err)) &&
           (!facts->python ||
            lw_lap_writer_meta(writer, "python", facts->python, err)) &&
           lw_lap_writer_meta_u64(writer, "start_ns", start_ns, err) &&
           lw_lap_writer_meta_u64(writer, "c_calls", c_calls, err) &&
           lw_lap_writer_meta(
               writer, "clock",
               watched->shared.clock == LW_CLOCK_TSC ? "tsc" : "monotonic", err);
}

static bool open_shared(struct lw_watched *watched, int fd, struct lw_error *err)
{
    struct lw_shared *shared = &watched->shared;

    if (!lw_shared_open(shared, fd, err) ||
        !(watched->threads =
              lw_zalloc(shared->thread_slots, sizeof(*watched->threads), err)))
        return false;
    return true;
}

struct lw_watched *lw_watched_open(const struct lw_folder *folder, uint32_t number,
                                   int fd, int pid_fd,
                                   const struct lw_watched_facts *facts,
                                   struct lw_error *err)
{
    struct lw_watched *watched = lw_zalloc(1, sizeof(*watched), err);
    struct lw_lap_writer_options options = { .segment_bytes = facts->segment_bytes };
    struct lw_shared *shared;

    if (!watched)
        return NULL;
    shared = &watched->shared;
    watched->pid = facts->pid;
    watched->pid_fd = -1;
    watched->number = number;
    watched->image = lw_facts_image((pid_t)facts->pid);
    lw_name_log_init(&watched->log);
    lw_trees_init(&watched->trees);
    if ((fd >= 0 && !open_shared(watched, fd, err)) ||
        !(watched->writer = lw_lap_writer_open(folder, number, &options, err)))
        goto fail;
    watched->round_ns = fd >= 0 ? shared->start_ns : lw_clock_ns();
    watched->told_ns = watched->round_ns;
    if (write_facts(watched, facts, watched->round_ns, err)) {
        watched->pid_fd = pid_fd;
        return watched;
    }

fail:
    if (watched->writer && !lw_lap_writer_close(watched->writer, NULL)) {
        /* The sentence in ERR is the one that counts. */
    }
    free_watched(watched);
    return NULL;
}

bool lw_watched_join(struct lw_watched *watched, int fd,
                     const struct lw_watched_facts *facts, struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;
    uint64_t adopted_ns = watched->round_ns; /* there was no round without an agent */

    if (open_shared(watched, fd, err) &&
        write_facts(watched, facts,
                    adopted_ns < shared->start_ns ? adopted_ns : shared->start_ns,
                    err)) {
        watched->round_ns = shared->start_ns;
        watched->told_ns = watched->round_ns;
        return true;
    }
    lw_shared_close(&watched->shared);
    lw_free(watched->threads);
    watched->threads = NULL;
    return false;
}

/* ---- threads ---------------------------------------------------------------------- */

/* Is there a thread in the slot that we have not finished with? An agent that takes a
 * slot holds it in state ENDED for a moment: then it is of a generation we know to be
 * over, or has no end yet. */
static bool slot_is_taken(const struct lw_watched_thread *thread,
                          struct lw_agent_thread *slot)
{
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint32_t generation = atomic_load(&slot->generation);

    if (state == LW_THREAD_LIVE)
        return true;
    return state == LW_THREAD_ENDED && generation != thread->read_generation &&
           atomic_load(&slot->end_ticks) != 0;
}

static bool update_name(struct lw_watched *watched, struct lw_watched_thread *thread,
                        struct lw_agent_thread *slot, bool *changed,
                        struct lw_error *err)
{
    char name[sizeof(thread->name)];
    uint32_t len = atomic_load_explicit(&slot->name_len, memory_order_acquire);

    *changed = false;
    if (len > sizeof(name))
        len = sizeof(name);
    memcpy(name, slot->name, len); /* what is behind it may be written right now */
    if (len == thread->name_len && memcmp(name, thread->name, len) == 0)
        return true;
    if (!lw_lap_writer_string(watched->writer, name, len, &thread->row.name, err))
        return false;
    memcpy(thread->name, name, len);
    thread->name_len = len;
    *changed = true;
    return true;
}

static bool add_thread(struct lw_watched *watched, struct lw_watched_thread *thread,
                       struct lw_agent_thread *slot, uint32_t generation,
                       const struct lw_calibration *calibration, struct lw_error *err)
{
    bool changed;

    memset(&thread->row, 0, sizeof(thread->row));
    thread->name_len = 0;
    thread->row.tid = slot->tid;
    thread->row.start_ns =
        lw_calibration_ns(calibration, watched->shared.clock, slot->start_ticks);
    if (!update_name(watched, thread, slot, &changed, err) ||
        (!lw_samples_thread_number(&watched->samples, slot->tid,
                                   &thread->ring.thread) &&
         !lw_lap_writer_thread(watched->writer, &thread->row, &thread->ring.thread,
                               err)))
        return false;
    thread->ring.generation = generation;
    thread->is_known = true;
    thread->is_over = false;
    thread->quiet_looks = 0;
    thread->jump_ticks = 0;
    return true;
}

/* Bring what is known of the slot's thread up to date; is_known says whether there is
 * one to look at. */
static bool meet_thread(struct lw_watched *watched, struct lw_watched_thread *thread,
                        struct lw_agent_thread *slot,
                        const struct lw_watched_look *look, struct lw_error *err)
{
    uint32_t generation = atomic_load(&slot->generation);
    bool changed = false;

    if (!slot_is_taken(thread, slot)) {
        thread->is_known = false;
        return true;
    }
    if (!thread->is_known || thread->ring.generation != generation) {
        if (!add_thread(watched, thread, slot, generation, look->calibration, err))
            return false;
    } else if (!update_name(watched, thread, slot, &changed, err)) {
        return false;
    }
    if (atomic_load_explicit(&slot->state, memory_order_acquire) == LW_THREAD_ENDED) {
        thread->is_over = true;
        thread->row.end_ns = lw_calibration_ns(look->calibration, watched->shared.clock,
                                               atomic_load(&slot->end_ticks));
        changed = true;
    }
    return !changed || lw_lap_writer_update_thread(watched->writer, thread->ring.thread,
                                                   &thread->row, err);
}

/* After a look that told everything: the agent may use the slot again. */
static void let_go(struct lw_watched_thread *thread, struct lw_agent_thread *slot)
{
    uint32_t ended = LW_THREAD_ENDED;

    thread->read_generation = thread->ring.generation;
    thread->is_known = false;
    atomic_compare_exchange_strong(&slot->state, &ended, LW_THREAD_READ);
}

/* ---- trees ------------------------------------------------------------------------ */

/* Count in *QUIET how often in a row the slot's last event was *LAST, the same. */
static void count_quiet(struct lw_agent_thread *slot, uint64_t *last, unsigned *quiet)
{
    uint64_t now = atomic_load_explicit(&slot->last_ticks, memory_order_acquire);

    *quiet = now == *last ? *quiet + 1 : 0;
    *last = now;
}

/* The call a thread is in has run since `last_ticks`, which is in no node yet. While
 * the program lives, that is believed only if nothing has moved since this was first
 * seen: else an event may be half stored, and its time would be told twice. One put aside
 * after it read the clock and before it stored anything looks like a long call, and is
 * told too long; the node makes up for that with the time of its next calls. */
static bool tell_running(struct lw_watched *watched, struct lw_watched_thread *thread,
                         struct lw_agent_thread *slot,
                         const struct lw_tree_context *context, uint64_t now,
                         bool is_last, struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;
    uint64_t last = atomic_load_explicit(&slot->last_ticks, memory_order_acquire);
    uint32_t current = atomic_load_explicit(&slot->current, memory_order_acquire);
    uint32_t function = 0;
    uint64_t self = 0;
    uint64_t elapsed = now - last - thread->jump_ticks;
    bool same_call, has_moved;

    if (current < shared->node_count) {
        struct lw_agent_node *node;

        if (!lw_shared_reach_node(shared, current, err))
            return false;
        node = lw_shared_node(shared, current);
        function = atomic_load_explicit(&node->function, memory_order_acquire);
        self = atomic_load_explicit(&node->self_ticks, memory_order_relaxed);
    }
    same_call = last == thread->last_ticks && current == thread->current &&
                thread->quiet_looks > 0;
    has_moved = same_call ? self != thread->current_self : !is_last;
    if (!same_call) {
        thread->current = current;
        thread->current_self = self;
    }
    if (has_moved || function == 0 || function == LW_FUNCTION_ROOT ||
        (int64_t)elapsed <= 0)
        return true;
    return lw_trees_run_ahead(&watched->trees, context, current, thread->ring.thread,
                              self + elapsed, err);
}

/* Hand the collected changes to the writer, all or none. */
static bool write_changes(struct lw_watched *watched,
                          const struct lw_watched_look *look, struct lw_error *err)
{
    struct lw_trees *trees = &watched->trees;

    if (!lw_grow(&watched->rows, &watched->row_capacity, trees->change_count,
                 sizeof(*watched->rows), err))
        return false;
    for (size_t i = 0; i < trees->change_count; i++) {
        const struct lw_tree_change *change = &trees->changes[i];

        watched->rows[i].thread = change->thread;
        watched->rows[i].stack = change->stack;
        watched->rows[i].calls = change->calls;
        watched->rows[i].self_ns = lw_calibration_span_ns(
            look->calibration, watched->shared.clock, change->self_ticks);
    }
    return trees->change_count == 0 ||
           lw_lap_writer_calls(watched->writer, watched->rows, trees->change_count,
                               watched->window_ns, lw_clock_ns(), err);
}

/* A round visits every block once, over as many looks as it takes. Blocks of threads
 * that had no event are left out; the agent counts a call just after it stamps the
 * time, so a thread counts as quiet only when it has been so for two rounds. */
static void start_round(struct lw_watched *watched, bool is_last)
{
    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];

        thread->has_news = false;
        if (!thread->is_known)
            continue;
        count_quiet(lw_shared_thread(&watched->shared, slot), &thread->round_ticks,
                    &thread->quiet_rounds);
        thread->has_news = thread->quiet_rounds < 2 || thread->is_over || is_last ||
                           watched->has_missed;
        thread->is_last_round = thread->is_over;
    }
    watched->has_missed = false;
    watched->is_in_round = true;
    watched->next_block = 0;
    watched->window_ns = watched->round_ns;
    watched->round_ns = lw_clock_ns();
}

/* The node whose running call is told ahead, unless that has returned by now; 0: none. */
static uint32_t node_told_ahead(const struct lw_watched *watched, uint32_t slot)
{
    const struct lw_watched_thread *thread = &watched->threads[slot];
    uint64_t last = atomic_load_explicit(
        &lw_shared_thread(&watched->shared, slot)->last_ticks, memory_order_acquire);

    return thread->is_known && last == thread->last_ticks ? thread->current : 0;
}

/* Go on with the round until it is complete or *BUDGET_NS is used up. */
static bool scan_blocks(struct lw_watched *watched,
                        const struct lw_tree_context *context, uint64_t *budget_ns,
                        struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;
    uint32_t blocks = lw_shared_blocks_used(shared);
    uint64_t start_ns = lw_clock_ns(), spent_ns = 0;

    while (watched->next_block < blocks && (!budget_ns || spent_ns < *budget_ns)) {
        uint32_t block = watched->next_block++;
        uint32_t slot = lw_shared_block_owner(shared, block);

        if (slot == LW_NO_SLOT || !watched->threads[slot].has_news)
            continue;
        watched->trees.ahead = node_told_ahead(watched, slot);
        if (!lw_trees_scan(&watched->trees, context, block,
                           watched->threads[slot].ring.thread, err))
            return false;
        spent_ns = lw_clock_ns() - start_ns;
    }
    watched->is_in_round = watched->next_block < blocks;
    if (budget_ns)
        *budget_ns -= spent_ns < *budget_ns ? spent_ns : *budget_ns;
    return true;
}

/* IS_IDLE: no ring had a record. */
static bool tell_all_running(struct lw_watched *watched,
                             const struct lw_tree_context *context,
                             const struct lw_watched_look *look, bool is_idle,
                             struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;
    uint64_t now;

    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];

        if (!thread->is_known)
            continue;
        count_quiet(lw_shared_thread(shared, slot), &thread->last_ticks,
                    &thread->quiet_looks);
        is_idle = is_idle && thread->quiet_looks > 0;
    }
    /* Where nothing happens at all, it may be because the program is gone: a call that
     * never returns from exec would seem to run for ever. */
    if (is_idle && !look->is_last && watched->image != 0) {
        uint64_t image = lw_facts_image((pid_t)watched->pid);

        watched->is_replaced = image != 0 && image != watched->image;
    }
    now = look->end_ticks ? look->end_ticks : lw_calibration_now(shared->clock);
    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];

        if (thread->is_known && !thread->is_over && !watched->is_replaced &&
            !tell_running(watched, thread, lw_shared_thread(shared, slot), context, now,
                          look->is_last, err))
            return false;
    }
    return true;
}

/* THREAD had its last event before the counter jumped: the time that goes to its node with
 * the next event is not to be told as it is. */
static bool follow_jump(struct lw_watched *watched, struct lw_watched_thread *thread,
                        struct lw_agent_thread *slot,
                        const struct lw_calibration *calibration, struct lw_error *err)
{
    uint64_t last = atomic_load_explicit(&slot->last_ticks, memory_order_acquire);

    if (thread->jump_ticks != 0 && last != thread->jump_last) {
        if (thread->jump_node < watched->shared.node_count &&
            !lw_trees_pass_over(&watched->trees, &watched->shared, thread->jump_node,
                                thread->jump_ticks, err))
            return false;
        thread->jump_ticks = 0;
    }
    if (watched->jump_count != calibration->jump_count &&
        lw_calibration_is_past(calibration, watched->shared.clock, last)) {
        thread->jump_ticks += calibration->jump_ticks - watched->jump_ticks;
        thread->jump_last = last;
        thread->jump_node = atomic_load_explicit(&slot->current, memory_order_acquire);
    }
    return true;
}

/* Before the trees are read: what has to be known of a counter that has ever jumped. Time
 * that it added to a node, or took away, is found by being more than has passed. */
static bool follow_jumps(struct lw_watched *watched,
                         const struct lw_calibration *calibration, struct lw_error *err)
{
    if (watched->shared.clock != LW_CLOCK_TSC || calibration->jump_count == 0)
        return true;
    watched->trees.self_most =
        (uint64_t)((double)(lw_clock_ns() - watched->told_ns + JUMP_SLACK_NS) /
                   calibration->ns_per_tick);
    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        if (watched->threads[slot].is_known &&
            !follow_jump(watched, &watched->threads[slot],
                         lw_shared_thread(&watched->shared, slot), calibration, err))
            return false;
    }
    watched->jump_count = calibration->jump_count;
    watched->jump_ticks = calibration->jump_ticks;
    return true;
}

static bool read_trees(struct lw_watched *watched,
                       const struct lw_tree_context *context,
                       const struct lw_watched_look *look, bool rings_were_empty,
                       struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;

    if (!follow_jumps(watched, look->calibration, err))
        return false;
    if (!watched->is_in_round || look->is_last)
        start_round(watched, look->is_last);
    if (!scan_blocks(watched, context, look->is_last ? NULL : look->budget_ns, err) ||
        !tell_all_running(watched, context, look, rings_were_empty, err) ||
        !write_changes(watched, look, err)) {
        lw_trees_abandon(&watched->trees, shared);
        watched->is_in_round = false;
        watched->has_missed = true;
        return false;
    }
    lw_trees_commit(&watched->trees);
    if (!watched->is_in_round)
        watched->told_ns = watched->window_ns;
    for (uint32_t slot = 0; !watched->is_in_round && slot < watched->slot_count;
         slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];

        if (thread->is_known && thread->is_last_round)
            let_go(thread, lw_shared_thread(shared, slot));
    }
    return true;
}

/* ---- the look --------------------------------------------------------------------- */

static bool tell_losses(struct lw_watched *watched, struct lw_error *err)
{
    struct lw_agent_header *header = lw_shared_header(&watched->shared);
    uint64_t strange = watched->strange_records + watched->trees.damaged_nodes +
                       (watched->log.damaged ? 1 : 0);

    for (unsigned i = 0; i < LW_LOSS_COUNT; i++) {
        uint64_t lost = atomic_load_explicit(&header->lost[i], memory_order_relaxed);
        const char *cause = losses[i].cause ? losses[i].cause : "a cause newer than us";
        const char *unit = losses[i].unit ? losses[i].unit : "events";

        if (lost <= watched->told_lost[i])
            continue;
        if (!lw_lap_writer_loss(watched->writer, cause, unit,
                                lost - watched->told_lost[i], err))
            return false;
        watched->told_lost[i] = lost;
    }
    if (strange > watched->told_strange) {
        if (!lw_lap_writer_loss(watched->writer, "made no sense in shared memory",
                                "records", strange - watched->told_strange, err))
            return false;
        watched->told_strange = strange;
    }
    return true;
}

static bool has_records(const struct lw_watched *watched,
                        const struct lw_watched_thread *thread)
{
    struct lw_agent_ring *ring = lw_shared_ring(&watched->shared, thread->ring.slot);

    return thread->is_known &&
           atomic_load_explicit(&ring->head, memory_order_acquire) != thread->ring.tail;
}

/* The scratch is large, and most processes have nothing to say most of the time. */
static bool read_rings(struct lw_watched *watched,
                       const struct lw_tree_context *context,
                       const struct lw_watched_look *look, double *ring_fill,
                       struct lw_error *err)
{
    struct lw_ring_reader reader = {
        .trees = &watched->trees,
        .context = context,
        .calibration = look->calibration,
    };
    bool done = true;

    for (uint32_t slot = 0; done && slot < watched->slot_count; slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];
        double fill = 0;

        if (!has_records(watched, thread))
            continue;
        done = (reader.spans || lw_ring_reader_init(&reader, err)) &&
               lw_ring_read(&reader, &thread->ring, &fill, err);
        if (fill > *ring_fill)
            *ring_fill = fill;
    }
    watched->strange_records += reader.strange_records;
    lw_ring_reader_release(&reader);
    return done;
}

/* The agent's number of a thread, if it has seen it. */
static bool find_agent_thread(void *owner, uint64_t tid, uint32_t *number)
{
    const struct lw_watched *watched = owner;

    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        const struct lw_watched_thread *thread = &watched->threads[slot];

        if (thread->is_known && thread->row.tid == tid) {
            *number = thread->ring.thread;
            return true;
        }
    }
    return false;
}

bool lw_watched_sample(struct lw_watched *watched, struct lw_sampler *sampler,
                       struct lw_target *target, struct lw_error *err)
{
    return lw_samples_start(&watched->samples, sampler, target, err);
}

/* What the agent has put into the shared memory. */
static bool read_shared(struct lw_watched *watched, const struct lw_watched_look *look,
                        double *ring_fill, struct lw_error *err)
{
    const struct lw_shared *shared = &watched->shared;
    const struct lw_tree_context context = {
        .shared = shared,
        .log = &watched->log,
        .writer = watched->writer,
    };

    lw_shared_tidy(shared);
    if (!lw_name_log_read(&watched->log, shared, watched->writer, err))
        return false;
    watched->slot_count = lw_shared_slots_used(shared, watched->slot_count);
    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        watched->threads[slot].ring.slot = slot;
        if (!meet_thread(watched, &watched->threads[slot],
                         lw_shared_thread(shared, slot), look, err))
            return false;
    }
    if (!lw_shared_reach_rings(shared, watched->slot_count, err) ||
        !read_rings(watched, &context, look, ring_fill, err))
        return false;
    if (!read_trees(watched, &context, look, *ring_fill == 0, err))
        return false;
    return tell_losses(watched, err);
}

/* Everything but the flush. */
static bool collect(struct lw_watched *watched, const struct lw_watched_look *look,
                    double *ring_fill, struct lw_error *err)
{
    return (!watched->shared.bytes || read_shared(watched, look, ring_fill, err)) &&
           (!watched->samples.sampled ||
            lw_samples_read(&watched->samples, watched->writer, find_agent_thread,
                            watched, err));
}

bool lw_watched_read(struct lw_watched *watched, const struct lw_watched_look *look,
                     double *ring_fill, struct lw_error *err)
{
    bool done;

    *ring_fill = 0;
    done = collect(watched, look, ring_fill, err);
    if (watched->shared.bytes && !watched->is_in_round)
        atomic_fetch_add(&lw_shared_header(&watched->shared)->recorder_reads, 1);
    return lw_lap_writer_flush(watched->writer, done ? err : NULL) && done;
}

bool lw_watched_is_over(const struct lw_watched *watched)
{
    if (!watched->shared.bytes) {
        uint64_t image = lw_facts_image((pid_t)watched->pid);

        return image != 0 && image != watched->image && watched->samples.sampled &&
               !lw_sampled_lives(watched->samples.sampler, watched->samples.sampled);
    }
    return watched->is_replaced ||
           atomic_load_explicit(&lw_shared_header(&watched->shared)->state,
                                memory_order_acquire) == LW_AGENT_FINISHED;
}

static bool write_ends(struct lw_watched *watched, uint64_t end_ns, int exit_code,
                       struct lw_error *err)
{
    for (uint32_t slot = 0; slot < watched->slot_count; slot++) {
        struct lw_watched_thread *thread = &watched->threads[slot];

        if (!thread->is_known)
            continue;
        thread->row.end_ns = end_ns;
        if (!lw_lap_writer_update_thread(watched->writer, thread->ring.thread,
                                         &thread->row, err))
            return false;
    }
    return (!watched->samples.sampled ||
            lw_samples_end(&watched->samples, watched->writer, err)) &&
           lw_lap_writer_meta_u64(watched->writer, "end_ns", end_ns, err) &&
           (exit_code < 0 || lw_lap_writer_meta_u64(watched->writer, "exit_code",
                                                    (uint64_t)exit_code, err));
}

/* When the process was last seen to do something, or LOOK says, or now. */
static uint64_t end_of(const struct lw_watched *watched,
                       const struct lw_watched_look *look)
{
    uint64_t ticks = look->end_ticks;

    if (watched->is_replaced) {
        for (uint32_t slot = 0; slot < watched->slot_count; slot++)
            if (watched->threads[slot].last_ticks > ticks)
                ticks = watched->threads[slot].last_ticks;
    }
    return ticks ? lw_calibration_ns(look->calibration, watched->shared.clock, ticks)
                 : lw_clock_ns();
}

bool lw_watched_close(struct lw_watched *watched, const struct lw_watched_look *look,
                      int exit_code, struct lw_error *err)
{
    uint64_t end_ns = end_of(watched, look);
    double ring_fill = 0;
    bool done = collect(watched, look, &ring_fill, err);

    done = write_ends(watched, end_ns, exit_code, done ? err : NULL) && done;
    done = lw_lap_writer_close(watched->writer, done ? err : NULL) && done;
    free_watched(watched);
    return done;
}
