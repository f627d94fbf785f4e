/* Whom a coroutine awaits: from one to the next, down to what is no coroutine. */
#ifndef LW_SAMPLER_AWAITS_H
#define LW_SAMPLER_AWAITS_H

#include "sampler/objects.h"
#include "sampler/walk.h"

enum lw_await_kind {
    LW_AWAIT_END,      /* no coroutine: a future, or what has no frame */
    LW_AWAIT_WRAPPER,  /* something without a frame around `next` */
    LW_AWAIT_FINISHED, /* it has ended */
    LW_AWAIT_RUNNING,  /* it is on a stack, and so is whatever it awaits */
    LW_AWAIT_WAITING,  /* it waits for `next` */
};

struct lw_await {
    enum lw_await_kind kind;
    struct lw_walk_frame frame; /* RUNNING and WAITING */
    uint64_t next;              /* 0: none, or not known */
};

/* The coroutine, generator or awaitable at ADDRESS. */
struct lw_await lw_await_look(const struct lw_objects *objects,
                              struct lw_code_cache *codes, uint64_t address,
                              uint64_t now_ns);

#endif
