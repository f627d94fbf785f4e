/* Numbers of the name log (agent/layout.h), given to any thread, with or without
 * Python's lock.
 *
 * There is one row of numbers a process, for functions, marks, phases, ops and counters
 * alike, because the recorder expects the log's next record to have the next number. A
 * number means the same for as long as the process lives, in every recording of it and in
 * forked children, so whoever has one may keep it for good.
 *
 * A function's text belongs to who asked for its number; that of an interned name is kept
 * here, never moved and never freed: a reader needs no lock. New names are rare: one
 * lock guards all that changes. */
#ifndef LW_AGENT_NAMES_H
#define LW_AGENT_NAMES_H

#include <pthread.h>

#include "agent/region.h"

/* An interned name. */
struct lw_name_text {
    uint32_t number;
    uint32_t hash;
    uint32_t file_len;
    uint32_t name_len;
    uint16_t kind; /* enum lw_agent_name_kind */
    char text[];   /* file, NUL, name, NUL */
};

struct lw_names {
    pthread_mutex_t lock;
    struct lw_region *log;       /* hears of new names; NULL: nobody does */
    uint32_t count;              /* numbers given, 0 included, which is nobody's */
    struct lw_name_text **texts; /* interned names, by growing number; owned */
    uint32_t text_count;
    uint32_t text_capacity;
    size_t text_bytes;
    uint32_t *slots; /* hash of texts: index + 1, 0: free; at most half full; owned */
    uint32_t slot_mask;
};

bool lw_names_init(struct lw_names *names); /* false, with errno set */
void lw_names_release(struct lw_names *names);

/* Nobody else gets a number in between: around fork, and while a log is begun. */
void lw_names_lock(struct lw_names *names);
void lw_names_unlock(struct lw_names *names);

/* Locked: the next number, logged as HEAD says, whose number is filled in. */
uint32_t lw_names_take(struct lw_names *names, struct lw_agent_name *head,
                       const char *file, const char *name);

/* The name of KIND with these texts, made when new; both are cut at LW_NAME_BYTES.
 * NULL, counted, where too many distinct names have been made or there is no memory. */
const struct lw_name_text *lw_names_intern(struct lw_names *names,
                                           enum lw_agent_name_kind kind,
                                           const char *file, size_t file_len,
                                           const char *name, size_t name_len);

/* Locked: write the interned name of NUMBER to the log; false: NUMBER is none's. */
bool lw_names_log_interned(struct lw_names *names, uint32_t number);

/* What the log's region lost, if there is a log. */
void lw_names_count_lost(struct lw_names *names, enum lw_agent_loss cause);

/* New names go to nobody from now on. */
void lw_names_log_to_nobody(struct lw_names *names);

static inline const char *lw_name_text_name(const struct lw_name_text *text)
{
    return text->text + text->file_len + 1;
}

/* Nobody reads a name of more; a program can make one of a gigabyte. */
#define LW_NAME_BYTES 4096

#endif
