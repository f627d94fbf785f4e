/* The program: finds the command, gives it its options, says what went wrong.
 *
 * Everything that ends the program or writes to stderr is here. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/help.h"
#include "cmd/options.h"

/* Names in a sentence may hold any bytes: shown so that they cannot steer the
 * terminal or fake a second line. */
static void print_error(const struct lw_error *error)
{
    struct lw_error ignored;
    struct lw_buf line;

    lw_buf_init(&line, 0);
    lw_text_add_printable(&line, error->text, strlen(error->text));
    if (lw_buf_check(&line, &ignored))
        fprintf(stderr, "lapwing: %s\n", line.bytes);
    else
        fputs("lapwing: out of memory\n", stderr);
    lw_buf_release(&line);
}

static int run_command(const struct lw_command *command, int argc, char **argv,
                       struct lw_error *err)
{
    struct lw_parsed parsed;
    int code = LW_EXIT_FAILED;

    if (lw_options_parse(command, argc, argv, &parsed, err)) {
        if (!parsed.wants_help)
            code =
                command->run(parsed.args, parsed.operand_count, parsed.operands, err);
        else if (lw_help_print(command, err))
            code = LW_EXIT_DONE;
    }
    lw_parsed_release(command, &parsed);
    return code;
}

static int run_words(int argc, char **argv, struct lw_error *err)
{
    const struct lw_command *command;

    if (argc < 2)
        return lw_usage(err, "no command given; 'lapwing --help' lists them");
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return lw_help_print(NULL, err) ? LW_EXIT_DONE : LW_EXIT_FAILED;
    if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
        puts("lapwing " LW_VERSION);
        return LW_EXIT_DONE;
    }
    if (argv[1][0] == '-')
        return lw_usage(err, "there is no option %s before the command", argv[1]);
    if (!(command = lw_command_find(argv[1], err)))
        return LW_EXIT_USAGE;
    return run_command(command, argc - 2, argv + 2, err);
}

int main(int argc, char **argv)
{
    struct lw_error error = { LW_OK, "" };
    int code = run_words(argc, argv, &error);

    /* A full disk shows only when the last bytes leave. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && error.code == LW_OK) {
        lw_fail_errno(&error, "cannot write to standard output");
        if (code == LW_EXIT_DONE)
            code = LW_EXIT_FAILED;
    }
    if (error.code != LW_OK)
        print_error(&error);
    if (error.code == LW_ERR_USAGE && code == LW_EXIT_FAILED)
        code = LW_EXIT_USAGE;
    return code;
}
