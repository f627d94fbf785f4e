/* The arguments of an event of Kineto's, by their names. */
#ifndef LW_READERS_KINETO_ARGS_H
#define LW_READERS_KINETO_ARGS_H

#include "base/buf.h"
#include "model/builder.h"
#include "readers/trace_events.h"

/* What is not told of (`has`) is not set; `memory` always is. */
struct lw_kineto_args {
    uint64_t correlation, external; /* 0: none */
    struct lw_op_detail op;
    struct lw_python_detail python;
    struct lw_work_detail work;
    struct lw_collective collective;
    struct lw_memory_event memory;
    bool has_op, has_python, has_work, has_collective;
};

/* What the argument KEY is, for struct lw_trace_events; 0: nothing that is known here. */
uint8_t lw_kineto_arg_code(const char *key, size_t len);

/* Put what EVENT's arguments, whose codes are of that, say in ARGS. TEXT is for unescaping. Fails for memory only:
 * what is not as it should be is as if it was not told. */
bool lw_kineto_args_read(struct lw_kineto_args *args,
                         const struct lw_trace_event *event, struct lw_builder *out,
                         struct lw_buf *text, struct lw_error *err) LW_MUST_CHECK;

/* The string that VALUE is; a list or object as it lies in the file. */
bool lw_kineto_string(struct lw_builder *out, const struct lw_value *value,
                      struct lw_buf *text, lw_string_id *id, struct lw_error *err)
    LW_MUST_CHECK;

#endif
