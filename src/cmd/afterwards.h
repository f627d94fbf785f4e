/* What `run` and `attach` share: the options of a recording, where it goes, and what is
 * said and shown when it is on disk. */
#ifndef LW_CMD_AFTERWARDS_H
#define LW_CMD_AFTERWARDS_H

#include "cmd/command.h"
#include "recorder/recorder.h"
#include "writers/writer.h"

#define LW_RATE_DEFAULT 200
#define LW_RATE_MAX 50000

struct lw_recording_args {
    uint64_t rate; /* of samples; 0: none */
    bool native;
    bool pause;
    bool no_system;
    const char *output;
    const char *name;
    uint64_t max_bytes;
    bool quiet;
    bool no_summary;
};

#define LW_RECORDING_MAX_BYTES (2ull << 30)

/* The rows for them, where `struct ARGS` has a member `recording`. */
/* clang-format off */
#define LW_OPT_RECORDING(ARGS, letter, name, kind, field, arg, help) \
    { letter, name, kind, offsetof(struct ARGS, recording.field), arg, help }
#define LW_OPTS_OF_SAMPLING(ARGS, rate_help) \
    LW_OPT_RECORDING(ARGS, 0, "rate", LW_ARG_COUNT, rate, "HZ", rate_help), \
    LW_OPT_RECORDING(ARGS, 0, "native", LW_ARG_FLAG, native, NULL, \
        "C and C++ functions too, and threads without Python; each thread that runs is " \
        "stopped for some microseconds a sample"), \
    LW_OPT_RECORDING(ARGS, 0, "pause", LW_ARG_FLAG, pause, NULL, \
        "stop Python's threads while their stacks are read: none is ever torn")
#define LW_OPT_NO_SYSTEM(ARGS) \
    LW_OPT_RECORDING(ARGS, 0, "no-system", LW_ARG_FLAG, no_system, NULL, \
        "not what processes and machine use: CPU, memory, disks, network, GPUs")
#define LW_OPTS_WHERE_TO(ARGS) \
    LW_OPT_HEADING("Where to"), \
    LW_OPT_RECORDING(ARGS, 'o', "output", LW_ARG_PATH, output, "RUN|FILE", \
        "the folder to make for the run (RUN.lap), instead of a new one in " \
        ".lapwing/runs; or a file of another format to write as well (out.svg)"), \
    LW_OPT_RECORDING(ARGS, 0, "name", LW_ARG_TEXT, name, "NAME", \
        "name the run after NAME, not the program"), \
    LW_OPT_RECORDING(ARGS, 0, "max-size", LW_ARG_SIZE, max_bytes, "SIZE", \
        "keep the run below SIZE by thinning out its middle (2G)"), \
    LW_OPT_HEADING("Afterwards"), \
    LW_OPT_RECORDING(ARGS, 'q', "quiet", LW_ARG_FLAG, quiet, NULL, "say nothing"), \
    LW_OPT_RECORDING(ARGS, 0, "no-summary", LW_ARG_FLAG, no_summary, NULL, \
        "only say where the run is")

/* clang-format on */

/* What the recorder is to do, but for the run's name and place. */
struct lw_recorder_options lw_recording_options(const struct lw_recording_args *args);

struct lw_afterwards {
    bool quiet;
    bool no_summary;
    const char *output; /* as given: a run or a file; NULL: neither */
    char *run_path;     /* where the run was asked to be; NULL: nowhere; owned */
    const struct lw_writer *writer; /* of `output`, if that is a file; else NULL */
};

struct lw_afterwards lw_afterwards_of(const struct lw_recording_args *args);

/* -o says where the run goes (x and x.lap are x.lap), or which file to write of it; that
 * it can be written is known before anything is recorded. */
bool lw_afterwards_choose(struct lw_afterwards *after, struct lw_error *err)
    LW_MUST_CHECK;
void lw_afterwards_release(struct lw_afterwards *after); /* zeroed is fine */

/* One line on stderr, unless --quiet. */
void lw_afterwards_say(const struct lw_afterwards *after, const char *text);
void lw_afterwards_sayf(const struct lw_afterwards *after, const char *format, ...)
    LW_PRINTF(2, 3);

/* The run is on disk: write the file that was asked for, print the summary, say what is
 * missing and where the run is. SILENCE says why nobody was recorded, if nobody was. What
 * goes wrong is only said. */
void lw_afterwards_show(const struct lw_afterwards *after,
                        const struct lw_recorder *recorder, const char *silence);

#endif
