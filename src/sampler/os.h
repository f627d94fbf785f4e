/* What the operating system tells of a process that is not ours: its maps, threads,
 * children and state. os_linux.c reads /proc. */
#ifndef LW_SAMPLER_OS_H
#define LW_SAMPLER_OS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LW_OS_NAME_BYTES 64

struct lw_os_process {
    pid_t parent;
    char state;           /* as ps prints it: R S D T Z ... */
    bool is_ending;       /* or has ended: its memory is gone, or about to be */
    uint64_t start_time;  /* with the pid it names one process for ever */
    uint64_t stack_start; /* the kernel picks it anew at each exec; 0: hidden from us */
    unsigned thread_count;
    char name[LW_OS_NAME_BYTES]; /* of its program, cut by the kernel */
};

/* False with a sentence: no such process, or it cannot be seen. */
bool lw_os_process(pid_t pid, struct lw_os_process *process, struct lw_error *err)
    LW_MUST_CHECK;

/* Is it there, and neither about to end nor only a memory of its parent's (a zombie)? */
bool lw_os_lives(pid_t pid);

/* Whose process PID is: the user and group that started it, and those it acts as, which are
 * others in a program with the set-user-id bit, or in a server that has given up root. */
struct lw_os_owner {
    uid_t uid, acting_uid;
    gid_t gid, acting_gid;
};
bool lw_os_owner(pid_t pid, struct lw_os_owner *owner, struct lw_error *err)
    LW_MUST_CHECK;

/* A file that is mapped into a process, from its beginning. */
struct lw_os_image {
    uint64_t base;    /* where the file's first byte lies */
    uint64_t end;     /* of the last mapping of the file */
    const char *path; /* as the process sees it; borrowed from the list */
    bool is_program;  /* what /proc/PID/exe names */
};

struct lw_os_images {
    struct lw_os_image *images; /* in order of address */
    size_t count;
    char *text; /* of the paths; both owned */
};

/* The files mapped into PID. */
bool lw_os_images(pid_t pid, struct lw_os_images *images, struct lw_error *err)
    LW_MUST_CHECK;
void lw_os_images_release(struct lw_os_images *images); /* zeroed is fine */

/* An address that is mapped in PID, to try whether we may read there. */
bool lw_os_some_address(pid_t pid, uint64_t *address, struct lw_error *err)
    LW_MUST_CHECK;

/* Why we may not read PID, and what to type; always false. */
bool lw_os_explain_denied(pid_t pid, struct lw_error *err);

/* The ids of the threads of PID, or of its children, into *IDS (grown, the caller
 * frees with lw_free). Returns how many; 0: gone, or none. */
size_t lw_os_threads(pid_t pid, pid_t **ids, size_t *capacity);
size_t lw_os_children(pid_t pid, pid_t **ids, size_t *capacity);
/* Only the children that its main thread made. */
size_t lw_os_main_children(pid_t pid, pid_t **ids, size_t *capacity);

/* The name of thread TID of PID, at most SIZE - 1 bytes. */
bool lw_os_thread_name(pid_t pid, pid_t tid, char *name, size_t size) LW_MUST_CHECK;

/* A descriptor from which a thread's state is read again and again; -1: gone. */
int lw_os_thread_open(pid_t pid, pid_t tid);
/* 'R' on (or waiting for) a processor, else 'S' or what else the kernel says; 0: it has
 * ended. */
char lw_os_thread_state(int fd);

#endif
