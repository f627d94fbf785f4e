/* Files: read whole, mapped, or written so that nothing half-done is left. */
#ifndef LW_BASE_FILE_H
#define LW_BASE_FILE_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"

/* The bytes of a file, read-only, borrowed until close. */
struct lw_file_view {
    const unsigned char *bytes; /* never NULL after open, also for an empty file */
    size_t len;
    void *mapping; /* munmap this at close; NULL: bytes were read into memory */
    void *memory;  /* lw_free this at close */
};

/* Maps regular files; reads pipes and the like into memory (at most LIMIT bytes,
 * 0: 4 GB). A file that is truncated while mapped would raise SIGBUS, so files that
 * somebody may still be writing are read (`lw_file_read`), never mapped. */
bool lw_file_open(struct lw_file_view *view, const char *path, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_file_read(struct lw_file_view *view, const char *path, size_t limit,
                  struct lw_error *err) LW_MUST_CHECK;
void lw_file_close(struct lw_file_view *view); /* zeroed is fine */

/* The same of the open file FD, which stays the caller's, and of which fstat() said ABOUT;
 * sentences call it PATH. */
bool lw_file_read_fd(struct lw_file_view *view, int fd, const struct stat *about,
                     const char *path, size_t limit, struct lw_error *err)
    LW_MUST_CHECK;
bool lw_file_map_fd(struct lw_file_view *view, int fd, const struct stat *about,
                    const char *path, struct lw_error *err) LW_MUST_CHECK;

/* Replace PATH by the bytes, whole or not at all (temporary file, fsync, rename),
 * with mode 0600. "-" is standard output, for which it simply writes. If PATH is a link,
 * the file that it leads to is replaced, unless another user left the link in a folder like
 * /tmp (base/trust.h). */
bool lw_file_replace(const char *path, const void *bytes, size_t len,
                     struct lw_error *err) LW_MUST_CHECK;

/* The same in pieces, for what is larger than memory: until lw_file_out_end() PATH is as
 * it was. On failure *OUT is as if it had never been opened. */
struct lw_file_out {
    int fd;
    int folder;       /* that the names are below; borrowed; AT_FDCWD: they are paths */
    const char *path; /* for sentences; borrowed */
    char *target;     /* owned: what is replaced; NULL: a pipe and the like, or "-" */
    char *temporary;  /* owned: where it is written first */
};

bool lw_file_out_open(struct lw_file_out *out, const char *path, struct lw_error *err)
    LW_MUST_CHECK;
/* NAME below the folder that FOLDER is the descriptor of. It is replaced, never followed. */
bool lw_file_out_open_in(struct lw_file_out *out, int folder, const char *name,
                         const char *path, struct lw_error *err) LW_MUST_CHECK;
bool lw_file_out_write(struct lw_file_out *out, const void *bytes, size_t len,
                       struct lw_error *err) LW_MUST_CHECK;
bool lw_file_out_end(struct lw_file_out *out, struct lw_error *err) LW_MUST_CHECK;
void lw_file_out_abandon(struct lw_file_out *out); /* after open, instead of end */

/* Descriptors are few: 1,024 by default, and a recorder watches as many processes as there
 * are. lw_file_raise_limit() asks for as many as the system allows; what can be opened
 * again when it is needed is closed where lw_file_is_scarce() says of it, just opened,
 * that the first half of them is used, so that the other half is left for what cannot. */
void lw_file_raise_limit(void);
bool lw_file_is_scarce(int fd);

bool lw_file_write_fd(int fd, const void *bytes, size_t len); /* all; errno on false */
bool lw_file_exists(const char *path);
bool lw_file_is_folder(const char *path);
bool lw_file_make_folders(const char *path, struct lw_error *err) LW_MUST_CHECK;
bool lw_file_remove_folder(const char *path, struct lw_error *err)
    LW_MUST_CHECK; /* and what is in it */
/* Remove all that is in FOLDER, which the caller closes; sentences call it PATH. */
bool lw_file_empty_folder(DIR *folder, const char *path, struct lw_error *err)
    LW_MUST_CHECK;

/* Letters for the end of a name that nobody has yet; false: no randomness. */
#define LW_FILE_UNIQUE_LETTERS 6
bool lw_file_choose_letters(char *letters) LW_MUST_CHECK;

/* "A/B" in a new piece of memory; caller frees. */
char *lw_path_join(const char *folder, const char *name, struct lw_error *err);

#endif
