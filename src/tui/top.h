/* What `lapwing top` shows, as a function from samples and keys to a screen. It knows no
 * terminal, no process and no clock, so its screens are tested as text.
 *
 * Each function, and each line, of each thread has the time it ran since the start and
 * its recent time, in which what is long ago counts less and less. Both are kept for
 * three kinds of time: running on a processor, holding the GIL, and all of it. A share
 * is a part of the time that passed, so that of several threads it may exceed 100 %. */
#ifndef LW_TUI_TOP_H
#define LW_TUI_TOP_H

#include <sys/types.h>

#include "base/map.h"
#include "base/pattern.h"
#include "model/profile.h"
#include "model/table.h"
#include "tui/screen.h"

enum lw_top_time {
    LW_TOP_RUNNING, /* on a processor */
    LW_TOP_GIL,     /* holding the GIL */
    LW_TOP_WALL,    /* all */
    LW_TOP_TIMES,
};

/* A function in a stack, and where it is. */
struct lw_top_frame {
    const char *name, *file; /* any bytes */
    size_t name_len, file_len;
    uint32_t first_line;
    uint32_t line; /* 0: not known */
};

/* A thread at an instant. */
struct lw_top_sample {
    uint32_t thread;                   /* as lw_top_thread() gave it */
    const struct lw_top_frame *frames; /* root first */
    size_t frame_count;
    bool is_moving;     /* what ran on top of these is not known */
    uint8_t state;      /* enum lw_sample_state, with its flag */
    uint64_t weight_ns; /* the time it stands for */
};

/* What the header says, as measured by whoever samples. */
struct lw_top_status {
    const char *command;          /* of the first process */
    const char *python;           /* its version */
    pid_t pid;                    /* of the first process */
    unsigned processes, threads;  /* alive */
    double cpu_share;             /* of one processor, recent; < 0: not known */
    uint64_t rss_bytes;           /* of all processes; 0: not known */
    double rate_asked, rate_real; /* samples a second */
    uint64_t rounds;              /* samples of all threads at once, taken so far */
    uint64_t late, missed;        /* of these: taken late, not taken */
    bool has_ended;               /* no process is left */
};

struct lw_top_sums {
    double self_ns, total_ns;
};

/* What an entry's frame stands for; its `variant`. */
enum { LW_TOP_FUNCTION, LW_TOP_LINE };

/* The time of a function, or of a line, in a thread. */
struct lw_top_entry {
    uint32_t thread;
    lw_frame_id frame;
    uint64_t seen_in; /* number of the last sample that held it: it counts once */
    struct lw_top_sums all[LW_TOP_TIMES], recent[LW_TOP_TIMES];
};

struct lw_top_thread {
    pid_t pid, tid;
    char name[64];
    uint64_t last_ns; /* when it was last in a sample; 0: never */
};

enum lw_top_mode { LW_TOP_TABLE, LW_TOP_HELP, LW_TOP_FILTER };

struct lw_top {
    struct lw_strings *strings;   /* owned, as all below */
    struct lw_stacks *stacks;     /* only for its frames */
    struct lw_top_entry *entries; /* numbered from 1 in by_key */
    size_t entry_count, entry_capacity;
    struct lw_map by_key;
    struct lw_top_thread *threads;
    size_t thread_count, thread_capacity;

    uint64_t samples, moving; /* counted since the start or the last reset */
    uint64_t folded;          /* samples' frames for which there was no entry left */
    double gil_ns;            /* recent time in which the GIL was held */
    double elapsed_ns, recent_ns; /* that passed, and what of it is recent */
    uint64_t now_ns;              /* of the last tick; 0: none */

    /* What the person chose. */
    enum lw_top_mode mode;
    enum lw_top_time time;
    bool by_total, by_line, by_all;
    bool is_paused;
    bool has_quit;
    pid_t pid;       /* only this process; 0: all */
    uint32_t thread; /* only this thread, from 1; 0: all */
    size_t first;    /* row of the table that is the first on the screen */
    size_t page;     /* rows that were shown last: how far a page goes */
    struct lw_pattern pattern;
    struct lw_buf filter;  /* the text of `pattern`; empty: none */
    struct lw_buf typing;  /* while it is typed */
    struct lw_buf message; /* for a person, until the next key */
};

bool lw_top_init(struct lw_top *top, struct lw_error *err) LW_MUST_CHECK;
void lw_top_release(struct lw_top *top);

/* The number of a thread of the watched processes; NAME is kept (NULL: as it was). */
bool lw_top_thread(struct lw_top *top, pid_t pid, pid_t tid, const char *name,
                   uint32_t *number, struct lw_error *err) LW_MUST_CHECK;
/* Count a sample. While paused, nothing is counted and no time passes. */
bool lw_top_add(struct lw_top *top, const struct lw_top_sample *sample,
                struct lw_error *err) LW_MUST_CHECK;
/* It is NOW_NS: recent time fades. Call some times a second, and before a screen is
 * made. */
void lw_top_tick(struct lw_top *top, uint64_t now_ns);

/* A key was pressed: see lw_top_keys. */
bool lw_top_press(struct lw_top *top, uint32_t key, struct lw_error *err) LW_MUST_CHECK;

struct lw_top_key {
    const char *keys;    /* as shown: "s t" */
    const char *summary; /* for the last line of the screen */
    const char *help;    /* for the page of help, and the manual */
};
extern const struct lw_top_key lw_top_keys[]; /* up to one whose `keys` is NULL */

/* The rows chosen, sorted: those from `first` on, at most LIMIT. There `first` is moved
 * up if that shows more of them. */
void lw_top_fill(struct lw_top *top, size_t limit, struct lw_table *table);
extern const struct lw_column lw_top_columns[];
extern const size_t lw_top_column_count;

/* Put the whole picture on SCREEN, which was just reset to the terminal's size.
 * WITH_KEYS: also the last line, of what can be pressed. */
bool lw_top_draw(struct lw_top *top, const struct lw_top_status *status,
                 struct lw_screen *screen, bool with_keys, struct lw_error *err)
    LW_MUST_CHECK;

#endif
