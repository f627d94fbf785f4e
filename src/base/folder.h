/* A folder that is held by its descriptor.
 *
 * A path is looked up anew each time, and whoever may write to one of the folders in it may
 * put something else there in between: a link, a pipe, another folder. So what lies in a
 * folder that we have once found is opened, written, renamed and removed below the
 * descriptor, by names that are never followed if they are links. */
#ifndef LW_BASE_FOLDER_H
#define LW_BASE_FOLDER_H

#include <dirent.h>
#include <sys/stat.h>

#include "base/file.h"

struct lw_folder {
    int fd;     /* -1: not open */
    char *path; /* what sentences call it; owned; NULL: not open */
};

#define LW_FOLDER_CLOSED \
    (struct lw_folder) \
    { \
        .fd = -1 \
    }

/* The folder at PATH; links in PATH are followed, it is the person's own word. */
bool lw_folder_open(struct lw_folder *folder, const char *path, struct lw_error *err)
    LW_MUST_CHECK;
/* The folder NAME in PARENT, which is no link. */
bool lw_folder_open_in(struct lw_folder *folder, const struct lw_folder *parent,
                       const char *name, struct lw_error *err) LW_MUST_CHECK;
void lw_folder_close(struct lw_folder *folder); /* closed already, or zeroed, is fine */

/* "DEVICE:INODE": no other folder has that while this one is there, whatever its path
 * comes to lead to. */
#define LW_FOLDER_IDENTITY_BYTES 44
bool lw_folder_identity(const struct lw_folder *folder, char *text,
                        struct lw_error *err) LW_MUST_CHECK;

/* Read its entries from the start; the caller closes the stream. NULL: errno says why. */
DIR *lw_folder_list(const struct lw_folder *folder);

/* NAME may have folders in it ("traces/x.json"), but no "..". ERR says what it is if not a
 * regular file: a link, a pipe, a device. The descriptor is the caller's; -1: it failed. */
int lw_folder_find(const struct lw_folder *folder, const char *name, struct stat *about,
                   struct lw_error *err);
/* As lw_file_read() and lw_file_open(), of a file as above. */
bool lw_folder_read(struct lw_file_view *view, const struct lw_folder *folder,
                    const char *name, size_t limit, struct lw_error *err) LW_MUST_CHECK;
bool lw_folder_map(struct lw_file_view *view, const struct lw_folder *folder,
                   const char *name, struct lw_error *err) LW_MUST_CHECK;
/* As lw_file_replace(), of a NAME without folders; a link of that name is replaced, not
 * followed. */
bool lw_folder_replace(const struct lw_folder *folder, const char *name,
                       const void *bytes, size_t len, struct lw_error *err)
    LW_MUST_CHECK;
/* Make the folder NAME (0700) if it is not there, and open it. */
bool lw_folder_make_in(struct lw_folder *folder, const struct lw_folder *parent,
                       const char *name, struct lw_error *err) LW_MUST_CHECK;
/* Make a folder whose name begins with PREFIX and ends in six letters of its own (0700). */
bool lw_folder_make_unique_in(struct lw_folder *folder, const struct lw_folder *parent,
                              const char *prefix, struct lw_error *err) LW_MUST_CHECK;
/* Remove all that is in it; the folder itself stays. */
bool lw_folder_empty(const struct lw_folder *folder, struct lw_error *err)
    LW_MUST_CHECK;

#endif
