#include "sampler/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

/* 12 bytes each; a torch with all its libraries has under a million. */
#define SYMBOLS_MAX (4u << 20)
/* Each keeps a descriptor open. */
#define FILES_MAX 256
#define SECTIONS_MAX 10000
#define AT_ONCE 2048          /* symbols read together */
#define HEAD_BYTES 4096       /* of a file that must be as they are in memory */
#define NAME_BYTES 4096       /* the longest name that is taken, in C++ they are long */
#define NAMES_MAX (16u << 20) /* of the exported symbols, where there is no file */
#define BUCKETS_MAX (1u << 20)

struct symbol {
    uint32_t address; /* as the file counts */
    uint32_t size;
    uint32_t name; /* where in the table of names */
};

/* What tells one file from another: as stat() has it, or a place in a process. */
struct file_key {
    uint64_t device, inode, changed, size;
};

struct lw_symbol_file {
    struct file_key key;
    struct symbol *symbols; /* by address; owned */
    size_t count, capacity;
    int fd;                /* where the names are; -1: in `names` */
    uint64_t names_offset; /* in the file */
    uint64_t names_len;
    char *names; /* owned */
};

static void free_file(struct lw_symbol_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    lw_free(file->symbols);
    lw_free(file->names);
    lw_free(file);
}

void lw_symbols_init(struct lw_symbols *symbols)
{
    memset(symbols, 0, sizeof(*symbols));
}

void lw_symbols_release(struct lw_symbols *symbols)
{
    while (symbols->count > 0)
        free_file(symbols->files[--symbols->count]);
    lw_free(symbols->files);
    memset(symbols, 0, sizeof(*symbols));
}

/* ---- taking in ---------------------------------------------------------------------- */

static bool take_symbols(struct lw_symbol_file *file, const Elf64_Sym *table,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Elf64_Sym *from = &table[i];
        unsigned type = ELF64_ST_TYPE(from->st_info);

        if ((type != STT_FUNC && type != STT_GNU_IFUNC) ||
            from->st_shndx == SHN_UNDEF || from->st_value > UINT32_MAX ||
            from->st_size > UINT32_MAX || from->st_name >= file->names_len)
            continue;
        if (file->count >= SYMBOLS_MAX ||
            !lw_grow(&file->symbols, &file->capacity, file->count + 1,
                     sizeof(*file->symbols), NULL))
            return false;
        file->symbols[file->count++] =
            (struct symbol){ (uint32_t)from->st_value, (uint32_t)from->st_size,
                             from->st_name };
    }
    return true;
}

static int compare_symbols(const void *left, const void *right)
{
    const struct symbol *a = left, *b = right;

    return a->address < b->address ? -1 : a->address > b->address;
}

/* ---- from a file -------------------------------------------------------------------- */

static bool read_at(int fd, void *bytes, size_t len, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, bytes, len, (off_t)offset) == (ssize_t)len;
}

/* Find the table of all symbols, or else that of the exported ones, and its names. */
static bool find_table(int fd, Elf64_Shdr *table, Elf64_Shdr *names)
{
    Elf64_Ehdr header;
    Elf64_Shdr *sections;
    bool found = false;

    if (!read_at(fd, &header, sizeof(header), 0) ||
        header.e_shentsize != sizeof(*sections) || header.e_shnum == 0 ||
        header.e_shnum > SECTIONS_MAX)
        return false;
    sections = lw_alloc(header.e_shnum * sizeof(*sections), NULL);
    if (!sections ||
        !read_at(fd, sections, header.e_shnum * sizeof(*sections), header.e_shoff)) {
        lw_free(sections);
        return false;
    }
    for (size_t i = 0; i < header.e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];

        if (section->sh_link >= header.e_shnum ||
            (section->sh_type != SHT_SYMTAB &&
             (section->sh_type != SHT_DYNSYM || found)))
            continue;
        *table = *section;
        *names = sections[section->sh_link];
        found = true;
    }
    lw_free(sections);
    return found;
}

static bool load_file(struct lw_symbol_file *file)
{
    Elf64_Sym symbols[AT_ONCE];
    Elf64_Shdr table = { 0 }, names = { 0 };
    size_t count;

    if (!find_table(file->fd, &table, &names))
        return false;
    file->names_offset = names.sh_offset;
    file->names_len = names.sh_size;
    count = table.sh_size / sizeof(symbols[0]);
    for (size_t i = 0; i < count; i += AT_ONCE) {
        size_t part = count - i < AT_ONCE ? count - i : AT_ONCE;

        if (!read_at(file->fd, symbols, part * sizeof(symbols[0]),
                     table.sh_offset + i * sizeof(symbols[0])) ||
            !take_symbols(file, symbols, part))
            return false;
    }
    return true;
}

/* Does the file begin as what is mapped? */
static bool is_mapped(int fd, struct lw_memory *memory, uint64_t base)
{
    unsigned char of_file[HEAD_BYTES], mapped[HEAD_BYTES];
    ssize_t len = pread(fd, of_file, sizeof(of_file), 0);

    return len > 0 && lw_memory_get(memory, base, mapped, (size_t)len) &&
           memcmp(of_file, mapped, (size_t)len) == 0;
}

static int open_image(pid_t pid, struct lw_memory *memory,
                      const struct lw_os_image *image)
{
    char path[4200];
    int fd;

    for (int attempt = 0; attempt < 2; attempt++) {
        if (attempt == 0)
            snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, image->path);
        else if (image->is_program) /* leads to it even if it was removed */
            snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
        else
            break;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
            continue;
        if (is_mapped(fd, memory, image->base))
            return fd;
        close(fd);
    }
    return -1;
}

/* ---- from memory -------------------------------------------------------------------- */

/* The table does not say how long it is: the chain that begins last does. */
static uint32_t count_exported(struct lw_memory *memory, const struct lw_elf *elf)
{
    uint32_t head[4]; /* buckets, first symbol, words of the filter, a shift */
    uint32_t *buckets, last = 0, hash = 0;
    uint64_t at, chains;

    if (!lw_memory_get(memory, elf->gnu_hash, head, sizeof(head)) || head[0] == 0 ||
        head[0] > BUCKETS_MAX)
        return 0;
    at = elf->gnu_hash + sizeof(head) + 8ull * head[2];
    chains = at + 4ull * head[0];
    buckets = lw_alloc(head[0] * sizeof(*buckets), NULL);
    if (buckets && lw_memory_get(memory, at, buckets, head[0] * sizeof(*buckets))) {
        for (uint32_t i = 0; i < head[0]; i++)
            last = buckets[i] > last ? buckets[i] : last;
    }
    lw_free(buckets);
    if (last < head[1])
        return 0;
    for (; last < SYMBOLS_MAX; last++) {
        if (!lw_memory_get(memory, chains + 4ull * (last - head[1]), &hash,
                           sizeof(hash)))
            return 0;
        if (hash & 1)
            return last + 1;
    }
    return 0;
}

static bool load_memory(struct lw_symbol_file *file, struct lw_memory *memory,
                        const struct lw_elf *elf)
{
    uint32_t count = elf->symbols ? count_exported(memory, elf) : 0;
    Elf64_Sym symbols[AT_ONCE];

    if (count == 0 || elf->names_len == 0 || elf->names_len > NAMES_MAX)
        return false;
    file->names_len = elf->names_len;
    file->names = lw_alloc(file->names_len, NULL);
    if (!file->names ||
        !lw_memory_get(memory, elf->names, file->names, file->names_len))
        return false;
    for (uint32_t i = 0; i < count; i += AT_ONCE) {
        uint32_t part = count - i < AT_ONCE ? count - i : AT_ONCE;

        if (!lw_memory_get(memory, elf->symbols + i * sizeof(symbols[0]), symbols,
                           part * sizeof(symbols[0])) ||
            !take_symbols(file, symbols, part))
            return false;
    }
    return true;
}

/* ---- opening ------------------------------------------------------------------------ */

static struct lw_symbol_file *find_file(const struct lw_symbols *symbols,
                                        const struct file_key *key)
{
    for (size_t i = 0; i < symbols->count; i++) {
        if (memcmp(&symbols->files[i]->key, key, sizeof(*key)) == 0)
            return symbols->files[i];
    }
    return NULL;
}

static struct file_key key_of(int fd, pid_t pid, uint64_t base)
{
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0)
        return (struct file_key){ UINT64_MAX, (uint64_t)pid, base, 0 };
    return (struct file_key){ status.st_dev, status.st_ino,
                              (uint64_t)status.st_mtim.tv_sec * 1000000000u +
                                  (uint64_t)status.st_mtim.tv_nsec,
                              (uint64_t)status.st_size };
}

/* One that has no symbols is kept as well, so that it is not read again and again. */
static struct lw_symbol_file *load(struct lw_symbols *symbols, int fd,
                                   const struct file_key *key, struct lw_memory *memory,
                                   const struct lw_elf *elf)
{
    struct lw_symbol_file *file;

    if (symbols->count >= FILES_MAX || symbols->symbol_count >= SYMBOLS_MAX ||
        !lw_grow(&symbols->files, &symbols->capacity, symbols->count + 1,
                 sizeof(*symbols->files), NULL) ||
        !(file = lw_zalloc(1, sizeof(*file), NULL))) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    file->fd = fd;
    file->key = *key;
    if (fd >= 0 ? !load_file(file) : !load_memory(file, memory, elf))
        file->count = 0;
    if (file->count > 0)
        qsort(file->symbols, file->count, sizeof(*file->symbols), compare_symbols);
    symbols->files[symbols->count++] = file;
    symbols->symbol_count += file->count;
    return file;
}

const struct lw_symbol_file *lw_symbols_open(struct lw_symbols *symbols, pid_t pid,
                                             struct lw_memory *memory,
                                             const struct lw_os_image *image,
                                             const struct lw_elf *elf)
{
    int fd = open_image(pid, memory, image);
    struct file_key key = key_of(fd, pid, image->base);
    struct lw_symbol_file *file = find_file(symbols, &key);

    if (file) {
        if (fd >= 0)
            close(fd);
        return file;
    }
    return load(symbols, fd, &key, memory, elf);
}

/* ---- asking ------------------------------------------------------------------------- */

static bool read_name(const struct lw_symbol_file *file, uint32_t at, char *name)
{
    uint64_t left = file->names_len - at;
    size_t len = left < NAME_BYTES ? (size_t)left : NAME_BYTES;

    if (file->fd < 0)
        memcpy(name, file->names + at, len);
    else {
        ssize_t got = pread(file->fd, name, len, (off_t)(file->names_offset + at));

        if (got <= 0)
            return false;
        len = (size_t)got;
    }
    return memchr(name, '\0', len) != NULL && name[0] != '\0';
}

static bool is_better(const char *name, const char *than)
{
    size_t lines = strspn(name, "_"), than_lines = strspn(than, "_");
    size_t len = strlen(name), than_len = strlen(than);

    if (lines != than_lines)
        return lines < than_lines;
    return len != than_len ? len < than_len : strcmp(name, than) < 0;
}

/* The last symbol at or before ADDRESS; SIZE_MAX: none. */
static size_t find_symbol(const struct lw_symbol_file *file, uint64_t address)
{
    size_t low = 0, high = file->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (file->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? SIZE_MAX : low - 1;
}

bool lw_symbol_file_find(const struct lw_symbol_file *file, uint64_t address,
                         struct lw_buf *name, uint64_t *start)
{
    char best[NAME_BYTES], other[NAME_BYTES];
    size_t i = find_symbol(file, address);
    bool found = false;

    if (i == SIZE_MAX)
        return false;
    *start = file->symbols[i].address;
    for (; file->symbols[i].address == *start; i--) {
        const struct symbol *symbol = &file->symbols[i];

        /* Written by hand, some have no size: they reach to the next. */
        if ((symbol->size == 0 || address - *start < symbol->size) &&
            read_name(file, symbol->name, other) &&
            (!found || is_better(other, best))) {
            memcpy(best, other, strlen(other) + 1);
            found = true;
        }
        if (i == 0)
            break;
    }
    if (found)
        lw_buf_add(name, best, strlen(best));
    return found;
}
