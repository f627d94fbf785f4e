/* Finding things in the texts of /proc: words of a line, lines by what they begin with.
 *
 * These files have no common grammar, but two habits: words parted by spaces, and lines
 * that begin with a name. Nothing is copied; what is not there is not found. */
#ifndef LW_RECORDER_PROC_TEXT_H
#define LW_RECORDER_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a larger text, borrowed from it. */
struct lw_piece {
    const char *bytes;
    size_t len;
};

/* The next line of *REST, without its end, which is then taken off. False: none left. */
bool lw_piece_line(struct lw_piece *rest, struct lw_piece *line);
/* What follows KEY on the first line of TEXT that begins with it. */
bool lw_piece_find(struct lw_piece text, const char *key, struct lw_piece *value);
/* Word INDEX (from 0) of TEXT; spaces and tabs part words. */
bool lw_piece_word(struct lw_piece text, size_t index, struct lw_piece *word);
/* The same, if it is a number: digits, and nothing else. */
bool lw_piece_number(struct lw_piece text, size_t index, uint64_t *number);

/* What is of use in /proc/PID/stat. */
struct lw_proc_stat {
    uint64_t major_faults;
    uint64_t user_ticks, system_ticks; /* sysconf(_SC_CLK_TCK) of them are a second */
    uint64_t threads;
    uint64_t start_ticks; /* when it was started; tells apart two uses of one pid */
    uint64_t rss_pages;
};
bool lw_proc_stat_read(struct lw_proc_stat *stat, struct lw_piece text);

/* /proc/diskstats and /proc/net/dev, added up over what IS_REAL says is a device (and not
 * a partition, or a layer above another device). Bytes since the machine started. */
struct lw_proc_traffic {
    uint64_t in_bytes, out_bytes;
};
typedef bool lw_proc_is_real(void *context, struct lw_piece name);
void lw_proc_disks_read(struct lw_proc_traffic *traffic, struct lw_piece text,
                        lw_proc_is_real *is_real, void *context);
/* If none is real (in a container), all but the loopback count. */
void lw_proc_network_read(struct lw_proc_traffic *traffic, struct lw_piece text,
                          lw_proc_is_real *is_real, void *context);

/* The path of the control group in /proc/PID/cgroup that limits CONTROLLER ("memory"):
 * of version 1, with *IS_V2 false, else of version 2. */
bool lw_proc_cgroup_find(struct lw_piece text, const char *controller,
                         struct lw_piece *path, bool *is_v2);

#endif
