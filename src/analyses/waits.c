#include "analyses/waits.h"

#include <string.h>

#include "analyses/ended.h"
#include "base/alloc.h"
#include "base/text.h"

/* What a call does, by its name. */
enum role {
    NOT_JUDGED,
    NO_WAIT,
    SYNCHRONISES,
    COPIES,       /* and returns when that is done */
    COPIES_ASYNC, /* and returns at once, unless the memory is pageable */
    FREES,        /* which waits for all that the device has to do */
};

static enum role judge(const char *name)
{
    static const struct {
        const char *name; /* without the cuda, cu or hip before it */
        enum role role;
    } calls[] = {
        { "DeviceSynchronize", SYNCHRONISES },
        { "CtxSynchronize", SYNCHRONISES },
        { "StreamSynchronize", SYNCHRONISES },
        { "EventSynchronize", SYNCHRONISES },
        { "Memcpy", COPIES },
        { "MemcpyWithStream", COPIES },
        { "MemcpyDtoH", COPIES },
        { "MemcpyHtoD", COPIES },
        { "MemcpyDtoH_v2", COPIES },
        { "MemcpyHtoD_v2", COPIES },
        { "MemcpyAsync", COPIES_ASYNC },
        { "MemcpyDtoHAsync", COPIES_ASYNC },
        { "MemcpyHtoDAsync", COPIES_ASYNC },
        { "MemcpyDtoHAsync_v2", COPIES_ASYNC },
        { "Free", FREES },
        { "MemFree", FREES },
        { "MemcpyHtoDAsync_v2", COPIES_ASYNC },
    };
    const char *rest = lw_text_starts(name, "cuda")  ? name + 4
                       : lw_text_starts(name, "cu")  ? name + 2
                       : lw_text_starts(name, "hip") ? name + 3
                                                     : NULL;

    for (size_t i = 0; rest && i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(rest, calls[i].name) == 0)
            return calls[i].role;
    return NO_WAIT;
}

struct finding {
    const struct lw_profile *profile;
    const struct lw_trace *trace;
    uint32_t
        *launched; /* owned: of each call the copy, or else the wait, that the trace
                           has for it; LW_NONE */
    struct lw_ended ended;
    uint8_t *roles; /* owned: of each string, enum role */
    struct lw_waits *waits;
};

/* ---- what ended last ---------------------------------------------------------------- */

static uint32_t rank_of(const struct lw_trace *trace, uint32_t event)
{
    return trace->tracks[trace->events[event].track].rank;
}

/* Was WORK there when CALL began, and not done? */
static bool is_awaited(const struct finding *f, uint32_t work, uint32_t call)
{
    const struct lw_event *w = &f->trace->events[work], *c = &f->trace->events[call];

    if (lw_event_end_ns(w) <= c->start_ns || lw_event_end_ns(w) > lw_event_end_ns(c))
        return false;
    return w->parent == LW_NONE || w->parent == call ||
           f->trace->events[w->parent].start_ns <= c->start_ns;
}

/* So many works are looked at, from the last back: more have not ended in one call, but
 * been launched by other threads while it waited. */
#define LOOKED_AT 256

/* The last work, in any stream or only in TRACK, that ended in CALL; of kernels only. */
static uint32_t last_ended(const struct finding *f, uint32_t call, uint32_t track,
                           uint64_t until_ns, bool only_kernels)
{
    const struct lw_trace *trace = f->trace;
    uint32_t rank = rank_of(trace, call);
    size_t at = lw_ended_by(&f->ended, rank, until_ns);

    for (size_t looked = 0; at > 0 && looked < LOOKED_AT; looked++) {
        uint32_t work = f->ended.works[--at];

        if (rank_of(trace, work) != rank ||
            lw_event_end_ns(&trace->events[work]) <= trace->events[call].start_ns)
            break;
        if ((track == LW_NONE || trace->events[work].track == track) &&
            (!only_kernels || trace->events[work].kind == LW_EVENT_KERNEL) &&
            is_awaited(f, work, call))
            return work;
    }
    return LW_NONE;
}

/* ---- calls -------------------------------------------------------------------------- */

/* In which stream CALL waits, if the trace says so and it is not for all. */
static uint32_t stream_of(const struct finding *f, uint32_t call)
{
    uint32_t sync = f->launched[call];
    const struct lw_event *event = sync == LW_NONE ? NULL : &f->trace->events[sync];

    if (!event || strcmp(lw_profile_text(f->profile, event->name), "Stream Sync") != 0)
        return LW_NONE;
    return event->track;
}

static bool add_wait(struct finding *f, uint32_t call, uint32_t work,
                     struct lw_error *err)
{
    const struct lw_trace *trace = f->trace;
    struct lw_wait wait = { call, work, work };
    struct lw_waits *waits = f->waits;

    if (work != LW_NONE && trace->events[work].kind != LW_EVENT_KERNEL) {
        uint32_t kernel = last_ended(f, call, trace->events[work].track,
                                     lw_event_end_ns(&trace->events[work]), true);

        wait.kernel = kernel == LW_NONE ? work : kernel;
    }
    if (!lw_grow(&waits->list, &waits->capacity, waits->count + 1, sizeof(wait), err))
        return false;
    waits->list[waits->count++] = wait;
    return true;
}

/* Between the host's own memory, as far as it is pageable, and a device's. */
static bool is_slow_copy(const struct finding *f, uint32_t copy)
{
    const char *name = lw_profile_text(f->profile, f->trace->events[copy].name);

    return !strstr(name, "Pinned") && !strstr(name, "DtoD") &&
           !strstr(name, "Device -> Device") && !strstr(name, "DeviceToDevice");
}

static bool look(struct finding *f, uint32_t call, struct lw_error *err)
{
    const struct lw_event *event = &f->trace->events[call];
    uint8_t *role = &f->roles[event->name];
    uint32_t copy = f->launched[call], work;

    if (*role == NOT_JUDGED)
        *role = (uint8_t)judge(lw_profile_text(f->profile, event->name));
    switch ((enum role) * role) {
    case NOT_JUDGED:
    case NO_WAIT: return true;
    case SYNCHRONISES:
        work = last_ended(f, call, stream_of(f, call), lw_event_end_ns(event), false);
        return add_wait(f, call, work, err);
    case FREES:
        work = last_ended(f, call, LW_NONE, lw_event_end_ns(event), false);
        return work == LW_NONE || add_wait(f, call, work, err);
    case COPIES:
    case COPIES_ASYNC:
        if (copy == LW_NONE || f->trace->events[copy].kind != LW_EVENT_MEMCPY ||
            (*role == COPIES_ASYNC && !is_slow_copy(f, copy)))
            return true;
        return !is_awaited(f, copy, call) || add_wait(f, call, copy, err);
    }
    return true;
}

/* ---- all of them -------------------------------------------------------------------- */

static bool finding_init(struct finding *f, struct lw_error *err)
{
    const struct lw_trace *trace = f->trace;
    size_t size = trace->event_count * sizeof(uint32_t) + 1;

    f->launched = lw_alloc(size, err);
    f->roles =
        f->launched ? lw_zalloc(lw_strings_count(f->profile->strings), 1, err) : NULL;
    if (!f->roles || !lw_ended_init(&f->ended, trace, err))
        return false;
    memset(f->launched, 0xff, size); /* LW_NONE */
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];
        bool is_copy = event->kind == LW_EVENT_MEMCPY;

        if ((is_copy || event->kind == LW_EVENT_SYNC) && event->parent != LW_NONE &&
            (is_copy || f->launched[event->parent] == LW_NONE))
            f->launched[event->parent] = i;
    }
    return true;
}

bool lw_waits_init(struct lw_waits *waits, const struct lw_profile *profile,
                   struct lw_error *err)
{
    struct finding f = { .profile = profile, .trace = profile->trace, .waits = waits };
    bool done;

    memset(waits, 0, sizeof(*waits));
    done = finding_init(&f, err);
    for (uint32_t i = 0; done && i < f.trace->event_count; i++)
        if (f.trace->events[i].kind == LW_EVENT_RUNTIME)
            done = look(&f, i, err);
    lw_free(f.launched);
    lw_ended_release(&f.ended);
    lw_free(f.roles);
    return done;
}

void lw_waits_release(struct lw_waits *waits)
{
    lw_free(waits->list);
    memset(waits, 0, sizeof(*waits));
}
