/* A run: the folder (or packed file) of one recording, and run.json in it.
 *
 *     .lapwing/runs/20261115-200731-train.lap/
 *         run.json             what ran, where, when, how it ended
 *         p0001-000001.seg     segments (format.h)
 *         traces/              what torch's profiler wrote of its windows (traces.h)
 *         reserve              64 KB that keep room for the last words on a full disk;
 *                              there, and locked, only while the recorder lives, which
 *                              is how a run whose recorder was killed is told
 *
 * Folders are 0700 and files 0600. A packed run is one file: a tar archive (ustar, not
 * compressed: the chunks are) of the folder, run.json first, so that any tar can unpack
 * it; whatever takes a run takes both. */
#ifndef LW_LAP_RUN_H
#define LW_LAP_RUN_H

#include "base/arena.h"
#include "base/folder.h"

#define LW_RUNS_FOLDER ".lapwing/runs" /* where runs are unless said otherwise */
#define LW_RUN_SUFFIX ".lap"
#define LW_PACK_SUFFIX ".lapz"

enum lw_run_state {
    LW_RUN_RUNNING,
    LW_RUN_FINISHED,
    LW_RUN_BROKEN, /* says running, but its recorder is gone; never in run.json */
};

struct lw_run_pair {
    const char *key;
    const char *value;
};

struct lw_run_loss {
    const char *cause;
    const char *unit;
    uint64_t count;
};

/* What run.json holds. All text is owned by the arena. `facts` are everything that is
 * just text for the head of a report; known keys: cwd, host, python, torch, commit,
 * dirty (yes, no), lapwing. Ones that are not known are kept too. */
struct lw_run_info {
    struct lw_arena arena;
    const char *command;    /* for a person; NULL: not known */
    const char **arguments; /* the command line, word by word */
    size_t argument_count, argument_capacity;
    struct lw_run_pair *parameters; /* of the program: --epochs 3 is epochs, 3 */
    size_t parameter_count, parameter_capacity;
    struct lw_run_pair *facts;
    size_t fact_count, fact_capacity;
    struct lw_run_loss
        *losses; /* of the whole run; those of a process are in segments */
    size_t loss_count, loss_capacity;
    int64_t rank;           /* of a distributed job; -1: none */
    uint64_t start_ns;      /* CLOCK_MONOTONIC; 0: not known */
    uint64_t end_ns;        /* 0: not known */
    uint64_t wall_start_ns; /* the same moments since 1970 */
    uint64_t wall_end_ns;
    int32_t exit_code; /* as a shell gives it; -1: not known */
    enum lw_run_state state;
};

void lw_run_info_init(struct lw_run_info *info);
void lw_run_info_release(struct lw_run_info *info);
/* Texts are copied. A fact or parameter set again is replaced; NULL removes it. */
bool lw_run_info_set_command(struct lw_run_info *info, const char *command,
                             struct lw_error *err) LW_MUST_CHECK;
bool lw_run_info_add_argument(struct lw_run_info *info, const char *text,
                              struct lw_error *err) LW_MUST_CHECK;
bool lw_run_info_set_parameter(struct lw_run_info *info, const char *key,
                               const char *value, struct lw_error *err) LW_MUST_CHECK;
bool lw_run_info_set_fact(struct lw_run_info *info, const char *key, const char *value,
                          struct lw_error *err) LW_MUST_CHECK;
/* COUNT more; equal causes and units add up. */
bool lw_run_info_add_loss(struct lw_run_info *info, const char *cause, const char *unit,
                          uint64_t count, struct lw_error *err) LW_MUST_CHECK;
const char *lw_run_info_fact(const struct lw_run_info *info,
                             const char *key); /* or NULL */

/* run.json as text, and back. Reading takes any member order, passes over members it
 * does not know, and refuses a larger major version. */
void lw_run_info_write(const struct lw_run_info *info, struct lw_buf *out);
bool lw_run_info_read(struct lw_run_info *info, const char *text, size_t len,
                      struct lw_error *err) LW_MUST_CHECK;

/* One file of a run, wherever it lies. */
struct lw_run_file {
    const char *name; /* "run.json", "p0001-000001.seg", "traces/rank0-000001..." */
    uint64_t bytes;
    uint64_t offset; /* in the packed file; 0 in a folder */
};

struct lw_run {
    char *path; /* folder or packed file, as given or found; owned */
    char *name; /* last part of the path without suffix; owned */
    struct lw_run_info info;
    struct lw_run_file *files; /* sorted by name; filled by lw_run_open */
    size_t file_count, file_capacity;
    struct lw_arena names; /* of the files */
    uint64_t bytes;        /* of all files */
    bool is_packed;
    bool has_info;            /* run.json was there and whole */
    struct lw_file_view pack; /* the packed file, mapped */
    int reserve_fd;           /* of the recorder's own; -1: none */
    struct lw_folder folder;  /* likewise: what it writes goes below this, wherever the
                                 path has come to lead; of a run that was opened: closed */
};

/* Make a new run for a recorder: the folder PATH (which must not be there, or be
 * empty), or if NULL a new one in RUNS (NULL: LW_RUNS_FOLDER) named after the time and
 * PROGRAM ("train.py" -> 20261115-200731-train.lap; a number is added until it is
 * unique). Makes the reserve and locks it. `info` is the caller's to fill, then
 * lw_run_save(). *RUN need not be initialised; lw_run_close() releases it in any case. */
bool lw_run_create(struct lw_run *run, const char *path, const char *runs,
                   const char *program, struct lw_error *err) LW_MUST_CHECK;
/* Write run.json, whole or not at all. */
bool lw_run_save(struct lw_run *run, struct lw_error *err) LW_MUST_CHECK;
/* Give the reserved bytes back to the disk, for the last words. The lock is kept. */
void lw_run_free_reserve(struct lw_run *run);
/* Release; of a created run also end the lock and remove the reserve. */
void lw_run_close(struct lw_run *run);

/* Open a run to read it: NAME is a folder, a packed file, or what means one in RUNS
 * (run_find.h); NULL is the latest there. RUNS NULL: LW_RUNS_FOLDER. A run
 * without (or with a broken) run.json opens if it has segments. */
bool lw_run_open(struct lw_run *run, const char *name, const char *runs,
                 struct lw_error *err) LW_MUST_CHECK;
/* Open a packed run that lies in memory, which is borrowed until close; NAME is what
 * errors call it. */
bool lw_run_open_bytes(struct lw_run *run, const void *bytes, size_t len,
                       const char *name, struct lw_error *err) LW_MUST_CHECK;

/* The bytes of one of its files: mapped where nobody writes any more, else read. */
bool lw_run_view(const struct lw_run *run, const struct lw_run_file *file,
                 struct lw_file_view *view, struct lw_error *err) LW_MUST_CHECK;

/* All runs in RUNS, oldest first (by start; by name where that is not known), each
 * opened. What is not a run is passed over. No folder: an empty list. */
struct lw_run_list {
    struct lw_run *runs;
    size_t count, capacity;
};
bool lw_run_list_read(struct lw_run_list *list, const char *runs, struct lw_error *err)
    LW_MUST_CHECK;
void lw_run_list_release(struct lw_run_list *list);

/* Delete the run's own files and its folder, or the packed file. Refused, before
 * anything is removed, for what is not a run, for a folder that holds anything else,
 * and for a run whose recorder lives. */
bool lw_run_remove(const struct lw_run *run, struct lw_error *err) LW_MUST_CHECK;

/* Write the run as one file, whole or not at all. A run that is still being recorded is
 * packed as far as it is. PATH NULL: NAME.lapz in the current folder. */
bool lw_run_pack(const struct lw_run *run, const char *path, struct lw_error *err)
    LW_MUST_CHECK;

#endif
