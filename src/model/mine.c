/* Decides by the path, and asks the disk only two things: where the repository begins,
 * and whether a folder under it is a virtualenv. A recording from another machine finds
 * neither there and is judged by its paths alone. */

#include "model/mine.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

/* Is there NAME in the folder of the first LEN bytes of PATH? */
static bool folder_has(const char *path, size_t len, const char *name)
{
    char full[PATH_MAX];

    if (len + strlen(name) + 2 > sizeof(full))
        return false;
    memcpy(full, path, len);
    full[len] = '/';
    memcpy(full + len + 1, name, strlen(name) + 1);
    return lw_file_exists(full);
}

/* The length of the path of the nearest folder at or above FOLDER that is a repository;
 * if there is none, FOLDER's own. */
static size_t find_root(const char *folder)
{
    size_t len = strlen(folder);

    for (size_t at = len; at > 0; at--)
        if ((at == len || folder[at] == '/') && folder_has(folder, at, ".git"))
            return at;
    return len;
}

bool lw_mine_init(struct lw_mine *mine, const struct lw_profile *profile,
                  struct lw_error *err)
{
    const char *folder = lw_profile_fact(profile, "cwd");
    char here[PATH_MAX];
    size_t len;

    memset(mine, 0, sizeof(*mine));
    lw_buf_init(&mine->path, 0);
    if (!folder || folder[0] != '/') {
        folder = getcwd(here, sizeof(here));
        if (!folder)
            return lw_fail_errno(err, "cannot tell the current folder");
    }
    len = strlen(folder);
    while (len > 0 && folder[len - 1] == '/')
        len--;
    mine->folder = lw_copy_text(folder, len, err);
    if (!mine->folder)
        return false;
    mine->root_len = find_root(mine->folder);
    return true;
}

void lw_mine_release(struct lw_mine *mine)
{
    lw_free(mine->folder);
    lw_buf_release(&mine->path);
    memset(mine, 0, sizeof(*mine));
}

/* Append FILE's parts to OUT, which is an absolute path, taking out "." and "..". */
static void add_parts(struct lw_buf *out, const char *file)
{
    while (*file) {
        size_t len = strcspn(file, "/");

        if (len == 2 && memcmp(file, "..", 2) == 0) {
            while (out->len > 0 && out->bytes[--out->len] != '/')
                ;
        } else if (len > 0 && !(len == 1 && file[0] == '.')) {
            lw_buf_add_char(out, '/');
            lw_buf_add(out, file, len);
        }
        file += len + (file[len] == '/');
    }
}

/* Is PART (LEN bytes) the folder of a Python's library: "python3.11"? */
static bool is_python_folder(const char *part, size_t len)
{
    return len > 7 && memcmp(part, "python", 6) == 0 &&
           strspn(part + 6, "0123456789.t") >= len - 6;
}

/* Does the path below the root lead through installed packages or a library? */
static bool is_installed(const char *path)
{
    bool after_lib = false;

    while (*path) {
        size_t len = strcspn(path, "/");

        if ((len == 13 && memcmp(path, "site-packages", 13) == 0) ||
            (len == 13 && memcmp(path, "dist-packages", 13) == 0) ||
            (after_lib && is_python_folder(path, len)))
            return true;
        after_lib = (len == 3 && memcmp(path, "lib", 3) == 0) ||
                    (len == 5 && memcmp(path, "lib64", 5) == 0);
        path += len + (path[len] == '/');
    }
    return false;
}

/* Is one of the folders between the root and the file a virtualenv? */
static bool is_in_virtualenv(const char *path, size_t root_len)
{
    for (size_t at = root_len + 1; path[at]; at++)
        if (path[at] == '/' && folder_has(path, at, "pyvenv.cfg"))
            return true;
    return false;
}

bool lw_mine_has(struct lw_mine *mine, const char *file, struct lw_error *err)
{
    const char *path;

    if (file[0] == '\0' || file[0] == '<' || strcmp(file, "~") == 0)
        return false;
    lw_buf_reset(&mine->path);
    if (file[0] != '/')
        lw_buf_add_text(&mine->path, mine->folder);
    add_parts(&mine->path, file);
    lw_buf_add_char(&mine->path, '\0');
    if (!lw_buf_check(&mine->path, err))
        return false;
    path = mine->path.bytes;
    return strncmp(path, mine->folder, mine->root_len) == 0 &&
           path[mine->root_len] == '/' && !is_installed(path + mine->root_len + 1) &&
           !is_in_virtualenv(path, mine->root_len);
}
