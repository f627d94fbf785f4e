/* A command of the program, and the options it takes.
 *
 * A command is one .c file ending in one const struct lw_command, and one line
 * in commands.def. Its options are rows: each names a field of the command's
 * own `struct args`, and the framework fills a zeroed (or defaulted) copy before
 * it calls run(). The same rows make `lapwing CMD --help`.
 *
 *     struct args { const char *output; bool json; uint64_t max_bytes; };
 *
 *     #define OPT(letter, name, kind, field, arg, help) \
 *         { letter, name, kind, offsetof(struct args, field), arg, help }
 *
 *     static const struct lw_option options[] = {
 *         OPT('o', "output", LW_ARG_PATH, output, "FILE", "write to FILE"),
 *         OPT(0, "json", LW_ARG_FLAG, json, NULL, "print JSON"),
 *         LW_OPT_HEADING("Limits"),
 *         OPT(0, "max-size", LW_ARG_SIZE, max_bytes, "SIZE", "keep at most SIZE"),
 *         LW_OPT_END
 *     };
 *
 * Long names are matched exactly, never by prefix, so that an option added
 * later cannot change what a script meant. An option given twice takes its last
 * value, except a list, which keeps all. `--` ends the options. */

#ifndef LW_CMD_COMMAND_H
#define LW_CMD_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What an option takes, the type of its field, and what the field holds. All
 * text is borrowed from argv. */
enum lw_arg_kind {
    LW_ARG_END,      /* closes the rows */
    LW_ARG_HEADING,  /* no option: a title above the rows that follow, in help */
    LW_ARG_FLAG,     /* bool: true when given */
    LW_ARG_TEXT,     /* const char *: NULL when not given */
    LW_ARG_PATH,     /* the same of a file or folder, so never empty */
    LW_ARG_COUNT,    /* uint64_t: a decimal number */
    LW_ARG_SIZE,     /* uint64_t, bytes: 4096, 64K, 1.5G (powers of 1024) */
    LW_ARG_DURATION, /* uint64_t, ns: 250ns, 10us, 1.5ms, 2s, 3m, 1h; bare: s */
    LW_ARG_CHOICE,   /* unsigned: which word of `arg` ("text|json|csv"), from 0 */
    LW_ARG_MODE,     /* unsigned: --calls[=timeline|x]: 0 not given, 1 given
                        bare, 2 the first word of `arg`, 3 the second ... */
    LW_ARG_WORDS,    /* unsigned: --torch[=shapes,stack]: 0 not given, else bit 0, and
                        bit 1 for the first word of `arg` ("shapes,memory,stack"),
                        bit 2 for the second ...; given again, it adds */
    LW_ARG_LIST,     /* struct lw_arg_list: every value given, in order */
};

struct lw_arg_list {
    const char **texts; /* the framework frees the array after run() */
    size_t count;
};

struct lw_option {
    char letter;           /* short name; 0: none */
    const char *name;      /* long name, without the dashes */
    enum lw_arg_kind kind; /* also says the type of the field */
    size_t offset;         /* of the field in the command's args */
    const char *arg;       /* what help calls the value, or the words it may be */
    const char *help;      /* one phrase, lower case, no full stop; is wrapped */
};

/* clang-format off */
#define LW_OPT_HEADING(title) { 0, NULL, LW_ARG_HEADING, 0, NULL, title }
#define LW_OPT_END { 0, NULL, LW_ARG_END, 0, NULL, NULL }
/* clang-format on */

enum lw_exit {
    LW_EXIT_DONE = 0,
    LW_EXIT_FAILED = 1,
    LW_EXIT_USAGE = 2,
    LW_EXIT_REGRESSION = 3,   /* compare, log */
    LW_EXIT_RUN_FAILED = 125, /* `lapwing run` itself failed */
    LW_EXIT_CANNOT_RUN = 126, /* the program was found but could not be run */
    LW_EXIT_NOT_FOUND = 127,  /* no such program */
};

#define LW_ANY_NUMBER INT_MAX

/* An option of another tool, which people's fingers know. */
struct lw_habit {
    const char *option;  /* "--pid"; NULL closes the rows */
    const char *instead; /* what to type here */
};

struct lw_help;

struct lw_command {
    const char *name;        /* the word after `lapwing` */
    const char *summary;     /* one phrase for the list of commands */
    const char *usage;       /* "lapwing report [OPTIONS] [RUN|FILE] [VIEW...]";
                                several forms are parted by newlines */
    const char *description; /* paragraphs parted by an empty line, wrapped; a
                                line that starts with a space is kept as it is.
                                NULL: the usage and the options say all */

    /* Adds to --help what only the command knows, such as the formats in a .def
     * list: call lw_help_heading() and lw_help_row(). NULL: nothing. */
    void (*explain)(struct lw_help *help);

    size_t args_size;                /* sizeof(struct args); 0: no options */
    const void *defaults;            /* a struct args to start from; NULL: zeroes */
    const struct lw_option *options; /* up to LW_OPT_END; NULL: none */

    int operands_min;              /* operands are the words that are not options */
    int operands_max;              /* 0: takes none; LW_ANY_NUMBER: no limit */
    const struct lw_habit *habits; /* NULL: none */
    const char
        *instead;     /* of an internal command that another tool has by the same name:
                            the sentence for whoever typed it; NULL: none */
    bool is_internal; /* started by our own package: not in the list of help */
    bool in_shell;    /* typed there, with no `lapwing` before it */
    bool operand_ends_options; /* `lapwing run -o x train.py -v`: -v is train.py's */

    /* Does the work and returns the exit code. ARGS is the filled struct args;
     * ARGV holds the ARGC operands and then NULL. A command that fails fills ERR
     * and returns LW_EXIT_FAILED (or another code but 0): main() prints
     *
     *     lapwing: SENTENCE
     *
     * for any ERR that is set, so a command never prints errors itself. It
     * prints results on stdout; main() checks at the end that they got out. */
    int (*run)(const void *args, int argc, char **argv, struct lw_error *err);
};

/* May an option of KIND stand without a value, which then can only follow a '='? */
bool lw_arg_may_be_bare(enum lw_arg_kind kind);

/* Fill ERR with what was wrong with the command line, a sentence that names the
 * command ("compare needs two runs"), and return LW_EXIT_USAGE. */
int lw_usage(struct lw_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For explain(): a title, and a NAME with its SUMMARY in the aligned columns that
 * options have. */
void lw_help_heading(struct lw_help *help, const char *title);
void lw_help_row(struct lw_help *help, const char *name, const char *summary);

/* All commands, sorted by name, from commands.def. */
extern const struct lw_command *const lw_commands[];
extern const size_t lw_command_count;

#define LW_COMMAND(name) extern const struct lw_command lw_cmd_##name;
#include "cmd/commands.def"
#undef LW_COMMAND

#endif
