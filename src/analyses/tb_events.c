/* Categories and names are judged once for each string. */

#include "analyses/tb_events.h"

#include <math.h>
#include <string.h>

#include "analyses/rank_info.h"
#include "base/alloc.h"
#include "base/text.h"

/* A double of µs holds every ns below this. (What is far above is no time at all.) */
#define EXACT_NS (UINT64_C(1) << 52)

struct category {
    const char *name; /* in lower case */
    enum lw_tb_type type;
};

static const struct category categories[] = {
    { "trace", LW_TB_TRACE },
    { "cpu_op", LW_TB_OPERATOR },
    { "operator", LW_TB_OPERATOR },
    { "cuda_runtime", LW_TB_RUNTIME },
    { "mtia_runtime", LW_TB_RUNTIME },
    { "glow_runtime", LW_TB_RUNTIME },
    { "xpu_runtime", LW_TB_RUNTIME },
    { "privateuse1_runtime", LW_TB_RUNTIME },
    { "runtime", LW_TB_RUNTIME },
    { "kernel", LW_TB_KERNEL },
    { "memcpy", LW_TB_MEMCPY },
    { "gpu_memcpy", LW_TB_MEMCPY },
    { "memset", LW_TB_MEMSET },
    { "gpu_memset", LW_TB_MEMSET },
    { "python", LW_TB_PYTHON },
    { "python_function", LW_TB_PYTHON_FUNCTION },
    { "user_annotation", LW_TB_ANNOTATION },
    { "gpu_user_annotation", LW_TB_ANNOTATION },
};

static bool is_lightning(const struct lw_profile *profile)
{
    for (size_t i = 0; i < profile->trace->rank_count; i++)
        if (lw_rank_says(profile, i, "Framework", "pytorch-lightning"))
            return true;
    return false;
}

bool lw_tb_events_init(struct lw_tb_events *events, const struct lw_profile *profile,
                       struct lw_error *err)
{
    size_t count = lw_strings_count(profile->strings);

    events->profile = profile;
    events->is_lightning = is_lightning(profile);
    events->types = lw_zalloc(count, 1, err);
    events->names = events->types ? lw_zalloc(count, 1, err) : NULL;
    return events->names != NULL;
}

void lw_tb_events_release(struct lw_tb_events *events)
{
    lw_free(events->types);
    lw_free(events->names);
    events->types = events->names = NULL;
}

static enum lw_tb_type judge_category(const char *name)
{
    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++)
        if (strcasecmp(name, categories[i].name) == 0)
            return categories[i].type;
    return LW_TB_NONE;
}

static bool is_collective(const char *name)
{
    static const char *const ops[] = {
        "broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter",
    };

    if (!lw_text_starts(name, "nccl:") && !lw_text_starts(name, "gloo:"))
        return false;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(name + 5, ops[i]) == 0)
            return true;
    return false;
}

static enum lw_tb_name judge_name(const char *name)
{
    if (lw_text_starts(name, "ProfilerStep#"))
        return LW_TB_STEP_NAME;
    if ((lw_text_starts(name, "enumerate(DataLoader)#") &&
         lw_text_ends(name, ".__next__")) ||
        lw_text_starts(name, "enumerate(DataPipe)#"))
        return LW_TB_LOADER;
    if (lw_text_starts(name, "[pl][profile]"))
        return LW_TB_LIGHTNING_NAME;
    if (lw_text_starts(name, "[pl][module]"))
        return LW_TB_LIGHTNING_MODULE_NAME;
    return is_collective(name) ? LW_TB_COLLECTIVE : LW_TB_PLAIN;
}

enum lw_tb_name lw_tb_name(struct lw_tb_events *events, lw_string_id name)
{
    uint8_t *known = &events->names[name];

    if (!*known)
        *known = (uint8_t)(1 + judge_name(lw_profile_text(events->profile, name)));
    return (enum lw_tb_name)(*known - 1);
}

/* Of a trace of Lightning's: its own ranges are no operators, and functions of Python are
 * not looked at. */
static enum lw_tb_type type_of_lightning(enum lw_tb_type type, enum lw_tb_name name)
{
    if (type == LW_TB_PYTHON_FUNCTION)
        return LW_TB_NONE;
    if (type != LW_TB_OPERATOR)
        return type;
    if (name == LW_TB_LIGHTNING_NAME)
        return LW_TB_LIGHTNING;
    return name == LW_TB_LIGHTNING_MODULE_NAME ? LW_TB_LIGHTNING_MODULE : type;
}

enum lw_tb_type lw_tb_type(struct lw_tb_events *events, const struct lw_event *event)
{
    uint8_t *known = &events->types[event->category];
    enum lw_tb_type type;

    if (!*known)
        *known = (uint8_t)(1 + judge_category(
                                   lw_profile_text(events->profile, event->category)));
    type = (enum lw_tb_type)(*known - 1);
    if ((type == LW_TB_OPERATOR || type == LW_TB_ANNOTATION) &&
        lw_tb_name(events, event->name) == LW_TB_STEP_NAME)
        return LW_TB_STEP;
    return events->is_lightning
               ? type_of_lightning(type, lw_tb_name(events, event->name))
               : type;
}

/* The whole ns nearest to what a double of µs can hold. */
static uint64_t round_time(uint64_t ns)
{
    double us;

    if (ns < EXACT_NS || ns > INT64_MAX / 2)
        return ns;
    us = (double)((long double)ns / 1000);
    return (uint64_t)llroundl((long double)us * 1000);
}

struct lw_interval lw_tb_span(const struct lw_event *event)
{
    uint64_t start_ns = round_time(event->start_ns);
    struct lw_interval span = { start_ns, round_time(start_ns + event->duration_ns) };

    return span;
}
