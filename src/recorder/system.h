/* What the recorded processes and the machine use: CPU, memory, disks, network, graphics
 * processors, four times a second, as counters of the recording.
 *
 * A thread of its own looks, since a driver may take its time to answer (NVML's first
 * call takes a second) and the recorder has rings to empty. It hands over points; the
 * recorder's lw_system_look() puts them where they belong and says who is there. One
 * look waits for being fetched before the next is made, so what is held is bounded.
 *
 * A look takes about 0.1 ms of CPU for one process, 0.2 for ten, 1.3 for a hundred (6.18,
 * 2 CPUs, no GPU); PSS comes on top, rarely (system_process.c). */
#ifndef LW_RECORDER_SYSTEM_H
#define LW_RECORDER_SYSTEM_H

#include "lap/writer.h"
#include "recorder/system_read.h"

struct lw_system;

struct lw_system *lw_system_new(struct lw_error *err);
/* Ends the thread; waits for it, but not for a driver that does not answer. NULL is
 * fine. */
void lw_system_free(struct lw_system *system);

/* A process that is there, and where its counters go. */
struct lw_system_guest {
    struct lw_system_target target;
    struct lw_lap_writer *writer;
};

/* GUESTS are those that are there now; the machine's counters go to the oldest, which has
 * the least number. Take what has been seen since the last time to their writers. Never
 * waits. Starts the thread when there is somebody to look at. */
void lw_system_look(struct lw_system *system, const struct lw_system_guest *guests,
                    size_t count);

#endif
