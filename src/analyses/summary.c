/* What ran, how long it took, where the time went and what to look at next, in about ten
 * lines: the first thing a person sees of a profile. */

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyses/advice.h"
#include "analyses/analysis.h"
#include "analyses/steps_view.h"
#include "base/alloc.h"
#include "model/calltree.h"
#include "model/units.h"

/* clang-format off */
static const struct lw_column columns[] = {
    { "what", "", LW_UNIT_TEXT, false },
    { "time_ns", "time", LW_UNIT_NS, false },
    { "share", "share", LW_UNIT_SHARE, false },
    { "detail", "", LW_UNIT_TEXT, true },
};
/* clang-format on */

#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

#define SELF_ROWS 3 /* each one fewer where there are rows of steps */
#define OWN_ROWS 2
#define NEARLY 0.8      /* of the most: as good a place to look */
#define OWN_SHARE 0.1   /* from so much on, one's own code is worth a look */
#define PATH_STEPS 8    /* of the busiest path; more do not fit a line */
#define PATH_SHARE 0.5  /* a path goes on while one callee has so much of its caller */
#define COMMIT_DIGITS 9 /* as `lapwing runs` shows them */

struct summary {
    const struct lw_profile *profile;
    const struct lw_query *query;
    struct lw_callgraph graph;
    struct lw_callgraph lines; /* of samples that know their line; else empty */
    uint32_t trains; /* index of the thread whose steps are shown; LW_NONE: of none */
    struct lw_query training; /* `query`, once it is about that thread alone */
    char tid[24], pid[24];
    struct lw_table *table;
    struct lw_buf text; /* the detail being written */
};

/* One row; its detail is what is in the buffer, which is then emptied. */
static void add_row(struct summary *s, const char *what, double seconds, double share)
{
    lw_table_row(s->table, 0);
    lw_table_add_text(s->table, what, strlen(what));
    lw_analysis_add_seconds(s->table, seconds);
    lw_analysis_add_share(s->table, share, 1);
    lw_table_add_text(s->table, lw_analysis_text(s->table, &s->text), s->text.len);
    lw_buf_reset(&s->text);
}

static void add_fact(struct summary *s, const char *before, const char *key)
{
    const char *value = lw_profile_fact(s->profile, key);

    if (value)
        lw_buf_addf(&s->text, "%s%s%s", s->text.len ? ", " : "", before, value);
}

static void add_command(struct summary *s)
{
    const char *command = lw_profile_fact(s->profile, "command");
    const char *file = lw_profile_fact(s->profile, "file");
    const char *format = lw_profile_fact(s->profile, "format");

    if (command)
        lw_buf_add_text(&s->text, command);
    else if (file)
        lw_buf_addf(&s->text, "%s (%s)", file, format ? format : "?");
    else
        return;
    add_row(s, command ? "command" : "file", NAN, NAN);
}

/* "2026-11-15 20:07:31, exit code 0, Python 3.11.7, host, commit 1cc6fe5a2+" */
static void add_run(struct summary *s)
{
    const struct lw_profile *profile = s->profile;
    const char *commit = lw_profile_fact(profile, "commit");
    const char *dirty = lw_profile_fact(profile, "dirty");
    const char *state = lw_profile_fact(profile, "state");
    double length_s = NAN;

    if (profile->wall_start_ns)
        lw_units_add_time(&s->text, (int64_t)profile->wall_start_ns);
    if (profile->process_count > 0 && profile->processes[0].exit_code >= 0)
        lw_buf_addf(&s->text, "%sexit code %d", s->text.len ? ", " : "",
                    profile->processes[0].exit_code);
    else if (state && strcmp(state, "finished") != 0)
        add_fact(s, "", "state");
    add_fact(s, "Python ", "python");
    add_fact(s, "torch ", "torch");
    add_fact(s, "on ", "host");
    if (commit)
        lw_buf_addf(&s->text, "%scommit %.*s%s", s->text.len ? ", " : "", COMMIT_DIGITS,
                    commit, dirty && strcmp(dirty, "yes") == 0 ? "+" : "");
    if (profile->start_ns && profile->end_ns > profile->start_ns)
        length_s = (double)(profile->end_ns - profile->start_ns) / 1e9;
    if (s->text.len > 0 || !isnan(length_s))
        add_row(s, "ran", length_s, NAN);
}

static void add_count(struct summary *s, const char *before, uint64_t count,
                      const char *one, const char *many)
{
    lw_buf_add_text(&s->text, before);
    lw_units_add_count(&s->text, (int64_t)count);
    lw_buf_addf(&s->text, " %s", count == 1 ? one : many);
}

/* Of the threads that were asked for. */
static bool add_recorded(struct summary *s, struct lw_error *err)
{
    const struct lw_profile *profile = s->profile;
    uint64_t thread_count = 0, process_count = 0;
    uint32_t last = LW_NONE; /* threads of a process stand together */
    bool *flags;

    if (!lw_query_threads(s->query, profile, &flags, err))
        return false;
    for (size_t i = 0; i < profile->thread_count; i++) {
        if (flags && !flags[i])
            continue;
        thread_count++;
        process_count += profile->threads[i].process != last;
        last = profile->threads[i].process;
    }
    lw_free(flags);
    if (lw_callgraph_has_calls(&s->graph))
        add_count(s, "", (uint64_t)s->graph.calls, "call of ", "calls of ");
    else if (s->graph.samples > 0)
        add_count(s, "", (uint64_t)s->graph.samples, "sample of ", "samples of ");
    else
        lw_buf_add_text(&s->text, "samples of ");
    add_count(s, "", s->graph.listed_count, "function", "functions");
    if (profile->thread_count > 0) {
        add_count(s, ", ", thread_count, "thread", "threads");
        add_count(s, ", ", process_count, "process", "processes");
    }
    add_row(s, "recorded", s->graph.total_s, NAN);
    return true;
}

/* A frame of the recorder's own, such as "(moving)": not a function to look at. */
static bool is_note(const struct summary *s, const struct lw_function *function)
{
    return lw_profile_frame(s->profile, function->frame)->kind == LW_FRAME_NOTE;
}

/* ", 2.1 % (moving)": time of which the function is not known. */
static void add_notes(struct summary *s, uint64_t wall_ns)
{
    for (size_t i = 0; i < s->graph.function_count; i++) {
        const struct lw_function *function = &s->graph.functions[i];

        if (!is_note(s, function) || !(function->cost.self_s > 0))
            continue;
        lw_buf_add_text(&s->text, ", ");
        lw_units_add_share(&s->text, function->cost.self_s * 1e9 / (double)wall_ns);
        lw_buf_addf(&s->text, " %s", function->name);
    }
}

/* What the threads did meanwhile, where samples say it; the states overlap. */
static bool add_states(struct summary *s, struct lw_error *err)
{
    const struct lw_profile *profile = s->profile;
    uint64_t sums_ns[LW_STATES_GC + 1] = { 0 };
    bool has_states = false;
    bool *flags;

    if (!lw_query_threads(s->query, profile, &flags, err))
        return false;
    for (size_t i = 0; i < profile->sample_count; i++) {
        const struct lw_sample *sample = &profile->samples[i];

        if (flags && !flags[sample->thread])
            continue;
        has_states |= sample->state != LW_STATE_UNKNOWN;
        for (int state = 0; state <= LW_STATES_GC; state++)
            if (lw_states_have((enum lw_states)state, sample->state))
                sums_ns[state] += sample->weight_ns;
    }
    lw_free(flags);
    if (s->graph.source != LW_GRAPH_SAMPLES || !has_states)
        return true;
    for (int state = LW_STATES_CPU; state <= LW_STATES_GC; state++) {
        lw_buf_addf(&s->text, "%s", state == LW_STATES_CPU ? "" : ", ");
        lw_units_add_share(&s->text,
                           (double)sums_ns[state] / (double)sums_ns[LW_STATES_WALL]);
        lw_buf_add_text(&s->text, lw_states_phrase((enum lw_states)state));
    }
    add_notes(s, sums_ns[LW_STATES_WALL]);
    add_row(s, "of that", NAN, NAN);
    return true;
}

/* What a training's steps take, and for what; of the first that has any. */
static bool add_steps(struct summary *s, struct lw_error *err)
{
    const struct lw_profile *profile = s->profile;
    const struct lw_step_track *track = NULL;
    struct lw_steps steps = { 0 };
    bool *threads = NULL;
    bool done = lw_query_threads(s->query, profile, &threads, err) &&
                lw_steps_init(&steps, profile, threads, err);

    lw_free(threads);
    for (size_t i = 0; i < steps.track_count && !track; i++)
        if (steps.tracks[i].train_count + steps.tracks[i].eval_count > 0)
            track = &steps.tracks[i];
    s->trains = track ? track->thread : LW_NONE;
    if (track) {
        uint64_t ns = track->train_count > 0 ? track->train_ns : track->eval_ns;
        double run_s = profile->end_ns > profile->start_ns
                           ? (double)(profile->end_ns - profile->start_ns) / 1e9
                           : NAN;

        lw_steps_add_pace(&s->text, track);
        if (steps.track_count > 1)
            add_count(s, "; the first of ", steps.track_count, "", "that train");
        add_row(s, "steps", (double)ns / 1e9, (double)ns / 1e9 / run_s);
        lw_steps_add_split(&s->text, &steps, track);
        add_row(s, "a step", NAN, NAN);
    }
    lw_steps_release(&steps);
    return done;
}

static bool has_lines(const struct lw_callgraph *lines)
{
    for (size_t i = 0; i < lines->listed_count; i++)
        if (lines->functions[i].line > 0)
            return true;
    return false;
}

/* The graph, and that of lines, of what the query is about. */
static bool make_graphs(struct summary *s, struct lw_error *err)
{
    if (!lw_query_graph(s->query, s->profile, &s->graph, err))
        return false;
    if (s->graph.source == LW_GRAPH_SAMPLES &&
        !lw_query_lines(s->query, s->profile, &s->lines, err))
        return false;
    if (!has_lines(&s->lines))
        lw_callgraph_release(&s->lines);
    return true;
}

/* Beside the thread that trains are those that wait for it: a loader's workers, queues,
 * progress bars. What follows is about the one whose steps were shown. */
static bool keep_to_training(struct summary *s, struct lw_error *err)
{
    const struct lw_thread *thread;

    if (s->trains == LW_NONE || s->profile->thread_count < 2 || s->query->thread)
        return true;
    thread = &s->profile->threads[s->trains];
    snprintf(s->tid, sizeof(s->tid), "%" PRIu64, (uint64_t)thread->tid);
    snprintf(s->pid, sizeof(s->pid), "%" PRIu64,
             (uint64_t)s->profile->processes[thread->process].pid);
    s->training = *s->query;
    s->training.thread = s->tid;
    s->training.process = s->pid;
    s->query = &s->training;
    lw_callgraph_release(&s->graph);
    lw_callgraph_release(&s->lines);
    if (!make_graphs(s, err))
        return false;
    lw_buf_add_text(&s->text, "in the thread that trains; all below is of that");
    add_row(s, "the training", s->graph.total_s, NAN);
    return true;
}

/* In which of its lines FUNCTION spent most, itself or with what it calls; 0: not known. */
static uint32_t longest_line(const struct summary *s,
                             const struct lw_function *function, bool with_callees)
{
    const struct lw_frame *frame = lw_profile_frame(s->profile, function->frame);
    uint32_t line = 0;
    double most_s = 0;

    for (size_t i = 0; i < s->lines.listed_count; i++) {
        const struct lw_function *part = &s->lines.functions[i];
        const struct lw_frame *its = lw_profile_frame(s->profile, part->frame);
        double seconds = with_callees ? part->cost.total_s : part->cost.self_s;

        if (its->name == frame->name && its->file == frame->file &&
            its->first_line == frame->first_line && seconds > most_s) {
            most_s = seconds;
            line = its->line;
        }
    }
    return line;
}

static void add_function(struct summary *s, const char *what,
                         const struct lw_function *function, double seconds,
                         bool with_callees)
{
    uint32_t line = longest_line(s, function, with_callees);
    struct lw_function stripped = *function;

    lw_function_strip(&stripped);
    lw_buf_add(&s->text, function->name, function->name_len);
    if (function->line > 0) {
        lw_buf_add_text(&s->text, " (");
        lw_buf_add(&s->text, stripped.file, stripped.file_len);
        lw_buf_addf(&s->text, ":%u)", function->line);
    }
    if (lw_callgraph_has_calls(&s->graph))
        add_count(s, ", ", (uint64_t)function->cost.calls, "call", "calls");
    if (line > 0)
        lw_buf_addf(&s->text, ", most in line %u", line);
    add_row(s, what, seconds, seconds / s->graph.total_s);
}

/* The first COUNT functions by KEY, only the person's own if MINE. *CHOSEN is the one to
 * look at next: the first, or a later one that has nearly as much. */
static bool add_functions(struct summary *s, const char *what, const char *key,
                          size_t count, bool mine, const struct lw_function **chosen,
                          struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct lw_query query;
    double most_s = 0;
    size_t shown = 0;
    bool done;

    lw_query_init(&query);
    done = lw_query_add_key(&query, key, err) &&
           (!mine || lw_query_add_mine(&query, err)) &&
           lw_query_select(&query, &s->graph, &selection, err);
    for (size_t i = 0; done && i < selection.count && shown < count; i++) {
        const struct lw_function *function =
            &s->graph.functions[selection.functions[i]];
        double seconds = mine ? function->cost.total_s : function->cost.self_s;

        if (!(seconds > 0) || is_note(s, function) ||
            (mine && strcmp(function->name, "<module>") == 0))
            continue;
        add_function(s, shown ? "" : what, function, seconds, mine);
        if (shown++ == 0)
            most_s = seconds;
        if (shown == 1 || (mine && seconds >= NEARLY * most_s))
            *chosen = function;
    }
    lw_selection_release(&selection);
    lw_query_release(&query);
    return done;
}

/* From the root, always the callee that took most, until there is no clear one. */
static void describe_path(struct summary *s, const struct lw_calltree *tree,
                          const uint32_t *busiest)
{
    const struct lw_calltree_node *nodes = tree->nodes;
    uint32_t at = busiest[0];
    size_t steps = 0;

    for (; at; at = busiest[at], steps++) {
        const struct lw_frame *frame = lw_profile_frame(s->profile, nodes[at].frame);

        if (steps > 0)
            lw_buf_add_text(&s->text, " > ");
        lw_buf_add(&s->text, lw_profile_text(s->profile, frame->name),
                   lw_strings_len(s->profile->strings, frame->name));
        if (steps + 1 == PATH_STEPS || !busiest[at] ||
            (double)nodes[busiest[at]].total_ns <
                PATH_SHARE * (double)nodes[at].total_ns)
            break;
    }
    if (steps > 0)
        add_row(s, "busiest path", (double)nodes[at].total_ns / 1e9,
                (double)nodes[at].total_ns / (double)nodes[0].total_ns);
    lw_buf_reset(&s->text);
}

static bool add_path(struct summary *s, struct lw_error *err)
{
    struct lw_calltree tree = { 0 };
    uint32_t *busiest = NULL;
    bool *threads = NULL;
    bool done;

    if (s->graph.source == LW_GRAPH_GIVEN)
        return true; /* pairs of functions make no path */
    done = lw_query_threads(s->query, s->profile, &threads, err) &&
           lw_calltree_init(&tree, s->profile, s->graph.source, threads, err) &&
           (busiest = lw_zalloc(tree.node_count, sizeof(*busiest), err));
    if (done) {
        for (uint32_t i = 1; i < tree.node_count; i++) {
            uint32_t *best = &busiest[tree.nodes[i].parent];

            if (!*best || tree.nodes[i].total_ns > tree.nodes[*best].total_ns)
                *best = i;
        }
        describe_path(s, &tree, busiest);
    }
    lw_free(busiest);
    lw_free(threads);
    lw_calltree_release(&tree);
    return done;
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The word in a function's name by which a pattern finds it: "forward", and "conv2d" of
 * "<built-in method torch.conv2d>" or "read" of "<method 'read' of ...>". */
static void add_word(struct lw_buf *out, const struct lw_function *function)
{
    const char *start = strstr(function->name, "'");
    const char *dot = strrchr(function->name, '.');
    const char *space = strrchr(function->name, ' ');

    if (start)
        start++;
    else if (dot || space)
        start = (dot && (!space || dot > space) ? dot : space) + 1;
    else
        start = function->name;
    while (is_letter(*start))
        lw_buf_add_char(out, *start++);
}

/* A function of one's own that has some of the time is where a change can be made;
 * else who calls what takes the time is. */
static void add_next(struct summary *s, const struct lw_function *first,
                     const struct lw_function *own)
{
    bool has_own = own && own->cost.total_s >= OWN_SHARE * s->graph.total_s;
    const char *tree = s->graph.source == LW_GRAPH_GIVEN ? ""
                       : s->lines.listed_count > 0
                           ? "; the view lines shows the lines, tree the paths"
                           : "; the view tree shows the paths";

    const char *name;
    struct lw_buf word;

    lw_buf_init(&word, 0);
    if (has_own || first)
        add_word(&word, has_own ? own : first);
    name = lw_analysis_text(s->table, &word);
    if (*name)
        lw_table_note(s->table, "Next: '%s%s %s' shows %s%s.", s->query->report,
                      has_own ? "callees" : "callers", name,
                      has_own ? "where its time goes" : "who calls it", tree);
    else
        lw_table_note(s->table, "Next: '%sfunctions' shows all%s.", s->query->report,
                      tree);
    lw_buf_release(&word);
}

/* Windows of torch's profiler are another view's; here it is said that there are some. */
static bool add_windows(struct summary *s)
{
    const char *count = lw_profile_fact(s->profile, "windows");

    if (!count)
        return false;
    lw_buf_addf(
        &s->text,
        "%s of torch's profiler: '%soverview' shows the last; also ops, kernels, "
        "memory",
        count, s->query->report);
    add_row(s, "windows", NAN, NAN);
    return true;
}

static bool summarise(struct summary *s, struct lw_error *err)
{
    const struct lw_function *first = NULL, *own = NULL;
    bool trains, has_windows;

    add_command(s);
    add_run(s);
    if (!add_steps(s, err))
        return false;
    trains = s->trains != LW_NONE;
    if (trains && !lw_advice_note_first(s->profile, s->query, s->table, err))
        return false;
    has_windows = add_windows(s);
    if (s->graph.listed_count == 0) {
        if (!has_windows)
            lw_analysis_note_empty(s->profile, s->table);
    } else {
        if (!add_recorded(s, err) || !add_states(s, err) || !keep_to_training(s, err) ||
            !add_functions(s, "most self time", "time", SELF_ROWS - trains, false,
                           &first, err) ||
            !add_functions(s, "own code, total", "cumulative", OWN_ROWS - trains, true,
                           &own, err) ||
            !add_path(s, err))
            return false;
        add_next(s, first, own);
    }
    lw_analysis_note_losses(s->profile, s->table);
    return true;
}

static bool run(const struct lw_profile *profile, const struct lw_query *query,
                struct lw_table *table, struct lw_error *err)
{
    struct summary s = { .profile = profile, .query = query, .table = table };
    bool done;

    lw_table_init(table, columns, COLUMN_COUNT);
    lw_buf_init(&s.text, 0);
    done = make_graphs(&s, err) && summarise(&s, err);
    lw_callgraph_release(&s.lines);
    lw_buf_release(&s.text);
    lw_callgraph_release(&s.graph);
    return done;
}

const struct lw_analysis lw_analysis_summary = {
    .name = "summary",
    .summary = "what ran, how long, where the time went, what to look at next",
    .want =
        LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS | LW_WANT_PHASES | LW_WANT_MORE_IF_SMALL,
    .run = run,
};
