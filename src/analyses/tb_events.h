/* What torch_tb_profiler takes the events of a trace for: --compat tb.
 *
 * It goes by categories alone, so that calls into a driver are nothing, and ranges as a
 * device saw them are ranges of the host. (Its last version, never released; 0.4.3 knows
 * fewer categories yet.) Times it holds as doubles of µs: where a file has them since
 * 1970, what is finer than a quarter of a µs is lost, and its sums show it. */
#ifndef LW_ANALYSES_TB_EVENTS_H
#define LW_ANALYSES_TB_EVENTS_H

#include "analyses/intervals.h"
#include "model/profile.h"

enum lw_tb_type {
    LW_TB_NONE, /* it does not look at it */
    LW_TB_TRACE,
    LW_TB_OPERATOR,
    LW_TB_STEP, /* "ProfilerStep#7" among operators and annotations */
    LW_TB_RUNTIME,
    LW_TB_KERNEL,
    LW_TB_MEMCPY,
    LW_TB_MEMSET,
    LW_TB_PYTHON,          /* "python", as no profiler writes any more */
    LW_TB_PYTHON_FUNCTION, /* and modules */
    LW_TB_ANNOTATION,
    LW_TB_LIGHTNING, /* "[pl][profile]...": it is there, but counts for nothing */
    LW_TB_LIGHTNING_MODULE,
};

/* What it sees in a name. */
enum lw_tb_name {
    LW_TB_PLAIN,
    LW_TB_STEP_NAME,
    LW_TB_LOADER,     /* of a DataLoader or DataPipe */
    LW_TB_COLLECTIVE, /* one of the ten that it knows */
    LW_TB_LIGHTNING_NAME,
    LW_TB_LIGHTNING_MODULE_NAME,
};

struct lw_tb_events {
    const struct lw_profile *profile;
    uint8_t *types; /* owned: of each string as a category, plus 1; 0: not asked yet */
    uint8_t *names; /* owned: likewise, as a name */
    bool is_lightning; /* PyTorch Lightning says that it wrote the trace */
};

bool lw_tb_events_init(struct lw_tb_events *events, const struct lw_profile *profile,
                       struct lw_error *err) LW_MUST_CHECK;
void lw_tb_events_release(struct lw_tb_events *events); /* zeroed is fine */

enum lw_tb_type lw_tb_type(struct lw_tb_events *events, const struct lw_event *event);
enum lw_tb_name lw_tb_name(struct lw_tb_events *events, lw_string_id name);
/* From when to when, as its doubles have it. */
struct lw_interval lw_tb_span(const struct lw_event *event);

#endif
