/* Runs: folders made, found, listed and removed; run.json; packed files. */

#include "lap_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run of two processes in RUNS, finished. */
static void make_run(const char *path, const char *runs, const char *program,
                     uint64_t wall_start_ns)
{
    struct lw_run run;

    CHECK_DONE(lw_run_create(&run, path, runs, program, ERR));
    run.info.start_ns = 1000;
    run.info.wall_start_ns = wall_start_ns;
    CHECK_DONE(lw_run_info_set_command(&run.info, program, ERR));
    CHECK_DONE(lw_run_save(&run, ERR));
    fixture_write(run.path, 1, 3, NULL);
    fixture_write(run.path, 2, 2, NULL);
    run.info.state = LW_RUN_FINISHED;
    run.info.end_ns = 900;
    CHECK_DONE(lw_run_save(&run, ERR));
    lw_run_close(&run);
}

TEST(run_json_is_read_as_it_was_written)
{
    struct lw_run_info a, b;
    struct lw_buf text = { 0 };

    lw_run_info_init(&a);
    lw_run_info_init(&b);
    a.state = LW_RUN_FINISHED;
    a.rank = 3;
    a.exit_code = 139;
    a.start_ns = 18446744073709551615ull;
    a.end_ns = 2;
    a.wall_start_ns = 3;
    a.wall_end_ns = 4;
    CHECK_DONE(lw_run_info_set_command(&a, "train.py \"x\"\n", ERR));
    CHECK_DONE(lw_run_info_add_argument(&a, "train.py", ERR));
    CHECK_DONE(lw_run_info_add_argument(&a, "", ERR));
    CHECK_DONE(lw_run_info_set_parameter(&a, "lr", "0.1", ERR));
    CHECK_DONE(lw_run_info_set_fact(&a, "host", "one", ERR));
    CHECK_DONE(lw_run_info_set_fact(&a, "commit", "1cc6fe5", ERR));
    CHECK_DONE(lw_run_info_set_fact(&a, "gone", "x", ERR));
    CHECK_DONE(lw_run_info_set_fact(&a, "host", "two", ERR));
    CHECK_DONE(lw_run_info_set_fact(&a, "gone", NULL, ERR));
    CHECK_DONE(lw_run_info_add_loss(&a, "disk full", "spans", 5, ERR));
    CHECK_DONE(lw_run_info_add_loss(&a, "disk full", "spans", 6, ERR));
    lw_run_info_write(&a, &text);
    CHECK(!text.failure);

    CHECK_DONE(lw_run_info_read(&b, text.bytes, text.len, ERR));
    CHECK_EQ(b.state, LW_RUN_FINISHED);
    CHECK_EQ(b.rank, 3);
    CHECK_EQ(b.exit_code, 139);
    CHECK_EQ(b.start_ns, a.start_ns);
    CHECK_EQ(b.wall_end_ns, 4);
    CHECK_STR(b.command, "train.py \"x\"\n");
    CHECK_EQ(b.argument_count, 2);
    CHECK_STR(b.arguments[1], "");
    CHECK_EQ(b.parameter_count, 1);
    CHECK_STR(b.parameters[0].value, "0.1");
    CHECK_EQ(b.fact_count, 2);
    CHECK_STR(lw_run_info_fact(&b, "host"), "two");
    CHECK(!lw_run_info_fact(&b, "gone"));
    CHECK_EQ(b.loss_count, 1);
    CHECK_STR(b.losses[0].cause, "disk full");
    CHECK_EQ(b.losses[0].count, 11);
    lw_run_info_release(&a);
    lw_run_info_release(&b);
    lw_buf_release(&text);
}

static bool read_text(const char *text, struct lw_error *err)
{
    struct lw_run_info info;
    bool done;

    lw_run_info_init(&info);
    done = lw_run_info_read(&info, text, strlen(text), err);
    lw_run_info_release(&info);
    return done;
}

TEST(run_json_may_hold_more_but_not_something_else)
{
    struct lw_error err = { LW_OK, "" };

    CHECK(
        read_text("{\"new\": {\"a\": [1, {}]}, \"format\": \"lapwing run\", "
                  "\"major\": 1, \"minor\": 9, \"facts\": {\"a\": 1, \"b\": []}, "
                  "\"clock\": {\"start_ns\": \"x\"}, \"losses\": [{\"cause\": null}]}",
                  &err));
    CHECK(!read_text("{}", &err));
    CHECK_STR(err.text, "does not say that it is a Lapwing run");
    CHECK(!read_text("", &err));
    CHECK(!read_text("[1]", &err));
    CHECK(!read_text("{\"format\": \"lapwing run\", \"arguments\": [1]}", &err));
    CHECK(!read_text("{\"format\": \"lapwing run\", \"losses\": [1]}", &err));
    CHECK(!read_text("{\"format\": \"lapwing run\", \"facts\": {", &err));
    CHECK(!read_text("{\"format\": \"lapwing run\", \"major\": 2}", &err));
    CHECK_EQ(err.code, LW_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "please update lapwing"));
}

TEST(a_new_run_is_named_after_time_and_program_and_is_private)
{
    char *folder = fixture_folder();
    struct lw_run a, b;
    struct stat about;

    CHECK_DONE(lw_run_create(&a, NULL, folder, "/x/my train.v2.py", ERR));
    CHECK_DONE(lw_run_create(&b, NULL, folder, "/x/my train.v2.py", ERR));
    CHECK(strcmp(a.path, b.path) != 0);
    CHECK_EQ(strlen(a.name), strlen("20261115-200731-my_train.v2"));
    CHECK(strstr(a.name, "-my_train.v2"));
    CHECK(stat(a.path, &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0700);
    CHECK_DONE(lw_run_save(&a, ERR));
    CHECK(stat(in_folder(a.path, "run.json"), &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600);
    CHECK(lw_file_exists(in_folder(folder, ".gitignore")));
    lw_run_close(&a);
    lw_run_close(&b);
    fixture_remove(folder);
}

TEST(a_named_run_does_not_overwrite_anything)
{
    char *folder = fixture_folder();
    char path[300];
    struct lw_error err = { LW_OK, "" };
    struct lw_run run;

    snprintf(path, sizeof(path), "%s/a/b/one.lap/", folder);
    CHECK_DONE(lw_run_create(&run, path, NULL, "x", ERR));
    CHECK_STR(run.name, "one");
    CHECK_DONE(lw_run_save(&run, ERR));
    lw_run_close(&run);
    CHECK(!lw_run_create(&run, path, NULL, "x", &err));
    CHECK_EQ(err.code, LW_ERR_USAGE);
    CHECK(strstr(err.text, "one.lap is there already: remove it or name another"));
    lw_run_close(&run);

    snprintf(path, sizeof(path), "%s/empty", folder);
    CHECK(mkdir(path, 0755) == 0);
    CHECK_DONE(lw_run_create(&run, path, NULL, "x", ERR));
    lw_run_close(&run);
    CHECK(!lw_run_create(&run, "/proc/no/such", NULL, "x", &err));
    CHECK_EQ(err.code, LW_ERR_IO);
    lw_run_close(&run);
    fixture_remove(folder);
}

TEST(the_reserve_holds_room_until_it_is_freed_and_goes_with_the_recorder)
{
    char *folder = fixture_folder();
    char path[300];
    struct lw_run run, reader;
    struct stat about;

    CHECK_DONE(lw_run_create(&run, in_folder(folder, "x.lap"), NULL, "x", ERR));
    CHECK_DONE(lw_run_save(&run, ERR));
    snprintf(path, sizeof(path), "%s/reserve", run.path);
    CHECK(stat(path, &about) == 0);
    CHECK_EQ(about.st_size, 65536);
    CHECK_EQ(about.st_mode & 0777, 0600);
    CHECK_DONE(lw_run_open(&reader, run.path, NULL, ERR));
    CHECK_EQ(reader.info.state, LW_RUN_RUNNING);
    lw_run_close(&reader);
    lw_run_free_reserve(&run);
    CHECK(stat(path, &about) == 0);
    CHECK_EQ(about.st_size, 0);
    CHECK_DONE(lw_run_open(&reader, run.path, NULL, ERR));
    CHECK_EQ(reader.info.state, LW_RUN_RUNNING);
    CHECK(!lw_run_remove(&reader, NULL)); /* it is still being recorded */
    lw_run_close(&reader);
    lw_run_close(&run);
    CHECK(!lw_file_exists(path));
    fixture_remove(folder);
}

TEST(a_run_whose_recorder_was_killed_is_broken_off)
{
    char *folder = fixture_folder();
    struct lw_run run;
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (!lw_run_create(&run, in_folder(folder, "x.lap"), NULL, "x", NULL) ||
            !lw_run_save(&run, NULL))
            _exit(1);
        _exit(0); /* as a killed one: nothing is closed */
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(lw_file_exists(in_folder(folder, "x.lap/reserve")));
    CHECK_DONE(lw_run_open(&run, in_folder(folder, "x.lap"), NULL, ERR));
    CHECK_EQ(run.info.state, LW_RUN_BROKEN);
    CHECK_DONE(lw_run_remove(&run, ERR));
    CHECK(!lw_file_exists(run.path));
    lw_run_close(&run);
    fixture_remove(folder);
}

TEST(a_run_is_found_by_path_by_name_or_as_the_latest)
{
    char *folder = fixture_folder();
    struct lw_error err = { LW_OK, "" };
    struct lw_run run;
    char path[300];

    CHECK(!lw_run_open(&run, NULL, folder, &err));
    CHECK(strstr(err.text, "there is no run in "));
    CHECK(!lw_run_open(&run, NULL, "/no/such/folder", &err));
    make_run(in_folder(folder, "second.lap"), NULL, "b.py", 2000);
    make_run(in_folder(folder, "first.lap"), NULL, "a.py", 1000);
    CHECK(mkdir(in_folder(folder, "not a run"), 0700) == 0);

    CHECK_DONE(lw_run_open(&run, NULL, folder, ERR));
    CHECK_STR(run.name, "second");
    CHECK(run.bytes > 500);
    lw_run_close(&run);
    CHECK_DONE(lw_run_open(&run, "first", folder, ERR));
    CHECK_STR(run.info.command, "a.py");
    lw_run_close(&run);
    CHECK_DONE(lw_run_open(&run, "first.lap", folder, ERR));
    lw_run_close(&run);
    snprintf(path, sizeof(path), "%s/first.lap//", folder);
    CHECK_DONE(lw_run_open(&run, path, NULL, ERR));
    CHECK_STR(run.name, "first");
    lw_run_close(&run);

    CHECK(!lw_run_open(&run, "third", folder, &err));
    CHECK(strstr(err.text, "there is no file third, and no run of that name in "));
    CHECK_EQ(err.code, LW_ERR_USAGE);
    lw_run_close(&run);
    CHECK(!lw_run_open(&run, in_folder(folder, "not a run"), NULL, &err));
    CHECK(strstr(err.text, "is not a Lapwing run"));
    lw_run_close(&run);
    CHECK(!lw_run_open(&run, in_folder(folder, "first.lap/p0001-000001.seg"), NULL,
                       &err));
    CHECK(strstr(err.text, "is one segment of a run: name the folder it is in"));
    lw_run_close(&run);
    fixture_remove(folder);
}

static void check_found(const char *folder, const char *word, const char *wanted)
{
    struct lw_run run;

    CHECK_DONE(lw_run_open(&run, word, folder, ERR));
    CHECK_STR(run.name, wanted);
    lw_run_close(&run);
}

static void check_not_found(const char *folder, const char *word, const char *why)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_run run;

    CHECK(!lw_run_open(&run, word, folder, &err));
    CHECK_EQ(err.code, LW_ERR_USAGE);
    CHECK(strstr(err.text, why));
    lw_run_close(&run);
}

TEST(a_run_is_meant_by_its_place_the_start_of_its_name_or_its_program)
{
    char *folder = fixture_folder();

    make_run(in_folder(folder, "20261115-100000-train.lap"), NULL, "train.py", 1000);
    make_run(in_folder(folder, "20261115-110000-eval.lap"), NULL, "eval.py", 2000);
    make_run(in_folder(folder, "20261116-100000-train-2.lap"), NULL, "train.py", 3000);

    check_found(folder, "latest", "20261116-100000-train-2");
    check_found(folder, "-1", "20261116-100000-train-2");
    check_found(folder, "-3", "20261115-100000-train");
    check_found(folder, "20261116", "20261116-100000-train-2");
    check_found(folder, "20261115-11", "20261115-110000-eval");
    check_found(folder, "train", "20261116-100000-train-2");
    check_found(folder, "src/train.py", "20261116-100000-train-2");
    check_found(folder, "eval", "20261115-110000-eval");
    check_not_found(folder, "-4", "there is no run -4: ");
    check_not_found(folder, "20261115", "2 runs begin with '20261115': ");
    check_not_found(folder, "2026", "there is no file 2026"); /* a number */
    check_not_found(folder, "tra", "there is no file tra");
    check_not_found(folder, "20261115-110000-evla",
                    "did you mean the run "
                    "20261115-110000-eval?");
    fixture_remove(folder);
}

TEST(a_name_goes_before_every_other_way_to_mean_a_run)
{
    char *folder = fixture_folder();

    make_run(in_folder(folder, "latest.lap"), NULL, "a.py", 1000);
    make_run(in_folder(folder, "20261115-100000-latest.lap"), NULL, "latest.py", 2000);
    check_found(folder, "latest", "latest");
    check_found(folder, "-1", "20261115-100000-latest");
    fixture_remove(folder);
}

TEST(runs_are_listed_from_the_oldest_to_the_latest)
{
    char *folder = fixture_folder();
    struct lw_run_list list;

    CHECK_DONE(lw_run_list_read(&list, in_folder(folder, "none"), ERR));
    CHECK_EQ(list.count, 0);
    lw_run_list_release(&list);
    make_run(in_folder(folder, "b.lap"), NULL, "b.py", 2000);
    make_run(in_folder(folder, "c.lap"), NULL, "c.py", 3000);
    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    CHECK(mkdir(in_folder(folder, "other"), 0700) == 0);
    CHECK_DONE(lw_run_list_read(&list, folder, ERR));
    CHECK_EQ(list.count, 3);
    CHECK_STR(list.runs[0].name, "a");
    CHECK_STR(list.runs[2].name, "c");
    CHECK_EQ(list.runs[2].info.state, LW_RUN_FINISHED);
    lw_run_list_release(&list);
    fixture_remove(folder);
}

TEST(a_run_without_run_json_still_reads)
{
    char *folder = fixture_folder();
    struct lw_profile *p;
    int fd;

    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    fd = open(in_folder(folder, "a.lap/run.json"), O_WRONLY | O_TRUNC);
    CHECK(write(fd, "{\"for", 5) == 5);
    close(fd);
    p = fixture_load(in_folder(folder, "a.lap"), LW_WANT_ALL);
    CHECK_EQ(p->process_count, 2);
    CHECK_STR(lw_profile_fact(p, "state"), "broken off");
    lw_profile_free(p);
    CHECK(unlink(in_folder(folder, "a.lap/run.json")) == 0);
    p = fixture_load(in_folder(folder, "a.lap"), LW_WANT_ALL);
    CHECK_EQ(p->process_count, 2);
    CHECK(p->start_ns && p->end_ns);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(an_empty_run_reads_as_an_empty_profile)
{
    char *folder = fixture_folder();
    struct lw_profile *p;
    struct lw_run run;

    CHECK_DONE(lw_run_create(&run, in_folder(folder, "x.lap"), NULL, "x", ERR));
    CHECK_DONE(lw_run_save(&run, ERR));
    p = fixture_load(run.path, LW_WANT_ALL);
    CHECK_EQ(p->process_count, 0);
    CHECK_STR(lw_profile_fact(p, "state"), "running");
    lw_profile_free(p);
    lw_run_close(&run);
    fixture_remove(folder);
}

TEST(missing_and_broken_segments_are_losses)
{
    char *folder = fixture_folder();
    struct lw_lap_writer_options small = { .segment_bytes = 3000 };
    struct lw_error err = { LW_OK, "" };
    struct lw_profile *p;
    char path[300];
    int fd;

    fixture_write(folder, 1, 100, &small);
    CHECK(unlink(in_folder(folder, "p0001-000003.seg")) == 0);
    fd = open(in_folder(folder, "p0001-000002.seg"), O_WRONLY);
    CHECK(write(fd, "garbage!", 8) == 8);
    close(fd);
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(fixture_loss(p, "missing", "segments"), 1);
    CHECK_EQ(fixture_loss(p, "could not be read", "segments"), 1);
    CHECK(p->span_count > 50 && p->span_count < 200);
    CHECK_STR(lw_profile_text(p, p->processes[0].command), "train.py --epochs 3");
    lw_profile_free(p);

    /* Only garbage: then the sentence says so. */
    snprintf(path, sizeof(path), "%s/x.lap", folder);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/x.lap/p0001-000001.seg", folder);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(write(fd, "garbage!", 8) == 8);
    CHECK(!lw_lap_load(in_folder(folder, "x.lap"), LW_WANT_ALL, &err));
    CHECK(strstr(err.text, "p0001-000001.seg: not a segment of a Lapwing recording"));
    close(fd);
    fixture_remove(folder);
}

TEST(only_what_is_a_run_is_removed)
{
    char *folder = fixture_folder();
    struct lw_error err = { LW_OK, "" };
    struct lw_run run;
    int fd;

    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    fd = open(in_folder(folder, "a.lap/thesis.txt"), O_WRONLY | O_CREAT, 0600);
    close(fd);
    CHECK_DONE(lw_run_open(&run, in_folder(folder, "a.lap"), NULL, ERR));
    CHECK(!lw_run_remove(&run, &err));
    CHECK(strstr(err.text, "holds thesis.txt, which is not part of a run: nothing was "
                           "removed"));
    CHECK(lw_file_exists(in_folder(folder, "a.lap/run.json")));
    CHECK(unlink(in_folder(folder, "a.lap/thesis.txt")) == 0);
    CHECK_DONE(lw_run_remove(&run, ERR));
    CHECK(!lw_file_exists(run.path));
    lw_run_close(&run);
    fixture_remove(folder);
}

TEST(a_packed_run_reads_as_the_folder_does)
{
    char *folder = fixture_folder(), *a, *b;
    char path[300];
    struct lw_run run;
    struct stat about;

    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    snprintf(path, sizeof(path), "%s/a.lapz", folder);
    CHECK_DONE(lw_run_open(&run, in_folder(folder, "a.lap"), NULL, ERR));
    CHECK_DONE(lw_run_pack(&run, path, ERR));
    lw_run_close(&run);
    CHECK(stat(path, &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600);
    a = fixture_dump(fixture_load(in_folder(folder, "a.lap"), LW_WANT_ALL));
    b = fixture_dump(fixture_load(path, LW_WANT_ALL));
    CHECK_STR(a, b);
    lw_free(b);

    CHECK_DONE(lw_run_open(&run, path, NULL, ERR));
    CHECK(run.is_packed);
    CHECK_STR(run.name, "a");
    CHECK_STR(run.info.command, "a.py");
    CHECK_EQ(run.file_count, 3);
    /* Packing the packed gives the same again. */
    CHECK_DONE(lw_run_pack(&run, in_folder(folder, "again.lapz"), ERR));
    CHECK_DONE(lw_run_remove(&run, ERR));
    CHECK(!lw_file_exists(path));
    lw_run_close(&run);
    b = fixture_dump(fixture_load(in_folder(folder, "again.lapz"), LW_WANT_ALL));
    CHECK_STR(a, b);
    lw_free(a);
    lw_free(b);

    CHECK_DONE(lw_run_open(&run, in_folder(folder, "a.lap"), NULL, ERR));
    CHECK(!lw_run_pack(&run, in_folder(folder, "no/such/folder.lapz"), NULL));
    lw_run_close(&run);
    fixture_remove(folder);
}

TEST(a_packed_run_cut_or_changed_anywhere_never_does_harm)
{
    char *folder = fixture_folder();
    struct lw_file_view view;
    struct lw_run run;
    size_t opened = 0;

    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    CHECK_DONE(lw_run_open(&run, in_folder(folder, "a.lap"), NULL, ERR));
    CHECK_DONE(lw_run_pack(&run, in_folder(folder, "a.lapz"), ERR));
    lw_run_close(&run);
    CHECK_DONE(lw_file_read(&view, in_folder(folder, "a.lapz"), 0, ERR));
    for (size_t i = 0; i < 2 * view.len; i += 3) {
        bool cut = i < view.len;
        char *bytes = lw_copy_text((const char *)view.bytes, cut ? i : view.len, NULL);
        struct lw_builder *builder = lw_builder_new(NULL);
        struct lw_error err = { LW_OK, "" };

        if (!cut)
            bytes[i - view.len] ^= 4;
        if (lw_run_open_bytes(&run, bytes, cut ? i : view.len, "a.lapz", &err) &&
            lw_lap_read(&run, LW_WANT_ALL, builder, &err))
            opened++;
        else
            CHECK(err.text[0]);
        lw_run_close(&run);
        lw_builder_free(builder);
        lw_free(bytes);
    }
    CHECK(opened > view.len / 4);
    lw_file_close(&view);
    fixture_remove(folder);
}

TEST(running_out_of_memory_never_leaves_a_half_packed_file)
{
    char *folder = fixture_folder();
    bool done = false;

    make_run(in_folder(folder, "a.lap"), NULL, "a.py", 1000);
    for (uint64_t n = 1; !done; n++) {
        struct lw_error err = { LW_OK, "" };
        struct lw_run run;
        char path[300], out[300];

        snprintf(path, sizeof(path), "%s/a.lap", folder);
        snprintf(out, sizeof(out), "%s/out.lapz", folder);
        lw_alloc_fail_in(n);
        done = lw_run_open(&run, path, NULL, &err) && lw_run_pack(&run, out, &err);
        lw_alloc_fail_in(0);
        lw_run_close(&run);
        CHECK(done || err.code == LW_ERR_NOMEM);
        CHECK_EQ(lw_file_exists(out), done);
    }
    fixture_remove(folder);
}
