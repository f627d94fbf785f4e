/* What a .prof of samples says of itself.
 *
 * pstats has no word for samples, and a count of 0 calls misleads what reads the file:
 * pyprof2calltree's "calls=0" has callgrind_annotate take a call's cost for the
 * caller's own. So the counts are of samples, as Python 3.15's sampler has them, and the
 * first row is one of these: a builtin without time, whose name says what is counted. */
#ifndef LW_MODEL_PSTATS_MARKS_H
#define LW_MODEL_PSTATS_MARKS_H

#define LW_PSTATS_SAMPLES "(ncalls are samples: anywhere/on top)"
#define LW_PSTATS_NO_COUNTS "(ncalls are all 1: calls were not counted)"

#endif
