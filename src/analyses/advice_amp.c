/* Matrix products and convolutions in single precision on a GPU that has tensor cores.
 *
 * Which kernels used them only their names tell (tensor_cores.h). A kernel counts if an op
 * that autocast runs in half precision launched it, and neither its name nor the types of
 * the op's inputs say that it is of another precision. Tensor cores make such kernels
 * 1.5 to 4 times as fast (reduced precision halves the bytes, too); where the GPU waits
 * for the host anyway, that may be worth nothing. AMD's compute capability is another
 * scale, so they are left out. */

#include <string.h>

#include "analyses/late_host.h"
#include "analyses/tensor_cores.h"
#include "analyses/work_kinds.h"
#include "base/alloc.h"
#include "base/text.h"
#include "model/units.h"

#define TENSOR_CAPABILITY 7 /* Volta's: the first that has them */
#define TF32_CAPABILITY 8   /* Ampere's */
#define LITTLE 0.05         /* of kernel time on tensor cores is as good as none */
#define KERNEL_SHARE 0.15   /* of kernel time is in such kernels, and */
#define STEP_SHARE 0.05     /* of the steps */
#define LEAST_SAVED (1 - 1 / 1.5)
#define MOST_SAVED (1 - 1 / 4.0)
#define HOST_BOUND 0.1 /* of the steps the GPU waits for the host */

/* What a name says, of an op or of a kernel. */
enum {
    NOT_JUDGED,
    NEITHER,
    CAN_USE,   /* an op that could run on tensor cores */
    ON_CORES,  /* a kernel that does */
    NOT_SINGLE /* a kernel of half or double precision */
};

struct kernels {
    uint64_t ns;      /* all that compute, in steps */
    uint64_t core_ns; /* on tensor cores */
    uint64_t can_ns;  /* that could be */
    int64_t capability;
    uint32_t gpu;    /* index of one that could */
    lw_string_id op; /* that has the most of can_ns */
};

struct looking {
    const struct lw_advice_trace *trace;
    const struct lw_profile *profile;
    const struct lw_trace *events_of;
    uint8_t *words;  /* owned: of each string */
    uint32_t *ops;   /* owned: of each event the nearest op that could use them, or
                         LW_NONE */
    uint8_t *kinds;  /* owned: work_kinds.h */
    uint64_t *op_ns; /* owned: of each string as an op's name: can_ns */
    bool *is_amd;    /* owned: of each rank */
    struct kernels sum;
};

/* ---- names -------------------------------------------------------------------------- */

static bool has_part(const char *name, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasestr(name, parts[i]))
            return true;
    return false;
}

/* The ops of tensor_cores.h are those of torch 1.9; since then one op is a convolution's
 * whole gradient. */
static bool can_use(const char *name)
{
    return lw_tensor_core_op(name) || strcmp(name, "aten::convolution_backward") == 0;
}

static uint8_t judge_kernel(const char *name)
{
    static const char *const others[] = { "half",  "bf16", "bfloat", "fp16", "f16f16",
                                          "hgemm", "f64",  "double", "dgemm" };

    if (lw_tensor_core_kernel(name, LW_COMPAT_NONE) || strcasestr(name, "tf32"))
        return ON_CORES;
    return has_part(name, others, sizeof(others) / sizeof(others[0])) ? NOT_SINGLE
                                                                      : NEITHER;
}

static uint8_t word_of(struct looking *l, const struct lw_event *event)
{
    uint8_t *word = &l->words[event->name];
    const char *name;

    if (*word == NOT_JUDGED) {
        name = lw_profile_text(l->profile, event->name);
        *word = event->kind == LW_EVENT_KERNEL ? judge_kernel(name)
                : can_use(name)                ? CAN_USE
                                               : NEITHER;
    }
    return *word;
}

/* By the types of its inputs, where they were recorded. */
static bool may_be_single(const struct looking *l, uint32_t op)
{
    uint32_t detail = l->events_of->events[op].detail;
    const char *types;

    if (detail == LW_NONE || !l->events_of->ops[detail].types)
        return true;
    types = lw_profile_text(l->profile, l->events_of->ops[detail].types);
    return strstr(types, "\"float\"") && !strstr(types, "Half") &&
           !strstr(types, "BFloat16") && !strstr(types, "double");
}

/* ---- kernels ------------------------------------------------------------------------ */

/* The host first: launches are the parents of what ran on a device. */
static void find_ops(struct looking *l)
{
    const struct lw_trace *trace = l->events_of;

    for (int device = 0; device < 2; device++)
        for (uint32_t i = 0; i < trace->event_count; i++) {
            const struct lw_event *event = &trace->events[i];

            if (lw_event_is_on_device(event) != (device == 1))
                continue;
            if (event->kind == LW_EVENT_OP && word_of(l, event) == CAN_USE)
                l->ops[i] = i;
            else
                l->ops[i] = event->parent == LW_NONE ? LW_NONE : l->ops[event->parent];
            if (event->kind == LW_EVENT_RUNTIME &&
                lw_text_starts(lw_profile_text(l->profile, event->name), "hip"))
                l->is_amd[trace->tracks[event->track].rank] = true;
        }
}

static bool has_tensor_cores(const struct looking *l, const struct lw_trace_gpu *gpu)
{
    const char *name = gpu ? lw_profile_text(l->profile, gpu->name) : "";

    return gpu && gpu->compute_major >= TENSOR_CAPABILITY && !l->is_amd[gpu->rank] &&
           !strstr(name, "AMD") && !strstr(name, "Radeon") && !strstr(name, "Instinct");
}

static void add_kernel(struct looking *l, uint32_t index,
                       const struct lw_trace_gpu *gpu)
{
    const struct lw_event *event = &l->events_of->events[index];
    uint64_t ns = lw_advice_in_steps(l->trace, gpu->rank, event->start_ns,
                                     lw_event_end_ns(event));
    uint32_t op = l->ops[index];
    uint8_t word = word_of(l, event);

    l->sum.ns += ns;
    if (word == ON_CORES)
        l->sum.core_ns += ns;
    if (word != NEITHER || op == LW_NONE || !may_be_single(l, op))
        return;
    l->sum.can_ns += ns;
    l->sum.capability = gpu->compute_major;
    l->sum.gpu = (uint32_t)(gpu - l->events_of->gpus);
    l->op_ns[l->events_of->events[op].name] += ns;
    if (l->op_ns[l->events_of->events[op].name] > l->op_ns[l->sum.op])
        l->sum.op = l->events_of->events[op].name;
}

static bool add_kernels(struct looking *l, struct lw_error *err)
{
    const struct lw_trace *trace = l->events_of;
    size_t strings = lw_strings_count(l->profile->strings);

    l->words = lw_zalloc(strings, 1, err);
    l->op_ns = l->words ? lw_zalloc(strings, sizeof(*l->op_ns), err) : NULL;
    l->ops = l->op_ns ? lw_zalloc(trace->event_count + 1, sizeof(*l->ops), err) : NULL;
    l->is_amd = l->ops ? lw_zalloc(trace->rank_count + 1, sizeof(bool), err) : NULL;
    l->kinds = l->is_amd ? lw_work_kinds_new(l->profile, LW_COMPAT_NONE, err) : NULL;
    if (!l->kinds)
        return false;
    find_ops(l);
    for (uint32_t t = 0; t < trace->track_count; t++) {
        const struct lw_track *track = &trace->tracks[t];
        const struct lw_trace_gpu *gpu =
            track->is_device ? lw_advice_gpu(trace, track->rank, track->device) : NULL;

        if (!lw_trace_scope_has_track(&l->trace->scope, track) ||
            !has_tensor_cores(l, gpu))
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (trace->events[i].kind == LW_EVENT_KERNEL &&
                l->kinds[i] == LW_WORK_COMPUTATION)
                add_kernel(l, i, gpu);
    }
    return true;
}

/* ---- what is said ------------------------------------------------------------------- */

static bool say(const struct looking *l, const struct lw_late_host *late,
                struct lw_error *err)
{
    const struct kernels *sum = &l->sum;
    double share = (double)sum->can_ns / (double)late->lane_ns;
    double late_share = lw_late_host_share(late, LW_LATE_OPS) +
                        lw_late_host_share(late, LW_LATE_PYTHON);
    struct lw_advice_words words;
    struct lw_buf *why = &words.evidence;
    bool done;

    lw_advice_words_init(&words, &lw_advice_rule_amp);
    lw_buf_add_text(&words.change,
                    sum->capability >= TF32_CAPABILITY
                        ? "Use the tensor cores: torch.autocast with bfloat16, or "
                          "torch.set_float32_matmul_precision(\"high\") (TF32)"
                        : "Use the tensor cores: torch.autocast with float16, and "
                          "torch.amp.GradScaler");
    lw_buf_addf(why, "%s has them (compute capability %d.%d), and ",
                lw_profile_text(l->profile, l->events_of->gpus[sum->gpu].name),
                (int)l->events_of->gpus[sum->gpu].compute_major,
                (int)l->events_of->gpus[sum->gpu].compute_minor);
    lw_units_add_share(why, (double)sum->core_ns / (double)sum->ns);
    lw_buf_add_text(why, " of kernels' time is on them; ");
    lw_units_add_share(why, (double)sum->can_ns / (double)sum->ns);
    lw_buf_addf(why,
                " is in kernels of matrix products and convolutions that are not "
                "(most in %s), ",
                lw_profile_text(l->profile, sum->op));
    lw_advice_words_add_part(why, l->trace,
                             (uint64_t)(share * (double)l->trace->step_ns));
    if (late_share > HOST_BOUND)
        lw_buf_add_text(why, "; but the GPU waits for the host, too, which this does "
                             "not change");
    words.finding.gain_low = late_share > HOST_BOUND ? 0 : LEAST_SAVED * share;
    words.finding.gain_high = MOST_SAVED * share;
    done = lw_advice_words_add(&words, l->trace->advice, err);
    lw_advice_words_release(&words);
    return done;
}

static bool find(struct looking *l, const struct lw_late_host *late,
                 struct lw_error *err)
{
    if (!add_kernels(l, err))
        return false;
    if (l->sum.can_ns == 0 || late->lane_ns == 0 ||
        (double)l->sum.core_ns >= LITTLE * (double)l->sum.ns ||
        (double)l->sum.can_ns < KERNEL_SHARE * (double)l->sum.ns ||
        (double)l->sum.can_ns < STEP_SHARE * (double)late->lane_ns)
        return true;
    return say(l, late, err);
}

static bool look(struct lw_advice *advice, struct lw_error *err)
{
    struct lw_advice_trace trace;
    struct lw_late_host late = { 0 };
    struct looking l = { .trace = &trace,
                         .profile = advice->profile,
                         .events_of = advice->trace };
    bool done = lw_advice_trace_init(&trace, advice, err) &&
                lw_late_host_init(&late, &trace, err) && find(&l, &late, err);

    lw_free(l.words);
    lw_free(l.ops);
    lw_free(l.kinds);
    lw_free(l.op_ns);
    lw_free(l.is_amd);
    lw_late_host_release(&late);
    lw_advice_trace_release(&trace);
    return done;
}

const struct lw_advice_rule lw_advice_rule_amp = {
    .name = "amp",
    .question = "Could matrix products run on the GPU's tensor cores?",
    .needs = LW_ADVICE_DEVICE,
    .look = look,
};
