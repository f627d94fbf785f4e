#include "sampler/elf.h"

#include <elf.h>
#include <string.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "no name for this machine"
#endif

/* More than any library has; what says otherwise is not one. */
#define SEGMENTS_MAX 64
#define DYNAMIC_MAX 256
#define CHAIN_MAX 100000
#define NAME_MAX_BYTES 128

/* The loader of glibc has made the pointers of the dynamic section absolute; others leave
 * them as they are in the file. */
static uint64_t absolute(const struct lw_elf *elf, uint64_t pointer)
{
    return pointer < elf->bias ? pointer + elf->bias : pointer;
}

static bool read_dynamic(struct lw_elf *elf, struct lw_memory *memory, uint64_t address)
{
    Elf64_Dyn entries[DYNAMIC_MAX];
    size_t count = 0;

    /* Its end is only known when it is met, and what lies behind may not be mapped. */
    while (count < DYNAMIC_MAX) {
        if (!lw_memory_get(memory, address + count * sizeof(entries[0]),
                           &entries[count], sizeof(entries[0])))
            return false;
        if (entries[count].d_tag == DT_NULL)
            break;
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t value = entries[i].d_un.d_val;

        if (entries[i].d_tag == DT_SYMTAB)
            elf->symbols = absolute(elf, value);
        else if (entries[i].d_tag == DT_STRTAB)
            elf->names = absolute(elf, value);
        else if (entries[i].d_tag == DT_STRSZ)
            elf->names_len = value;
        else if (entries[i].d_tag == DT_GNU_HASH)
            elf->gnu_hash = absolute(elf, value);
    }
    return elf->symbols && elf->names && elf->gnu_hash;
}

static bool check_header(const Elf64_Ehdr *header, struct lw_error *err)
{
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return lw_fail(err, LW_ERR_FORMAT, "not a program");
    if (header->e_ident[EI_CLASS] != ELFCLASS64)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "a program of 32 bits, which Lapwing cannot read");
    if (header->e_machine != MACHINE)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "a program for another kind of processor, which Lapwing cannot "
                       "read");
    if (header->e_phnum == 0 || header->e_phnum > SEGMENTS_MAX ||
        header->e_phentsize != sizeof(Elf64_Phdr))
        return lw_fail(err, LW_ERR_FORMAT, "its segments make no sense");
    return true;
}

bool lw_elf_open(struct lw_elf *elf, struct lw_memory *memory, uint64_t base,
                 struct lw_error *err)
{
    Elf64_Phdr segments[SEGMENTS_MAX];
    Elf64_Ehdr header;
    uint64_t dynamic = 0, first = UINT64_MAX;

    *elf = (struct lw_elf){ .base = base };
    if (!lw_memory_get(memory, base, &header, sizeof(header)))
        return lw_fail(err, LW_ERR_IO, "its head cannot be read");
    if (!check_header(&header, err))
        return false;
    if (!lw_memory_get(memory, base + header.e_phoff, segments,
                       header.e_phnum * sizeof(segments[0])))
        return lw_fail(err, LW_ERR_IO, "its segments cannot be read");
    for (size_t i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr < first)
            first = segments[i].p_vaddr & ~(uint64_t)0xfff;
    }
    elf->bias = header.e_type == ET_EXEC || first == UINT64_MAX ? 0 : base - first;
    for (size_t i = 0; i < header.e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        uint64_t start = segment->p_vaddr + elf->bias;

        if (segment->p_type == PT_DYNAMIC)
            dynamic = start;
        else if (segment->p_type == PT_GNU_EH_FRAME)
            elf->eh_frame_header = start;
        else if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
                 elf->code_end == 0) {
            elf->code_start = start;
            elf->code_end = start + segment->p_memsz;
        }
    }
    if (!dynamic || !read_dynamic(elf, memory, dynamic))
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "it exports no symbols (a static program?)");
    return true;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_named(const struct lw_elf *elf, struct lw_memory *memory,
                     const Elf64_Sym *symbol, const char *name)
{
    size_t len = strlen(name) + 1;
    char text[NAME_MAX_BYTES];

    return len <= sizeof(text) && symbol->st_name + len <= elf->names_len &&
           lw_memory_get(memory, elf->names + symbol->st_name, text, len) &&
           memcmp(text, name, len) == 0;
}

uint64_t lw_elf_symbol(const struct lw_elf *elf, struct lw_memory *memory,
                       const char *name)
{
    struct {
        uint32_t buckets, first_symbol, bloom_words, bloom_shift;
    } table;
    uint32_t wanted = gnu_hash(name), number, hash;
    uint64_t buckets, chains;

    if (!lw_memory_get(memory, elf->gnu_hash, &table, sizeof(table)) ||
        table.buckets == 0)
        return 0;
    buckets = elf->gnu_hash + sizeof(table) + 8ull * table.bloom_words;
    chains = buckets + 4ull * table.buckets;
    if (!lw_memory_get(memory, buckets + 4ull * (wanted % table.buckets), &number,
                       sizeof(number)) ||
        number < table.first_symbol)
        return 0;
    for (unsigned steps = 0; steps < CHAIN_MAX; steps++, number++) {
        Elf64_Sym symbol;

        if (!lw_memory_get(memory, chains + 4ull * (number - table.first_symbol), &hash,
                           sizeof(hash)))
            return 0;
        if ((hash | 1) == (wanted | 1) &&
            lw_memory_get(memory, elf->symbols + sizeof(symbol) * number, &symbol,
                          sizeof(symbol)) &&
            symbol.st_shndx != SHN_UNDEF && is_named(elf, memory, &symbol, name))
            return symbol.st_value + elf->bias;
        if (hash & 1) /* the last of its chain */
            return 0;
    }
    return 0;
}
