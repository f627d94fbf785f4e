/* Something that agent/ops_torch.c takes for torch, and that can be otherwise than torch
 * is: the real one does not fail on demand. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is wrong with it. */
enum {
    AS_TORCH = 0,
    TWO_SCOPES = 1,    /* the scope lies in two places */
    NAME_NOWHERE = 2,  /* a name that cannot be read */
    END_FIRST = 3,     /* calls in the wrong order */
    KEEPS_CALLING = 4, /* a callback that does not go away */
    FALLS = 5,         /* ends the process */
    ANOTHER_CLASS = 6, /* not the table of the class that we know */
    NO_ASYNC_FLAG = 7, /* where the forward thread lies cannot be told */
};

__attribute__((visibility("default"))) int stand_in_mode;

struct callback {
    void *(*start)(void **context, const void *function);
    void (*end)(const void *function, void *context);
    double probability;
    bool scopes[16];
};

struct context {
    void (*const *release)(struct context *context);
};

struct function {
    const void *table;
    uint64_t thread;
    unsigned char scope, scope_again;
    bool was_called;
    struct context *context;
    char name[40];
    int64_t sequence;
    uint64_t forward_thread;
    uint64_t number;
    bool is_async;
};

struct described {
    size_t len;
    const char *text;
    unsigned char which;
};

static struct callback callback;
static bool is_added;

#define NAMED(symbol) __asm__(symbol) __attribute__((visibility("default")))

extern const void *const class_table[4] NAMED("_ZTVN2at14RecordFunctionE");
uint64_t add(struct callback given)
    NAMED("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
void removed(uint64_t handle) NAMED("_ZN2at14removeCallbackEm");
const char *name_of(const struct function *f) NAMED("_ZNK2at14RecordFunction4nameEv");
uint64_t thread_id(void) NAMED("_ZN2at14RecordFunction15currentThreadIdEv");
void make(struct function *f, unsigned scope)
    NAMED("_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
void before(struct function *f, struct described name, int64_t sequence)
    NAMED("_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_"
          "traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl");
void destroy(struct function *f) NAMED("_ZN2at14RecordFunctionD1Ev");
void set_async(struct function *f) NAMED("_ZN2at14RecordFunction9_setAsyncEv");

const void *const class_table[4] = { NULL };

uint64_t add(struct callback given)
{
    if (stand_in_mode == FALLS)
        __builtin_trap();
    callback = given;
    is_added = true;
    return 1;
}

void removed(uint64_t handle)
{
    (void)handle;
    is_added = stand_in_mode == KEEPS_CALLING;
}

const char *name_of(const struct function *f)
{
    return stand_in_mode == NAME_NOWHERE ? (const char *)16 : f->name;
}

uint64_t thread_id(void)
{
    return 1;
}

void make(struct function *f, unsigned scope)
{
    memset(f, 0, sizeof(*f));
    f->table = stand_in_mode == ANOTHER_CLASS ? class_table : &class_table[2];
    f->thread = 1;
    f->scope = (unsigned char)scope;
    f->scope_again = stand_in_mode == TWO_SCOPES ? f->scope : 0;
    f->sequence = -1;
}

void before(struct function *f, struct described name, int64_t sequence)
{
    memcpy(f->name, name.text, name.len);
    f->sequence = sequence;
    if (!is_added || !callback.scopes[f->scope])
        return;
    f->was_called = true;
    if (stand_in_mode == END_FIRST)
        callback.end(f, NULL);
    callback.start((void **)&f->context, f);
}

void destroy(struct function *f)
{
    if (!f->was_called)
        return;
    callback.end(f, f->context);
    if (f->context)
        f->context->release[1](f->context);
}

void set_async(struct function *f)
{
    f->is_async = stand_in_mode != NO_ASYNC_FLAG;
}
