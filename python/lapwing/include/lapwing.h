/* Lapwing from C and C++: say what a program or an extension is doing, so that it is seen
 * in the recording. `python -c "import lapwing; print(lapwing.get_include())"` prints the
 * folder of this header.
 *
 *     #include <lapwing.h>
 *
 *     lapwing_phase_begin("decode");
 *     ...
 *     lapwing_phase_end("decode");
 *     lapwing_counter("queue length", n);
 *
 * There is no library to link with (before glibc 2.34: -ldl). The functions look for
 * Lapwing's agent in the process, and do nothing where it is not: the program runs
 * anywhere as it is. With no agent a call costs a few instructions; it looks again at calls
 * 1, 2, 4 ... 1,024 and every 1,024th from then on, in case one was loaded meanwhile.
 *
 * Any thread may call them at any time, with or without Python's lock (which they neither
 * need nor take), also one that Python does not know. They never fail, never wait, and
 * touch neither errno nor a Python exception. Not from a signal handler.
 *
 * Names are text that ends in NUL, best a literal: one that is at the same address with
 * the same text is found without looking it up. They are copied when first met. */
#ifndef LAPWING_H
#define LAPWING_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the agent gives, under the name lapwing_api_1. Later agents may add members at the
 * end, and `bytes` grows; any other change gets another name. */
struct lapwing_api {
    uint32_t bytes;
    uint32_t reserved;
    const unsigned char *is_recording; /* changes at any time */
    void (*step)(int begin);
    void (*phase_begin)(const char *name);
    void (*phase_end)(const char *name);
    void (*mark)(const char *name);
    void (*counter)(const char *name, double value);
};

/* NULL: there is no agent, or it is not recording. */
static inline const struct lapwing_api *lapwing_find(void)
{
    static const struct lapwing_api *found;
    static uint32_t calls;
    const struct lapwing_api *api = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    uint32_t call;
    int error;

    if (!api) {
        call = __atomic_load_n(&calls, __ATOMIC_RELAXED);
        __atomic_store_n(&calls, call + 1, __ATOMIC_RELAXED);
        if (call < 1024 ? (call & (call - 1)) : (call & 1023))
            return NULL;
        error = errno;
        /* NULL is RTLD_DEFAULT, which is only declared with _GNU_SOURCE. */
        api = (const struct lapwing_api *)dlsym(NULL, "lapwing_api_1");
        errno = error;
        if (!api)
            return NULL;
        __atomic_store_n(&found, api, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(api->is_recording, __ATOMIC_RELAXED) ? api : NULL;
}

/* Whether somebody would hear. No need to ask, unless a name or a value is dear. */
static inline int lapwing_is_recording(void)
{
    return lapwing_find() != NULL;
}

/* End the calling thread's step and begin its next; the first call begins the first. */
static inline void lapwing_step(void)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->step(1);
}

/* End the calling thread's step and begin none: after a loop. */
static inline void lapwing_step_end(void)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->step(0);
}

/* Begin a phase of the calling thread. Phases nest, up to 64 deep. */
static inline void lapwing_phase_begin(const char *name)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->phase_begin(name);
}

/* End the phase NAME that the thread began last, and those it began within it; where
 * there is none of that name, nothing. NULL: the last one, whatever its name. */
static inline void lapwing_phase_end(const char *name)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->phase_end(name);
}

/* Something happened: a point on the thread's track. */
static inline void lapwing_mark(const char *name)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->mark(name);
}

/* A value of the process at this moment. */
static inline void lapwing_counter(const char *name, double value)
{
    const struct lapwing_api *api = lapwing_find();

    if (api)
        api->counter(name, value);
}

#ifdef __cplusplus
}

namespace lapwing {

/* A phase for as long as the object lives: lapwing::phase decoding("decode"); */
class phase {
  public:
    explicit phase(const char *name) : name_(name)
    {
        lapwing_phase_begin(name);
    }
    ~phase()
    {
        lapwing_phase_end(name_);
    }

  private:
    phase(const phase &);
    phase &operator=(const phase &);

    const char *name_;
};

} // namespace lapwing
#endif

#endif
