/* The writer: flushes, full disks, segments that are sealed, joined and thinned. */

#include "held.h"
#include "lap_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lap/chunk.h"
#include "lap/segment.h"
#include "lap/thin.h"

static const struct lw_lap_writer_options small_segments = { .segment_bytes = 4000,
                                                             .join_bytes = 1 };
static const struct lw_lap_writer_options joined = { .join_bytes = 1 };

static uint64_t file_bytes(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
}

static unsigned segment_count(const char *folder, uint32_t process)
{
    unsigned n = 0;
    char name[LW_SEGMENT_NAME_BYTES];

    do
        lw_segment_name(process, ++n, name);
    while (lw_file_exists(in_folder(folder, name)));
    return n - 1;
}

static struct lw_segment_head head_of(const char *path)
{
    struct lw_segment_head head;
    struct lw_file_view view;

    CHECK_DONE(lw_file_read(&view, path, 0, ERR));
    CHECK_DONE(lw_segment_head_get(&head, view.bytes, view.len, ERR));
    lw_file_close(&view);
    return head;
}

TEST(what_was_flushed_is_there_though_nothing_was_closed)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_profile *p;

    for (uint64_t i = 0; i < 5; i++) {
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
        p = fixture_load(folder, LW_WANT_ALL);
        CHECK_EQ(p->span_count, 2 * (i + 1));
        CHECK_EQ(p->calls[1].calls, 5 * (i + 1));
        CHECK_EQ(p->loss_count, 1);
        lw_profile_free(p);
    }
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    fixture_remove(folder);
}

TEST(flushing_nothing_writes_nothing)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    const char *path = in_folder(folder, "p0001-000001.seg");

    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    CHECK_EQ(file_bytes(path), LW_SEGMENT_HEAD_BYTES);
    fixture_begin(w);
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    CHECK(file_bytes(path) > LW_SEGMENT_HEAD_BYTES);
    uint64_t before = file_bytes(path);
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    CHECK_EQ(file_bytes(path), before);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    fixture_remove(folder);
}

TEST(recordings_are_for_their_owner_only)
{
    char *folder = fixture_folder();
    struct stat about;
    mode_t before = umask(0);

    fixture_write(folder, 1, 30, &small_segments);
    umask(before);
    CHECK(segment_count(folder, 1) > 1);
    CHECK(stat(in_folder(folder, "p0001-000001.seg"), &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600); /* sealed: replaced by another file */
    CHECK(stat(in_folder(folder, "p0001-000002.seg"), &about) == 0);
    CHECK_EQ(about.st_mode & 0777, 0600);
    fixture_remove(folder);
}

TEST(ids_of_nobody_are_refused)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_frame frame = { .name = 1000 };
    struct lw_call_row rows[] = { { ids.main, ids.leaf, 1, 1 }, { 9, ids.leaf, 1, 1 } };
    struct lw_span span = { .thread = ids.main, .stack = 77 };
    struct lw_sample sample = { .thread = 77, .stack = ids.leaf };
    struct lw_counter_point point = { .name = 1000 };
    struct lw_thread thread = { .name = 1000 };
    struct lw_profile *p;
    uint32_t id;

    CHECK(!lw_lap_writer_frame(w, &frame, &id, NULL));
    CHECK(!lw_lap_writer_push(w, ids.leaf, 1000, &id, NULL));
    CHECK(!lw_lap_writer_push(w, 1000, 1, &id, NULL));
    CHECK(!lw_lap_writer_calls(w, rows, 2, 0, 1, NULL));
    CHECK(!lw_lap_writer_spans(w, &span, 1, NULL));
    CHECK(!lw_lap_writer_samples(w, &sample, 1, NULL));
    CHECK(!lw_lap_writer_counter(w, &point, NULL));
    CHECK(!lw_lap_writer_thread(w, &thread, &id, NULL));
    CHECK(!lw_lap_writer_update_thread(w, 9, &thread, NULL));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->call_count + p->span_count + p->sample_count + p->counter_count, 0);
    CHECK_EQ(p->thread_count, 2);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(a_thread_can_be_told_more_of_later)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_thread thread = { .tid = 4712, .start_ns = 5, .end_ns = 99 };
    struct lw_profile *p;

    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    CHECK_DONE(lw_lap_writer_string(w, "loader", 6, &thread.name, ERR));
    CHECK_DONE(lw_lap_writer_update_thread(w, ids.worker, &thread, ERR));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->thread_count, 2);
    CHECK_STR(lw_profile_text(p, p->threads[1].name), "loader");
    CHECK_EQ(p->threads[1].end_ns, 99);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(many_small_segments_read_as_one_long_one)
{
    char *one = fixture_folder(), *many = fixture_folder(), *a, *b;

    fixture_write(one, 1, 60, NULL);
    fixture_write(many, 1, 60, &small_segments);
    CHECK_EQ(segment_count(one, 1), 1);
    CHECK(segment_count(many, 1) > 3);
    a = fixture_dump(fixture_load(one, LW_WANT_ALL));
    b = fixture_dump(fixture_load(many, LW_WANT_ALL));
    CHECK_STR(a, b);
    lw_free(a);
    lw_free(b);
    fixture_remove(one);
    fixture_remove(many);
}

TEST(sealing_joins_small_chunks_and_changes_nothing_that_is_read)
{
    char *folder = fixture_folder(), *before, *after;
    const char *path;
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, &joined, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_segment_head head;
    uint64_t bytes;

    for (uint64_t i = 0; i < 500; i++) {
        char name[20];

        snprintf(name, sizeof(name), "function_%d", (int)i);
        if (i % 3 == 0) /* so that dictionary chunks are joined too */
            ids.leaf = fixture_push(w, ids.root, name, (uint32_t)i);
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
    }
    before = fixture_dump(fixture_load(folder, LW_WANT_ALL));
    path = in_folder(folder, "p0001-000001.seg");
    bytes = file_bytes(path);
    CHECK(!(head_of(path).flags & LW_SEGMENT_SEALED));
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    head = head_of(path);
    CHECK(head.flags & LW_SEGMENT_SEALED);
    CHECK(head.end_ns >= head.start_ns);
    CHECK(file_bytes(path) * 4 < bytes);
    after = fixture_dump(fixture_load(folder, LW_WANT_ALL));
    CHECK_STR(before, after);
    lw_free(before);
    lw_free(after);
    fixture_remove(folder);
}

TEST(a_damaged_segment_is_sealed_as_it_is)
{
    char *folder = fixture_folder();
    const char *path;
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, &joined, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_profile *p;
    int fd;

    for (uint64_t i = 0; i < 50; i++) {
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
    }
    path = in_folder(folder, "p0001-000001.seg");
    fd = open(path, O_WRONLY);
    CHECK(pwrite(fd, "#", 1, (off_t)file_bytes(path) / 2) == 1);
    close(fd);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    CHECK(head_of(path).flags & LW_SEGMENT_SEALED);
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK(p->loss_count > 1);
    CHECK(p->span_count >= 98);
    lw_profile_free(p);
    fixture_remove(folder);
}

/* The cause of what is missing where ulimit -f stands in the way. */
#define NO_GROWTH "files may not grow any further here"

/* A disk that is full after SIZE bytes a file: writes fail with EFBIG, some after a
 * part was written, just as with ENOSPC. */
static void limit_files(uint64_t size)
{
    struct rlimit limit = { size, RLIM_INFINITY };

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void sleep_past_retry(void)
{
    usleep(300000);
}

TEST(a_full_disk_harms_nothing_and_what_waits_comes_later)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_error err = { LW_OK, "" };
    const char *path = in_folder(folder, "p0001-000001.seg");
    struct lw_profile *p;
    uint64_t bytes;

    fixture_round(w, ids, 0);
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    bytes = file_bytes(path);

    limit_files(bytes + 50); /* room for half of what comes */
    fixture_round(w, ids, 1);
    CHECK(!lw_lap_writer_flush(w, &err));
    CHECK_EQ(err.code, LW_ERR_IO);
    CHECK(strstr(err.text, "cannot write /tmp/lap-test-"));
    CHECK_EQ(file_bytes(path), bytes); /* the half was cut off */
    fixture_round(w, ids, 2);
    CHECK(!lw_lap_writer_flush(w, &err)); /* at once: it does not even try */
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->span_count, 2);
    CHECK_EQ(p->loss_count, 1);
    lw_profile_free(p);

    limit_files(RLIM_INFINITY);
    sleep_past_retry();
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->span_count, 6);
    CHECK_EQ(p->calls[1].calls, 15);
    CHECK_EQ(p->loss_count, 1);
    lw_profile_free(p);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    fixture_remove(folder);
}

TEST(a_disk_that_stays_full_costs_rows_that_are_counted_but_no_calls)
{
    struct lw_lap_writer_options options = { .pending_bytes = 4000 };
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, &options, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_profile *p;

    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    limit_files(file_bytes(in_folder(folder, "p0001-000001.seg")));
    for (uint64_t i = 0; i < 1000; i++) {
        fixture_round(w, ids, i);
        CHECK(!lw_lap_writer_flush(w, NULL));
    }
    limit_files(RLIM_INFINITY);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->calls[1].calls, 5000);
    CHECK_EQ(p->span_count + fixture_loss(p, NO_GROWTH, "spans"), 2000);
    CHECK_EQ(p->sample_count + fixture_loss(p, NO_GROWTH, "samples"), 2000);
    CHECK_EQ(p->counter_count + fixture_loss(p, NO_GROWTH, "counter values"), 1000);
    CHECK(p->span_count > 0 && p->span_count < 200);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(the_last_words_fit_where_nothing_else_does)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_profile *p;

    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    for (uint64_t i = 0; i < 1000; i++)
        fixture_round(w, ids, i * i * i * 1237);
    /* Not for the thousands of rows, but for calls, names and losses. */
    limit_files(file_bytes(in_folder(folder, "p0001-000001.seg")) + 500);
    CHECK(!lw_lap_writer_close(w, NULL));
    limit_files(RLIM_INFINITY);
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->calls[1].calls, 5000);
    CHECK_EQ(p->span_count, 0);
    CHECK_EQ(fixture_loss(p, NO_GROWTH, "spans"), 2000);
    lw_profile_free(p);

    w = lw_lap_writer_open(held(folder), 2, NULL, NULL);
    ids = fixture_begin(w);
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    for (uint32_t i = 0; i < 5000; i++) {
        char name[20];

        snprintf(name, sizeof(name), "f%u", i * 7919);
        ids.leaf = fixture_push(w, ids.root, name, i);
        fixture_round(w, ids, i);
    }
    limit_files(file_bytes(in_folder(folder, "p0002-000001.seg")) + 400);
    CHECK(!lw_lap_writer_close(w, NULL));
    limit_files(RLIM_INFINITY);
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(fixture_loss(p, NO_GROWTH, "calls"), 5000 * 8);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(running_out_of_memory_loses_nothing_that_was_taken)
{
    for (uint64_t n = 1; n < 120; n++) {
        char *folder = fixture_folder();
        struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
        struct fixture_ids ids = fixture_begin(w);
        struct lw_profile *p;
        uint64_t calls = 0, spans = 0;

        for (uint64_t i = 0; i < 20; i++) {
            struct lw_call_row rows[] = { { ids.main, ids.root, 1, i },
                                          { ids.main, ids.leaf, 1, 2 * i },
                                          { ids.worker, ids.leaf, 1, 2 * i } };
            struct lw_span span = { i, i, ids.main, ids.leaf };
            char name[20];
            int len = snprintf(name, sizeof(name), "f%d", (int)i);
            struct lw_frame frame = { .first_line = 3 };

            lw_alloc_fail_in(i == 10 ? n : 0);
            if (lw_lap_writer_string(w, name, (size_t)len, &frame.name, NULL) &&
                lw_lap_writer_frame(w, &frame, &rows[0].stack, NULL) &&
                lw_lap_writer_push(w, ids.root, rows[0].stack, &rows[0].stack, NULL))
                calls += lw_lap_writer_calls(w, rows, 3, i, i + 1, NULL) ? 3 : 0;
            spans += lw_lap_writer_spans(w, &span, 1, NULL);
            if (!lw_lap_writer_loss(w, "ring full", "spans", 1, NULL) ||
                !lw_lap_writer_flush(w, NULL))
                calls += 0; /* the next flush writes it */
            lw_alloc_fail_in(0);
        }
        CHECK_DONE(lw_lap_writer_close(w, ERR));
        p = fixture_load(folder, LW_WANT_ALL);
        for (size_t i = 0; i < p->call_count; i++)
            calls -= p->calls[i].calls;
        CHECK_EQ(calls, 0);
        CHECK_EQ(p->span_count, spans);
        lw_profile_free(p);
        fixture_remove(folder);
    }
}

TEST(running_out_of_memory_while_opening_leaves_no_open_file)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = NULL;
    uint64_t n;

    for (n = 1; !w; n++) {
        struct lw_error err = { LW_OK, "" };

        lw_alloc_fail_in(n);
        w = lw_lap_writer_open(held(folder), 1, NULL, &err);
        lw_alloc_fail_in(0);
        CHECK(w || err.code == LW_ERR_NOMEM);
    }
    CHECK(n > 4);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    fixture_remove(folder);
}

static uint64_t folder_bytes(const char *folder)
{
    struct lw_run run;
    uint64_t bytes;

    CHECK_DONE(lw_run_open(&run, folder, NULL, ERR));
    bytes = run.bytes;
    lw_run_close(&run);
    return bytes;
}

TEST(a_run_that_fits_is_left_alone)
{
    char *folder = fixture_folder();
    uint64_t bytes, before;

    fixture_write(folder, 1, 60, &small_segments);
    before = folder_bytes(folder);
    CHECK_DONE(lw_lap_thin(held(folder), before, &bytes, ERR));
    CHECK_EQ(bytes, before);
    CHECK_EQ(folder_bytes(folder), before);
    CHECK(!(head_of(in_folder(folder, "p0001-000002.seg")).flags & LW_SEGMENT_THINNED));
    fixture_remove(folder);
}

static uint64_t sum_of_weights(const struct lw_profile *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->sample_count; i++)
        sum += p->samples[i].weight_ns;
    return sum;
}

TEST(thinning_keeps_all_sums_and_says_what_is_gone)
{
    char *folder = fixture_folder();
    uint64_t bytes = 0, rounds = 600;
    struct lw_profile *before, *after;
    unsigned segments;

    fixture_write(folder, 1, rounds, &small_segments);
    segments = segment_count(folder, 1);
    CHECK(segments > 20);
    before = fixture_load(folder, LW_WANT_ALL);
    for (uint64_t max = folder_bytes(folder) * 9 / 10; max > 4000; max -= max / 8) {
        CHECK_DONE(lw_lap_thin(held(folder), max, &bytes, ERR));
        after = fixture_load(folder, LW_WANT_ALL);
        CHECK_EQ(after->call_count, 3);
        for (size_t i = 0; i < 3; i++) {
            CHECK_EQ(after->calls[i].calls, before->calls[i].calls);
            CHECK_EQ(after->calls[i].self_ns, before->calls[i].self_ns);
        }
        CHECK_EQ(sum_of_weights(after), sum_of_weights(before));
        CHECK_EQ(after->counter_count, rounds);
        CHECK_EQ(after->span_count +
                     fixture_loss(after, "to keep the run small", "spans"),
                 rounds * 2);
        CHECK_EQ(fixture_loss(after, "ring full", "spans"), rounds * 3);
        CHECK_EQ(fixture_loss(after, "missing", "segments"), 0);
        lw_profile_free(after);
    }
    CHECK_DONE(lw_lap_thin(held(folder), 1, &bytes, ERR));
    after = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(after->span_count, 0); /* at the end even the first and the last segment */
    CHECK_EQ(fixture_loss(after, "their times lost", "samples"), rounds * 2);
    lw_profile_free(after);
    lw_profile_free(before);
    fixture_remove(folder);
}

TEST(the_middle_is_thinned_first_and_the_oldest_of_it)
{
    char *folder = fixture_folder();
    char late[LW_SEGMENT_NAME_BYTES];
    uint64_t bytes;

    fixture_write(folder, 1, 600, &small_segments);
    lw_segment_name(1, segment_count(folder, 1) - 1, late);
    CHECK_DONE(lw_lap_thin(held(folder), folder_bytes(folder) - 50, &bytes, ERR));
    CHECK(!(head_of(in_folder(folder, "p0001-000001.seg")).flags & LW_SEGMENT_THINNED));
    CHECK(head_of(in_folder(folder, "p0001-000002.seg")).flags & LW_SEGMENT_THINNED);
    CHECK(!(head_of(in_folder(folder, late)).flags & LW_SEGMENT_THINNED));
    fixture_remove(folder);
}

TEST(a_segment_being_written_is_never_touched)
{
    char *folder = fixture_folder();
    struct lw_lap_writer *w = lw_lap_writer_open(held(folder), 1, NULL, NULL);
    struct fixture_ids ids = fixture_begin(w);
    struct lw_profile *p;
    uint64_t bytes;

    for (uint64_t i = 0; i < 100; i++) {
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
        CHECK_DONE(lw_lap_thin(held(folder), 100, &bytes, ERR));
        CHECK(bytes > 100);
    }
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    p = fixture_load(folder, LW_WANT_ALL);
    CHECK_EQ(p->span_count, 200);
    lw_profile_free(p);
    fixture_remove(folder);
}

TEST(segments_joined_into_another_are_read_once_and_removed_later)
{
    char *folder = fixture_folder(), *before, *after;
    struct lw_segment_head head;
    char second[300], third[300];
    const char *names[] = { "p0001-000002.seg", "p0001-000003.seg" };
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    uint64_t bytes;

    fixture_write(folder, 1, 200, &small_segments);
    snprintf(second, sizeof(second), "%s/p0001-000002.seg", folder);
    snprintf(third, sizeof(third), "%s/p0001-000003.seg", folder);
    CHECK_DONE(lw_segment_thin(held(folder), names, 2, 1, ERR));
    head = head_of(second);
    CHECK_EQ(head.segment, 2);
    CHECK_EQ(head.last, 3);
    CHECK(lw_file_exists(third));
    before = fixture_dump(fixture_load(folder, LW_WANT_ALL));

    /* Not yet: somebody may be reading between the two. */
    CHECK_DONE(lw_lap_thin(held(folder), 1, &bytes, ERR));
    CHECK(lw_file_exists(third));
    CHECK(utimensat(AT_FDCWD, third, old, 0) == 0);
    CHECK_DONE(lw_lap_thin(held(folder), 1, &bytes, ERR));
    CHECK(!lw_file_exists(third));
    after = fixture_dump(fixture_load(folder, LW_WANT_CALLS));
    CHECK(strstr(after, "calls 0: 1000 1400000"));
    CHECK(strstr(before, "calls 0: 1000 1400000"));
    lw_free(before);
    lw_free(after);
    fixture_remove(folder);
}

TEST(running_out_of_memory_while_thinning_leaves_the_run_as_it_was)
{
    char *folder = fixture_folder(), *before, *after;
    uint64_t bytes, max, failures = 0;

    fixture_write(folder, 1, 100, &small_segments);
    before = fixture_dump(fixture_load(folder, LW_WANT_CALLS | LW_WANT_COUNTERS));
    max = folder_bytes(folder) - 500;
    for (uint64_t n = 1; n < 400; n += n < 40 ? 1 : 7) {
        struct lw_error err = { LW_OK, "" };
        bool done;
        char *cut;

        lw_alloc_fail_in(n);
        done = lw_lap_thin(held(folder), max, &bytes, &err);
        lw_alloc_fail_in(0);
        CHECK(done || err.code == LW_ERR_NOMEM);
        failures += !done;
        after = fixture_dump(fixture_load(folder, LW_WANT_CALLS | LW_WANT_COUNTERS));
        cut = strstr(after, "loss dropped"); /* in the end it is thinned */
        if (cut)
            *cut = '\0';
        CHECK(strncmp(before, after, strlen(after)) == 0);
        lw_free(after);
    }
    CHECK(failures > 10);
    lw_free(before);
    fixture_remove(folder);
}

/* Reads the folder again and again while it is written, sealed and thinned. */
struct live {
    const char *folder;
    _Atomic bool stop;
    _Atomic unsigned loads;
    _Atomic bool wrong;
};

static void *read_all_the_time(void *argument)
{
    struct live *live = argument;
    uint64_t most = 0;

    while (!live->stop) {
        struct lw_profile *p = lw_lap_load(live->folder, LW_WANT_CALLS, NULL);
        uint64_t calls = 0;

        for (size_t i = 0; p && i < p->call_count; i++)
            calls += p->calls[i].calls;
        /* Everything is there, once, and never less than before. */
        if (!p || calls % 8 != 0 || calls < most ||
            fixture_loss(p, "damaged", "bytes") ||
            fixture_loss(p, "missing", "segments"))
            live->wrong = true;
        most = calls;
        live->loads++;
        lw_profile_free(p);
    }
    return NULL;
}

TEST(a_run_can_be_read_while_it_is_written_sealed_and_thinned)
{
    char *folder = fixture_folder();
    struct lw_run run;
    struct lw_lap_writer *w;
    struct fixture_ids ids;
    struct live live = { 0 };
    pthread_t reader;
    uint64_t bytes;

    CHECK_DONE(lw_run_create(&run, in_folder(folder, "x.lap"), NULL, NULL, ERR));
    CHECK_DONE(lw_run_save(&run, ERR));
    w = lw_lap_writer_open(held(run.path), 1, &small_segments, NULL);
    ids = fixture_begin(w);
    CHECK_DONE(lw_lap_writer_flush(w, ERR));
    live.folder = run.path;
    CHECK(pthread_create(&reader, NULL, read_all_the_time, &live) == 0);
    for (uint64_t i = 0; i < 600; i++) {
        fixture_round(w, ids, i);
        CHECK_DONE(lw_lap_writer_flush(w, ERR));
        if (i % 20 == 0)
            CHECK_DONE(lw_lap_thin(held(run.path), 8000, &bytes, ERR));
    }
    live.stop = true;
    pthread_join(reader, NULL);
    CHECK(live.loads > 0);
    CHECK(!live.wrong);
    CHECK_DONE(lw_lap_writer_close(w, ERR));
    lw_run_close(&run);
    fixture_remove(folder);
}
