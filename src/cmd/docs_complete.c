/* Completion for bash, zsh and fish. What may stand behind an option or a command is
 * known by what its help calls it: FILE, FORMAT, KEY, VIEW, COMMAND, or the words of a
 * choice. */

#include <string.h>

#include "analyses/analysis.h"
#include "cmd/command.h"
#include "cmd/docs.h"
#include "writers/writer.h"

/* Append the words that ARG, of an option, may be, parted by spaces; none: any text. */
static void add_values(struct lw_buf *out, const struct lw_option *option)
{
    if (option->kind == LW_ARG_CHOICE || lw_arg_may_be_bare(option->kind)) {
        for (const char *p = option->arg; *p; p++)
            lw_buf_add_char(out, *p == '|' || *p == ',' ? ' ' : *p);
    } else if (option->arg && strcmp(option->arg, "FORMAT") == 0) {
        for (size_t i = 0; i < lw_writer_count; i++)
            lw_buf_addf(out, "%s%s", i ? " " : "", lw_writers[i]->name);
    } else if (option->arg && strcmp(option->arg, "KEY") == 0) {
        for (size_t i = 0; i < lw_sort_key_count; i++)
            lw_buf_addf(out, "%s%s", i ? " " : "", lw_sort_keys[i].name);
    }
}

static bool takes_value(const struct lw_option *option)
{
    return option->kind != LW_ARG_FLAG && !lw_arg_may_be_bare(option->kind);
}

static bool takes_file(const struct lw_option *option)
{
    return takes_value(option) && option->arg && strstr(option->arg, "FILE");
}

/* The same for the operands of a command. */
static void add_operands(struct lw_buf *out, const struct lw_command *command)
{
    if (strstr(command->usage, "VIEW"))
        for (size_t i = 0; i < lw_analysis_count; i++)
            lw_buf_addf(out, "%s%s", i ? " " : "", lw_analyses[i]->name);
    else if (strstr(command->usage, "[COMMAND]"))
        for (size_t i = 0, n = 0; i < lw_command_count; i++)
            if (!lw_commands[i]->is_internal)
                lw_buf_addf(out, "%s%s", n++ ? " " : "", lw_commands[i]->name);
}

/* The first row from ROW on that is an option; NULL: there is none. */
static const struct lw_option *next_option(const struct lw_option *row)
{
    while (row && row->kind == LW_ARG_HEADING)
        row++;
    return row && row->kind != LW_ARG_END ? row : NULL;
}

static const struct lw_option *first_option(const struct lw_command *command)
{
    return next_option(command->options);
}

/* TEXT within single quotes, in which all that a shell minds is a quote. ALSO: further
 * characters that want a backslash. */
static void add_quoted(struct lw_buf *out, const char *text, const char *also)
{
    for (; *text; text++) {
        if (*text == '\'')
            lw_buf_add_text(out, "'\\''");
        else if (strchr(also, *text))
            lw_buf_addf(out, "\\%c", *text);
        else
            lw_buf_add_char(out, *text);
    }
}

/* bash */

static void add_bash_command(struct lw_buf *out, const struct lw_command *command)
{
    lw_buf_addf(out, "    %s)\n        options=\"--help", command->name);
    for (const struct lw_option *option = first_option(command); option;
         option = next_option(option + 1))
        lw_buf_addf(out, " --%s", option->name);
    lw_buf_add_text(out, "\"\n        operands=\"");
    add_operands(out, command);
    lw_buf_add_text(out, "\"\n        ;;\n");
}

static void add_bash_values(struct lw_buf *out, const struct lw_command *command)
{
    for (const struct lw_option *option = first_option(command); option;
         option = next_option(option + 1)) {
        if (!takes_value(option))
            continue;
        lw_buf_addf(out, "    \"%s --%s\"", command->name, option->name);
        if (option->letter)
            lw_buf_addf(out, " | \"%s -%c\"", command->name, option->letter);
        lw_buf_add_text(out, ")\n        values=\"");
        add_values(out, option);
        lw_buf_addf(out, "\"\n        %s\n        ;;\n",
                    takes_file(option) ? "files=yes" : "files=");
    }
}

void lw_docs_add_bash(struct lw_buf *out)
{
    lw_buf_add_text(
        out, "# bash completion for lapwing; made by tools/docs.sh from the commands.\n"
             "# shellcheck shell=bash\n\n"
             "_lapwing() {\n"
             "    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
             "    local before=${COMP_WORDS[COMP_CWORD - 1]}\n"
             "    local commands=\"");
    for (size_t i = 0, n = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            lw_buf_addf(out, "%s%s", n++ ? " " : "", lw_commands[i]->name);
    lw_buf_add_text(
        out, "\"\n"
             "    local options=\"--help\" operands=\"\" values=none files=yes\n\n"
             "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
             "        mapfile -t COMPREPLY < <(compgen -W "
             "\"$commands --help --version\" -- \"$current\")\n"
             "        return\n"
             "    fi\n"
             "    case $command in\n");
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            add_bash_command(out, lw_commands[i]);
    lw_buf_add_text(out, "    esac\n    case \"$command $before\" in\n");
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            add_bash_values(out, lw_commands[i]);
    lw_buf_add_text(out, "    esac\n"
                         "    if [ \"$values\" != none ]; then\n"
                         "        operands=$values\n"
                         "    elif [[ $current == -* ]]; then\n"
                         "        operands=$options files=\n"
                         "    fi\n"
                         "    mapfile -t COMPREPLY < <(\n"
                         "        compgen -W \"$operands\" -- \"$current\"\n"
                         "        [ -n \"$files\" ] && compgen -f -- \"$current\"\n"
                         "    )\n"
                         "}\n"
                         "complete -o filenames -F _lapwing lapwing\n");
}

/* zsh */

static void add_zsh_option(struct lw_buf *out, const struct lw_option *option)
{
    bool may_be_bare = lw_arg_may_be_bare(option->kind);
    const char *equals = may_be_bare ? "=-" : takes_value(option) ? "=" : "";

    lw_buf_addf(out, "            %s", option->kind == LW_ARG_LIST ? "'*'" : "");
    if (option->letter)
        lw_buf_addf(out, "{-%c%s,--%s%s}", option->letter, *equals ? "+" : "",
                    option->name, equals);
    else
        lw_buf_addf(out, "--%s%s", option->name, equals);
    lw_buf_add_text(out, "'[");
    add_quoted(out, option->help, "[]:");
    lw_buf_add_char(out, ']');
    if (option->kind != LW_ARG_FLAG) {
        lw_buf_add_text(out, may_be_bare ? "::" : ":");
        add_quoted(out, option->arg, "[]:");
        lw_buf_add_char(out, ':');
        if (takes_file(option)) {
            lw_buf_add_text(out, "_files");
        } else {
            lw_buf_add_char(out, '(');
            add_values(out, option);
            lw_buf_add_char(out, ')');
        }
    }
    lw_buf_add_text(out, "' \\\n");
}

static void add_zsh_command(struct lw_buf *out, const struct lw_command *command)
{
    lw_buf_addf(out, "    %s)\n        operands=(", command->name);
    add_operands(out, command);
    lw_buf_add_text(out, ")\n        _arguments -s \\\n");
    for (const struct lw_option *option = first_option(command); option;
         option = next_option(option + 1))
        add_zsh_option(out, option);
    lw_buf_add_text(out, "            {-h,--help}'[print this help]' \\\n"
                         "            '*:operand:_lapwing_operands'\n        ;;\n");
}

void lw_docs_add_zsh(struct lw_buf *out)
{
    lw_buf_add_text(
        out,
        "#compdef lapwing\n"
        "# zsh completion for lapwing; made by tools/docs.sh from the commands.\n\n"
        "_lapwing_operands() {\n"
        "    (( $#operands )) && compadd -a operands\n"
        "    _files\n"
        "}\n\n"
        "_lapwing() {\n"
        "    local -a commands operands\n"
        "    commands=(\n");
    for (size_t i = 0; i < lw_command_count; i++) {
        if (lw_commands[i]->is_internal)
            continue;
        lw_buf_addf(out, "        '%s:", lw_commands[i]->name);
        add_quoted(out, lw_commands[i]->summary, ":");
        lw_buf_add_text(out, "'\n");
    }
    lw_buf_add_text(out, "    )\n"
                         "    if (( CURRENT == 2 )); then\n"
                         "        _describe command commands\n"
                         "        return\n"
                         "    fi\n"
                         "    shift words\n"
                         "    (( CURRENT-- ))\n"
                         "    case $words[1] in\n");
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            add_zsh_command(out, lw_commands[i]);
    lw_buf_add_text(out, "    esac\n"
                         "}\n\n"
                         "_lapwing \"$@\"\n");
}

/* fish */

static void add_fish_option(struct lw_buf *out, const struct lw_command *command,
                            const struct lw_option *option)
{
    lw_buf_addf(out, "complete -c lapwing -n '__fish_seen_subcommand_from %s'",
                command->name);
    if (option->letter)
        lw_buf_addf(out, " -s %c", option->letter);
    lw_buf_addf(out, " -l %s", option->name);
    if (takes_file(option)) {
        lw_buf_add_text(out, " -r -F");
    } else if (takes_value(option)) {
        lw_buf_add_text(out, " -x -a '");
        add_values(out, option);
        lw_buf_add_char(out, '\'');
    }
    lw_buf_add_text(out, " -d '");
    add_quoted(out, option->help, "");
    lw_buf_add_text(out, "'\n");
}

static void add_fish_command(struct lw_buf *out, const struct lw_command *command)
{
    struct lw_buf operands;

    lw_buf_addf(out, "\ncomplete -c lapwing -f -n __fish_use_subcommand -a %s -d '",
                command->name);
    add_quoted(out, command->summary, "");
    lw_buf_add_text(out, "'\n");
    for (const struct lw_option *option = first_option(command); option;
         option = next_option(option + 1))
        add_fish_option(out, command, option);
    lw_buf_init(&operands, 0);
    add_operands(&operands, command);
    if (operands.failure)
        out->failure = operands.failure;
    else if (operands.len > 0)
        lw_buf_addf(out,
                    "complete -c lapwing -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                    command->name, operands.bytes);
    lw_buf_release(&operands);
}

void lw_docs_add_fish(struct lw_buf *out)
{
    lw_buf_add_text(
        out,
        "# fish completion for lapwing; made by tools/docs.sh from the commands.\n\n"
        "complete -c lapwing -s h -l help -d 'print this help'\n"
        "complete -c lapwing -n __fish_use_subcommand -s V -l version "
        "-d 'print the version'\n");
    for (size_t i = 0; i < lw_command_count; i++)
        if (!lw_commands[i]->is_internal)
            add_fish_command(out, lw_commands[i]);
}
