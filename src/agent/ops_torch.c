/* Finding torch's RecordFunction and finding it out; see agent/ops_torch.h. */

#include "agent/ops_torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ticks.h"

/* An object has 330 bytes in torch 2.13; nothing is known of the next one's. */
enum {
    FUNCTION_BYTES = 4096,
    NAME_BYTES = 32,
    TRY_MS = 3000,
    COST_ROUNDS = 31,
    CACHE_BYTES = 1 << 20
};

union function {
    unsigned char bytes[FUNCTION_BYTES];
    const void *table; /* its first word */
    long double aligned;
};

/* ---- symbols ------------------------------------------------------------------------ */

#define FUNCTION "_ZN2at14RecordFunction"

/* What before() takes since torch 2.7 or so, std::variant<std::string_view, a reference to a schema>, by value;
 * as libstdc++ lays it out. */
struct described {
    size_t len;
    const char *text;
    unsigned char which; /* 0: the text */
};

typedef void before_described(void *function, struct described name, int64_t sequence);

static const char before_symbol[] = FUNCTION
    "6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_"
    "wrapperIKN3c1014FunctionSchemaEEEEl";

static bool find(void *library, const char *symbol, void *target)
{
    void *found = dlsym(library, symbol);

    memcpy(target, &found, sizeof(found));
    return found != NULL;
}

bool lw_torch_open(struct lw_torch *torch, const char *library, const char **reason)
{
    unsigned char *table = NULL;
    void *handle;
    bool found;

    memset(torch, 0, sizeof(*torch));
#if !defined(__x86_64__)
    *reason = "that is done on x86-64 only";
    return false;
#endif
    handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) {
        *reason = "its library is not loaded";
        return false;
    }
    found = find(handle, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
                 &torch->add_callback) &&
            find(handle, "_ZN2at14removeCallbackEm", &torch->remove_callback) &&
            find(handle, "_ZNK2at14RecordFunction4nameEv", &torch->name) &&
            find(handle, FUNCTION "15currentThreadIdEv", &torch->thread_id) &&
            find(handle, FUNCTION "C1ENS_11RecordScopeE", &torch->make) &&
            (find(handle, FUNCTION "6beforeEPKcl", &torch->begin) ||
             find(handle, before_symbol, &torch->begin_described)) &&
            find(handle, FUNCTION "D1Ev", &torch->destroy) &&
            find(handle, FUNCTION "9_setAsyncEv", &torch->set_async) &&
            find(handle, "_ZTVN2at14RecordFunctionE", &table);
    dlclose(handle); /* the program's own reference keeps it */
    if (!found) {
        *reason = "this torch does not have the functions for it";
        return false;
    }
    torch->table = table + 2 * sizeof(void *);
    return true;
}

/* ---- fields ------------------------------------------------------------------------- */

static void begin(const struct lw_torch *torch, union function *function,
                  const char *name, int64_t sequence)
{
    before_described *described = (before_described *)torch->begin_described;

    if (torch->begin)
        torch->begin(function, name, sequence);
    else
        described(function, (struct described){ strlen(name), name, 0 }, sequence);
}

/* The one place where BEFORE and AFTER, of a zeroed object each, differ; 0: there are
 * none or several. */
static uint32_t only_change(const union function *before, const union function *after,
                            unsigned from, unsigned to)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < FUNCTION_BYTES; i++) {
        if (before->bytes[i] == after->bytes[i])
            continue;
        if (found || before->bytes[i] != from || after->bytes[i] != to)
            return 0;
        found = i;
    }
    return found;
}

/* The one word of FUNCTION that is VALUE; 0: none or several. */
static uint32_t only_word(const union function *function, int64_t value)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i + sizeof(value) <= FUNCTION_BYTES; i += sizeof(value)) {
        if (memcmp(function->bytes + i, &value, sizeof(value)) != 0)
            continue;
        if (found)
            return 0;
        found = i;
    }
    return found;
}

/* Copy LEN bytes of ours at FROM, which may be anything: the kernel knows. In a sandbox
 * one of its two ways may be shut. */
static bool read_own(void *to, const char *from, size_t len)
{
    struct iovec local = { to, len }, remote = { (void *)(uintptr_t)from, len };
    bool done = syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul,
                        0ul) == (ssize_t)len;
    int memory = done ? -1 : open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

    if (memory >= 0) {
        done = pread(memory, to, len, (off_t)(uintptr_t)from) == (ssize_t)len;
        close(memory);
    }
    return done;
}

static bool is_text(const char *p, const char *expected)
{
    char copy[NAME_BYTES];
    size_t len = strlen(expected) + 1;

    return len <= sizeof(copy) && read_own(copy, p, len) &&
           memcmp(copy, expected, len) == 0;
}

static bool find_fields(struct lw_torch *torch)
{
    const int64_t sequence = 0x5a3c96e1740b2d;
    static const char name[] = "lapwing::looks";
    union function function, first;
    uint64_t forward;
    uint32_t async_at;
    bool has_name, has_table;

    memset(&function, 0, sizeof(function));
    torch->make(&function, LW_TORCH_FUNCTION);
    first = function;
    torch->destroy(&function);

    memset(&function, 0, sizeof(function));
    torch->make(&function, LW_TORCH_USER);
    torch->scope_at = only_change(&first, &function, LW_TORCH_FUNCTION, LW_TORCH_USER);
    has_table = function.table == torch->table;
    begin(torch, &function, name, sequence);
    has_name = is_text(torch->name(&function), name);
    torch->sequence_at = only_word(&function, sequence);
    first = function;
    torch->set_async(&function);
    async_at = only_change(&first, &function, 0, 1);
    torch->destroy(&function);

    /* The forward thread and the function's number lie before the flag. */
    if (async_at % 8 == 0 && async_at >= torch->sequence_at + 24 &&
        torch->sequence_at > 0) {
        memcpy(&forward, first.bytes + async_at - 16, sizeof(forward));
        torch->forward_thread_at = forward == 0 ? async_at - 16 : 0;
    }
    return torch->scope_at > 0 && has_name && has_table;
}

/* ---- callbacks ---------------------------------------------------------------------- */

/* What was called, for two functions, one in the other: "AaBb" would be one after the
 * other. Only the thread that tests gets in: others come with functions of their own. */
static struct {
    const struct lw_torch *torch;
    const union function *functions[2];
    const char *names[2];
    struct lw_torch_context contexts[2];
    char calls[16];
    size_t count;
    bool is_wrong;
} test;

static void note(char letter)
{
    if (test.count + 1 < sizeof(test.calls))
        test.calls[test.count++] = letter;
}

static int index_of(const void *function)
{
    return function == test.functions[0] ? 0 : function == test.functions[1] ? 1 : -1;
}

static void test_released(struct lw_torch_context *context)
{
    note(context == &test.contexts[0] ? 'x' : context == &test.contexts[1] ? 'y' : '?');
}

static const struct lw_torch_table test_table = {
    .release = { test_released, test_released, test_released, test_released,
                 test_released, test_released },
};

static void *test_started(struct lw_torch_context **context, const void *function)
{
    int i = index_of(function);

    *context = NULL;
    if (i < 0)
        return context;
    note("AB"[i]);
    test.is_wrong |= !is_text(test.torch->name(function), test.names[i]) ||
                     lw_torch_scope_of(test.torch, function) !=
                         (i ? LW_TORCH_USER : LW_TORCH_FUNCTION);
    test.contexts[i].table = test_table.release;
    *context = &test.contexts[i];
    return context;
}

static void test_ended(const void *function, struct lw_torch_context *context)
{
    int i = index_of(function);

    if (i < 0)
        return;
    note("ab"[i]);
    test.is_wrong |= context != &test.contexts[i];
}

static void run_two(const struct lw_torch *torch, union function *outer,
                    union function *inner)
{
    torch->make(outer, LW_TORCH_FUNCTION);
    begin(torch, outer, test.names[0], -1);
    torch->make(inner, LW_TORCH_USER);
    begin(torch, inner, test.names[1], -1);
    torch->destroy(inner);
    torch->destroy(outer);
}

static bool callbacks_work(const struct lw_torch *torch)
{
    struct lw_torch_callback callback = {
        .start = test_started,
        .end = test_ended,
        .probability = 1,
        .scopes = { [LW_TORCH_FUNCTION] = true, [LW_TORCH_USER] = true },
    };
    union function outer, inner;
    uint64_t handle;

    memset(&test, 0, sizeof(test));
    test.torch = torch;
    test.functions[0] = &outer;
    test.functions[1] = &inner;
    test.names[0] = "lapwing::outer";
    test.names[1] = "a range that is longer, on heap";
    handle = torch->add_callback(callback);
    run_two(torch, &outer, &inner);
    torch->remove_callback(handle);
    if (test.is_wrong || strcmp(test.calls, "ABbyax") != 0)
        return false;
    run_two(torch, &outer, &inner);
    test.functions[0] = test.functions[1] = NULL;
    return test.count == 6;
}

bool lw_torch_check(struct lw_torch *torch, const char **reason)
{
    if (!find_fields(torch)) {
        *reason = "this torch keeps them otherwise than those we know";
        return false;
    }
    if (!callbacks_work(torch)) {
        *reason = "this torch did not call back as those we know";
        return false;
    }
    return true;
}

/* ---- first in a copy ---------------------------------------------------------------- */

/* The copy may fall: quietly, with no core and no words of anybody's handlers. */
static void try_in_copy(struct lw_torch *torch)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGTRAP };
    struct rlimit none = { 0, 0 };
    const char *reason;
    int nowhere = open("/dev/null", O_RDWR);

    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        signal(faults[i], SIG_DFL);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    syscall(SYS_exit_group, lw_torch_check(torch, &reason) ? 0 : 1);
}

bool lw_torch_try(struct lw_torch *torch, const char **reason)
{
    /* No signal at its end, and no handlers of fork: the program does not hear of it. */
    pid_t pid = (pid_t)syscall(SYS_clone, 0ul, NULL, NULL, NULL, 0ul);
    struct pollfd ended = { .events = POLLIN };
    int status = 0;

    if (pid == 0)
        try_in_copy(torch);
    *reason = "this torch is newer than those we know, and could not be tried";
    if (pid < 0)
        return false;
    ended.fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (ended.fd < 0 || poll(&ended, 1, TRY_MS) <= 0)
        kill(pid, SIGKILL);
    if (ended.fd >= 0)
        close(ended.fd);
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return false;
    *reason = "this torch is not like those we know";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- cost --------------------------------------------------------------------------- */

uint64_t lw_torch_cost(const struct lw_torch *torch, bool use_tsc)
{
    /* A program has other things in the processor's caches than our callbacks: without
     * this, an op seems to cost a third of what it does. */
    volatile unsigned char *others = calloc(CACHE_BYTES, 1);
    uint64_t took[COST_ROUNDS]; /* sorted */
    union function function;

    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        uint64_t start, now;
        unsigned at = i;

        for (size_t k = 0; others && k < CACHE_BYTES; k += 64)
            others[k]++;
        start = lw_ticks_now(use_tsc);
        torch->make(&function, LW_TORCH_FUNCTION);
        begin(torch, &function, LW_TORCH_COST_NAME, -1);
        torch->destroy(&function);
        now = lw_ticks_now(use_tsc) - start;
        for (; at > 0 && took[at - 1] > now; at--)
            took[at] = took[at - 1];
        took[at] = now;
    }
    free((void *)(uintptr_t)others);
    return took[COST_ROUNDS / 2];
}
