/* A view asked for in the shell: "functions --mine 5". */
#ifndef LW_CMD_SHELL_VIEW_H
#define LW_CMD_SHELL_VIEW_H

#include "analyses/analysis.h"
#include "cmd/command.h"

/* What `sort`, `reverse` and `strip` have set. */
struct lw_shell_order {
    const struct lw_sort_key *keys[LW_QUERY_KEYS_MAX];
    size_t key_count; /* 0: not sorted */
    bool reverse;
    bool strip;
};

/* The options that every view takes there, those of `report`; up to LW_OPT_END. */
extern const struct lw_option lw_shell_view_options[];

/* Print VIEW of PROFILE, in ORDER unless the options among WORDS say another; WORDS is
 * written to. Fails also for what the person did wrong. */
bool lw_shell_show_view(const struct lw_profile *profile,
                        const struct lw_analysis *view,
                        const struct lw_shell_order *order, char *words,
                        struct lw_error *err) LW_MUST_CHECK;

/* Give QUERY, which has no keys yet, the keys and direction of ORDER. */
void lw_shell_set_order(const struct lw_shell_order *order, struct lw_query *query);

/* The next word at *REST, ended with a NUL in place; NULL: none is left. */
char *lw_shell_next_word(char **rest);

#endif
