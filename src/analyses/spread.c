#include "analyses/spread.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double lw_spread_quantile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;

    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

struct lw_spread lw_spread_of(double *values, size_t count)
{
    struct lw_spread s = {
        .count = count,
        .mean = NAN,
        .sd = NAN,
        .min = NAN,
        .quarter = NAN,
        .median = NAN,
        .three_quarters = NAN,
        .max = NAN,
    };
    double squares = 0;

    if (count == 0)
        return s;
    qsort(values, count, sizeof(*values), compare);
    for (size_t i = 0; i < count; i++)
        s.total += values[i];
    s.mean = s.total / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - s.mean) * (values[i] - s.mean);
    if (count > 1)
        s.sd = sqrt(squares / (double)(count - 1));
    s.min = values[0];
    s.quarter = lw_spread_quantile(values, count, 0.25);
    s.median = lw_spread_quantile(values, count, 0.5);
    s.three_quarters = lw_spread_quantile(values, count, 0.75);
    s.max = values[count - 1];
    return s;
}
