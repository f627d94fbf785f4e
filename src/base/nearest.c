#include "base/nearest.h"

#include <string.h>

#include "base/text.h"

#define LONG_WORD 6 /* letters, of which two may be wrong */

void lw_nearest_init(struct lw_nearest *nearest, const char *word)
{
    nearest->word = word;
    nearest->name = NULL;
    nearest->distance = 0;
}

void lw_nearest_offer(struct lw_nearest *nearest, const char *name)
{
    size_t distance = lw_text_distance(name, nearest->word), len = strlen(name);
    bool is_long = len >= LONG_WORD || strlen(nearest->word) >= LONG_WORD;

    if (distance <= (is_long ? 2 : 1) && distance < len &&
        (!nearest->name || distance < nearest->distance)) {
        nearest->distance = distance;
        nearest->name = name;
    }
}
