#include "base/gzip.h"

static const struct lw_gzip *chosen; /* NULL: the best */

void lw_gzip_use(const struct lw_gzip *gzip)
{
    chosen = gzip;
}

const struct lw_gzip *lw_gzip_best(void)
{
    const struct lw_gzip *isal;

    if (chosen)
        return chosen;
    isal = lw_gzip_isal();
    return isal ? isal : &lw_gzip_zlib;
}
