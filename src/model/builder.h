/* The only way into a profile.
 *
 * A reader gets a builder and adds; indexes and ids it gets back are good for later
 * adds. Every add checks what it is given against what is there (an unknown stack or
 * thread is LW_ERR_FORMAT, said by number), so that a hostile file cannot make a
 * profile with dangling indexes. On failure the profile is still whole and freeable. */
#ifndef LW_MODEL_BUILDER_H
#define LW_MODEL_BUILDER_H

#include "model/profile.h"

struct lw_builder;

struct lw_builder *lw_builder_new(struct lw_error *err);
void lw_builder_free(struct lw_builder *builder); /* and the profile, if not taken */
/* The finished profile; the builder is freed. Rows of `calls` that name the same
 * (thread, stack) have been added up; threads, spans and samples are in the order in
 * which they came; a trace is checked and joined up. NULL: the builder is freed as
 * well. */
struct lw_profile *lw_builder_finish(struct lw_builder *builder, struct lw_error *err);
/* The profile being built, to look at. Borrowed until the next add. */
const struct lw_profile *lw_builder_profile(const struct lw_builder *builder);

bool lw_builder_string(struct lw_builder *builder, const char *text, size_t len,
                       lw_string_id *id, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_frame(struct lw_builder *builder, const struct lw_frame *frame,
                      lw_frame_id *id, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_push(struct lw_builder *builder, lw_stack_id parent, lw_frame_id frame,
                     lw_stack_id *id, struct lw_error *err) LW_MUST_CHECK;

bool lw_builder_process(struct lw_builder *builder, const struct lw_process *process,
                        uint32_t *index, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_thread(struct lw_builder *builder, const struct lw_thread *thread,
                       uint32_t *index, struct lw_error *err) LW_MUST_CHECK;
/* Change what is known of a process or thread added before (its end, its name). */
bool lw_builder_update_process(struct lw_builder *builder, uint32_t index,
                               const struct lw_process *process, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_builder_update_thread(struct lw_builder *builder, uint32_t index,
                              const struct lw_thread *thread, struct lw_error *err)
    LW_MUST_CHECK;

bool lw_builder_calls(struct lw_builder *builder, const struct lw_call_row *row,
                      struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_samples(struct lw_builder *builder, const struct lw_sample *samples,
                        size_t count, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_spans(struct lw_builder *builder, const struct lw_span *spans,
                      size_t count, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_origins(struct lw_builder *builder, const struct lw_origin *origins,
                        size_t count, struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_counter(struct lw_builder *builder,
                        const struct lw_counter_point *point, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_builder_allocation(struct lw_builder *builder,
                           const struct lw_allocation *allocation, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_builder_function(struct lw_builder *builder,
                         const struct lw_graph_function *function, uint32_t *index,
                         struct lw_error *err) LW_MUST_CHECK;
bool lw_builder_edge(struct lw_builder *builder, const struct lw_graph_edge *edge,
                     struct lw_error *err) LW_MUST_CHECK;
/* The trace of the profile, made if there is none yet; NULL for memory. A reader adds
 * to its arrays as it likes: lw_builder_finish() checks them and joins them up. */
struct lw_trace *lw_builder_trace(struct lw_builder *builder, struct lw_error *err);
bool lw_builder_loss(struct lw_builder *builder, const char *cause, const char *unit,
                     uint32_t process, uint64_t count, struct lw_error *err)
    LW_MUST_CHECK; /* equal causes of a process add up */
bool lw_builder_fact(struct lw_builder *builder, const char *key, const char *value,
                     size_t len, struct lw_error *err) LW_MUST_CHECK;
void lw_builder_set_times(struct lw_builder *builder, uint64_t start_ns,
                          uint64_t end_ns, uint64_t wall_start_ns);
void lw_builder_set_c_calls(struct lw_builder *builder, bool has_c_calls);

#endif
