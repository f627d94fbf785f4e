/* Windows of torch's profiler in a run: named, packed, counted, dropped, read, removed. */

#include "held.h"
#include "lap_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inflate.h"
#include "lap/traces.h"
#include "model/trace.h"
#include "readers/reader.h"

/* A trace in which NAME is the one op, padded to BYTES. */
static void write_trace(const char *folder, const char *file, const char *name,
                        size_t bytes)
{
    char head[400];
    int len = snprintf(head, sizeof(head),
                       "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", "
                       "\"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, "
                       "\"ts\": 1.5, \"dur\": 2.25, \"args\": {\"External id\": 1}}]}",
                       name);
    int fd = open(in_folder(folder, file), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && len > 0 && (size_t)len < sizeof(head));
    CHECK(write(fd, head, (size_t)len) == len);
    for (size_t at = (size_t)len; at < bytes; at++)
        CHECK(write(fd, " ", 1) == 1);
    close(fd);
}

/* A run with two windows of rank 0, one of a process without a rank, and one that was
 * being written. */
static char *make_run(const char *folder)
{
    struct lw_run run;
    char *path = lw_path_join(folder, "t.lap", NULL);

    CHECK(path);
    CHECK_DONE(lw_run_create(&run, path, NULL, "t", ERR));
    CHECK_DONE(lw_run_save(&run, ERR));
    fixture_write(run.path, 1, 3, NULL);
    CHECK(mkdir(in_folder(path, "traces"), 0700) == 0);
    write_trace(path, "traces/rank0-000001.pt.trace.json", "aten::first", 4000);
    write_trace(path, "traces/rank0-000002.pt.trace.json", "aten::second", 1000);
    write_trace(path, "traces/pid77-000001.pt.trace.json", "aten::other", 1000);
    write_trace(path, "traces/.lapwing-77.json", "aten::cut", 0);
    run.info.state = LW_RUN_FINISHED;
    CHECK_DONE(lw_run_save(&run, ERR));
    lw_run_close(&run);
    return path;
}

static bool has_event(const struct lw_profile *profile, const char *name)
{
    const struct lw_trace *trace = profile->trace;

    for (size_t i = 0; trace && i < trace->event_count; i++)
        if (strcmp(lw_strings_text(profile->strings, trace->events[i].name), name) == 0)
            return true;
    return false;
}

TEST(names_say_whose_window_it_is)
{
    CHECK(lw_trace_is_name("traces/rank0-000001.pt.trace.json"));
    CHECK(lw_trace_is_name("traces/pid77-000012.pt.trace.json.gz"));
    CHECK(!lw_trace_is_name("rank0-000001.pt.trace.json"));
    CHECK(!lw_trace_is_name("traces/.lapwing-77.json"));
    CHECK(!lw_trace_is_name("traces/a/rank0-000001.pt.trace.json"));
    CHECK(!lw_trace_is_name("traces/notes.txt"));
    CHECK(lw_trace_is_same_owner("traces/rank1-000001.pt.trace.json",
                                 "traces/rank1-000002.pt.trace.json.gz"));
    CHECK(!lw_trace_is_same_owner("traces/rank1-000001.pt.trace.json",
                                  "traces/rank10-000001.pt.trace.json"));
}

TEST(at_the_end_traces_are_packed_and_what_was_cut_is_gone)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    struct lw_file_view view;
    struct lw_buf plain = { 0 };
    struct stat about;
    uint64_t cut = 0;

    CHECK_EQ(lw_traces_bytes(held(path)), 6000);
    CHECK_DONE(lw_traces_finish(held(path), &cut, ERR));
    CHECK_EQ(cut, 1);
    CHECK(!lw_file_exists(in_folder(path, "traces/.lapwing-77.json")));
    CHECK(!lw_file_exists(in_folder(path, "traces/rank0-000001.pt.trace.json")));
    CHECK(stat(in_folder(path, "traces/rank0-000001.pt.trace.json.gz"), &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600);
    CHECK_DONE(lw_file_open(
        &view, in_folder(path, "traces/rank0-000001.pt.trace.json.gz"), ERR));
    CHECK_DONE(lw_inflate(view.bytes, view.len, &plain, ERR));
    CHECK_EQ(plain.len, 4000);
    CHECK(strstr(plain.bytes, "aten::first"));
    lw_buf_release(&plain);
    lw_file_close(&view);
    CHECK(lw_traces_bytes(held(path)) < 2000);
    CHECK_DONE(lw_traces_finish(held(path), &cut, ERR)); /* nothing is left to do */
    CHECK_EQ(cut, 0);
    lw_free(path);
    fixture_remove(folder);
}

TEST(a_run_without_traces_has_none_to_finish)
{
    char *folder = fixture_folder();
    uint64_t cut = 7;

    CHECK_EQ(lw_traces_bytes(held(folder)), 0);
    CHECK_EQ(lw_traces_drop(held(folder), 100), 0);
    CHECK_DONE(lw_traces_finish(held(folder), &cut, ERR));
    CHECK_EQ(cut, 0);
    fixture_remove(folder);
}

TEST(the_oldest_go_first_and_the_newest_of_a_process_stays)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

    /* However old, it is the only one of its process. */
    CHECK(utimensat(AT_FDCWD, in_folder(path, "traces/pid77-000001.pt.trace.json"), old,
                    0) == 0);
    CHECK_EQ(lw_traces_drop(held(path), 1), 1);
    CHECK(!lw_file_exists(in_folder(path, "traces/rank0-000001.pt.trace.json")));
    CHECK_EQ(lw_traces_bytes(held(path)), 2000);
    CHECK_EQ(lw_traces_drop(held(path), 5000), 0);
    CHECK_EQ(lw_traces_bytes(held(path)), 2000);
    lw_free(path);
    fixture_remove(folder);
}

TEST(a_run_is_read_with_the_last_window_of_each_process)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    struct lw_profile *profile;
    bool told = false;

    profile = lw_profile_open(path, LW_WANT_TRACE, NULL);
    CHECK(profile && profile->trace);
    CHECK_EQ(profile->trace->rank_count, 2);
    CHECK(has_event(profile, "aten::second"));
    CHECK(has_event(profile, "aten::other"));
    CHECK(!has_event(profile, "aten::first"));
    CHECK_EQ(profile->process_count, 1);
    for (size_t i = 0; i < profile->loss_count; i++)
        told |= strcmp(lw_strings_text(profile->strings, profile->losses[i].unit),
                       "windows") == 0 &&
                profile->losses[i].count == 1;
    CHECK(told);
    lw_profile_free(profile);

    /* Who writes timelines gets the run's own. */
    profile =
        lw_profile_open(path, LW_WANT_ALL | LW_WANT_TRACE | LW_WANT_TRACE_ALONE, NULL);
    CHECK(profile && !profile->trace && profile->sample_count > 0);
    lw_profile_free(profile);
    lw_free(path);
    fixture_remove(folder);
}

TEST(a_packed_run_holds_its_windows)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    char pack[300];
    struct lw_profile *profile;
    struct lw_run run;
    uint64_t cut;

    CHECK_DONE(lw_traces_finish(held(path), &cut, ERR));
    snprintf(pack, sizeof(pack), "%s/t.lapz", folder);
    CHECK_DONE(lw_run_open(&run, path, NULL, ERR));
    CHECK_EQ(run.file_count, 5); /* run.json, a segment, three traces */
    CHECK_DONE(lw_run_pack(&run, pack, ERR));
    lw_run_close(&run);
    profile = lw_profile_open(pack, LW_WANT_TRACE, NULL);
    CHECK(profile && has_event(profile, "aten::second"));
    CHECK(has_event(profile, "aten::other"));
    lw_profile_free(profile);
    lw_free(path);
    fixture_remove(folder);
}

TEST(a_window_that_is_no_json_is_a_loss)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    int fd =
        open(in_folder(path, "traces/pid77-000001.pt.trace.json"), O_WRONLY | O_TRUNC);
    struct lw_profile *profile;

    CHECK(write(fd, "hello", 5) == 5);
    close(fd);
    profile = lw_profile_open(path, LW_WANT_TRACE, NULL);
    CHECK(profile && has_event(profile, "aten::second"));
    CHECK(profile->loss_count >= 2);
    lw_profile_free(profile);
    lw_free(path);
    fixture_remove(folder);
}

TEST(a_run_is_removed_with_its_traces_but_not_with_what_somebody_put_there)
{
    char *folder = fixture_folder(), *path = make_run(folder);
    struct lw_error err = { LW_OK, "" };
    struct lw_run run;
    int fd;

    CHECK_DONE(lw_run_open(&run, path, NULL, ERR));
    fd = open(in_folder(path, "traces/notes.txt"), O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(!lw_run_remove(&run, &err));
    CHECK(strstr(err.text, "holds notes.txt, which is not part of a run"));
    CHECK(unlink(in_folder(path, "traces/notes.txt")) == 0);
    CHECK_DONE(lw_run_remove(&run, ERR));
    CHECK(!lw_file_exists(path));
    lw_run_close(&run);
    lw_free(path);
    fixture_remove(folder);
}
