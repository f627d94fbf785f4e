/* Profiles of spans, for tests of what is made of them. */
#ifndef LW_SPAN_FIXTURE_H
#define LW_SPAN_FIXTURE_H

#include "model/builder.h"
#include "test.h"

/* PROCESSES of THREADS threads each, with nothing on them yet. */
static inline struct lw_builder *span_fixture_begin(uint32_t processes,
                                                    uint32_t threads)
{
    struct lw_builder *builder = lw_builder_new(NULL);
    struct lw_process process = { .pid = 7, .rank = -1 };
    struct lw_thread thread = { .tid = 7 };
    uint32_t index;

    CHECK(builder);
    for (uint32_t i = 0; i < processes; i++) {
        CHECK(lw_builder_process(builder, &process, &thread.process, NULL));
        for (uint32_t k = 0; k < threads; k++)
            CHECK(lw_builder_thread(builder, &thread, &index, NULL));
    }
    return builder;
}

static inline void span_fixture_add(struct lw_builder *builder, uint32_t thread,
                                    enum lw_frame_kind kind, const char *name,
                                    uint64_t start_ns, uint64_t end_ns)
{
    struct lw_span span = { start_ns, end_ns - start_ns, thread, 0 };
    struct lw_frame frame = { .kind = (uint8_t)kind };
    lw_frame_id id;

    CHECK(lw_builder_string(builder, name, strlen(name), &frame.name, NULL) &&
          lw_builder_frame(builder, &frame, &id, NULL) &&
          lw_builder_push(builder, LW_NO_STACK, id, &span.stack, NULL) &&
          lw_builder_spans(builder, &span, 1, NULL));
}

#endif
