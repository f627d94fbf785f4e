/* Chooses what to thin or join next, one segment or pair at a time, until it fits. */

#include "lap/thin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "lap/segment.h"

/* How long a reader may take between opening two segments of a series. For so long a
 * segment that was joined into another stays, so that neither is missed. */
#define GRACE_S 20
#define LEVEL 3 /* these stay, and there is time */

struct segment {
    struct lw_segment_head head;
    char name[LW_SEGMENT_NAME_BYTES];
    uint64_t bytes;
    time_t changed;  /* of one that was joined into another: when that was */
    bool is_damaged; /* or it could not be thinned: left as it is */
};

struct series {
    const struct lw_folder *folder; /* borrowed */
    struct segment *segments;       /* by process, then segment number */
    size_t count, capacity;
    uint64_t bytes;
    uint64_t left_bytes; /* of those that others stand for, and that stay for a while */
};

static void release(struct series *s)
{
    lw_free(s->segments);
    memset(s, 0, sizeof(*s));
}

static int compare(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;

    if (x->head.process != y->head.process)
        return x->head.process < y->head.process ? -1 : 1;
    return x->head.segment < y->head.segment ? -1 : x->head.segment > y->head.segment;
}

static bool list(struct series *s, const struct lw_folder *folder, struct lw_error *err)
{
    DIR *open_folder = lw_folder_list(folder);
    struct dirent *entry;

    *s = (struct series){ .folder = folder };
    if (!open_folder)
        return lw_fail_errno(err, "cannot list %s", folder->path);
    while ((entry = readdir(open_folder))) {
        struct segment segment = { .name = "" };
        struct stat about;

        if (!lw_segment_parse_name(entry->d_name, &segment.head.process,
                                   &segment.head.segment) ||
            strlen(entry->d_name) >= sizeof(segment.name) ||
            fstatat(dirfd(open_folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) <
                0 ||
            !S_ISREG(about.st_mode))
            continue;
        memcpy(segment.name, entry->d_name, strlen(entry->d_name) + 1);
        segment.bytes = (uint64_t)about.st_size;
        segment.changed = about.st_mtime;
        if (!lw_grow(&s->segments, &s->capacity, s->count + 1, sizeof(*s->segments),
                     err)) {
            closedir(open_folder);
            return false;
        }
        s->segments[s->count++] = segment;
        s->bytes += segment.bytes;
    }
    closedir(open_folder);
    if (s->count)
        qsort(s->segments, s->count, sizeof(*s->segments), compare);
    return true;
}

/* Head, size and age of the file as it is now. */
static void look(const struct series *s, struct segment *segment)
{
    unsigned char bytes[LW_SEGMENT_HEAD_BYTES];
    struct lw_segment_head head = { 0 };
    struct stat about;
    int fd = lw_folder_find(s->folder, segment->name, &about, NULL);

    segment->is_damaged =
        fd < 0 || pread(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
        !lw_segment_head_get(&head, bytes, sizeof(bytes), NULL) ||
        head.process != segment->head.process || head.segment != segment->head.segment;
    if (!segment->is_damaged) {
        segment->head = head;
        segment->bytes = (uint64_t)about.st_size;
        segment->changed = about.st_mtime;
    } else {
        segment->head.last = segment->head.segment;
    }
    if (fd >= 0)
        close(fd);
}

static void forget(struct series *s, size_t i)
{
    s->bytes -= s->segments[i].bytes;
    memmove(&s->segments[i], &s->segments[i + 1],
            (s->count - i - 1) * sizeof(*s->segments));
    s->count--;
}

/* Take out of the list what an earlier segment stands for, and remove it if its time
 * has come. */
static void forget_covered(struct series *s)
{
    time_t now = time(NULL);

    for (size_t i = 1; i < s->count;) {
        const struct segment *before = &s->segments[i - 1];
        const struct segment *segment = &s->segments[i];

        if (before->head.process != segment->head.process ||
            before->head.last < segment->head.segment) {
            i++;
            continue;
        }
        if (now - segment->changed >= GRACE_S)
            unlinkat(s->folder->fd, segment->name, 0);
        else
            s->left_bytes += segment->bytes;
        forget(s, i);
    }
}

static bool is_first(const struct series *s, size_t i)
{
    return i == 0 || s->segments[i - 1].head.process != s->segments[i].head.process;
}

static bool is_last(const struct series *s, size_t i)
{
    return i + 1 == s->count ||
           s->segments[i + 1].head.process != s->segments[i].head.process;
}

static bool is_thinned(const struct segment *segment)
{
    return segment->head.flags & LW_SEGMENT_THINNED;
}

/* Nobody writes to it: it says so, or the writer has gone on to a later one. */
static bool is_sealed(const struct series *s, size_t i)
{
    return s->segments[i].head.flags & LW_SEGMENT_SEALED || !is_last(s, i);
}

/* The oldest segment that is not thinned; ENDS: also first and last ones. SIZE_MAX:
 * there is none. */
static size_t find_to_thin(const struct series *s, bool ends)
{
    size_t oldest = SIZE_MAX;

    for (size_t i = 0; i < s->count; i++) {
        const struct segment *segment = &s->segments[i];

        if (segment->is_damaged || is_thinned(segment) || !is_sealed(s, i) ||
            (!ends && (is_first(s, i) || is_last(s, i))))
            continue;
        if (oldest == SIZE_MAX ||
            segment->head.start_ns < s->segments[oldest].head.start_ns)
            oldest = i;
    }
    return oldest;
}

static uint64_t covered(const struct segment *segment)
{
    return (uint64_t)segment->head.last - segment->head.segment + 1;
}

/* The first of two thinned neighbours that stand for the fewest segments, and of those
 * the oldest: so all grow alike, and each is rewritten only a few times. */
static size_t find_to_join(const struct series *s)
{
    size_t best = SIZE_MAX;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i + 1 < s->count; i++) {
        const struct segment *a = &s->segments[i], *b = &s->segments[i + 1];
        uint64_t together = covered(a) + covered(b);

        if (a->head.process != b->head.process || a->is_damaged || b->is_damaged ||
            !is_thinned(a) || !is_thinned(b) || a->head.last + 1 != b->head.segment)
            continue;
        if (together < least ||
            (together == least && a->head.start_ns < s->segments[best].head.start_ns)) {
            best = i;
            least = together;
        }
    }
    return best;
}

/* Thin COUNT segments from the one at I into one. What cannot be is left, and marked. */
static bool thin(struct series *s, size_t i, size_t count, struct lw_error *err)
{
    const char *names[2] = { s->segments[i].name, s->segments[i + count - 1].name };
    struct segment *segment = &s->segments[i];
    struct lw_error reason;
    uint64_t before = segment->bytes;

    if (!lw_segment_thin(s->folder, names, count, LEVEL, &reason)) {
        if (reason.code !=
            LW_ERR_FORMAT) { /* no room, no memory: the next one neither */
            if (err)
                *err = reason;
            return false;
        }
        segment->is_damaged = s->segments[i + count - 1].is_damaged = true;
        return true;
    }
    look(s, segment);
    s->bytes = s->bytes - before + segment->bytes;
    if (count > 1) {
        /* Its time starts now. What it takes until then counts from the next call on, or
         * all would be joined at once to make room for itself. */
        utimensat(s->folder->fd, names[1], NULL, AT_SYMLINK_NOFOLLOW);
        forget(s, i + 1);
    }
    return true;
}

uint64_t lw_lap_bytes(const struct lw_folder *folder)
{
    struct series s;
    uint64_t bytes = list(&s, folder, NULL) ? s.bytes : 0;

    release(&s);
    return bytes;
}

bool lw_lap_thin(const struct lw_folder *folder, uint64_t max_bytes, uint64_t *bytes,
                 struct lw_error *err)
{
    struct series s;
    bool done = list(&s, folder, err);
    uint64_t wanted = s.bytes > max_bytes ? max_bytes - max_bytes / 16 : max_bytes;

    if (done && s.bytes > max_bytes) {
        for (size_t i = 0; i < s.count; i++)
            look(&s, &s.segments[i]);
        forget_covered(&s);
    }
    while (done && s.bytes + s.left_bytes > wanted) {
        size_t one = find_to_thin(&s, false), pair = SIZE_MAX;

        if (one == SIZE_MAX) {
            pair = find_to_join(&s);
            if (pair == SIZE_MAX)
                one = find_to_thin(&s, true);
        }
        if (one == SIZE_MAX && pair == SIZE_MAX)
            break;
        done = one != SIZE_MAX ? thin(&s, one, 1, err) : thin(&s, pair, 2, err);
    }
    *bytes = s.bytes + s.left_bytes;
    release(&s);
    return done;
}
