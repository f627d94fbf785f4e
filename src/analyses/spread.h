/* How numbers are spread: what pandas' describe() says of them. */
#ifndef LW_ANALYSES_SPREAD_H
#define LW_ANALYSES_SPREAD_H

#include <stddef.h>

struct lw_spread {
    size_t count;
    double total;
    double mean; /* not a number if count is 0, as all that follow */
    double sd;   /* of a sample: not a number if count is 1 */
    double min, quarter, median, three_quarters, max;
};

/* Of the COUNT numbers at VALUES, which are sorted by it. A quantile between two of them
 * is in proportion. */
struct lw_spread lw_spread_of(double *values, size_t count);

/* The same way, of numbers that are sorted: what SHARE (0..1) of them is at most. There
 * has to be one. */
double lw_spread_quantile(const double *sorted, size_t count, double share);

#endif
