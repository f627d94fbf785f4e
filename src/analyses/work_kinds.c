/* Names are judged once for each string, not once for each event: a trace has a million
 * kernels of a hundred names. */

#include "analyses/work_kinds.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum judgement {
    NOT_JUDGED,
    COMPUTES,
    COMMUNICATES,
    MOVES,
    NOTHING, /* as Holistic Trace Analysis has it: neither of the three */
};

/* As they begin or are in the names of kernels, after their case is lost. */
static const char *const libraries[] = {
    "nccl", "rccl", "msccl", "oneccl", "hccl", "nvshmem", "deep_ep", "c10d",
};

static enum judgement judge(const char *name)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strcasestr(name, libraries[i]))
            return COMMUNICATES;
    return COMPUTES;
}

/* Its patterns: ^nccl.*Kernel, then ^Memcpy|^Memset|^dma, then all but .*Memcpy and
 * .*Sync. */
enum lw_work_kind lw_work_kind_by_hta(const char *name)
{
    if (lw_text_starts(name, "nccl") && strstr(name, "Kernel"))
        return LW_WORK_COMMUNICATION;
    if (lw_text_starts(name, "Memcpy") || lw_text_starts(name, "Memset") ||
        lw_text_starts(name, "dma"))
        return LW_WORK_MEMORY;
    if (strstr(name, "Memcpy") || strstr(name, "Sync"))
        return LW_WORK_NONE;
    return LW_WORK_COMPUTATION;
}

static enum judgement judge_as_hta(const char *name)
{
    static const enum judgement judgements[] = {
        [LW_WORK_NONE] = NOTHING,
        [LW_WORK_COMPUTATION] = COMPUTES,
        [LW_WORK_COMMUNICATION] = COMMUNICATES,
        [LW_WORK_MEMORY] = MOVES,
    };

    return judgements[lw_work_kind_by_hta(name)];
}

/* Does EVENT, or what launched it, carry a collective? */
static bool has_collective(const struct lw_trace *trace, const struct lw_event *event)
{
    uint32_t launch = event->parent, op;

    if (event->detail != LW_NONE && trace->works[event->detail].collective != LW_NONE)
        return true;
    if (launch == LW_NONE)
        return false;
    op = trace->events[launch].kind == LW_EVENT_RUNTIME ? trace->events[launch].parent
                                                        : launch;
    return op != LW_NONE && trace->events[op].kind == LW_EVENT_OP &&
           trace->events[op].detail != LW_NONE &&
           trace->ops[trace->events[op].detail].collective != LW_NONE;
}

static enum lw_work_kind kind_of(const struct lw_trace *trace,
                                 const struct lw_event *event, enum judgement judgement,
                                 enum lw_compat compat)
{
    if (compat == LW_COMPAT_HTA) {
        static const enum lw_work_kind kinds[] = {
            [COMPUTES] = LW_WORK_COMPUTATION,
            [COMMUNICATES] = LW_WORK_COMMUNICATION,
            [MOVES] = LW_WORK_MEMORY,
            [NOTHING] = LW_WORK_NONE,
        };
        return kinds[judgement];
    }
    if (event->kind != LW_EVENT_KERNEL)
        return LW_WORK_MEMORY;
    return judgement == COMMUNICATES || has_collective(trace, event)
               ? LW_WORK_COMMUNICATION
               : LW_WORK_COMPUTATION;
}

uint8_t *lw_work_kinds_new(const struct lw_profile *profile, enum lw_compat compat,
                           struct lw_error *err)
{
    const struct lw_trace *trace = profile->trace;
    uint8_t *kinds = lw_zalloc(trace->event_count + 1, 1, err);
    uint8_t *judgements =
        kinds ? lw_zalloc(lw_strings_count(profile->strings), 1, err) : NULL;

    if (!judgements) {
        lw_free(kinds);
        return NULL;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        uint8_t *judgement = &judgements[event->name];

        if (!lw_event_is_work(event))
            continue;
        if (*judgement == NOT_JUDGED) {
            const char *name = lw_profile_text(profile, event->name);

            *judgement =
                (uint8_t)(compat == LW_COMPAT_HTA ? judge_as_hta(name) : judge(name));
        }
        kinds[i] = (uint8_t)kind_of(trace, event, *judgement, compat);
    }
    lw_free(judgements);
    return kinds;
}
