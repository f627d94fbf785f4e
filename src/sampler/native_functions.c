#include "sampler/native_functions.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/demangle.h"
#include "base/text.h"
#include "sampler/native_loop.h"

/* Addresses that are kept; then they are looked up anew. */
#define ADDRESSES_MAX 65536u
/* Beyond this, names of C++ hold nothing that anybody reads. */
#define NAME_BYTES 500u

void lw_native_functions_init(struct lw_native_functions *functions,
                              struct lw_symbols *symbols, struct lw_unwinder *unwinder,
                              uint64_t python)
{
    *functions = (struct lw_native_functions){
        .symbols = symbols, .unwinder = unwinder, .python = python, .count = 1
    };
    lw_map_init(&functions->by_name);
    lw_map_init(&functions->by_address);
    lw_arena_init(&functions->arena);
}

void lw_native_functions_release(struct lw_native_functions *functions)
{
    lw_map_release(&functions->by_name);
    lw_map_release(&functions->by_address);
    lw_arena_release(&functions->arena);
    lw_free(functions->functions);
    lw_free(functions->addresses);
    memset(functions, 0, sizeof(*functions));
}

/* ---- by name ------------------------------------------------------------------------ */

static uint64_t name_hash(const struct lw_native_function *function)
{
    return lw_hash_bytes(function->name, strlen(function->name)) * 31 ^
           lw_hash_bytes(function->file, strlen(function->file));
}

static bool is_function(const void *owner, uint32_t number, const void *key)
{
    const struct lw_native_functions *functions = owner;
    const struct lw_native_function *a = &functions->functions[number], *b = key;

    return strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 &&
           a->kind == b->kind;
}

/* Find or add it; the texts are copied. */
static uint32_t add_function(struct lw_native_functions *functions,
                             const struct lw_native_function *function)
{
    uint64_t hash = name_hash(function);
    uint32_t number =
        lw_map_find(&functions->by_name, hash, is_function, functions, function);
    struct lw_native_function copy = { .kind = function->kind };

    if (number)
        return number;
    copy.name =
        lw_arena_copy(&functions->arena, function->name, strlen(function->name), NULL);
    copy.file =
        lw_arena_copy(&functions->arena, function->file, strlen(function->file), NULL);
    number = (uint32_t)functions->count;
    if (!copy.name || !copy.file ||
        !lw_grow(&functions->functions, &functions->capacity, functions->count + 1,
                 sizeof(copy), NULL) ||
        !lw_map_add(&functions->by_name, hash, number, NULL))
        return 0;
    functions->functions[number] = copy;
    functions->count++;
    return number;
}

/* ---- naming ------------------------------------------------------------------------- */

static void cut(struct lw_buf *name, size_t len)
{
    if (name->len > len)
        name->len = len;
}

/* As its author called it: compilers put a suffix to parts and copies they make of a
 * function, which demanglers tell in brackets. */
static void add_plain(struct lw_buf *out, const char *symbol)
{
    size_t start = out->len;
    const char *clone;

    lw_demangle(out, symbol);
    lw_buf_add_char(out, '\0');
    if (!lw_buf_check(out, NULL))
        return;
    clone = strstr(out->bytes + start, " [clone ");
    if (clone)
        cut(out, (size_t)(clone - out->bytes));
    else if (symbol[0] != '.' && !lw_text_starts(symbol, "_Z"))
        cut(out, start + strcspn(out->bytes + start, "."));
    else
        cut(out, out->len - 1);
}

/* "libfoo.so+0x1234", where its function begins if that is known. */
static void add_place(struct lw_buf *out, struct lw_unwinder *unwinder, size_t image,
                      uint64_t address)
{
    const struct lw_unwind_row *row = lw_unwinder_row(unwinder, address);
    const struct lw_elf *elf = lw_unwinder_elf(unwinder, image);

    lw_buf_add_text(out, lw_text_basename(unwinder->images.images[image].path));
    if (row)
        lw_buf_addf(out, "+0x%" PRIx64, row->function - elf->bias);
}

static bool find_symbol(struct lw_native_functions *functions, size_t image,
                        uint64_t address, struct lw_buf *symbol)
{
    struct lw_unwinder *unwinder = functions->unwinder;
    const struct lw_elf *elf = lw_unwinder_elf(unwinder, image);
    const struct lw_symbol_file *file =
        lw_symbols_open(functions->symbols, unwinder->pid, unwinder->memory,
                        &unwinder->images.images[image], elf);
    uint64_t start;

    return file && lw_symbol_file_find(file, address - elf->bias, symbol, &start);
}

/* A function of the interpreter that has no name: a part of its loop, or nothing that a
 * person could read. */
static enum lw_native_kind kind_of_nameless(struct lw_native_functions *functions,
                                            size_t image, uint64_t address)
{
    struct lw_unwinder *unwinder = functions->unwinder;
    const struct lw_elf *elf = lw_unwinder_elf(unwinder, image);
    uint64_t loop =
        elf->symbols ? lw_elf_symbol(elf, unwinder->memory, LW_NATIVE_LOOP_NAME) : 0;

    return lw_native_is_part_of(unwinder, address, loop) ? LW_NATIVE_LOOP
                                                         : LW_NATIVE_INNER;
}

static uint32_t make_function(struct lw_native_functions *functions, uint64_t address)
{
    struct lw_unwinder *unwinder = functions->unwinder;
    size_t image = lw_unwinder_image(unwinder, address);
    struct lw_native_function function = { .name = "(code of no file)", .file = "" };
    struct lw_buf symbol, name;
    uint32_t number;

    if (image == SIZE_MAX)
        return add_function(functions, &function);
    lw_buf_init(&symbol, 0);
    lw_buf_init(&name, 0);
    function.file = unwinder->images.images[image].path;
    if (find_symbol(functions, image, address, &symbol)) {
        lw_buf_add_char(&symbol, '\0');
        if (lw_buf_check(&symbol, NULL)) {
            add_plain(&name, symbol.bytes);
            if (image == lw_unwinder_image(unwinder, functions->python))
                function.kind = (uint8_t)lw_native_kind_of(symbol.bytes);
        }
    } else {
        add_place(&name, unwinder, image, address);
        if (image == lw_unwinder_image(unwinder, functions->python))
            function.kind = (uint8_t)kind_of_nameless(functions, image, address);
    }
    cut(&name, NAME_BYTES);
    lw_buf_add_char(&name, '\0');
    function.name = name.bytes;
    number = lw_buf_check(&name, NULL) ? add_function(functions, &function) : 0;
    lw_buf_release(&symbol);
    lw_buf_release(&name);
    return number;
}

/* ---- by address --------------------------------------------------------------------- */

static bool is_address(const void *owner, uint32_t number, const void *key)
{
    const struct lw_native_functions *functions = owner;

    return functions->addresses[number - 1].address == *(const uint64_t *)key;
}

uint32_t lw_native_functions_at(struct lw_native_functions *functions, uint64_t address)
{
    uint64_t hash = lw_hash_u64(address);
    uint32_t number;

    if (functions->generation != functions->unwinder->generation ||
        functions->address_count >= ADDRESSES_MAX) {
        functions->address_count = 0;
        lw_map_reset(&functions->by_address);
        functions->generation = functions->unwinder->generation;
    }
    number = lw_map_find(&functions->by_address, hash, is_address, functions, &address);
    if (number)
        return functions->addresses[number - 1].function;
    number = make_function(functions, address);
    if (number &&
        lw_grow(&functions->addresses, &functions->address_capacity,
                functions->address_count + 1, sizeof(*functions->addresses), NULL) &&
        lw_map_add(&functions->by_address, hash, (uint32_t)functions->address_count + 1,
                   NULL))
        functions->addresses[functions->address_count++] =
            (struct lw_native_address){ address, number };
    return number;
}
