/* The name that a mistyped word is nearest to, for "did you mean".
 *
 *     lw_nearest_init(&near, word);
 *     for (...) lw_nearest_offer(&near, names[i]);
 *     if (near.name) ...
 *
 * A suggestion is one edit away, or two where either has six letters or more, and not all
 * its letters are wrong. Of names equally near, the first stays. */
#ifndef LW_BASE_NEAREST_H
#define LW_BASE_NEAREST_H

#include <stddef.h>

struct lw_nearest {
    const char *word; /* borrowed */
    const char *name; /* borrowed from who offered it; NULL: none is near */
    size_t distance;  /* of `name` */
};

void lw_nearest_init(struct lw_nearest *nearest, const char *word);
void lw_nearest_offer(struct lw_nearest *nearest, const char *name);

#endif
