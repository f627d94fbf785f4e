/* What Kineto says beside its events: devices, the job, versions, and when time 0 was. */
#ifndef LW_READERS_KINETO_HEAD_H
#define LW_READERS_KINETO_HEAD_H

#include "base/buf.h"
#include "model/builder.h"
#include "readers/trace_events.h"

struct lw_kineto_head {
    struct lw_builder *out; /* borrowed */
    uint32_t rank;          /* index */
    struct lw_buf info;     /* an object of all members, without its last bracket */
    struct lw_buf text;
};

void lw_kineto_head_init(struct lw_kineto_head *head, struct lw_builder *out,
                         uint32_t rank);
void lw_kineto_head_release(struct lw_kineto_head *head);
/* Take a member. Fails for memory only: what cannot be read is passed over. */
bool lw_kineto_head_add(struct lw_kineto_head *head, const struct lw_member *member,
                        struct lw_error *err) LW_MUST_CHECK;
bool lw_kineto_head_finish(struct lw_kineto_head *head, struct lw_error *err)
    LW_MUST_CHECK;

#endif
