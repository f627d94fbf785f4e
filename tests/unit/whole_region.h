/* A region as somebody with its descriptor sees it: all of the file in one piece, for
 * tests that look at it, or write there what they should not. */
#ifndef LW_TEST_WHOLE_REGION_H
#define LW_TEST_WHOLE_REGION_H

#include <sys/mman.h>

#include "agent/region.h"
#include "test.h"

struct whole_region {
    struct lw_agent_header *header;
    unsigned char *bytes;
    struct lw_agent_header as_made; /* before anybody changed it */
};

static inline struct whole_region whole_region_map(const struct lw_region *region)
{
    struct whole_region whole = { .as_made = *region->header };
    void *mapped = mmap(NULL, whole.as_made.region_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, region->fd, 0);

    CHECK(mapped != MAP_FAILED);
    whole.bytes = mapped;
    whole.header = mapped;
    return whole;
}

static inline void whole_region_unmap(struct whole_region *whole)
{
    CHECK_EQ(munmap(whole->bytes, whole->as_made.region_bytes), 0);
}

static inline unsigned char *whole_region_names(const struct whole_region *whole)
{
    return whole->bytes + whole->as_made.names_offset;
}

#endif
