/* Collapsed stacks: one stack a line, root first, frames parted by ';', then a space and
 * a weight. What flamegraph.pl, inferno, speedscope and many others draw.
 *
 *     main (train.py:40);step (train.py:10);conv2d 140000000
 *
 * Frames are written as py-spy's raw format does, with place behind the name, or on
 * request by name alone, as FlameGraph's scripts do. If there
 * are several processes or threads, they are the first frames, again as py-spy has them.
 * The format has no escapes and no units. So ';' in a name becomes ',', what does not
 * print becomes \xNN, and weights are nanoseconds, which loses no digit. */

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "writers/labels.h"
#include "writers/weights.h"
#include "writers/writer.h"

struct writing {
    const struct lw_profile *profile;
    const struct lw_stack *stacks;
    struct lw_labels labels;
    struct lw_weights weights;
    lw_frame_id *path; /* the frames of a stack, the last first */
    size_t path_capacity;
    struct lw_buf *out;
};

static void add_name(struct lw_buf *out, const char *text, size_t len)
{
    size_t start = out->len;

    lw_text_add_printable(out, text, len);
    for (size_t i = start; i < out->len; i++)
        if (out->bytes[i] == ';')
            out->bytes[i] = ',';
}

static void add_text(const struct lw_profile *profile, lw_string_id id,
                     struct lw_buf *out)
{
    add_name(out, lw_profile_text(profile, id), lw_strings_len(profile->strings, id));
}

static void label_place(const struct lw_profile *profile, const struct lw_frame *frame,
                        uint32_t line, struct lw_buf *out)
{
    add_text(profile, frame->name, out);
    if (!frame->file)
        return;
    lw_buf_add_text(out, " (");
    add_text(profile, frame->file, out);
    if (line)
        lw_buf_addf(out, ":%" PRIu32, line);
    lw_buf_add_char(out, ')');
}

static void label_function(const struct lw_profile *profile,
                           const struct lw_frame *frame, struct lw_buf *out)
{
    label_place(profile, frame, frame->first_line, out);
}

static void label_line(const struct lw_profile *profile, const struct lw_frame *frame,
                       struct lw_buf *out)
{
    label_place(profile, frame, frame->line ? frame->line : frame->first_line, out);
}

static void label_name(const struct lw_profile *profile, const struct lw_frame *frame,
                       struct lw_buf *out)
{
    add_text(profile, frame->name, out);
}

/* The frames that stand for process and thread, where there is a choice. */
static void add_root(const struct writing *w, const struct lw_thread *thread,
                     struct lw_buf *root)
{
    const struct lw_profile *profile = w->profile;
    const struct lw_process *process = &profile->processes[thread->process];

    if (profile->process_count > 1) {
        lw_buf_addf(root, "process %" PRIu64, process->pid);
        if (process->command) {
            lw_buf_add_text(root, ":\"");
            add_text(profile, process->command, root);
            lw_buf_add_char(root, '"');
        }
        lw_buf_add_char(root, ';');
    }
    if (profile->thread_count > 1) {
        lw_buf_addf(root, "thread (%" PRIu64 ")", thread->tid);
        if (thread->name) {
            lw_buf_add_text(root, ": ");
            add_text(profile, thread->name, root);
        }
        lw_buf_add_char(root, ';');
    }
}

static bool write_stack(struct writing *w, const struct lw_call_row *row,
                        const struct lw_buf *root, struct lw_error *err)
{
    size_t depth = 0;

    for (lw_stack_id s = row->stack; s != LW_NO_STACK; s = w->stacks[s].parent) {
        if (depth == w->path_capacity &&
            !lw_grow(&w->path, &w->path_capacity, depth + 1, sizeof(*w->path), err))
            return false;
        w->path[depth++] = w->stacks[s].frame;
    }
    lw_buf_add(w->out, root->bytes, root->len);
    if (depth == 0)
        lw_buf_add_text(w->out, "(none)"); /* a sample of a thread without Python */
    while (depth-- > 0) {
        lw_labels_add(&w->labels, w->path[depth], w->out);
        if (depth)
            lw_buf_add_char(w->out, ';');
    }
    lw_buf_addf(w->out, " %" PRIu64 "\n", row->self_ns);
    return true;
}

static bool write_thread(struct writing *w, size_t first, size_t end,
                         struct lw_error *err)
{
    struct lw_buf root;
    bool done;

    lw_buf_init(&root, 0);
    add_root(w, &w->profile->threads[w->weights.rows[first].thread], &root);
    done = lw_buf_check(&root, err);
    for (size_t i = first; done && i < end; i++)
        if (w->weights.rows[i].self_ns > 0)
            done = write_stack(w, &w->weights.rows[i], &root, err);
    lw_buf_release(&root);
    return done;
}

static bool write_frames(const struct lw_profile *profile, enum lw_frames frames,
                         struct lw_buf *out, struct lw_error *err)
{
    static lw_label_frame *const labels[] = {
        [LW_FRAMES_FUNCTIONS] = label_function,
        [LW_FRAMES_LINES] = label_line,
        [LW_FRAMES_NAMES] = label_name,
    };
    struct writing w = { .profile = profile, .out = out };
    size_t count;
    bool done = lw_weights_init(&w.weights, profile, err) &&
                lw_labels_init(&w.labels, profile, labels[frames], err);

    w.stacks = lw_stacks_list(profile->stacks, &count);
    for (size_t i = 0; done && i < w.weights.count;) {
        size_t end = lw_weights_thread_end(&w.weights, i);

        done = write_thread(&w, i, end, err);
        i = end;
    }
    lw_free(w.path);
    lw_labels_release(&w.labels);
    lw_weights_release(&w.weights);
    return done;
}

static bool write_collapsed(const struct lw_profile *profile, struct lw_buf *out,
                            struct lw_error *err)
{
    return write_frames(profile, LW_FRAMES_FUNCTIONS, out, err);
}

const struct lw_writer lw_writer_collapsed = {
    .name = "collapsed",
    .summary = "folded stacks with nanoseconds, for flamegraph.pl, inferno, speedscope",
    .suffixes = ".folded .collapsed",
    .lacks = "how often functions were called, and when; what the recording misses",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_collapsed,
    .write_frames = write_frames,
};
