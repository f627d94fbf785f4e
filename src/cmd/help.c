/* Help is laid out in two columns, what to type and what it does:
 *
 *     -o, --output FILE       write to FILE instead of standard output
 *         --sort KEY          ...
 *
 * The second column starts after the longest left side that is not too long; what
 * is too long gets a line of its own. */

#include "cmd/help.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/guess.h"
#include "writers/render.h"

#define LEFT_MAX 30  /* a longer left side gets its own line */
#define WIDTH_MIN 40 /* narrower terminals wrap by themselves */

/* clang-format off */
const struct lw_command *const lw_commands[] = {
#define LW_COMMAND(name) &lw_cmd_##name,
#include "cmd/commands.def"
#undef LW_COMMAND
};
/* clang-format on */
const size_t lw_command_count = sizeof(lw_commands) / sizeof(lw_commands[0]);

static size_t terminal_width(void)
{
    size_t width = lw_render_options_for_fd(STDOUT_FILENO).width;

    if (width == 0)
        return 80;
    return width < WIDTH_MIN ? WIDTH_MIN : width;
}

/* Add TEXT from column AT on, its further lines indented by INDENT. */
static void add_wrapped(struct lw_help *help, const char *text, size_t len, size_t at,
                        size_t indent)
{
    const char *end = text + len;

    while (text < end) {
        const char *space = memchr(text, ' ', (size_t)(end - text));
        size_t n = (size_t)((space ? space : end) - text);
        size_t columns = lw_text_width(text, n);

        if (at > indent && at + 1 + columns > help->width) {
            lw_buf_add_char(&help->out, '\n');
            lw_buf_add_repeat(&help->out, ' ', indent);
            at = indent;
        } else if (at > indent) {
            lw_buf_add_char(&help->out, ' ');
            at++;
        }
        lw_buf_add(&help->out, text, n);
        at += columns;
        text += n + (space ? 1 : 0);
    }
    lw_buf_add_char(&help->out, '\n');
}

static void add_row(struct lw_help *help, const char *left, const char *right)
{
    size_t len = strlen(left);

    lw_buf_add_text(&help->out, left);
    if (len + 2 > help->column) {
        lw_buf_add_char(&help->out, '\n');
        len = 0;
    }
    lw_buf_add_repeat(&help->out, ' ', help->column - len);
    add_wrapped(help, right, strlen(right), help->column, help->column);
}

void lw_help_add_roff(struct lw_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool starts_line = i == 0 || text[i - 1] == '\n';

        if (starts_line && (text[i] == '.' || text[i] == '\''))
            lw_buf_add_text(out, "\\&");
        if (text[i] == '\\')
            lw_buf_add_text(out, "\\e");
        else if (text[i] == '-')
            lw_buf_add_text(out, "\\-");
        else
            lw_buf_add_char(out, text[i]);
    }
}

void lw_help_heading(struct lw_help *help, const char *title)
{
    if (help->is_roff) {
        lw_buf_add_text(&help->out, ".PP\n\\fI");
        lw_help_add_roff(&help->out, title, strlen(title));
        lw_buf_add_text(&help->out, ":\\fR\n");
        return;
    }
    lw_buf_addf(&help->out, "\n%s:\n", title);
}

void lw_help_row(struct lw_help *help, const char *name, const char *summary)
{
    char left[64];

    if (help->is_roff) {
        lw_buf_add_text(&help->out, ".TP\n.B ");
        lw_help_add_roff(&help->out, name, strlen(name));
        lw_buf_add_char(&help->out, '\n');
        lw_help_add_roff(&help->out, summary, strlen(summary));
        lw_buf_add_char(&help->out, '\n');
        return;
    }
    snprintf(left, sizeof(left), "  %s", name);
    add_row(help, left, summary);
}

/* Lines that start with a space stay as they are; the others of a paragraph are
 * one text, wrapped. */
static void add_description(struct lw_help *help, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);

        lw_buf_add_char(&help->out, '\n');
        if (*text == ' ') {
            lw_buf_add(&help->out, text, len);
            lw_buf_add_char(&help->out, '\n');
        } else {
            add_wrapped(help, text, len, 0, 0);
        }
        text += len + (end ? 2 : 0);
    }
}

/* "  -o, --output FILE" */
static void option_left(const struct lw_option *option, char *left, size_t size)
{
    char letter[] = "    ";

    if (option->letter)
        snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    if (lw_arg_may_be_bare(option->kind))
        snprintf(left, size, "  %s--%s[=%s]", letter, option->name, option->arg);
    else if (option->kind == LW_ARG_FLAG)
        snprintf(left, size, "  %s--%s", letter, option->name);
    else
        snprintf(left, size, "  %s--%s %s", letter, option->name, option->arg);
}

static void add_options(struct lw_help *help, const struct lw_option *row)
{
    char left[128]; /* a row of ours, so it fits */

    help->column = 0;
    for (const struct lw_option *o = row; o && o->kind != LW_ARG_END; o++) {
        if (o->kind != LW_ARG_HEADING) {
            option_left(o, left, sizeof(left));
            if (strlen(left) <= LEFT_MAX && strlen(left) + 2 > help->column)
                help->column = strlen(left) + 2;
        }
    }
    if (help->column < sizeof("  -h, --help") + 1)
        help->column = sizeof("  -h, --help") + 1;

    if (!row || row->kind != LW_ARG_HEADING)
        lw_help_heading(help, "Options");
    for (; row && row->kind != LW_ARG_END; row++) {
        if (row->kind == LW_ARG_HEADING) {
            lw_help_heading(help, row->help);
        } else {
            option_left(row, left, sizeof(left));
            add_row(help, left, row->help);
        }
    }
    add_row(help, "  -h, --help", "print this help");
}

static void add_usage(struct lw_help *help, const char *usage)
{
    const char *label = "Usage: ";

    while (*usage) {
        size_t len = strcspn(usage, "\n");

        lw_buf_add_text(&help->out, label);
        lw_buf_add(&help->out, usage, len);
        lw_buf_add_char(&help->out, '\n');
        label = "       ";
        usage += len + (usage[len] ? 1 : 0);
    }
}

static void add_command(struct lw_help *help, const struct lw_command *command)
{
    add_usage(help, command->usage);
    if (command->description)
        add_description(help, command->description);
    else
        lw_buf_addf(&help->out, "\n%s\n", command->summary);
    add_options(help, command->options);
    if (command->explain)
        command->explain(help);
}

static void add_program(struct lw_help *help)
{
    static const char about[] =
        "One profiler for a training run: where its time goes, by function and line, in "
        "every thread and process, and how often each function is called.\n\n"
        "  lapwing run train.py      record a run, and see where its time went\n"
        "  lapwing report lines      by line; also functions, tree, threads ...\n"
        "  lapwing attach PID        the same of one that runs already";

    add_usage(help, "lapwing COMMAND [OPTIONS] [ARGUMENTS]");
    add_description(help, about);
    lw_help_heading(help, "Commands");
    help->column = 12;
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            lw_help_row(help, lw_commands[i]->name, lw_commands[i]->summary);
    lw_help_heading(help, "Options");
    help->column = 17;
    lw_help_row(help, "-h, --help", "print this help; after a command, its help");
    lw_help_row(help, "-V, --version", "print the version");
}

bool lw_help_print(const struct lw_command *command, struct lw_error *err)
{
    struct lw_help help = { .width = terminal_width() };
    bool done;

    lw_buf_init(&help.out, 0);
    if (command)
        add_command(&help, command);
    else
        add_program(&help);
    done = lw_buf_check(&help.out, err);
    if (done)
        fwrite(help.out.bytes, 1, help.out.len, stdout);
    lw_buf_release(&help.out);
    return done;
}

const struct lw_command *lw_command_find(const char *name, struct lw_error *err)
{
    for (size_t i = 0; i < lw_command_count; i++)
        if (strcmp(lw_commands[i]->name, name) == 0)
            return lw_commands[i];
    lw_guess_command(name, err);
    return NULL;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    const struct lw_command *command = NULL;

    (void)args;
    if (argc > 0 && !(command = lw_command_find(argv[0], err)))
        return LW_EXIT_USAGE;
    return lw_help_print(command, err) ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

const struct lw_command lw_cmd_help = {
    .name = "help",
    .summary = "print the help of a command",
    .usage = "lapwing help [COMMAND]",
    .operands_max = 1,
    .run = run,
};
