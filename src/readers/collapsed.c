/* Collapsed stacks: one stack a line, root first, frames parted by ';', then a space and
 * a weight. Written by FlameGraph's stackcollapse scripts, py-spy's raw format, austin
 * and us. There is no header, no escaping and no unit: a frame may hold spaces but not
 * ';', and the last space is the one that counts. A line that begins with that space is
 * a stack without frames, which py-spy writes of threads that run no Python yet.
 *
 *     <module> (train.py:40);step (train.py:12);forward (model.py:7) 31
 *     P123;T0x7f21;/home/me/train.py:<module>:40;/home/me/train.py:step:12 10043
 *
 * The first line is py-spy's, the second austin's: it says process and thread, writes
 * file:function:line, and counts microseconds ("time,idle,bytes" in its full mode). Its
 * metadata are lines that begin with '#'. py-spy and we write processes and threads as
 * frames, 'process 123:"train.py"' and "thread (0x7f21): loader", if they are asked for. Elsewhere a weight is a count, of samples as a
 * rule: a weight of 1 becomes 1 ns, or 1 s in a file with decimals, and it is said that it
 * is none (model/measure.h).
 *
 * Files are sorted, or come from a program that is mostly where it was a moment ago, so
 * a line begins as the line before it: what is the same is not looked at again, and only
 * the frames behind it are hashed. Equal stacks are added up; there are no times to
 * tell them apart. */

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/measure.h"
#include "readers/frames.h"
#include "readers/paths.h"
#include "readers/reader.h"

#define AUSTIN_NS 1000   /* it counts microseconds */
#define DECIMAL_DIGITS 9 /* behind the point, of a file that has decimals */
#define NO_STACK "(no stack)"
#define WEIGHTS \
    "Figures are the file's weights, which it does not name: samples from py-spy and " \
    "flamegraph.pl, nanoseconds from Lapwing"

/* Distinct texts, numbered from 0, which lie in the file. */
struct texts {
    struct text {
        const char *bytes;
        size_t len;
    } * list;
    size_t count;
    size_t capacity;
    struct lw_map map; /* number + 1 */
};

/* A frame of the line at hand. */
struct step {
    size_t end; /* of the frame, in the line */
    uint32_t path;
};

struct reading {
    struct lw_builder *out;
    struct lw_paths paths;
    struct texts frames;
    struct texts places; /* "P123;T0x7f21"; the one that is nowhere is "" */
    uint32_t *roots;     /* path, by place */
    size_t root_capacity;
    struct texts pids; /* their number is that of the process */
    const char *line;  /* the one before; NULL: none */
    size_t stack_len;  /* of it */
    struct step *steps;
    size_t depth;
    size_t step_capacity;
    unsigned digits; /* of weights behind the point */
    bool has_decimals;
    bool is_austin;
};

static bool is_text(const void *owner, uint32_t number, const void *key)
{
    const struct text *a = &((const struct texts *)owner)->list[number - 1], *b = key;

    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* The number of a text; *IS_NEW: it had none. */
static bool number_text(struct texts *texts, const char *bytes, size_t len,
                        uint32_t *number, bool *is_new, struct lw_error *err)
{
    struct text text = { bytes, len };
    uint64_t hash = lw_hash_bytes(bytes, len);
    uint32_t found = lw_map_find(&texts->map, hash, is_text, texts, &text);

    *is_new = !found;
    if (!found) {
        if (!lw_grow(&texts->list, &texts->capacity, texts->count + 1,
                     sizeof(*texts->list), err) ||
            !lw_map_add(&texts->map, hash, (uint32_t)texts->count + 1, err))
            return false;
        texts->list[texts->count++] = text;
        found = (uint32_t)texts->count;
    }
    *number = found - 1;
    return true;
}

static void release_texts(struct texts *texts)
{
    lw_free(texts->list);
    lw_map_release(&texts->map);
    memset(texts, 0, sizeof(*texts));
}

/* Processes and threads, which some files have for their first frames */

/* The length of the frame at the start of the LEN bytes of a stack. */
static size_t frame_len(const char *stack, size_t len)
{
    const char *semi = memchr(stack, ';', len);

    return semi ? (size_t)(semi - stack) : len;
}

static size_t digits_len(const char *text, size_t len)
{
    size_t count = 0;

    while (count < len && text[count] >= '0' && text[count] <= '9')
        count++;
    return count;
}

static bool starts(const char *text, size_t len, const char *prefix)
{
    size_t prefix_len = strlen(prefix);

    return len > prefix_len && memcmp(text, prefix, prefix_len) == 0;
}

/* A frame that is a process (austin's "P123", py-spy's and our own 'process 123:"command"')
 * or a thread ("T0x7f21", "T0:123", "thread (0x7f21): name"), taken apart. */
struct place {
    const char *number;
    size_t number_len;
    const char *name; /* "": none */
    size_t name_len;
};

static bool parse_process(const char *frame, size_t len, struct place *place)
{
    size_t skip = starts(frame, len, "process ") ? 8 : 1;
    const char *end = frame + len;

    if (skip == 1 && !starts(frame, len, "P"))
        return false;
    place->number = frame + skip;
    place->number_len = digits_len(frame + skip, len - skip);
    place->name = place->number + place->number_len;
    place->name_len = (size_t)(end - place->name);
    if (skip == 8 && place->name_len >= 3 && memcmp(place->name, ":\"", 2) == 0 &&
        end[-1] == '"') {
        place->name += 2;
        place->name_len -= 3;
        return place->number_len > 0;
    }
    return place->number_len > 0 && place->name_len == 0;
}

/* A thread of austin's is known only behind a process: names may begin with T. */
static bool parse_thread(const char *frame, size_t len, bool behind_process,
                         struct place *place)
{
    const char *end = frame + len, *bracket;

    if (behind_process && starts(frame, len, "T") &&
        (frame[1] >= '0' && frame[1] <= '9')) {
        const char *colon = memchr(frame, ':', len);

        place->name = frame + 1;
        place->name_len = len - 1;
        place->number = colon ? colon + 1 : place->name;
        place->number_len = (size_t)(end - place->number);
        return true;
    }
    if (!starts(frame, len, "thread (") || !(bracket = memchr(frame, ')', len)))
        return false;
    place->number = frame + 8;
    place->number_len = (size_t)(bracket - place->number);
    place->name = bracket + 1;
    place->name_len = (size_t)(end - place->name);
    if (place->name_len == 0)
        return true;
    if (place->name_len < 3 || memcmp(place->name, ": ", 2) != 0)
        return false;
    place->name += 2;
    place->name_len -= 2;
    return true;
}

/* How much of the stack says where it was: "P123;T0x7f21", or nothing. *IS_AUSTIN:
 * austin says so. */
static size_t place_len(const char *stack, size_t len, bool *is_austin)
{
    size_t process_len = frame_len(stack, len), thread_len;
    struct place place;

    *is_austin = false;
    if (!parse_process(stack, process_len, &place))
        return parse_thread(stack, process_len, false, &place) ? process_len : 0;
    if (process_len == len)
        return stack[0] == 'P' ? 0 : process_len;
    thread_len = frame_len(stack + process_len + 1, len - process_len - 1);
    if (!parse_thread(stack + process_len + 1, thread_len, true, &place))
        return stack[0] == 'P' ? 0 : process_len;
    *is_austin = stack[0] == 'P';
    return process_len + 1 + thread_len;
}

/* "123" or "0x7f21"; anything else is 0, not known. */
static uint64_t parse_number(const char *text, size_t len)
{
    uint64_t number = 0;

    if (len > 2 && text[0] == '0' && (text[1] | 0x20) == 'x')
        return lw_text_hex(text + 2, len - 2, &number) ? number : 0;
    return lw_text_u64(text, len, &number) ? number : 0;
}

static bool find_process(struct reading *r, const struct place *place, uint32_t *index,
                         struct lw_error *err)
{
    struct lw_process process = { .rank = -1, .exit_code = -1 };
    bool is_new;

    if (!number_text(&r->pids, place->number, place->number_len, index, &is_new, err))
        return false;
    process.pid = parse_number(place->number, place->number_len);
    return !is_new || (lw_builder_string(r->out, place->name, place->name_len,
                                         &process.command, err) &&
                       lw_builder_process(r->out, &process, index, err));
}

/* The root of the place that the LEN bytes at STACK name. */
static bool find_root(struct reading *r, const char *stack, size_t len, uint32_t *root,
                      struct lw_error *err)
{
    struct lw_thread thread = { 0 };
    uint32_t number, index;
    bool is_new;

    if (!number_text(&r->places, stack, len, &number, &is_new, err))
        return false;
    if (is_new) {
        struct place process = { "", 0, "", 0 }, place = { "", 0, "", 0 };
        size_t first_len = frame_len(stack, len);

        if (!parse_process(stack, first_len, &process)) {
            process = place;
            if (len > 0 && !parse_thread(stack, first_len, false, &place))
                place = process;
        } else if (first_len == len ||
                   !parse_thread(stack + first_len + 1, len - first_len - 1, true,
                                 &place)) {
            place = (struct place){ "", 0, "", 0 };
        }
        thread.tid = parse_number(place.number, place.number_len);
        if (!find_process(r, &process, &thread.process, err) ||
            !lw_builder_string(r->out, place.name, place.name_len, &thread.name, err) ||
            !lw_builder_thread(r->out, &thread, &index, err) ||
            !lw_grow(&r->roots, &r->root_capacity, r->places.count, sizeof(*r->roots),
                     err) ||
            !lw_paths_root(&r->paths, index, &r->roots[number], err))
            return false;
    }
    *root = r->roots[number];
    return true;
}

/* Lines */

/* A whole or decimal number, or the first of austin's three. */
static bool read_weight(struct reading *r, const char *text, size_t len,
                        uint64_t *weight)
{
    const char *comma = memchr(text, ',', len);
    int64_t value;

    if (comma)
        len = (size_t)(comma - text);
    if (r->digits == 0 && lw_text_u64(text, len, weight))
        return *weight <= INT64_MAX;
    if (!lw_text_scaled(text, len, DECIMAL_DIGITS, &value) || value < 0)
        return false;
    r->has_decimals = true;
    *weight = (uint64_t)value;
    return true;
}

/* Follow the frames of LINE from byte AT on. */
static bool follow(struct reading *r, const char *line, size_t len, size_t at,
                   uint32_t path, struct lw_error *err)
{
    while (at < len) {
        const char *semi = memchr(line + at, ';', len - at);
        size_t end = semi ? (size_t)(semi - line) : len;
        uint32_t frame;
        bool is_new;

        if (end > at) {
            if (!number_text(&r->frames, line + at, end - at, &frame, &is_new, err) ||
                !lw_paths_push(&r->paths, path, frame, &path, err) ||
                !lw_grow(&r->steps, &r->step_capacity, r->depth + 1, sizeof(*r->steps),
                         err))
                return false;
            r->steps[r->depth++] = (struct step){ end, path };
        }
        at = end + 1;
    }
    return true;
}

static bool read_line(struct reading *r, const char *line, size_t len, size_t number,
                      struct lw_error *err)
{
    const char *space = memrchr(line, ' ', len);
    size_t stack_len = space ? (size_t)(space - line) : 0;
    size_t same, at = 0;
    uint64_t weight;
    uint32_t path;

    if (!space || !read_weight(r, space + 1, len - stack_len - 1, &weight))
        return lw_fail(err, LW_ERR_FORMAT, "line %zu: no weight", number);
    same = lw_text_same_start(r->line, line,
                              stack_len < r->stack_len ? stack_len : r->stack_len);
    while (r->depth > 0 && r->steps[r->depth - 1].end >= same)
        r->depth--;
    if (r->depth > 0) {
        at = r->steps[r->depth - 1].end + 1;
        path = r->steps[r->depth - 1].path;
    } else {
        bool is_austin;

        at = place_len(line, stack_len, &is_austin);
        r->is_austin |= is_austin;
        if (!find_root(r, line, at, &path, err))
            return false;
        at += at > 0;
    }
    if (!follow(r, line, stack_len, at, path, err))
        return false;
    if (r->depth > 0) {
        path = r->steps[r->depth - 1].path;
    } else {
        uint32_t frame;
        bool is_new;

        if (!number_text(&r->frames, NO_STACK, strlen(NO_STACK), &frame, &is_new,
                         err) ||
            !lw_paths_push(&r->paths, path, frame, &path, err))
            return false;
    }
    r->line = line;
    r->stack_len = stack_len;
    if (__builtin_add_overflow(r->paths.list[path].self, weight,
                               &r->paths.list[path].self))
        return lw_fail(err, LW_ERR_LIMIT,
                       "line %zu: the weights add up to more than "
                       "2^64",
                       number);
    return true;
}

static bool read_lines(struct reading *r, const struct lw_file_view *view,
                       struct lw_error *err)
{
    const char *line = (const char *)view->bytes, *end = line + view->len;

    for (size_t number = 1; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((newline ? newline : end) - line);
        const char *next = newline ? newline + 1 : end;

        while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
            len--;
        if (len > 0 && line[0] != '#' && !read_line(r, line, len, number, err))
            return false;
        if (r->has_decimals && r->digits == 0)
            return true; /* the caller starts again */
        line = next;
    }
    return true;
}

/* At the end: what the frames are */

/* austin's "file:function:line"; its notes, such as ":GC:", are names. */
static bool tell_austin(struct lw_told_frame *told, const struct text *text,
                        struct lw_builder *out, struct lw_error *err)
{
    const char *last = memrchr(text->bytes, ':', text->len);
    const char *first =
        last ? memrchr(text->bytes, ':', (size_t)(last - text->bytes)) : NULL;
    uint64_t line;

    memset(told, 0, sizeof(*told));
    if (!first || first == text->bytes ||
        !lw_text_u64(last + 1, (size_t)(text->bytes + text->len - last - 1), &line) ||
        line > UINT32_MAX)
        return lw_builder_string(out, text->bytes, text->len, &told->name, err);
    told->line = (uint32_t)line;
    return lw_builder_string(out, first + 1, (size_t)(last - first - 1), &told->name,
                             err) &&
           lw_builder_string(out, text->bytes, (size_t)(first - text->bytes),
                             &told->file, err);
}

static bool add_frames(struct reading *r, lw_frame_id *ids, struct lw_error *err)
{
    struct lw_told_frame *told = lw_alloc((r->frames.count + 1) * sizeof(*told), err);
    bool done = told != NULL;

    for (size_t i = 0; done && i < r->frames.count; i++) {
        const struct text *text = &r->frames.list[i];

        done = r->is_austin
                   ? tell_austin(&told[i], text, r->out, err)
                   : lw_told_frame_parse(&told[i], text->bytes, text->len, r->out, err);
    }
    done = done && lw_told_frames_add(told, r->frames.count, ids, r->out, err);
    lw_free(told);
    return done;
}

static bool finish(struct reading *r, struct lw_error *err)
{
    lw_frame_id *ids = lw_alloc((r->frames.count + 1) * sizeof(*ids), err);
    const char *unit = r->has_decimals ? "1 s is a weight of 1 in the file"
                                       : "1 ns is a weight of 1 in the file";
    enum lw_unit measure = r->has_decimals ? LW_UNIT_NUMBER : LW_UNIT_COUNT;
    bool done;

    done = ids && add_frames(r, ids, err) &&
           lw_paths_finish(&r->paths, ids, r->out, err) &&
           lw_paths_add_samples(&r->paths,
                                r->is_austin && !r->has_decimals ? AUSTIN_NS : 1,
                                r->out, err) &&
           (r->is_austin || (lw_builder_fact(r->out, "unit", unit, strlen(unit), err) &&
                             lw_measure_set(r->out, measure, WEIGHTS, err)));
    lw_free(ids);
    return done;
}

static bool read_collapsed(const struct lw_source *source,
                           unsigned want __attribute__((unused)),
                           struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .out = out, .line = "" };
    bool done;

    done = read_lines(&r, &source->view, err);
    if (done && r.has_decimals) {
        /* Only now is it known, so what was read counted whole numbers: again. */
        for (size_t i = 0; i < r.paths.count; i++)
            r.paths.list[i].self = 0;
        r.digits = DECIMAL_DIGITS;
        done = read_lines(&r, &source->view, err);
    }
    done = done && finish(&r, err);
    lw_paths_release(&r.paths);
    release_texts(&r.frames);
    release_texts(&r.places);
    release_texts(&r.pids);
    lw_free(r.roots);
    lw_free(r.steps);
    return done;
}

/* What a line of the head is */

enum line { LINE_OTHER, LINE_EMPTY, LINE_STACK, LINE_WEIGHTED };

static enum line classify(const char *line, size_t len)
{
    struct reading r = { 0 };
    const char *space;
    uint64_t weight;

    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    if (len == 0 || line[0] == '#')
        return LINE_EMPTY;
    /* No stack at all: other texts have such lines as well. */
    if (line[0] == ' ' && read_weight(&r, line + 1, len - 1, &weight))
        return LINE_EMPTY;
    space = memrchr(line, ' ', len);
    if (line[0] != ' ' && space &&
        read_weight(&r, space + 1, (size_t)(line + len - space - 1), &weight))
        return LINE_WEIGHTED;
    return memchr(line, ';', len) ? LINE_STACK : LINE_OTHER;
}

static bool is_plain_text(const struct lw_source *source)
{
    for (size_t i = 0; i < source->head_len; i++) {
        unsigned char c = source->head[i];

        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t')
            return false;
    }
    return source->head_len > 0 && !memchr("{[", source->head[0], 2);
}

/* Sure means: every line of the head is a stack, and one has a weight; or it is one
 * line, too long for the head, with frames in it. */
static bool sniff_collapsed(const struct lw_source *source)
{
    const char *line = (const char *)source->head, *end = line + source->head_len;
    bool is_whole = source->head_len < LW_SOURCE_HEAD_BYTES;
    size_t weighted = 0, whole = 0;

    if (!is_plain_text(source))
        return false;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        enum line kind;

        if (!newline && !is_whole)
            break;
        kind = classify(line, (size_t)((newline ? newline : end) - line));
        if (kind == LINE_OTHER)
            return false;
        weighted += kind == LINE_WEIGHTED;
        whole += kind != LINE_EMPTY;
        line = newline ? newline + 1 : end;
    }
    return weighted > 0 ||
           (whole == 0 && line < end && memchr(line, ';', (size_t)(end - line)));
}

const struct lw_reader lw_reader_collapsed = {
    .name = "collapsed",
    .summary = "folded stacks, one per line (flamegraph.pl, py-spy raw, austin)",
    .suffixes = ".folded .collapsed .austin",
    .sniff = sniff_collapsed,
    .read = read_collapsed,
};
