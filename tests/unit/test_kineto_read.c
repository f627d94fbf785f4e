#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/deflate.h"
#include "base/file.h"
#include "model/merge.h"
#include "readers/kineto.h"
#include "readers/reader.h"

static struct lw_profile *read_bytes(const void *bytes, size_t len, unsigned want,
                                     struct lw_error *err)
{
    struct lw_source source = { .path = "x", .name = "trace_rank3.json" };
    struct lw_builder *builder = lw_builder_new(err);

    source.view.bytes = bytes;
    source.view.len = len;
    if (!builder || !lw_reader_chrome.read(&source, want, builder, err)) {
        lw_builder_free(builder);
        return NULL;
    }
    return lw_builder_finish(builder, err);
}

static struct lw_profile *read_text(const char *text)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile = read_bytes(text, strlen(text), LW_WANT_TRACE, &err);

    CHECK_STR(err.text, "");
    CHECK(profile && profile->trace);
    return profile;
}

static const char *failure_of(const char *text)
{
    static struct lw_error err;
    struct lw_profile *profile;

    err.code = LW_OK;
    profile = read_bytes(text, strlen(text), LW_WANT_TRACE, &err);
    CHECK(!profile);
    return err.text;
}

static uint64_t loss_of(const struct lw_profile *profile, const char *cause)
{
    for (size_t i = 0; i < profile->loss_count; i++)
        if (strcmp(lw_profile_text(profile, profile->losses[i].cause), cause) == 0)
            return profile->losses[i].count;
    return 0;
}

static const char *name_of(const struct lw_profile *profile, size_t event)
{
    return lw_profile_text(profile, profile->trace->events[event].name);
}

#define X(name, ts) \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":" name \
    ",\"pid\":1,\"tid\":2,\"ts\":" ts ",\"dur\":1}"

TEST(times_are_whole_ns_whatever_they_look_like)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } times[] = {
        { "1623142623460111", 1623142623460111000 },
        { "3912000456701.402", 3912000456701402 },
        { "1712195495505815.797", 1712195495505815797 },
        { "\"1712195495505815.79\"", 1712195495505815790 },
        { "1e3", 1000000 },
        { "0.0004", 0 },
        { "0.0005", 1 },
        { "12.", 12000 },
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct lw_profile *profile;
        char text[200];

        snprintf(text, sizeof(text), "[" X("\"a\"", "%s") "]", times[i].text);
        profile = read_text(text);
        CHECK_EQ(profile->trace->events[0].start_ns, times[i].ns);
        CHECK_EQ(profile->trace->events[0].duration_ns, 1000);
        lw_profile_free(profile);
    }
}

TEST(ids_of_64_bits_are_kept_whole)
{
    struct lw_profile *profile = read_text(
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,"
        "\"args\":{\"correlation\":18446744073709551615,"
        "\"External id\":\"9007199254740993\",\"stream\":4294967299}}]");
    const struct lw_event *event = &profile->trace->events[0];

    CHECK_EQ(event->correlation, UINT64_MAX);
    CHECK_EQ(event->external, 9007199254740993);
    CHECK_EQ(profile->trace->works[event->detail].stream, 4294967299);
    lw_profile_free(profile);
}

TEST(both_vocabularies_name_the_same_kinds)
{
    static const struct {
        const char *category;
        enum lw_event_kind kind;
    } kinds[] = {
        { "Operator", LW_EVENT_OP },
        { "cpu_op", LW_EVENT_OP },
        { "user_annotation", LW_EVENT_RANGE },
        { "Runtime", LW_EVENT_RUNTIME },
        { "cuda_driver", LW_EVENT_RUNTIME },
        { "privateuse1_runtime", LW_EVENT_RUNTIME },
        { "Kernel", LW_EVENT_KERNEL },
        { "kernel", LW_EVENT_KERNEL },
        { "mtia_ccp_events", LW_EVENT_KERNEL },
        { "Memcpy", LW_EVENT_MEMCPY },
        { "gpu_memset", LW_EVENT_MEMSET },
        { "gpu_user_annotation", LW_EVENT_DEVICE_RANGE },
        { "cuda_sync", LW_EVENT_SYNC },
        { "python_function", LW_EVENT_PYTHON },
        { "overhead", LW_EVENT_OVERHEAD },
        { "kernels", LW_EVENT_OTHER },
        { "", LW_EVENT_OTHER },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct lw_profile *profile;
        char text[200];

        snprintf(text, sizeof(text),
                 "[{\"ph\":\"X\",\"cat\":\"%s\",\"ts\":1,\"dur\":2}]",
                 kinds[i].category);
        profile = read_text(text);
        CHECK_EQ(profile->trace->events[0].kind, kinds[i].kind);
        CHECK_STR(lw_profile_text(profile, profile->trace->events[0].category),
                  kinds[i].category);
        lw_profile_free(profile);
    }
}

TEST(a_step_that_an_old_profiler_calls_an_operator_is_a_range)
{
    struct lw_profile *profile = read_text(
        "[{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"ProfilerStep#3\",\"ts\":1}]");

    CHECK_EQ(profile->trace->events[0].kind, LW_EVENT_RANGE);
    lw_profile_free(profile);
}

TEST(a_thread_is_one_with_and_without_quotes)
{
    struct lw_profile *profile = read_text(
        "[{\"ph\":\"X\",\"ts\":1,\"pid\":1,\"tid\":\"5555\"},"
        "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":1,\"pid\":1,\"tid\":5555,"
        "\"args\":{\"Bytes\":-4,\"Addr\":18446744073709551615,\"Device Type\":6,"
        "\"Device Id\":2}},"
        "{\"ph\":\"X\",\"ts\":1,\"pid\":0,\"tid\":\"stream 7\"},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":5555,"
        "\"args\":{\"name\":\"main\"}},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"py\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":9,\"tid\":9,"
        "\"args\":{\"name\":\"nobody\"}}]");
    const struct lw_trace *trace = profile->trace;

    CHECK_EQ(trace->track_count, 2);
    CHECK_EQ(trace->tracks[0].number, 5555);
    CHECK_STR(lw_profile_text(profile, trace->tracks[0].name), "main");
    CHECK_STR(lw_profile_text(profile, trace->tracks[0].process_name), "py");
    CHECK_EQ(trace->tracks[1].number, 7);
    CHECK_EQ(trace->memory_count, 1);
    CHECK_EQ(trace->memory[0].track, 0);
    CHECK_EQ(trace->memory[0].bytes, -4);
    CHECK_EQ(trace->memory[0].address, UINT64_MAX);
    CHECK_EQ(trace->memory[0].device_type, 6);
    CHECK_EQ(trace->memory[0].allocated, -1);
    lw_profile_free(profile);
}

TEST(the_end_of_the_window_is_a_mark_and_stretches_nothing)
{
    struct lw_profile *profile =
        read_text("[" X("\"a\"", "5") ",{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record "
                                      "Window End\",\"pid\":\"\",\"tid\":\"\","
                                      "\"ts\":4611686018427387}]");

    CHECK_EQ(profile->trace->event_count, 1);
    CHECK_EQ(profile->trace->mark_count, 1);
    CHECK_EQ(profile->trace->marks[0].scope, 'g');
    lw_profile_free(profile);
}

TEST(what_lies_beside_the_events_may_be_before_or_behind_them)
{
    struct lw_profile *profile = read_text(
        "{\"deviceProperties\":[{\"id\":0,\"name\":\"V\\u0031\",\"numSms\":80,"
        "\"warpSize\":\"32\",\"totalGlobalMem\":-3}, {\"id\":1}],"
        "\"traceEvents\":[" X(
            "\"a\"",
            "1") "],"
                 "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":5,\"world_size\":8,"
                 "\"pg_config\":[{\"rank\":7}]},"
                 "\"odd\": N/A, \"baseTimeNanoseconds\":1790857026000000000}");
    const struct lw_trace *trace = profile->trace;

    CHECK_EQ(trace->gpu_count, 2);
    CHECK_STR(lw_profile_text(profile, trace->gpus[0].name), "V1");
    CHECK_EQ(trace->gpus[0].sm_count, 80);
    CHECK_EQ(trace->gpus[0].warp_size, 32);
    CHECK_EQ(trace->gpus[1].sm_count, -1);
    CHECK_EQ(trace->ranks[0].rank, 5);
    CHECK_EQ(trace->ranks[0].world_size, 8);
    CHECK_EQ(trace->base_ns, 1790857026000000000);
    CHECK(strstr(lw_profile_text(profile, trace->ranks[0].info), "\"pg_config\":["));
    lw_profile_free(profile);
}

TEST(a_rank_is_found_in_the_name_of_a_file)
{
    CHECK_EQ(lw_kineto_rank_of_name("a/rank-3.json.gz"), 3);
    CHECK_EQ(lw_kineto_rank_of_name("rank70.json"), 70);
    CHECK_EQ(lw_kineto_rank_of_name("trace_8_rank_1.json"), 1);
    CHECK_EQ(lw_kineto_rank_of_name("worker3_step_12.1694128201557.pt.trace.json"), 3);
    CHECK_EQ(lw_kineto_rank_of_name("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"), 0);
    CHECK_EQ(lw_kineto_rank_of_name("trace_12.json"), 12);
    CHECK_EQ(lw_kineto_rank_of_name("host_4711.1794769030853686882.pt.trace.json"), -1);
    CHECK_EQ(lw_kineto_rank_of_name("chat__1016005.json.gz"), -1);
    CHECK_EQ(lw_kineto_rank_of_name("ranking.json"), -1);
    CHECK_EQ(lw_kineto_rank_of_name(""), -1);
}

TEST(words_without_quotes_are_values)
{
    struct lw_profile *profile = read_text(
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,\"args\":{"
        "\"blocks per SM\":NaN,\"bytes\":N/A,\"warps per SM\":-Infinity,"
        "\"device\":null,\"est. achieved occupancy %\":50,\"grid\":[3,2],}}, ]");
    const struct lw_work_detail *work = &profile->trace->works[0];

    CHECK_NEAR(work->blocks_per_sm, -1);
    CHECK_NEAR(work->warps_per_sm, -1);
    CHECK_NEAR(work->occupancy, 50);
    CHECK_EQ(work->bytes, -1);
    CHECK_EQ(work->device, -1);
    CHECK_EQ(work->grid[0], 3);
    CHECK_EQ(work->grid[2], 0);
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
}

TEST(bad_escapes_and_control_characters_are_part_of_a_text)
{
    struct lw_profile *profile =
        read_text("[" X("\"C:\\Users\\new\\u00e9\\q\\uZZ\ta\nb\"", "1") "]");

    CHECK_STR(name_of(profile, 0), "C:\\Users\new\xc3\xa9\\q\\uZZ\ta\nb");
    CHECK_EQ(profile->loss_count, 0);
    lw_profile_free(profile);
}

TEST(bare_quotes_in_a_text_are_mended)
{
    struct lw_profile *profile =
        read_text("[" X("\"a \"b\" c\"", "1") "," X("\"d\"", "2") "]");

    CHECK_EQ(profile->trace->event_count, 2);
    CHECK_STR(name_of(profile, 0), "a \"b\" c");
    CHECK_EQ(loss_of(profile, "quotes inside a text, taken as part of it"), 1);
    lw_profile_free(profile);
}

TEST(after_a_broken_event_comes_the_next)
{
    struct lw_profile *profile = read_text("{\"traceEvents\":[" X(
        "\"a\"",
        "1") ",\n {\"ph\":\"X\" \"ts\" 2}},\n"
             "7, " X("\"b\"",
                     "3") ", {\"ph\": \"X\", \"args\": {\"x\": [1}}, "
                          "{ \"name\": \"c\", \"ph\": \"X\", \"ts\": 4}, {\"ph\": }],"
                          "\"baseTimeNanoseconds\": 77}");

    CHECK_EQ(profile->trace->event_count, 3);
    CHECK_STR(name_of(profile, 1), "b");
    CHECK_STR(name_of(profile, 2), "c");
    CHECK_EQ(loss_of(profile, "broken JSON"), 3); /* the 7 went with it */
    CHECK_EQ(profile->trace->ranks[0].event_count, 6);
    CHECK_EQ(profile->trace->base_ns, 77);
    lw_profile_free(profile);
}

TEST(what_has_no_time_or_an_absurd_one_is_counted)
{
    struct lw_profile *profile =
        read_text("[" X("\"a\"", "1") "," X("\"b\"", "-1") "," X("\"c\"", "null") "," X(
            "\"d\"", "1e17") ",{\"ph\":\"X\",\"ts\":9,\"dur\":-4},{\"ph\":\"b\"},"
                             "{\"ph\":\"X\",\"ts\":9,\"dur\":1e17}]");

    CHECK_EQ(profile->trace->event_count, 3);
    CHECK_EQ(loss_of(profile, "without a time, or before time 0"), 3);
    CHECK_EQ(loss_of(profile, "below zero or beyond reason; taken as none"), 2);
    CHECK_EQ(loss_of(profile, "asynchronous, objects and the like are not read"), 1);
    lw_profile_free(profile);
}

TEST(begins_and_ends_are_joined_by_thread)
{
    struct lw_profile *profile = read_text(
        "[{\"ph\":\"B\",\"ts\":1,\"name\":\"a\"},{\"ph\":\"B\",\"ts\":2,\"name\":\"b\"},"
        "{\"ph\":\"E\",\"ts\":5},{\"ph\":\"E\",\"ts\":9},{\"ph\":\"E\",\"ts\":10},"
        "{\"ph\":\"B\",\"ts\":11,\"name\":\"c\"},{\"ph\":\"X\",\"ts\":12,\"dur\":3}]");
    const struct lw_event *events = profile->trace->events;

    CHECK_EQ(events[0].duration_ns, 8000);
    CHECK_EQ(events[1].duration_ns, 3000);
    CHECK_EQ(events[1].parent, 0);
    CHECK_EQ(events[2].duration_ns, 4000);
    CHECK_EQ(loss_of(profile, "ended but not begun"), 1);
    CHECK_EQ(loss_of(profile, "begun and not ended; taken to end with the last"), 1);
    lw_profile_free(profile);
}

TEST(a_file_of_which_nothing_can_be_read_says_why)
{
    CHECK_STR(failure_of("{\"traceEvents\": [{\"ph\":\"X\","),
              "at byte 27: the text ends too early");
    CHECK_STR(failure_of("{\"traceEvents\": 7, 8"),
              "at byte 19: no key where one should be");
    CHECK_STR(failure_of("{\"a\" 7}"), "at byte 1: a member that cannot be read");
    CHECK_STR(failure_of(""), "at byte 0: no list of events");
    CHECK_STR(
        failure_of("[{\"ph\" \"X\"}]"),
        "no event can be read (1 broken JSON, 0 without a time or before time 0)");
}

/* Events 0 to COUNT-1, one a line, of different lengths. */
static void add_events(struct lw_buf *text, size_t count, size_t longest)
{
    lw_buf_add_text(text, "{\"schemaVersion\": 1, \"traceEvents\": [");
    for (size_t i = 0; i < count; i++) {
        lw_buf_addf(text,
                    "%s\n{\"ph\":\"X\",\"cat\":\"cpu_op\",\"pid\":1,\"tid\":%zu,"
                    "\"ts\":%zu.%03zu,\"dur\":2,\"name\":\"n%zu",
                    i ? "," : "", i % 3, i, i % 1000, i % 50);
        lw_buf_add_repeat(text, 'x', longest ? i * 7919 % longest : 0);
        lw_buf_addf(text, "\",\"args\":{\"Sequence number\":%zu,\"Call stack\":\"", i);
        lw_buf_add_repeat(text, 's', i % 97);
        lw_buf_add_text(text, "\"}}");
    }
    lw_buf_add_text(text, "\n], \"traceName\": \"x\"}");
}

static void check_events(const struct lw_profile *profile, size_t count)
{
    uint64_t sequences = 0;

    CHECK_EQ(profile->trace->event_count, count);
    CHECK_EQ(profile->loss_count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct lw_event *event = &profile->trace->events[i];
        uint64_t sequence = (uint64_t)profile->trace->ops[event->detail].sequence;

        CHECK_EQ(event->start_ns, sequence * 1000 + sequence % 1000);
        sequences += sequence;
    }
    CHECK_EQ(sequences, (uint64_t)count * (count - 1) / 2);
}

TEST(events_lie_across_the_ends_of_windows_and_may_be_larger_than_one)
{
    struct lw_buf text;

    for (size_t longest = 0; longest < 1000000; longest = longest * 10 + 7) {
        struct lw_profile *profile;
        struct lw_error err = { LW_OK, "" };

        lw_buf_init(&text, 0);
        add_events(&text, longest > 10000 ? 40 : 9000, longest);
        profile = read_bytes(text.bytes, text.len, LW_WANT_TRACE, &err);
        CHECK_STR(err.text, "");
        check_events(profile, longest > 10000 ? 40 : 9000);
        lw_profile_free(profile);
        lw_buf_release(&text);
    }
}

TEST(a_file_that_is_cut_anywhere_gives_what_came_before)
{
    struct lw_buf text;
    size_t first;

    lw_buf_init(&text, 0);
    add_events(&text, 12, 20);
    first = (size_t)(strstr(text.bytes, "}},") - text.bytes) + 2;
    for (size_t len = first; len < text.len; len++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_profile *profile =
            read_bytes(text.bytes, len, LW_WANT_TRACE | LW_WANT_CALLS, &err);
        size_t whole = 0;

        CHECK_STR(err.text, "");
        for (const char *p = text.bytes;
             (p = strstr(p, "}}")) && p + 2 <= text.bytes + len; p++)
            whole++;
        CHECK_EQ(profile->trace->event_count, whole);
        CHECK_EQ(loss_of(profile, "the file stops before its end"), 1);
        CHECK_EQ(profile->loss_count, 1);
        lw_profile_free(profile);
    }
    lw_buf_release(&text);
}

TEST(gzip_that_is_cut_or_damaged_gives_what_came_before)
{
    struct lw_buf text, packed;
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile;

    lw_buf_init(&text, 0);
    lw_buf_init(&packed, 0);
    add_events(&text, 20000, 40);
    CHECK(lw_deflate(text.bytes, text.len, &packed, &err));
    profile = read_bytes(packed.bytes, packed.len, LW_WANT_TRACE, &err);
    check_events(profile, 20000);
    lw_profile_free(profile);

    profile = read_bytes(packed.bytes, packed.len * 2 / 3, LW_WANT_TRACE, &err);
    CHECK(profile && profile->trace->event_count > 10000);
    CHECK_EQ(profile->loss_count, 1);
    CHECK_STR(lw_profile_text(profile, profile->losses[0].unit), "files cut short");
    lw_profile_free(profile);

    memset(packed.bytes + packed.len / 2, 0xff, 64);
    profile = read_bytes(packed.bytes, packed.len, LW_WANT_TRACE, &err);
    CHECK(profile && profile->trace->event_count > 5000 &&
          profile->trace->event_count < 20000);
    CHECK(strncmp(lw_profile_text(profile, profile->losses[0].cause), "gzip, at byte",
                  13) == 0);
    lw_profile_free(profile);
    lw_buf_release(&text);
    lw_buf_release(&packed);
}

TEST(ranks_with_different_bases_are_put_on_one_clock)
{
    static const char *const texts[] = {
        "{\"traceEvents\":[" X("\"a\"",
                               "5") "],\"distributedInfo\":{\"rank\":1,"
                                    "\"world_size\":3},\"baseTimeNanoseconds\":9000}",
        "{\"traceEvents\":[" X(
            "\"b\"", "6") ",{\"ph\":\"C\",\"name\":\"c\",\"ts\":7,"
                          "\"args\":{\"value\":2}}],\"distributedInfo\":{\"rank\":0},"
                          "\"baseTimeNanoseconds\":2000}",
    };
    struct lw_profile *ranks[2], *both;
    struct lw_error err = { LW_OK, "" };

    for (int i = 0; i < 2; i++)
        ranks[i] = read_text(texts[i]);
    both = lw_profile_merge((const struct lw_profile *const *)ranks, 2, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(both->trace->base_ns, 2000);
    CHECK_EQ(both->trace->rank_count, 2);
    CHECK_EQ(both->trace->ranks[0].rank, 0);
    CHECK_EQ(both->trace->ranks[1].rank, 1);
    CHECK_STR(name_of(both, 0), "a");
    CHECK_EQ(both->trace->events[0].start_ns, 12000);
    CHECK_EQ(both->trace->tracks[both->trace->events[0].track].rank, 1);
    CHECK_EQ(both->trace->events[1].start_ns, 6000);
    CHECK_EQ(both->trace->points[0].time_ns, 7000);
    CHECK_EQ(both->trace->points[0].rank, 0);
    CHECK_EQ(loss_of(both, "of the job that have no trace here"), 1);
    lw_profile_free(both);
    lw_profile_free(ranks[0]);
    lw_profile_free(ranks[1]);
}

TEST(running_out_of_memory_is_a_sentence)
{
    struct lw_buf text;
    bool done = false;
    size_t failures = 0;

    lw_buf_init(&text, 0);
    add_events(&text, 30, 100);
    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_profile *profile;

        lw_alloc_fail_in(n);
        profile = read_bytes(text.bytes, text.len,
                             LW_WANT_TRACE | LW_WANT_ARGS | LW_WANT_ALL, &err);
        lw_alloc_fail_in(0);
        done = profile != NULL;
        CHECK(done || err.code == LW_ERR_NOMEM);
        lw_profile_free(profile);
        failures += !done;
    }
    CHECK(failures > 20);
    lw_buf_release(&text);
}

static bool exists(const char *name)
{
    bool found = false;

    CHECK(lw_profile_exists(name, LW_RUN_BY_ALL, &found, NULL));
    return found;
}

TEST(a_folder_is_a_profile_if_a_file_in_it_is_a_trace)
{
    char folder[] = "/tmp/lapwing-ranks-XXXXXX", file[64];
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile;

    CHECK(mkdtemp(folder) != NULL);
    CHECK(!exists(folder));
    snprintf(file, sizeof(file), "%s/notes.json", folder);
    CHECK(lw_file_replace(file, "{\"a\": 1}", 8, &err));
    CHECK(!exists(folder));
    profile = lw_profile_open(folder, LW_WANT_TRACE, &err);
    CHECK(!profile && strstr(err.text, "holds no trace and no run"));
    snprintf(file, sizeof(file), "%s/rank-2.json", folder);
    CHECK(lw_file_replace(file, "[" X("\"a\"", "1") "]",
                          strlen("[" X("\"a\"", "1") "]"), &err));
    CHECK(exists(folder));
    err.code = LW_OK;
    profile = lw_profile_open(folder, LW_WANT_TRACE, &err);
    CHECK(profile && profile->trace->ranks[0].rank == 2);
    lw_profile_free(profile);
    CHECK(lw_file_remove_folder(folder, &err));
}

/* Each of them might look at everything behind it. */
TEST(a_file_that_is_broken_all_over_is_read_at_once)
{
    struct lw_buf text;
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *profile;

    lw_buf_init(&text, 0);
    lw_buf_add_text(&text, "[" X("\"a\"", "1"));
    for (int i = 0; i < 100000; i++)
        lw_buf_add_text(&text, ",{\"ph\":\"X\",\"args\":{\"x\":[[");
    profile = read_bytes(text.bytes, text.len, LW_WANT_TRACE, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(profile->trace->event_count, 1);
    CHECK_EQ(loss_of(profile, "broken JSON"), 99999);
    CHECK_EQ(loss_of(profile, "the file stops before its end"), 1);
    lw_profile_free(profile);
    lw_buf_release(&text);
}
