/* Asks git, once: `git status` in its stable format names the commit and the changed
 * files in one go. */

#include "recorder/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

/* The commit stands at the top; whether one changed file follows is all we need of the
 * rest, which may be long. */
#define OUTPUT_ENOUGH 4096

static bool spawn_git(pid_t *pid, int out_fd)
{
    /* Without optional locks, so that it cannot get in the way of the user's own git;
     * without untracked files, which say nothing about what runs. */
    static char *const argv[] = { "git",      "--no-optional-locks",
                                  "status",   "--porcelain=v2",
                                  "--branch", "--untracked-files=no",
                                  NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    bool started;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return false;
    }
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    started = posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return started;
}

void lw_commit_ask(struct lw_commit *commit)
{
    int ends[2];

    memset(commit, 0, sizeof(*commit));
    commit->fd = -1;
    lw_buf_init(&commit->out, 2 * OUTPUT_ENOUGH);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (spawn_git(&commit->pid, ends[1])) {
        commit->fd = ends[0];
    } else {
        commit->pid = 0;
        close(ends[0]);
    }
    close(ends[1]);
}

static void end_git(struct lw_commit *commit)
{
    if (commit->fd >= 0)
        close(commit->fd);
    commit->fd = -1;
    if (commit->pid > 0) {
        kill(commit->pid, SIGKILL);
        while (waitpid(commit->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    commit->pid = 0;
}

/* Lines: "# branch.oid 1cc6fe5...", other lines with '#', then one a changed file. */
static bool parse(struct lw_commit *commit)
{
    static const char key[] = "# branch.oid ";
    const char *line = commit->out.bytes;

    while (line && *line) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *id = line + strlen(key);
            size_t len = strspn(id, "0123456789abcdef");

            if (len >= 40 && len < sizeof(commit->id)) /* else "(initial)" */
                memcpy(commit->id, id, len);
        } else if (*line != '#') {
            commit->is_dirty = true;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return commit->id[0] != '\0';
}

bool lw_commit_read(struct lw_commit *commit)
{
    char bytes[OUTPUT_ENOUGH];
    ssize_t len = 0;

    if (commit->fd < 0)
        return commit->is_known;
    while (commit->out.len < OUTPUT_ENOUGH &&
           (len = read(commit->fd, bytes, sizeof(bytes))) > 0)
        lw_buf_add(&commit->out, bytes, (size_t)len);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    commit->is_known = commit->out.failure == LW_OK && parse(commit);
    end_git(commit);
    return commit->is_known;
}

void lw_commit_wait(struct lw_commit *commit, uint64_t deadline_ns)
{
    lw_commit_read(commit);
    while (commit->fd >= 0) {
        struct pollfd pollfd = { commit->fd, POLLIN, 0 };
        uint64_t now = lw_clock_ns();

        if (now >= deadline_ns ||
            poll(&pollfd, 1, (int)((deadline_ns - now) / 1000000) + 1) < 0)
            break;
        lw_commit_read(commit);
    }
}

void lw_commit_release(struct lw_commit *commit)
{
    end_git(commit);
    lw_buf_release(&commit->out);
}
