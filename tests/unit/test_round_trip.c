/* A profile that is written and read back has every number that the format can hold. What
 * a format does not hold is said by a flag here, and by the writer's own `lacks`. */

#include <inttypes.h>
#include <math.h>

#include "base/inflate.h"
#include "model/callgraph.h"
#include "readers/reader.h"
#include "tree_fixture.h"
#include "writers/writer.h"

enum held {
    HOLDS_CALLS = 1,      /* of functions that somebody called */
    HOLDS_ROOT_CALLS = 2, /* and of those that nobody called */
    HOLDS_PRIMITIVE = 4,
    HOLDS_EDGES = 8,    /* the time of a pair */
    HOLDS_THREADS = 16, /* with their pid and tid */
    HOLDS_NAMES = 32,   /* of any characters */
    HOLDS_CYCLES = 64,  /* the totals of functions that call each other */
};

struct form {
    const char *name;
    unsigned holds;
};

#define HOLDS_ALL_CALLS (HOLDS_CALLS | HOLDS_ROOT_CALLS | HOLDS_PRIMITIVE)

static const struct form forms[] = {
    { "callgrind", HOLDS_CALLS },
    { "chrome", HOLDS_ALL_CALLS | HOLDS_EDGES | HOLDS_CYCLES | HOLDS_NAMES },
    { "collapsed", HOLDS_EDGES | HOLDS_CYCLES | HOLDS_THREADS },
    { "pprof",
      HOLDS_ALL_CALLS | HOLDS_EDGES | HOLDS_CYCLES | HOLDS_THREADS | HOLDS_NAMES },
    { "pstats", HOLDS_ALL_CALLS | HOLDS_EDGES | HOLDS_CYCLES | HOLDS_NAMES },
    { "speedscope", HOLDS_EDGES | HOLDS_CYCLES | HOLDS_NAMES },
};
#define FORM_COUNT (sizeof(forms) / sizeof(forms[0]))

/* Names that formats of text trip over. The last one is no UTF-8, so it has no place in
 * JSON, protocol buffers and Python's str; its numbers have. */
static const char *const odd_names[] = {
    "plain",
    "two words 12",
    "semi;colon",
    "a\nnew line\r\n\tand a tab",
    "\"quotes\" 'and' `more`",
    "back\\slash\\n (3)",
    "<module> & <lambda>",
    "fn=(1) x",
    "\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17"
    "\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f",
    "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\xa6",
    "\x80\xff\xc3(\xed\xa0\x80",
};
#define ODD_COUNT (sizeof(odd_names) / sizeof(odd_names[0]))

/* Each row has a time of its own, so that a function is known by its time whatever
 * becomes of its name. */
struct making {
    struct tree tree;
    bool as_samples;
    uint64_t step;
};

static void add_row(struct making *m, uint32_t thread, lw_stack_id stack)
{
    uint64_t n = ++m->step, self_ns = 1000000 * n + n * n * 1009;

    if (m->as_samples)
        add_sample(&m->tree, thread, stack, self_ns);
    else
        add_calls(&m->tree, thread, stack, n * 3, self_ns);
}

/* main calls all odd ones, each of which calls itself, and then a builtin. */
static void add_odd(struct making *m, uint32_t thread)
{
    lw_stack_id root =
        push(&m->tree, LW_NO_STACK, add_frame(&m->tree, "main.py", "main", 0, 0));

    add_row(m, thread, root);
    for (size_t i = 0; i < ODD_COUNT; i++) {
        lw_frame_id odd =
            add_frame(&m->tree, "odd dir/na\xc3\xafve.py", odd_names[i], 0, 0);
        lw_stack_id once = push(&m->tree, root, odd);
        lw_stack_id twice = push(&m->tree, once, odd);

        add_row(m, thread, once);
        add_row(m, thread, twice);
        add_row(
            m, thread,
            push(&m->tree, twice, add_frame(&m->tree, NULL, "<built-in len>", 0, 0)));
    }
}

/* even and odd call each other. */
static void add_mutual(struct making *m, uint32_t thread)
{
    add_row(m, thread, add_path(&m->tree, "even"));
    add_row(m, thread, add_path(&m->tree, "even/odd"));
    add_row(m, thread, add_path(&m->tree, "even/odd/even"));
    add_row(m, thread, add_path(&m->tree, "even/odd/even/odd"));
}

static struct lw_profile *make_profile(bool as_samples)
{
    struct lw_process second = { .pid = 200, .rank = -1, .exit_code = -1 };
    struct making m = { .tree = make_tree(), .as_samples = as_samples };

    add_odd(&m, add_thread(&m.tree, "MainThread", 101));
    add_mutual(&m, add_thread(&m.tree, "pin memory", 102));
    CHECK(lw_builder_process(m.tree.builder, &second, &m.tree.process, NULL));
    add_mutual(&m, add_thread(&m.tree, "MainThread", 201));
    return finish(&m.tree);
}

static const struct lw_reader *find_reader(const char *name)
{
    for (size_t i = 0; i < lw_reader_count; i++)
        if (strcmp(lw_readers[i]->name, name) == 0)
            return lw_readers[i];
    return NULL;
}

static struct lw_profile *read_back(const char *name, struct lw_buf *bytes)
{
    const struct lw_reader *reader = find_reader(name);
    struct lw_source source = { .path = name, .name = name };
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_error err = { LW_OK, "" };
    struct lw_buf plain;

    lw_buf_init(&plain, 0);
    if (lw_inflate_is_gzip((const unsigned char *)bytes->bytes, bytes->len))
        CHECK(
            lw_inflate((const unsigned char *)bytes->bytes, bytes->len, &plain, NULL));
    else
        lw_buf_add(&plain, bytes->bytes, bytes->len);
    source.head = source.view.bytes = (const unsigned char *)plain.bytes;
    source.view.len = plain.len;
    source.head_len =
        plain.len < LW_SOURCE_HEAD_BYTES ? plain.len : LW_SOURCE_HEAD_BYTES;
    CHECK(reader && builder);
    CHECK(reader->sniff(&source));
    if (!reader->read(&source, LW_WANT_ALL, builder, &err)) {
        print_error("%s: %s\n", name, err.text);
        CHECK(false);
    }
    lw_buf_release(&plain);
    return lw_builder_finish(builder, NULL);
}

static struct lw_profile *write_and_read(const struct form *form,
                                         const struct lw_profile *profile)
{
    struct lw_profile *again;
    struct lw_buf bytes;

    lw_buf_init(&bytes, 0);
    CHECK(lw_writer_find(form->name)->write(profile, &bytes, NULL));
    CHECK(lw_buf_check(&bytes, NULL));
    again = read_back(form->name, &bytes);
    CHECK(again != NULL);
    lw_buf_release(&bytes);
    return again;
}

static bool is_same_time(double a_s, double b_s)
{
    return fabs(a_s - b_s) < 0.5e-9;
}

/* The function of GRAPH with the own time of FUNCTION; LW_NONE: there is none. */
static uint32_t find_by_time(const struct lw_callgraph *graph,
                             const struct lw_function *function)
{
    for (uint32_t i = 0; i < graph->function_count; i++)
        if (is_same_time(graph->functions[i].cost.self_s, function->cost.self_s))
            return i;
    return LW_NONE;
}

static int64_t calls_by_others(const struct lw_callgraph *graph, uint32_t callee)
{
    int64_t calls = 0;

    for (uint32_t i = graph->callers_start[callee];
         i < graph->callers_start[callee + 1]; i++)
        calls += graph->edges[i].cost.calls;
    return calls;
}

static void compare_function(const struct form *form, bool has_calls,
                             const struct lw_callgraph *a, uint32_t index,
                             const struct lw_function *g)
{
    const struct lw_function *f = &a->functions[index];
    bool is_root = a->callers_start[index] == a->callers_start[index + 1];
    bool is_utf8 = f->name[0] != odd_names[ODD_COUNT - 1][0];
    bool is_cyclic = strcmp(f->name, "even") == 0 || strcmp(f->name, "odd") == 0;

    if (!is_cyclic || form->holds & HOLDS_CYCLES)
        CHECK(is_same_time(f->cost.total_s, g->cost.total_s));
    if (has_calls && form->holds & HOLDS_ROOT_CALLS)
        CHECK_EQ(f->cost.calls, g->cost.calls);
    else if (has_calls && form->holds & HOLDS_CALLS && !is_root)
        CHECK_EQ(calls_by_others(a, index), g->cost.calls);
    if (has_calls && form->holds & HOLDS_PRIMITIVE)
        CHECK_EQ(f->cost.primitive_calls, g->cost.primitive_calls);
    if (is_utf8 && form->holds & HOLDS_NAMES) {
        CHECK_STR(f->name, g->name);
        CHECK_STR(f->file, g->file);
    }
    CHECK_EQ(f->line, g->line);
}

static const struct lw_graph_edge *find_edge(const struct lw_callgraph *graph,
                                             uint32_t caller, uint32_t callee)
{
    for (uint32_t i = graph->callers_start[callee];
         i < graph->callers_start[callee + 1]; i++)
        if (graph->edges[i].caller == caller)
            return &graph->edges[i];
    return NULL;
}

static void compare_graphs(const struct form *form, bool has_calls,
                           const struct lw_callgraph *a, const struct lw_callgraph *b)
{
    CHECK_EQ(a->function_count, b->function_count);
    CHECK_EQ(a->edge_count, b->edge_count);
    CHECK(is_same_time(a->total_s, b->total_s));
    for (uint32_t i = 0; i < a->function_count; i++) {
        uint32_t found = find_by_time(b, &a->functions[i]);

        CHECK(found != LW_NONE);
        CHECK_EQ(find_by_time(a, &a->functions[i]),
                 i); /* the times are all different */
        compare_function(form, has_calls, a, i, &b->functions[found]);
    }
    for (size_t i = 0; i < a->edge_count; i++) {
        const struct lw_graph_edge *edge = &a->edges[i];
        const struct lw_graph_edge *other =
            find_edge(b, find_by_time(b, &a->functions[edge->caller]),
                      find_by_time(b, &a->functions[edge->callee]));

        CHECK(other != NULL);
        CHECK(is_same_time(edge->cost.total_s, other->cost.total_s));
        if (form->holds & HOLDS_EDGES)
            CHECK(is_same_time(edge->cost.self_s, other->cost.self_s));
        if (has_calls && form->holds & HOLDS_CALLS)
            CHECK_EQ(edge->cost.calls, other->cost.calls);
    }
}

static bool is_thread(const struct lw_profile *profile, uint32_t index, uint64_t pid,
                      uint64_t tid, const char *name)
{
    const struct lw_thread *thread = &profile->threads[index];

    return profile->processes[thread->process].pid == pid && thread->tid == tid &&
           strcmp(lw_profile_text(profile, thread->name), name) == 0;
}

static uint64_t time_of_thread(const struct lw_profile *profile, uint64_t pid,
                               uint64_t tid, const char *name)
{
    uint64_t sum_ns = 0;

    for (size_t i = 0; i < profile->call_count; i++)
        if (is_thread(profile, profile->calls[i].thread, pid, tid, name))
            sum_ns += profile->calls[i].self_ns;
    for (size_t i = 0; i < profile->sample_count; i++)
        if (is_thread(profile, profile->samples[i].thread, pid, tid, name))
            sum_ns += profile->samples[i].weight_ns;
    return sum_ns;
}

static void compare_threads(const struct lw_profile *a, const struct lw_profile *b)
{
    CHECK_EQ(a->thread_count, b->thread_count);
    CHECK_EQ(a->process_count, b->process_count);
    for (size_t i = 0; i < a->thread_count; i++) {
        const struct lw_thread *thread = &a->threads[i];
        uint64_t pid = a->processes[thread->process].pid;
        const char *name = lw_profile_text(a, thread->name);
        uint64_t time_ns = time_of_thread(a, pid, thread->tid, name);

        CHECK(time_ns > 0);
        CHECK_EQ(time_ns, time_of_thread(b, pid, thread->tid, name));
    }
}

static void go_round(const struct form *form, bool as_samples)
{
    struct lw_profile *profile = make_profile(as_samples);
    struct lw_profile *again = write_and_read(form, profile);
    struct lw_callgraph a, b;

    CHECK(lw_callgraph_init(&a, profile, LW_GRAPH_ANY, NULL, NULL));
    CHECK(lw_callgraph_init(&b, again, LW_GRAPH_ANY, NULL, NULL));
    compare_graphs(form, !as_samples, &a, &b);
    if (form->holds & HOLDS_THREADS)
        compare_threads(profile, again);
    lw_callgraph_release(&a);
    lw_callgraph_release(&b);
    lw_profile_free(profile);
    lw_profile_free(again);
}

/* Both what was counted and timed, and what samples saw. */
static void go_round_with(const char *name)
{
    for (size_t i = 0; i < FORM_COUNT; i++)
        if (strcmp(forms[i].name, name) == 0) {
            go_round(&forms[i], false);
            go_round(&forms[i], true);
        }
}

TEST(callgrind_keeps_its_numbers)
{
    go_round_with("callgrind");
}

TEST(chrome_keeps_its_numbers)
{
    go_round_with("chrome");
}

TEST(collapsed_keeps_its_numbers)
{
    go_round_with("collapsed");
}

TEST(pprof_keeps_its_numbers)
{
    go_round_with("pprof");
}

TEST(pstats_keeps_its_numbers)
{
    go_round_with("pstats");
}

TEST(speedscope_keeps_its_numbers)
{
    go_round_with("speedscope");
}

TEST(every_format_that_is_both_written_and_read_is_tried)
{
    for (size_t i = 0; i < lw_writer_count; i++) {
        bool is_tried = !find_reader(lw_writers[i]->name);

        for (size_t k = 0; k < FORM_COUNT; k++)
            is_tried |= strcmp(forms[k].name, lw_writers[i]->name) == 0;
        CHECK(is_tried);
    }
}
