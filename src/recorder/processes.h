/* The processes of a recorder: a part of recorder.c with a file of its own. */
#ifndef LW_RECORDER_PROCESSES_H
#define LW_RECORDER_PROCESSES_H

#include "recorder/recorder.h"

/* A look with a fresh anchor between the clocks. */
struct lw_watched_look lw_processes_look(struct lw_recorder *recorder);

/* Hear who has come: begin to record them, or keep what they say. True if anybody did.
 * There may be more: then `has_more_hellos` is set. */
bool lw_processes_take_hellos(struct lw_recorder *recorder);
/* Hear all who are waiting, though not all who may ever come. */
void lw_processes_take_last_hellos(struct lw_recorder *recorder);
/* Try again with those who came when the disk was full, oldest first, until one fails;
 * AT_END: then refuse that one and go on. */
void lw_processes_greet_late(struct lw_recorder *recorder, bool at_end);

/* Record the process of TARGET, which is ours in every case, though it has no agent; if it
 * has one that says hello yet, that joins in. False: it is counted as missing. */
bool lw_processes_adopt(struct lw_recorder *recorder, struct lw_target *target)
    LW_MUST_CHECK;

/* Process NUMBER has died: take the last look now. It is closed by lw_processes_bury(),
 * when its exit code is known. */
void lw_processes_died(struct lw_recorder *recorder, uint32_t number);
/* Notice the deaths of those without a pidfd. */
void lw_processes_find_dead(struct lw_recorder *recorder);
/* Close the dead whose exit code is known, or will not be. */
void lw_processes_bury(struct lw_recorder *recorder);
size_t lw_processes_live(const struct lw_recorder *recorder);

/* End the series of process INDEX in the list, whose last place takes its place. */
void lw_processes_close(struct lw_recorder *recorder, size_t index);

/* A sentence for the report, unless it is there already. */
void lw_processes_add_note(struct lw_recorder *recorder, const char *sentence);

/* COUNT processes are missing because of CAUSE: for the report. */
void lw_processes_note_loss(struct lw_recorder *recorder, const char *cause,
                            uint64_t count);

#endif
