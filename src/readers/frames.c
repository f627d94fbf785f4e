/* Two passes: which lines each function was met at, then its frames. */

#include "readers/frames.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"

/* A name and a file, and the lines they were met at. */
struct function {
    lw_string_id name, file;
    uint32_t smallest_line; /* 0: none */
    bool has_lines;         /* several */
};

struct functions {
    struct function *list; /* numbered from 1 in the map */
    size_t count;
    size_t capacity;
    struct lw_map map;
};

/* A place stands in brackets at the end of TEXT, with a space before. */
struct place {
    size_t name_len;
    const char *file;
    size_t file_len;
    uint32_t line;
};

/* Without a line only what looks like a file is one: C++ has brackets, too. */
static bool looks_like_file(const char *text, size_t len)
{
    return len > 0 && !memchr(text, ' ', len) &&
           (text[0] == '<' || memchr(text, '/', len) || memchr(text, '.', len));
}

static bool find_place(const char *text, size_t len, struct place *place)
{
    const char *bracket = len > 0 ? memmem(text, len, " (", 2) : NULL;
    const char *colon, *end = text + len - 1;
    uint64_t line;

    if (!bracket || bracket == text || *end != ')')
        return false;
    place->name_len = (size_t)(bracket - text);
    place->file = bracket + 2;
    colon = memrchr(place->file, ':', (size_t)(end - place->file));
    if (colon && lw_text_u64(colon + 1, (size_t)(end - colon - 1), &line) &&
        line <= UINT32_MAX) {
        place->file_len = (size_t)(colon - place->file);
        place->line = (uint32_t)line;
        return place->file_len > 0;
    }
    place->file_len = (size_t)(end - place->file);
    place->line = 0;
    return looks_like_file(place->file, place->file_len);
}

bool lw_told_frame_parse(struct lw_told_frame *told, const char *text, size_t len,
                         struct lw_builder *out, struct lw_error *err)
{
    struct place place;

    memset(told, 0, sizeof(*told));
    if (!find_place(text, len, &place))
        return lw_builder_string(out, text, len, &told->name, err);
    told->line = place.line;
    return lw_builder_string(out, text, place.name_len, &told->name, err) &&
           lw_builder_string(out, place.file, place.file_len, &told->file, err);
}

static bool is_function(const void *owner, uint32_t number, const void *key)
{
    const struct function *a = &((const struct functions *)owner)->list[number - 1];
    const struct lw_told_frame *b = key;

    return a->name == b->name && a->file == b->file;
}

static uint64_t hash_function(const struct lw_told_frame *told)
{
    return lw_hash_u64((uint64_t)told->name << 32 | told->file);
}

static bool note_line(struct functions *functions, const struct lw_told_frame *told,
                      struct lw_error *err)
{
    uint64_t hash = hash_function(told);
    uint32_t number = lw_map_find(&functions->map, hash, is_function, functions, told);
    struct function *function;

    if (!number) {
        if (!lw_grow(&functions->list, &functions->capacity, functions->count + 1,
                     sizeof(*functions->list), err) ||
            !lw_map_add(&functions->map, hash, (uint32_t)functions->count + 1, err))
            return false;
        functions->list[functions->count++] =
            (struct function){ told->name, told->file, told->line, false };
        return true;
    }
    function = &functions->list[number - 1];
    function->has_lines |= function->smallest_line != told->line;
    if (told->line < function->smallest_line)
        function->smallest_line = told->line;
    return true;
}

static bool add_frame(const struct functions *functions,
                      const struct lw_told_frame *told, lw_frame_id *id,
                      struct lw_builder *out, struct lw_error *err)
{
    struct lw_frame frame = {
        .name = told->name,
        .file = told->file,
        .first_line = told->first_line,
        .line = told->line,
        .column = told->column,
        .kind = told->file ? LW_FRAME_PYTHON : LW_FRAME_NATIVE,
    };

    if (!told->first_line) {
        uint32_t number = lw_map_find(&functions->map, hash_function(told), is_function,
                                      functions, told);
        const struct function *function = &functions->list[number - 1];

        frame.first_line = function->smallest_line;
        if (!function->has_lines)
            frame.line = frame.column = 0;
    }
    return lw_builder_frame(out, &frame, id, err);
}

bool lw_told_frames_add(const struct lw_told_frame *told, size_t count,
                        lw_frame_id *ids, struct lw_builder *out, struct lw_error *err)
{
    struct functions functions = { 0 };
    bool done = true;

    lw_map_init(&functions.map);
    for (size_t i = 0; done && i < count; i++)
        if (!told[i].first_line)
            done = note_line(&functions, &told[i], err);
    for (size_t i = 0; done && i < count; i++)
        done = add_frame(&functions, &told[i], &ids[i], out, err);
    lw_map_release(&functions.map);
    lw_free(functions.list);
    return done;
}
