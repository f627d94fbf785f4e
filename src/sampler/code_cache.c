#include "sampler/code_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "sampler/objects.h"

/* Longer names and paths are cut; larger tables are not believed. */
#define TEXT_MAX 4096
#define LINES_MAX (4u << 20)
/* How long a code object is taken for what it was: a new one, and one known for long. */
#define TRUST_NEW_NS 5000000ull
#define TRUST_NS 1000000000ull

void lw_code_cache_init(struct lw_code_cache *codes, const struct lw_py_layout *layout,
                        uint64_t code_type)
{
    *codes = (struct lw_code_cache){ .layout = layout, .code_type = code_type };
    lw_map_init(&codes->by_address);
    lw_edges_init(&codes->edges);
    lw_arena_init(&codes->arena);
}

void lw_code_cache_release(struct lw_code_cache *codes)
{
    lw_free(codes->codes);
    lw_map_release(&codes->by_address);
    lw_edges_release(&codes->edges);
    lw_arena_release(&codes->arena);
}

/* ---- fields ------------------------------------------------------------------------- */

static uint64_t u64_at(const unsigned char *object, uint32_t offset)
{
    uint64_t value;

    memcpy(&value, object + offset, sizeof(value));
    return value;
}

static uint32_t u32_at(const unsigned char *object, uint32_t offset)
{
    uint32_t value;

    memcpy(&value, object + offset, sizeof(value));
    return value;
}

/* ---- text --------------------------------------------------------------------------- */

const char *lw_code_cache_text(struct lw_code_cache *codes, struct lw_memory *memory,
                               uint64_t object, size_t limit, uint32_t *len)
{
    const struct lw_objects objects = { memory, codes->layout };
    const char *text = NULL;
    struct lw_buf utf8;
    uint64_t length;

    lw_buf_init(&utf8, 0);
    if (lw_objects_text(&objects, object, limit < TEXT_MAX ? limit : TEXT_MAX, &utf8,
                        &length) &&
        lw_buf_check(&utf8, NULL)) {
        text =
            lw_arena_copy(&codes->arena, utf8.bytes ? utf8.bytes : "", utf8.len, NULL);
        *len = (uint32_t)utf8.len;
    }
    lw_buf_release(&utf8);
    return text;
}

/* ---- code objects ------------------------------------------------------------------- */

static const unsigned char *read_lines(struct lw_code_cache *codes,
                                       struct lw_memory *memory, uint64_t object,
                                       uint32_t *len)
{
    const struct lw_py_layout *layout = codes->layout;
    unsigned char head[LW_LAYOUT_COPY_MAX], *bytes;
    uint64_t size;

    if (!lw_memory_get(memory, object, head, layout->bytes_data))
        return NULL;
    size = u64_at(head, layout->sized_size);
    if (size > LINES_MAX)
        return NULL;
    bytes = lw_arena_alloc(&codes->arena, size + 1, NULL);
    if (!bytes ||
        (size > 0 && !lw_memory_get(memory, object + layout->bytes_data, bytes, size)))
        return NULL;
    *len = (uint32_t)size;
    return bytes;
}

/* Before 3.12 the size is not kept, but worked out from what it is for. */
static uint32_t frame_bytes(const struct lw_py_layout *layout,
                            const unsigned char *object)
{
    if (!layout->has_data_stack)
        return layout->frame_bytes;
    if (layout->code_framesize != LW_NO_FIELD)
        return u32_at(object, layout->code_framesize) * 8;
    return (u32_at(object, layout->code_nlocals) +
            u32_at(object, layout->code_stacksize)) *
               8 +
           layout->frame_locals;
}

static bool read_code(struct lw_code_cache *codes, struct lw_memory *memory,
                      const unsigned char *object, struct lw_py_code *code)
{
    const struct lw_py_layout *layout = codes->layout;

    code->name_object = u64_at(object, layout->code_name);
    code->file_object = u64_at(object, layout->code_filename);
    code->lines_object = u64_at(object, layout->code_linetable);
    code->first_line = u32_at(object, layout->code_first_line);
    code->locals = u32_at(object, layout->code_nlocals);
    code->frame_bytes = frame_bytes(layout, object);
    code->is_made_up = code->name_object == code->file_object;
    code->name =
        lw_code_cache_text(codes, memory, code->name_object, TEXT_MAX, &code->name_len);
    code->file =
        lw_code_cache_text(codes, memory, code->file_object, TEXT_MAX, &code->file_len);
    code->lines = read_lines(codes, memory, code->lines_object, &code->lines_len);
    return code->name && code->file && code->lines &&
           (!layout->has_data_stack || code->frame_bytes >= layout->frame_locals);
}

static bool is_same_code(const struct lw_code_cache *codes,
                         const struct lw_py_code *code, const unsigned char *object)
{
    const struct lw_py_layout *layout = codes->layout;

    return code->name_object == u64_at(object, layout->code_name) &&
           code->file_object == u64_at(object, layout->code_filename) &&
           code->lines_object == u64_at(object, layout->code_linetable) &&
           code->first_line == u32_at(object, layout->code_first_line);
}

static bool is_at(const void *owner, uint32_t number, const void *key)
{
    const struct lw_code_cache *codes = owner;

    /* One whose place was taken has lost its address. */
    return codes->codes[number].address == *(const uint64_t *)key;
}

uint32_t lw_code_cache_known(const struct lw_code_cache *codes, uint64_t address)
{
    return lw_map_find(&codes->by_address, lw_hash_u64(address), is_at, codes,
                       &address);
}

static uint32_t add_code(struct lw_code_cache *codes, const struct lw_py_code *code)
{
    if (!lw_grow(&codes->codes, &codes->capacity, codes->count + 2,
                 sizeof(*codes->codes), NULL))
        return 0;
    if (codes->count == 0)
        codes->codes[codes->count++] = (struct lw_py_code){ 0 }; /* 0 is none */
    if (!lw_map_add(&codes->by_address, lw_hash_u64(code->address),
                    (uint32_t)codes->count, NULL))
        return 0;
    codes->codes[codes->count] = *code;
    return (uint32_t)codes->count++;
}

uint32_t lw_code_cache_at(struct lw_code_cache *codes, struct lw_memory *memory,
                          uint64_t address, uint64_t globals, uint64_t now_ns)
{
    const struct lw_py_layout *layout = codes->layout;
    uint32_t number = lw_code_cache_known(codes, address);
    struct lw_py_code *known = number > 0 ? &codes->codes[number] : NULL;
    struct lw_py_code code = { .address = address,
                               .checked_ns = now_ns,
                               .trust_ns = TRUST_NEW_NS,
                               .globals = globals };
    unsigned char object[LW_LAYOUT_COPY_MAX];

    if (address == 0) /* as in a frame that has returned */
        return 0;
    if (known && known->globals == globals &&
        now_ns - known->checked_ns < known->trust_ns)
        return number;
    if (!lw_memory_get(memory, address, object, layout->code_bytes) ||
        u64_at(object, layout->object_type) != codes->code_type)
        return 0;
    if (known && is_same_code(codes, known, object)) {
        known->trust_ns =
            2 * known->trust_ns < TRUST_NS ? 2 * known->trust_ns : TRUST_NS;
        known->checked_ns = now_ns;
        known->globals = globals;
        return number;
    }
    if (!read_code(codes, memory, object, &code))
        return 0;
    if (known)
        known->address = 0;
    return add_code(codes, &code);
}
