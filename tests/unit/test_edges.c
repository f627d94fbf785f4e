#include "test.h"

#include "base/alloc.h"
#include "sampler/edges.h"

TEST(an_edge_is_known_by_all_of_its_parts)
{
    static const struct lw_edge others[] = {
        { 2, 10, 3 },
        { 1, 11, 3 },
        { 1, -1, 3 },
        { 1, 10, 4 },
        { 3, 10, 1 },
        { 1, 10, 0 },
        { 1, 10, LW_CALLS_FROM_C },
    };
    const struct lw_edge edge = { 1, 10, 3 };
    struct lw_edges edges;

    lw_edges_init(&edges);
    CHECK(!lw_edges_has(&edges, edge));
    lw_edges_add(&edges, edge);
    CHECK(lw_edges_has(&edges, edge));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK(!lw_edges_has(&edges, others[i]));
    lw_edges_add(&edges, edge);
    CHECK_EQ(edges.count, 1);
    lw_edges_release(&edges);
}

TEST(many_edges_are_known_and_more_are_not_noted)
{
    struct lw_edges edges;

    lw_edges_init(&edges);
    for (uint32_t i = 0; i <= LW_EDGES_MAX; i++)
        lw_edges_add(&edges, (struct lw_edge){ i / 100, (int32_t)(i % 100), 1 });
    CHECK_EQ(edges.count, LW_EDGES_MAX);
    CHECK(lw_edges_has(&edges, (struct lw_edge){ 77, 7, 1 }));
    CHECK(!lw_edges_has(&edges, (struct lw_edge){ LW_EDGES_MAX / 100, 0, 1 }));
    lw_edges_release(&edges);
}

TEST(without_memory_an_edge_is_not_noted)
{
    const struct lw_edge edge = { 1, 10, 3 };
    struct lw_edges edges;

    for (uint64_t n = 1; n < 3; n++) {
        lw_edges_init(&edges);
        lw_alloc_fail_in(n);
        lw_edges_add(&edges, edge);
        lw_alloc_fail_in(0);
        CHECK(!lw_edges_has(&edges, edge));
        lw_edges_add(&edges, edge);
        CHECK(lw_edges_has(&edges, edge));
        lw_edges_release(&edges);
    }
}
