/* From the words of a command line to a command's struct args and its operands. */

#ifndef LW_CMD_OPTIONS_H
#define LW_CMD_OPTIONS_H

#include "cmd/command.h"

struct lw_parsed {
    void *args;        /* the command's filled struct args; owned */
    char **operands;   /* within the argv given, moved to its front, then NULL */
    int operand_count; /* between operands_min and operands_max */
    bool wants_help;   /* --help was met: the rest of the line was not looked at */
};

/* Parse the ARGC words after the command's name; ARGV[ARGC] must be NULL, and the
 * order of its words changes. Fails with LW_ERR_USAGE or LW_ERR_NOMEM. Release
 * PARSED either way. */
bool lw_options_parse(const struct lw_command *command, int argc, char **argv,
                      struct lw_parsed *parsed, struct lw_error *err) LW_MUST_CHECK;
void lw_parsed_release(const struct lw_command *command, struct lw_parsed *parsed);

/* "4096", "64K", "1.5G": bytes, in powers of 1024; false: not a size. */
bool lw_parse_size(const char *text, uint64_t *bytes);
/* "10us", "1.5ms", "2s", "3m"; a number alone is seconds; false: not a duration. */
bool lw_parse_duration(const char *text, uint64_t *ns);

#endif
