#include "test.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "base/demangle.h"
#include "sampler/symbols.h"
#include "sampler/unwind.h"

struct self {
    struct lw_memory memory;
    struct lw_unwinder unwinder;
    struct lw_symbols symbols;
};

static void open_self(struct self *self)
{
    CHECK(lw_memory_open(&self->memory, getpid(), -1, NULL));
    CHECK(lw_unwinder_init(&self->unwinder, &self->memory, getpid(), NULL));
    lw_unwinder_refresh(&self->unwinder, 1);
    lw_symbols_init(&self->symbols);
}

static void close_self(struct self *self)
{
    lw_unwinder_release(&self->unwinder);
    lw_symbols_release(&self->symbols);
}

/* The name of the function at ADDRESS of this process, into TEXT; "" if it has none. With
 * PATH, IMAGE's file is said to be there. */
static void name_of(struct self *self, uint64_t address, const char *path, char *text,
                    size_t size)
{
    size_t number = lw_unwinder_image(&self->unwinder, address);
    const struct lw_symbol_file *file;
    const struct lw_elf *elf;
    struct lw_os_image image;
    struct lw_buf name;
    uint64_t start;

    text[0] = '\0';
    CHECK(number != SIZE_MAX);
    image = self->unwinder.images.images[number];
    if (path)
        image.path = path;
    elf = lw_unwinder_elf(&self->unwinder, number);
    file = lw_symbols_open(&self->symbols, getpid(), &self->memory, &image, elf);
    if (!file)
        return;
    lw_buf_init(&name, 0);
    if (lw_symbol_file_find(file, address - elf->bias, &name, &start)) {
        CHECK(start <= address - elf->bias);
        snprintf(text, size, "%.*s", (int)name.len, name.bytes);
    }
    lw_buf_release(&name);
}

/* The C library's own NAME, whatever a sanitizer has put before it. */
static uint64_t in_libc(const char *name)
{
    void *library = dlopen("libc.so.6", RTLD_NOW);
    uint64_t address = (uint64_t)(uintptr_t)dlsym(library, name);

    CHECK(address != 0);
    dlclose(library);
    return address;
}

static int a_function_of_this_file(int n)
{
    return n * 3;
}

TEST(functions_have_the_names_of_their_files_tables)
{
    int (*volatile function)(int) = a_function_of_this_file;
    struct self self;
    char name[256];

    open_self(&self);
    name_of(&self, (uint64_t)(uintptr_t)function + 1, NULL, name, sizeof(name));
    CHECK_STR(name, "a_function_of_this_file");
    name_of(&self, in_libc("nanosleep") + 1, NULL, name, sizeof(name));
    CHECK_STR(name, "nanosleep"); /* not __nanosleep, which it is as well */
    CHECK_EQ(self.symbols.count, 2);
    name_of(&self, in_libc("getpid") + 1, NULL, name, sizeof(name));
    CHECK_STR(name, "getpid");
    CHECK_EQ(self.symbols.count, 2); /* each file is read once */
    close_self(&self);
}

TEST(a_file_that_was_removed_has_the_names_in_memory)
{
    struct self self;
    char name[256];

    open_self(&self);
    name_of(&self, in_libc("getpid") + 1, "/no/such/library.so", name, sizeof(name));
    CHECK_STR(name, "getpid");
    close_self(&self);
}

TEST(another_file_in_its_place_is_not_believed)
{
    struct self self;
    char name[256];

    open_self(&self);
    name_of(&self, in_libc("getpid") + 1, "/proc/self/exe", name, sizeof(name));
    CHECK_STR(name, "getpid");
    close_self(&self);
}

TEST(an_address_before_the_first_function_has_no_name)
{
    struct self self;
    char name[256];
    size_t number;

    open_self(&self);
    number = lw_unwinder_image(&self.unwinder, in_libc("getpid"));
    CHECK(number != SIZE_MAX);
    name_of(&self, self.unwinder.images.images[number].base + 1, NULL, name,
            sizeof(name));
    CHECK_STR(name, "");
    close_self(&self);
}

TEST(names_of_cplusplus_are_shown_as_written_and_others_as_they_are)
{
    struct lw_buf name;

    lw_buf_init(&name, 0);
    lw_demangle(&name, "printf");
    lw_buf_add_char(&name, ' ');
    lw_demangle(&name, "_ZNot a name");
    lw_buf_add_char(&name, ' ');
    lw_demangle(&name, "_ZN2at6native3addEi");
    lw_buf_add_char(&name, '\0');
    CHECK(lw_buf_check(&name, NULL));
    if (strstr(name.bytes, "_ZN2at6native3addEi")) /* no C++ library here */
        CHECK_STR(name.bytes, "printf _ZNot a name _ZN2at6native3addEi");
    else
        CHECK_STR(name.bytes, "printf _ZNot a name at::native::add(int)");
    lw_buf_release(&name);
}
