/* Opens what was named, in pstats' order, and makes it one profile. */

#include "cmd/profiles.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmd/progress.h"
#include "model/merge.h"
#include "readers/reader.h"

#define NAMED_MAX 3 /* files in a hint; who added up more of them knows their names */

void lw_profiles_add_head(struct lw_buf *head, const char *name,
                          const struct lw_profile *profile)
{
    time_t when = (time_t)(profile->wall_start_ns / 1000000000);
    struct stat about;
    char date[32]; /* ctime_r() fills 26 */

    if (!name)
        name = lw_profile_fact(profile, "run");
    if (!name || strcmp(name, "-") == 0)
        return;
    if (!when && stat(name, &about) == 0)
        when = about.st_mtime;
    if (head->len > 0)
        lw_buf_add_char(head, '\n');
    if (ctime_r(&when, date)) {
        date[strcspn(date, "\n")] = '\0';
        lw_buf_addf(head, "%s    ", date);
    }
    lw_text_add_printable(head, name, strlen(name));
}

/* NAME as one word of a command line in a hint, which itself stands in single quotes. */
static void add_word(struct lw_buf *out, const char *name)
{
    bool is_plain = *name && !strpbrk(name, " \t\n!\"#$&'()*;<>?[\\]^`{|}~");

    if (!is_plain)
        lw_buf_add_char(out, '"');
    for (const char *p = name; *p; p++) {
        if (strchr("\"$\\`", *p))
            lw_buf_add_char(out, '\\');
        lw_buf_add_char(out, *p);
    }
    lw_buf_add_text(out, is_plain ? " " : "\" ");
}

void lw_profiles_add_report(struct lw_buf *out, char *const *names, size_t count,
                            const struct lw_profile *profile)
{
    /* Only a run that was found by a word, and not by its path, has no file. */
    const char *run = count == 1 && profile && !lw_profile_fact(profile, "file")
                          ? lw_profile_fact(profile, "run")
                          : NULL;

    lw_buf_add_text(out, "lapwing report ");
    if (run && (strcmp(names[0], "latest") == 0 || strcmp(names[0], "-1") == 0))
        return;
    for (size_t i = 0; i < count && i < NAMED_MAX; i++)
        add_word(out, run ? run : names[i]);
    if (count > NAMED_MAX)
        lw_buf_add_text(out, "... ");
}

static struct lw_profile *open_one(const char *name, unsigned want, struct lw_buf *head,
                                   struct lw_error *err)
{
    struct lw_progress *progress = lw_progress_start_reading(name);
    struct lw_profile *profile = lw_profile_open(name, want, err);

    lw_progress_stop(progress);
    if (profile && head)
        lw_profiles_add_head(head, name, profile);
    return profile;
}

struct lw_profile *lw_profiles_open(char *const *names, size_t count, unsigned want,
                                    struct lw_buf *head, struct lw_error *err)
{
    struct lw_profile *merged = NULL;
    struct lw_profile **profiles;
    size_t opened = 0;

    if (count < 2)
        return open_one(count ? names[0] : NULL, want, head, err);
    profiles = lw_zalloc(count, sizeof(*profiles), err);
    if (!profiles)
        return NULL;
    for (; opened < count; opened++) {
        const char *name = names[opened ? count - opened : 0];

        if (!(profiles[opened] = open_one(name, want, head, err)))
            break;
    }
    if (opened == count)
        merged =
            lw_profile_merge((const struct lw_profile *const *)profiles, count, err);
    for (size_t i = 0; i < opened; i++)
        lw_profile_free(profiles[i]);
    lw_free(profiles);
    return merged;
}

struct lw_profile *lw_profiles_open_diff(char *const *names, unsigned want,
                                         struct lw_error *err)
{
    struct lw_profile *before = open_one(names[0], want, NULL, err);
    struct lw_profile *after = before ? open_one(names[1], want, NULL, err) : NULL;
    struct lw_profile *change = after ? lw_profile_subtract(before, after, err) : NULL;

    lw_profile_free(before);
    lw_profile_free(after);
    return change;
}
