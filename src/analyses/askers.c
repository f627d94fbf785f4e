#include "analyses/askers.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* As torch.profiler names Python functions: "train.py(12): step". Paths below a folder
 * of sys.path are cut, so torch's own begin with "torch/". */
static bool is_own_line(const char *name, size_t len)
{
    static const char *const foreign[] = {
        "/site-packages/", "/dist-packages/", "/lib/python3", "<frozen", "<__array_f",
    };

    if (!memmem(name, len, ".py(", 4) || lw_text_starts(name, "torch/"))
        return false;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (memmem(name, len, foreign[i], strlen(foreign[i])))
            return false;
    return true;
}

enum judgement {
    NOT_JUDGED,
    OWN,
    FOREIGN,
};

struct finding {
    struct lw_askers *askers;
    uint8_t *judgements; /* of each string: a name is judged once */
};

static bool is_own(const struct finding *finding, lw_string_id name)
{
    const struct lw_profile *profile = finding->askers->profile;
    uint8_t *judgement = &finding->judgements[name];

    if (*judgement == NOT_JUDGED)
        *judgement = is_own_line(lw_profile_text(profile, name),
                                 lw_strings_len(profile->strings, name))
                         ? OWN
                         : FOREIGN;
    return *judgement == OWN;
}

static void find(const struct finding *finding, uint32_t index)
{
    struct lw_askers *askers = finding->askers;
    const struct lw_event *events = askers->profile->trace->events;
    const struct lw_event *event = &events[index];
    uint32_t op = event->parent == LW_NONE ? LW_NONE : askers->ops[event->parent];
    uint32_t line = event->parent == LW_NONE ? LW_NONE : askers->lines[event->parent];

    if (event->kind == LW_EVENT_OP)
        op = index;
    if (event->kind == LW_EVENT_PYTHON &&
        (line == LW_NONE || is_own(finding, event->name) ||
         !is_own(finding, events[line].name)))
        line = index;
    askers->ops[index] = op;
    askers->lines[index] = line;
}

bool lw_askers_init(struct lw_askers *askers, const struct lw_profile *profile,
                    struct lw_error *err)
{
    const struct lw_trace *trace = profile->trace;
    struct finding finding = { .askers = askers };
    size_t size = trace->event_count * sizeof(uint32_t) + 1;

    memset(askers, 0, sizeof(*askers));
    askers->profile = profile;
    askers->ops = lw_alloc(size, err);
    askers->lines = askers->ops ? lw_alloc(size, err) : NULL;
    if (askers->lines)
        finding.judgements = lw_zalloc(lw_strings_count(profile->strings), 1, err);
    if (!finding.judgements)
        return false;
    /* The host first: launches are the parents of what ran on a device. */
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (!lw_event_is_on_device(&trace->events[i]))
            find(&finding, i);
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (lw_event_is_on_device(&trace->events[i]))
            find(&finding, i);
    lw_free(finding.judgements);
    return true;
}

void lw_askers_release(struct lw_askers *askers)
{
    lw_free(askers->ops);
    lw_free(askers->lines);
    memset(askers, 0, sizeof(*askers));
}

/* The first own line of STACK, which has the leaf first; else its leaf. */
static size_t line_of_stack(const char *stack, const char **text)
{
    size_t len = strcspn(stack, ";");

    *text = stack;
    for (const char *at = stack; *at;) {
        size_t here = strcspn(at, ";");

        if (is_own_line(at, here)) {
            *text = at;
            return here;
        }
        at += here;
        at += *at == ';';
    }
    return len;
}

size_t lw_askers_line(const struct lw_askers *askers, uint32_t event, const char **text)
{
    const struct lw_profile *profile = askers->profile;
    const struct lw_trace *trace = profile->trace;
    uint32_t line = askers->lines[event], op = askers->ops[event];

    if (line != LW_NONE) {
        *text = lw_profile_text(profile, trace->events[line].name);
        return lw_strings_len(profile->strings, trace->events[line].name);
    }
    if (op == LW_NONE || trace->events[op].detail == LW_NONE)
        return 0;
    return line_of_stack(
        lw_profile_text(profile, trace->ops[trace->events[op].detail].stack), text);
}
