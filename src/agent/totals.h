/* What functions cost, and pairs of a caller and what it calls, added up over the trees of
 * a region that stays in the process.
 *
 * A call counts towards its function's total, and as a primitive one, only where the
 * function is not running already further up the path; a pair likewise. That is what
 * cProfile counts while the program runs; here it is read off the tree, in one walk that
 * takes 16 bytes a node. */
#ifndef LW_AGENT_TOTALS_H
#define LW_AGENT_TOTALS_H

#include "agent/region.h"

struct lw_total {
    uint32_t caller;   /* function; 0: of all callers together */
    uint32_t function; /* number of the name log, or LW_FUNCTION_* */
    uint32_t running;  /* on the path that is being walked: 0 afterwards */
    uint64_t calls;
    uint64_t primitive_calls;
    uint64_t self_ticks;
    uint64_t total_ticks;
};

struct lw_totals {
    struct lw_total *list; /* in the order in which a walk meets them; owned */
    uint32_t count;
    uint32_t capacity;
    uint32_t *slots; /* hash of (caller, function): index + 1, 0: empty; owned */
    uint32_t slot_mask;
};

/* Nothing may write to REGION meanwhile. False: no memory; TOTALS is then empty. */
bool lw_totals_read(struct lw_totals *totals, const struct lw_region *region);
void lw_totals_release(struct lw_totals *totals);

#endif
