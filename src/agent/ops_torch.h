/* torch's RecordFunction, from C and without its headers.
 *
 * Every operator of torch, every node of a backward pass and every record_function() of a
 * program is an at::RecordFunction, which tells those who asked (at::addGlobalCallback)
 * when it begins and ends. Its symbols are found in the torch that the process has loaded;
 * where its fields lie is not written down anywhere but found out, with objects of our own:
 *
 *     made with scope 0, with scope 7       the byte that differs is the scope
 *     before(name, a large number)          the word that has it is the sequence number
 *     _setAsync()                           the byte that changes comes two words after the
 *                                           forward thread
 *
 * Then two of them, one in the other, must call our callbacks in order, with our objects,
 * our contexts and our names, and must not after the callbacks were taken away. Whatever
 * is otherwise: a sentence, and torch is left alone. */
#ifndef LW_AGENT_OPS_TORCH_H
#define LW_AGENT_OPS_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* at::RecordScope, as far as we go; the same since torch 1.13. */
enum lw_torch_scope {
    LW_TORCH_FUNCTION = 0, /* an operator */
    LW_TORCH_BACKWARD = 1, /* a node of a backward pass */
    LW_TORCH_USER = 7,     /* record_function() */
    LW_TORCH_SCOPES = 8,   /* those behind are a static runtime's */
};

/* at::ObserverContext: what the start of a function gives to its end. torch deletes it
 * through its table, whose release is ours. To be the first field. */
struct lw_torch_context {
    const void *table; /* lw_torch_table's `release` */
};

/* A C++ class's table of virtual functions, of which torch calls one, the deleting
 * destructor; whichever it is, it is this. */
struct lw_torch_table {
    const void *above[2]; /* how far to the top of the object; its type */
    void (*release[6])(struct lw_torch_context *context);
};

/* at::RecordFunctionCallback. The flags behind the scopes stay false wherever they lie:
 * inputs, outputs and numbers of functions cost time. */
struct lw_torch_callback {
    void *(*start)(struct lw_torch_context **context, const void *function);
    void (*end)(const void *function, struct lw_torch_context *context);
    double probability; /* 1: each */
    bool scopes[40];
};

struct lw_torch {
    uint64_t (*add_callback)(struct lw_torch_callback callback);
    void (*remove_callback)(uint64_t handle);
    const char *(*name)(const void *function);
    uint64_t (*thread_id)(void); /* as torch counts threads, from 1 */
    void (*make)(void *function, unsigned scope);
    /* One of these two: up to torch 2.6, and later ones. */
    void (*begin)(void *function, const char *name, int64_t sequence);
    void (*begin_described)(void); /* takes a std::variant by value; see ops_torch.c */
    void (*destroy)(void *function);
    void (*set_async)(void *function);
    const void *table;          /* of RecordFunction */
    uint32_t scope_at;          /* bytes into a function */
    uint32_t sequence_at;       /* 0: not known */
    uint32_t forward_thread_at; /* 0: not known */
};

/* Find torch by LIBRARY, a loaded file that needs it (torch._C). False, and *REASON says
 * why: what follows "torch's ops are not recorded: ". */
bool lw_torch_open(struct lw_torch *torch, const char *library, const char **reason);

/* Find out where the fields are, and that callbacks work; likewise. Where TORCH is not as
 * we know it this may end the process: lw_torch_try() first. */
bool lw_torch_check(struct lw_torch *torch, const char **reason);

/* Do the same in a copy of the process, and see it live. */
bool lw_torch_try(struct lw_torch *torch, const char **reason);

/* What a function takes with the callbacks that are there now, in ticks of the clock that
 * USE_TSC says: half of many take less. It is called LW_TORCH_COST_NAME. */
#define LW_TORCH_COST_NAME "lapwing::costs"
uint64_t lw_torch_cost(const struct lw_torch *torch, bool use_tsc);

static inline unsigned lw_torch_scope_of(const struct lw_torch *torch,
                                         const void *function)
{
    return ((const unsigned char *)function)[torch->scope_at];
}

/* What joins an op to its backward node; below 0: nothing does, or it is not known. */
static inline int64_t lw_torch_sequence_of(const struct lw_torch *torch,
                                           const void *function)
{
    int64_t sequence;

    if (torch->sequence_at == 0)
        return -1;
    memcpy(&sequence, (const char *)function + torch->sequence_at, sizeof(sequence));
    return sequence;
}

/* Of a backward node: the thread of its forward op, as torch counts; 0: not known. */
static inline uint64_t lw_torch_forward_thread_of(const struct lw_torch *torch,
                                                  const void *function)
{
    uint64_t thread = 0;

    if (torch->forward_thread_at != 0)
        memcpy(&thread, (const char *)function + torch->forward_thread_at,
               sizeof(thread));
    return thread;
}

#endif
