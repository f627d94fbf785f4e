/* Views in the shell: the words behind a view's name go through the same rows of options
 * as those of `lapwing report`. */

#include "cmd/shell_view.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmd/guess.h"
#include "cmd/help.h"
#include "cmd/options.h"
#include "cmd/pager.h"
#include "cmd/view_args.h"
#include "writers/render.h"

char *lw_shell_next_word(char **rest)
{
    char *word = *rest, *end;

    while (isspace((unsigned char)*word))
        word++;
    if (!*word)
        return NULL;
    for (end = word; *end && !isspace((unsigned char)*end);)
        end++;
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

void lw_shell_set_order(const struct lw_shell_order *order, struct lw_query *query)
{
    for (size_t i = 0; i < order->key_count; i++)
        query->keys[query->key_count++] = order->keys[i];
    query->reverse = order->reverse;
}

struct view_line {
    struct lw_view_args view;
};

static const struct view_line view_line_defaults = { .view = LW_VIEW_ARGS_DEFAULT };
/* clang-format off */
const struct lw_option lw_shell_view_options[] = {
    LW_VIEW_OPTIONS(struct view_line, view),
    LW_OPT_END
};
/* clang-format on */

/* A line that begins with a view's name, as the parser of options sees it. */
struct view_command {
    struct lw_command command;
    char usage[80]; /* a view's name and two words */
};

static void init_command(struct view_command *line, const struct lw_analysis *view)
{
    *line = (struct view_command){
        .command = { .name = view->name,
                     .summary = view->summary,
                     .in_shell = true,
                     .usage = line->usage,
                     .args_size = sizeof(struct view_line),
                     .defaults = &view_line_defaults,
                     .options = lw_shell_view_options,
                     .operands_max = LW_ANY_NUMBER },
    };
    snprintf(line->usage, sizeof(line->usage), "%s [OPTIONS]%s", view->name,
             view->takes_restrictions ? " [RESTRICTION...]" : "");
}

static bool print_view(const struct lw_profile *profile, const struct lw_analysis *view,
                       const struct lw_query *query, bool has_limit,
                       struct lw_error *err)
{
    const char *pager = lw_pager_choose(false);
    struct lw_render_options options = lw_pager_look(view, has_limit, true, pager);
    struct lw_table table = { 0 };
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    done = lw_analysis_run(view, profile, query, &table, err) &&
           lw_guess_near(&table, err) && lw_table_check(&table, err);
    if (done) {
        lw_render_text(&table, &options, &out);
        done = lw_buf_check(&out, err);
    }
    if (done && pager)
        lw_pager_show(pager, &out);
    else if (done)
        fwrite(out.bytes, 1, out.len, stdout);
    lw_table_release(&table);
    lw_buf_release(&out);
    return done;
}

static bool ask_view(const struct lw_profile *profile, const struct lw_analysis *view,
                     const struct lw_shell_order *order, const struct lw_parsed *parsed,
                     struct lw_error *err)
{
    struct lw_view_args args = ((const struct view_line *)parsed->args)->view;
    bool has_limit =
        lw_view_args_has_limit(&args, parsed->operands, (size_t)parsed->operand_count);
    struct lw_query query;
    bool done;

    lw_pager_fit(&args, view, lw_pager_choose(false));
    lw_query_init(&query);
    if (args.sort.count == 0 && view->sort)
        lw_shell_set_order(order, &query);
    query.strip = order->strip;
    query.how_strip = LW_STRIP_ADD;
    query.report = "";
    done =
        lw_view_args_ask(&args, view, parsed->operands, (size_t)parsed->operand_count,
                         LW_USUAL_ORDER | LW_USUAL_ROWS, &query, err) &&
        print_view(profile, view, &query, has_limit, err);
    lw_query_release(&query);
    return done;
}

/* The words of LINE, ended in place, and then NULL; caller frees. */
static char **split(char *line, int *count, struct lw_error *err)
{
    char **list = NULL;
    size_t capacity = 0;
    char *word;

    *count = 0;
    do {
        word = lw_shell_next_word(&line);
        if (!lw_grow(&list, &capacity, (size_t)*count + 1, sizeof(*list), err)) {
            lw_free(list);
            return NULL;
        }
        list[*count] = word;
        *count += word != NULL;
    } while (word);
    return list;
}

bool lw_shell_show_view(const struct lw_profile *profile,
                        const struct lw_analysis *view,
                        const struct lw_shell_order *order, char *words,
                        struct lw_error *err)
{
    struct view_command line;
    struct lw_parsed parsed;
    char **list;
    int count;
    bool done;

    list = split(words, &count, err);
    if (!list)
        return false;
    init_command(&line, view);
    done = lw_options_parse(&line.command, count, list, &parsed, err);
    if (done && parsed.wants_help)
        done = lw_help_print(&line.command, err);
    else
        done = done && ask_view(profile, view, order, &parsed, err);
    lw_parsed_release(&line.command, &parsed);
    lw_free(list);
    return done;
}
