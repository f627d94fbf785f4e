/* One process that is being recorded: its shared memory on one side, its segments of
 * the recording on the other.
 *
 * A look reads what the agent has put there since the last look and flushes it to disk.
 * Where it is sampled, the samples go there too; of a process that has no agent, there is
 * nothing else.
 *
 * Looks may come at any time and may fail (no memory, a full disk): what could not be
 * told is found again by the next one, for the memory stays ours after the process is
 * gone. */
#ifndef LW_RECORDER_WATCHED_H
#define LW_RECORDER_WATCHED_H

#include "recorder/ring.h"
#include "recorder/samples.h"

/* A thread slot, as far as we know it. */
struct lw_watched_thread {
    struct lw_ring_place ring; /* with its generation and its number in the recording */
    uint32_t read_generation;  /* of the last thread we are done with; 0: none */
    bool is_known;             /* ring.thread is the number of ring.generation */
    bool is_over;              /* ended, this is the last look */
    struct lw_thread row;      /* as the recording knows it */
    char name[92];             /* likewise, to see it change */
    uint32_t name_len;

    /* Of the round over the trees (see struct lw_watched). */
    uint64_t round_ticks;  /* time of its last event when the round began */
    unsigned quiet_rounds; /* in a row without an event */
    bool has_news;         /* its blocks are worth a scan */
    bool is_last_round;    /* it had ended when the round began */

    /* As it was at the last look. */
    uint64_t last_ticks;
    uint32_t current;
    uint64_t current_self; /* self ticks of `current`, when it was first seen there */
    unsigned quiet_looks;  /* in a row without an event */

    /* The counter has jumped since its last event: the time up to the next one, which goes
     * to one node, has that much too much in it. */
    uint64_t jump_ticks; /* modulo 2^64; 0: it has not */
    uint64_t jump_last;  /* when that last event was */
    uint32_t jump_node;
};

struct lw_watched {
    uint64_t pid;
    int pid_fd;           /* readable when the process has ended; owned; -1: there is
                             none, and its owner has to look whether it lives */
    uint32_t number;      /* of its series of segments */
    uint64_t death_ns;    /* when it was seen to have ended; 0: lives */
    uint64_t death_ticks; /* the same on its own clock; both are the owner's to set */
    uint64_t image;       /* lw_facts_image() when it was first met */
    bool is_replaced; /* it has become another program since: nothing more will come */

    struct lw_shared shared;   /* `bytes` is NULL where there is no agent */
    struct lw_samples samples; /* `sampled` is NULL where it is not sampled */
    struct lw_lap_writer *writer;
    struct lw_name_log log;
    struct lw_trees trees;
    struct lw_watched_thread *threads; /* by slot; owned */
    uint32_t slot_count;               /* those that were ever used: the first ones */
    struct lw_call_row *rows;          /* scratch; owned */
    size_t row_capacity;
    uint64_t told_lost[LW_LOSS_COUNT];
    uint64_t told_strange; /* records and nodes that made no sense, so far */
    uint64_t strange_records;

    /* The trees are read in rounds: a large one takes more than one look. */
    bool is_in_round;
    bool has_missed;     /* a look failed: every block is worth a scan */
    uint32_t next_block; /* of the round */
    uint64_t round_ns;   /* when it began */
    uint64_t window_ns;  /* when the one before began: no change is older */

    uint64_t told_ns; /* when the last round began that was told */
    uint64_t
        jump_count; /* of the calibration (recorder/calibration.h), at the last look */
    uint64_t jump_ticks; /* likewise */
};

/* What a process said of itself in its hello, and what /proc knows. */
struct lw_watched_facts {
    uint64_t pid;
    uint64_t parent_pid;    /* of a process without an agent, which knows it else */
    const char *command;    /* for a person; NULL: not known */
    const char *python;     /* version; NULL: not known */
    int64_t rank;           /* -1: none */
    uint64_t segment_bytes; /* of its segments (lap/writer.h); 0: the default */
};

/* Take over the region in FD (stays the caller's; -1: there is no agent in the process)
 * and begin its series NUMBER in FOLDER.
 * PID_FD becomes ours, unless it fails: NULL with a sentence that does not name the
 * process. */
struct lw_watched *lw_watched_open(const struct lw_folder *folder, uint32_t number,
                                   int fd, int pid_fd,
                                   const struct lw_watched_facts *facts,
                                   struct lw_error *err);

/* WATCHED, which was begun without an agent, has one after all: take over the region in FD
 * (stays the caller's). What FACTS says replaces what was known of it. False: it goes on
 * as one without. */
bool lw_watched_join(struct lw_watched *watched, int fd,
                     const struct lw_watched_facts *facts, struct lw_error *err)
    LW_MUST_CHECK;

/* Sample it too, through TARGET, which is ours in every case. */
bool lw_watched_sample(struct lw_watched *watched, struct lw_sampler *sampler,
                       struct lw_target *target, struct lw_error *err) LW_MUST_CHECK;

struct lw_watched_look {
    const struct lw_calibration *calibration; /* which has just looked */
    uint64_t *budget_ns; /* time for the trees, less what was spent; NULL: no limit */
    bool is_last;       /* nobody writes any more: the process is dead, or has let go */
    uint64_t end_ticks; /* with is_last: when running calls ended; 0: now */
};

/* Read what is new and flush it. *RING_FILL becomes the share (0 to 1) of the fullest
 * ring. False: something could not be told or written yet; go on as before. */
bool lw_watched_read(struct lw_watched *watched, const struct lw_watched_look *look,
                     double *ring_fill, struct lw_error *err) LW_MUST_CHECK;

/* Nothing more will come though the process lives: its agent has said so, or it has
 * become another program. */
bool lw_watched_is_over(const struct lw_watched *watched);

/* The last look, then the end of the series; frees WATCHED in every case. EXIT_CODE as a
 * shell gives it, -1: not known. False: some of it is not on disk. */
bool lw_watched_close(struct lw_watched *watched, const struct lw_watched_look *look,
                      int exit_code, struct lw_error *err) LW_MUST_CHECK;

#endif
