/* Who unpacks and packs gzip: one of two libraries behind the same few functions.
 *
 * ISA-L's igzip does it at the speed of memory, but Debian has it as a shared library
 * only, and the program has to run where there is none. So it is loaded when the first
 * gzip comes by, and where it is absent zlib, which is linked in, does the same at about
 * half the speed. base/inflate.h and base/deflate.h hold what both share: limits,
 * members, sentences. */
#ifndef LW_BASE_GZIP_H
#define LW_BASE_GZIP_H

#include <stdint.h>

#include "base/error.h"

/* Both libraries count in 32 bits. */
#define LW_GZIP_PIECE_BYTES ((size_t)1 << 30)

enum lw_gzip_step {
    LW_GZIP_MORE, /* input or room has run out */
    LW_GZIP_END,  /* of the member; `in` is behind it */
    LW_GZIP_BAD_HEAD,
    LW_GZIP_BAD_CHECKSUM,
    LW_GZIP_DAMAGED,
    LW_GZIP_NOMEM,
};

/* What a step may take and fill; both ends move as it does. */
struct lw_gzip_io {
    const unsigned char *in; /* borrowed */
    uint32_t in_len;
    unsigned char *out; /* borrowed */
    uint32_t out_len;
};

struct lw_gzip {
    const char *name;

    /* A state at the head of a member, or NULL. Freed by the function beside it, which
     * takes NULL. */
    void *(*unpack_new)(struct lw_error *err);
    void (*unpack_free)(void *state);
    void (*unpack_reset)(void *state); /* to the head of the next member */
    enum lw_gzip_step (*unpack)(void *state, struct lw_gzip_io *io);

    void *(*pack_new)(struct lw_error *err);
    void (*pack_free)(void *state);
    /* LAST: nothing follows what is in IO. Only MORE, END or DAMAGED. */
    enum lw_gzip_step (*pack)(void *state, struct lw_gzip_io *io, bool last);
};

/* NULL: libisal.so.2 is not on this machine, or lacks what we call. */
const struct lw_gzip *lw_gzip_isal(void);
extern const struct lw_gzip lw_gzip_zlib;

/* ISA-L where it is, else zlib. */
const struct lw_gzip *lw_gzip_best(void);

/* Let GZIP do the work from now on; NULL: the best. For tests. */
void lw_gzip_use(const struct lw_gzip *gzip);

#endif
