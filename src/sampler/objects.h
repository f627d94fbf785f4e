/* Python objects of another process: what they are and what is in them.
 *
 * An object changes, moves or dies while it is read, so nothing that is found there is
 * believed: whatever does not look like what it should be is "not there", no loop is
 * longer than a bound, and no size of theirs makes a buffer of ours. What comes out of a
 * moving object may be a mixture of before and after; it is for people to read (names of
 * threads, values of variables), never for a decision. */
#ifndef LW_SAMPLER_OBJECTS_H
#define LW_SAMPLER_OBJECTS_H

#include "base/buf.h"
#include "sampler/layout.h"

/* Where to look, and how objects lie there; both borrowed. */
struct lw_objects {
    struct lw_memory *memory;
    const struct lw_py_layout *layout;
};

enum lw_object_kind {
    LW_OBJECT_OTHER, /* an instance of something else */
    LW_OBJECT_NONE,
    LW_OBJECT_BOOL,
    LW_OBJECT_INT,
    LW_OBJECT_FLOAT,
    LW_OBJECT_TEXT,
    LW_OBJECT_BYTES,
    LW_OBJECT_TUPLE,
    LW_OBJECT_LIST,
    LW_OBJECT_DICT,
    LW_OBJECT_SET, /* frozen or not */
    LW_OBJECT_TYPE,
};

#define LW_OBJECT_TYPE_BYTES 64

struct lw_object {
    uint64_t address;
    uint64_t type;  /* address of its type */
    uint64_t flags; /* tp_flags of that */
    enum lw_object_kind kind;
    char type_name[LW_OBJECT_TYPE_BYTES]; /* tp_name, cut; any bytes */
};

/* What the object at ADDRESS is. False: there is none. */
bool lw_objects_look(const struct lw_objects *objects, uint64_t address,
                     struct lw_object *object) LW_MUST_CHECK;
/* The same, and whether its type is called NAME. */
bool lw_objects_is(const struct lw_objects *objects, uint64_t address,
                   const char *name);

/* The C string at ADDRESS, cut at SIZE - 1 bytes. */
bool lw_objects_string(const struct lw_objects *objects, uint64_t address, char *text,
                       size_t size) LW_MUST_CHECK;
/* Append the str at ADDRESS as UTF-8, at most LIMIT characters of it. Its whole length in
 * characters goes to *LENGTH. Lone surrogates come out as UTF-8 would have them. False:
 * it is none, and nothing was appended. */
bool lw_objects_text(const struct lw_objects *objects, uint64_t address, size_t limit,
                     struct lw_buf *out, uint64_t *length) LW_MUST_CHECK;
/* The same into NAME, cut at SIZE - 1 bytes between characters. */
bool lw_objects_name(const struct lw_objects *objects, uint64_t address, char *name,
                     size_t size) LW_MUST_CHECK;
/* Append at most LIMIT of the bytes of the bytes object at ADDRESS. */
bool lw_objects_bytes(const struct lw_objects *objects, uint64_t address, size_t limit,
                      struct lw_buf *out, uint64_t *length) LW_MUST_CHECK;

#define LW_OBJECT_DIGITS 10 /* of 30 bits */

struct lw_object_int {
    bool is_negative;
    uint64_t count; /* of its digits */
    uint32_t
        digits[LW_OBJECT_DIGITS]; /* lowest first; 0 where there are more than that */
};

bool lw_objects_int(const struct lw_objects *objects, uint64_t address,
                    struct lw_object_int *value) LW_MUST_CHECK;
/* One that fits; false also if it does not. */
bool lw_objects_u64(const struct lw_objects *objects, uint64_t address, uint64_t *value)
    LW_MUST_CHECK;
bool lw_objects_float(const struct lw_objects *objects, uint64_t address, double *value)
    LW_MUST_CHECK;

/* What a container holds. */
struct lw_entry {
    uint64_t key;   /* 0 in lists and tuples */
    uint64_t value; /* 0 in sets */
};

struct lw_entries {
    struct lw_entry *entries; /* owned */
    size_t count, capacity;
    uint64_t total; /* that it says it holds; `count` may be fewer */
};

void lw_entries_release(struct lw_entries *entries); /* zeroed is fine */

/* Put at most LIMIT entries of the tuple, list, dict or set OBJECT into *ENTRIES, in their
 * order, in place of what was there. False: it is no container, cannot be read, or there
 * is no memory here. */
bool lw_objects_entries(const struct lw_objects *objects,
                        const struct lw_object *object, size_t limit,
                        struct lw_entries *entries) LW_MUST_CHECK;
/* The same for the attributes that the object itself has (its `__dict__`, made or not). */
bool lw_objects_attributes(const struct lw_objects *objects,
                           const struct lw_object *object, size_t limit,
                           struct lw_entries *entries) LW_MUST_CHECK;

/* The value of the entry whose key is the str NAME; 0: none. */
uint64_t lw_objects_find(const struct lw_objects *objects,
                         const struct lw_entries *entries, const char *name);
/* Attribute NAME of the object at ADDRESS, or entry NAME of the dict at ADDRESS; 0: it
 * has none. */
uint64_t lw_objects_attribute(const struct lw_objects *objects, uint64_t address,
                              const char *name);
uint64_t lw_objects_item(const struct lw_objects *objects, uint64_t address,
                         const char *name);

#endif
