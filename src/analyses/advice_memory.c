/* A GPU whose memory was nearly full: what comes next may not fit, and the allocator gives
 * memory back and takes it again. There is no time to be gained that could be told. */

#include <math.h>

#include "analyses/advice_trace.h"
#include "analyses/memory_uses.h"
#include "model/units.h"

#define NEARLY_FULL 0.9

static bool say(const struct lw_memory_uses *uses, uint32_t index, int64_t full_bytes,
                struct lw_advice *advice, struct lw_error *err)
{
    const struct lw_memory_device *device = &uses->devices[index];
    uint32_t op = device->peak == LW_NONE ? LW_NONE : lw_memory_op(uses, device->peak);
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    const char *line = NULL;
    size_t len = 0;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_memory);
    lw_buf_addf(&words.change,
                "Take less memory before it runs out: activation checkpointing, "
                "torch.autocast, gradient accumulation with smaller batches, or a "
                "sharded optimizer ('%smemory --by category' says what it is for)",
                advice->query->report);
    lw_memory_add_device(uses, index, why);
    lw_buf_add_text(why, " had ");
    lw_units_add_bytes(why, device->peak_bytes);
    lw_buf_add_text(why, " of its ");
    lw_units_add_bytes(why, full_bytes);
    lw_buf_add_text(why, " allocated at its peak, ");
    lw_units_add_share(why, (double)device->peak_bytes / (double)full_bytes);
    if (op != LW_NONE) {
        lw_buf_addf(why, ", in %s",
                    lw_profile_text(uses->profile, uses->trace->events[op].name));
        len = lw_askers_line(&uses->askers, op, &line);
    }
    words.finding.gain_low = words.finding.gain_high = (double)NAN;
    done = lw_advice_words_place(&words, advice, line, len, err) &&
           lw_advice_words_add(&words, advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool find(const struct lw_memory_uses *uses, struct lw_advice *advice,
                 struct lw_error *err)
{
    for (uint32_t i = 0; i < uses->device_count; i++) {
        const struct lw_memory_device *device = &uses->devices[i];
        const struct lw_trace_gpu *gpu =
            device->id >= 0 ? lw_advice_gpu(uses->trace, device->rank, device->id)
                            : NULL;

        if (gpu && gpu->memory_bytes > 0 &&
            (double)device->peak_bytes > NEARLY_FULL * (double)gpu->memory_bytes &&
            !say(uses, i, gpu->memory_bytes, advice, err))
            return false;
    }
    return true;
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct lw_memory_uses uses;
    struct lw_error reason = { LW_OK, "" };
    bool done;

    if (advice->trace->memory_count == 0)
        return true;
    if (lw_memory_uses_init(&uses, advice->profile, advice->query, &reason))
        done = find(&uses, advice, err);
    else if (reason.code ==
             LW_ERR_UNSUPPORTED) /* not recorded in the rank that is meant */
        done = true;
    else
        done = lw_fail(err, reason.code, "%s", reason.text);
    lw_memory_uses_release(&uses);
    return done;
}

const struct lw_advice_rule lw_advice_rule_memory = {
    .name = "memory",
    .question = "Is a GPU's memory nearly full?",
    .needs = LW_ADVICE_TRACE,
    .look = look,
};
