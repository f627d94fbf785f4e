/* The manual page: one section for the program, one for each command, in the macros of
 * man(7). No date and no version, so that it changes only when a command does. */

#include <stdio.h>
#include <string.h>

#include "cmd/docs.h"
#include "cmd/help.h"

static void add_roff(struct lw_buf *out, const char *text)
{
    lw_help_add_roff(out, text, strlen(text));
}

static void add_usage(struct lw_buf *out, const char *usage)
{
    lw_buf_add_text(out, ".nf\n");
    add_roff(out, usage);
    lw_buf_add_text(out, "\n.fi\n");
}

/* Paragraphs are parted by an empty line; one that starts with a space stays as it is. */
static void add_description(struct lw_buf *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);

        lw_buf_add_text(out, *text == ' ' ? ".PP\n.nf\n" : ".PP\n");
        lw_help_add_roff(out, text, len);
        lw_buf_add_text(out, *text == ' ' ? "\n.fi\n" : "\n");
        text += len + (end ? 2 : 0);
    }
}

static void add_option(struct lw_buf *out, const struct lw_option *option)
{
    lw_buf_add_text(out, ".TP\n");
    if (option->letter)
        lw_buf_addf(out, "\\fB\\-%c\\fR, ", option->letter);
    lw_buf_add_text(out, "\\fB\\-\\-");
    add_roff(out, option->name);
    lw_buf_add_text(out, "\\fR");
    if (lw_arg_may_be_bare(option->kind))
        lw_buf_addf(out, "[=\\fI%s\\fR]", option->arg);
    else if (option->kind != LW_ARG_FLAG)
        lw_buf_addf(out, " \\fI%s\\fR", option->arg);
    lw_buf_add_char(out, '\n');
    add_roff(out, option->help);
    lw_buf_add_char(out, '\n');
}

static void add_command(struct lw_help *help, const struct lw_command *command)
{
    const struct lw_option *option = command->options;
    struct lw_buf *out = &help->out;

    lw_buf_addf(out, ".SS lapwing %s\n", command->name);
    add_usage(out, command->usage);
    add_description(out,
                    command->description ? command->description : command->summary);
    for (; option && option->kind != LW_ARG_END; option++) {
        if (option->kind == LW_ARG_HEADING)
            lw_help_heading(help, option->help);
        else
            add_option(out, option);
    }
    if (command->explain)
        command->explain(help);
}

void lw_docs_add_man(struct lw_buf *out)
{
    struct lw_help help = { .out = *out, .is_roff = true };

    lw_buf_add_text(
        &help.out, ".\\\" Made by tools/docs.sh from the commands themselves.\n"
                   ".TH LAPWING 1 \"\" Lapwing\n"
                   ".SH NAME\n"
                   "lapwing \\- one profiler for a training run\n"
                   ".SH SYNOPSIS\n"
                   ".nf\n"
                   "lapwing COMMAND [OPTIONS] [ARGUMENTS]\n"
                   "lapwing \\-\\-help\n"
                   "lapwing \\-\\-version\n"
                   ".fi\n"
                   ".SH DESCRIPTION\n"
                   "How often each function is called and how long it takes, where the "
                   "time of a step goes, and whether it is faster than before.\n"
                   ".SH COMMANDS\n"
                   "Every command takes \\fB\\-h\\fR or \\fB\\-\\-help\\fR.\n");
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            add_command(&help, lw_commands[i]);
    lw_buf_add_text(
        &help.out,
        ".SH EXIT STATUS\n"
        "0 done, 1 failed, 2 the command line was wrong, 3 a regression was "
        "found. \\fBlapwing run\\fR gives back the program's own; 125, 126 and "
        "127 are its own failure, a program that cannot be run and one that "
        "is not there.\n"
        ".SH FILES\n"
        ".TP\n.I .lapwing/runs\nwhere runs are kept\n"
        ".TP\n.I ~/.local/state/lapwing/history\nthe lines of the shell\n");
    *out = help.out;
}
