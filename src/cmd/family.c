#include "cmd/family.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "sampler/os.h"

void lw_family_release(struct lw_family *family)
{
    lw_free(family->members);
    *family = (struct lw_family){ 0 };
}

static bool add_member(struct lw_family *family, pid_t pid, bool is_asked,
                       struct lw_error *err)
{
    for (size_t i = 0; i < family->count; i++)
        if (family->members[i].pid == pid)
            return true;
    if (!lw_grow(&family->members, &family->capacity, family->count + 1,
                 sizeof(*family->members), err))
        return false;
    family->members[family->count++] = (struct lw_family_member){ pid, is_asked };
    return true;
}

/* May PID be looked into without more ado? */
static bool check_asked(const struct lw_family *family, const char *command, pid_t pid,
                        struct lw_error *err)
{
    bool is_root = geteuid() == 0;
    struct lw_os_owner owner;

    if (family->all_users)
        return true;
    if (pid == 1)
        return lw_fail(err, LW_ERR_USAGE,
                       "%s: every process here descends from PID 1: name the one you "
                       "mean, or %sadd --all-users to take them all",
                       command, is_root ? "" : "use sudo and ");
    if (lw_os_is_ours(pid) || !lw_os_owner(pid, &owner, NULL))
        return true;
    /* What is root's own needs no word more under sudo. */
    return lw_fail(err, LW_ERR_USAGE,
                   "%s: process %d is user %u's, not yours: %s to look into it all the "
                   "same",
                   command, (int)pid, (unsigned)owner.uid,
                   is_root      ? "add --all-users"
                   : !owner.uid ? "use sudo"
                                : "use sudo and add --all-users");
}

bool lw_family_add(struct lw_family *family, const char *command, char **words,
                   int count, struct lw_error *err)
{
    uint64_t pid;

    for (int i = 0; i < count; i++) {
        if (!lw_text_u64(words[i], strlen(words[i]), &pid) || pid == 0 || pid > INT_MAX)
            return lw_fail(err, LW_ERR_USAGE, "%s: '%s' is not the number of a process",
                           command, words[i]);
        if (!check_asked(family, command, (pid_t)pid, err) ||
            !add_member(family, (pid_t)pid, true, err))
            return false;
    }
    return true;
}

/* Those that are added are looked at too, in their turn. */
bool lw_family_grow(struct lw_family *family, struct lw_error *err)
{
    pid_t *children = NULL;
    size_t capacity = 0;
    bool done = true;

    family->others_count = 0;
    for (size_t i = 0; done && i < family->count; i++) {
        size_t count = lw_os_children(family->members[i].pid, &children, &capacity);

        for (size_t j = 0; done && j < count; j++) {
            if (family->all_users || lw_os_is_ours(children[j]))
                done = add_member(family, children[j], false, err);
            else
                family->others_count++;
        }
    }
    lw_free(children);
    return done;
}

void lw_family_remove(struct lw_family *family, size_t index)
{
    struct lw_family_member *member = &family->members[index];

    family->count--;
    memmove(member, member + 1, (family->count - index) * sizeof(*member));
}
