/* lapwing shell: pstats' browser, over every profile we can read, and with every view
 * beside its commands.
 *
 * What `python -m pstats` knows is done and printed as it does, after Lib/pstats.py and
 * Lib/cmd.py of CPython 3.11, so that habits and scripts go on working: an empty line
 * repeats the last command, sorting is forgotten when something is added or stripped, a
 * file that is added after `strip` keeps its folders. Views are in shell_view.c. */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyses/analysis.h"
#include "base/alloc.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/latest.h"
#include "cmd/lines.h"
#include "cmd/profiles.h"
#include "cmd/shell_view.h"
#include "model/merge.h"
#include "readers/reader.h"
#include "writers/pstats_text.h"

#define HELP_WIDTH 79 /* of cmd.Cmd */

struct session {
    struct lw_profile *profile; /* owned; NULL: nothing was read yet */
    struct lw_buf name;         /* of what was read, as the person called it */
    struct lw_buf head;         /* the lines that name the files, for pstats' text */
    struct lw_buf last;         /* the last command, for an empty line */
    struct lw_shell_order order;
    bool is_over;
};

/* A command of the browser. ARG is the rest of the line, stripped; it may be written to.
 * What a person did wrong is printed; false is for what ends the shell. */
struct word {
    const char *name;
    bool (*run)(struct session *session, char *arg, struct lw_error *err);
    const char *help;
};

/* Print a line with a name in it that came from a person or a file. Fails only without
 * memory. */
static bool say(struct lw_error *err, const char *before, const char *name)
{
    struct lw_buf line;
    bool done;

    lw_buf_init(&line, 0);
    lw_buf_add_text(&line, before);
    lw_text_add_printable(&line, name, strlen(name));
    done = lw_buf_check(&line, err);
    if (done)
        puts(line.bytes);
    lw_buf_release(&line);
    return done;
}

/* Print why something failed and go on, unless memory ran out. */
static bool go_on(const struct lw_error *why, struct lw_error *err)
{
    if (why->code == LW_ERR_NOMEM)
        return lw_fail(err, LW_ERR_NOMEM, "%s", why->text);
    return say(err, "", why->text);
}

static bool is_loaded(const struct session *session)
{
    if (!session->profile)
        puts("No statistics object is loaded.");
    return session->profile != NULL;
}

/* Reading */

/* With all that any view looks at; NULL is the latest run. */
static struct lw_profile *open_profile(char *name, struct lw_error *err)
{
    unsigned want = 0;

    for (size_t i = 0; i < lw_analysis_count; i++)
        want |= lw_analyses[i]->want | lw_analyses[i]->deep_want;
    return lw_profiles_open(&name, name ? 1 : 0, want, NULL, err);
}

/* What the system says of a file that cannot be read and is no run either, as errno
 * would; 0: it is there. Fails only without memory. */
static bool find_fault(const char *name, int *fault, struct lw_error *err)
{
    bool exists = false;

    *fault = access(name, R_OK) == 0 ? 0 : errno;
    if (*fault == 0 || !*name)
        return true;
    if (!lw_profile_exists(name, LW_RUN_BY_ALL, &exists, err))
        return false;
    if (exists)
        *fault = 0;
    return true;
}

static void forget_order(struct session *session)
{
    session->order.key_count = 0;
    session->order.reverse = false;
}

/* From now on PROFILE, which becomes the session's, is what commands are about. */
static bool take_profile(struct session *session, const char *name,
                         struct lw_profile *profile, struct lw_error *err)
{
    lw_profile_free(session->profile);
    session->profile = profile;
    session->order.strip = false;
    forget_order(session);
    lw_buf_reset(&session->head);
    lw_profiles_add_head(&session->head, name, profile);
    lw_buf_reset(&session->name);
    lw_buf_add_text(&session->name, name);
    return lw_buf_check(&session->head, err) && lw_buf_check(&session->name, err);
}

static bool read_profile(struct session *session, char *name, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_profile *profile;
    int fault;

    if (!find_fault(name, &fault, err))
        return false;
    if (fault) {
        puts(strerror(fault));
        return true;
    }
    profile = open_profile(name, &why);
    return profile ? take_profile(session, name, profile, err) : go_on(&why, err);
}

static bool do_read(struct session *session, char *arg, struct lw_error *err)
{
    char *name;
    bool done;

    if (*arg)
        return read_profile(session, arg, err);
    if (session->name.len == 0) {
        puts("No statistics object is current -- cannot reload.");
        return true;
    }
    name = lw_copy_text(session->name.bytes, session->name.len, err);
    done = name && read_profile(session, name, err);
    lw_free(name);
    return done;
}

/* The run that was recorded last, if there is one. */
static bool read_latest(struct session *session, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_profile *profile = open_profile(NULL, &why);
    const char *run = profile ? lw_profile_fact(profile, "run") : NULL;

    if (run)
        return take_profile(session, run, profile, err);
    lw_profile_free(profile);
    return why.code == LW_OK || why.code == LW_ERR_USAGE || go_on(&why, err);
}

/* Make what was stripped the profile itself: what is added from now on is not. A tree
 * would be lost by that, so there the folders go from what is added, too. */
static bool bake_strip(struct session *session, struct lw_error *err)
{
    struct lw_profile *stripped = NULL;
    struct lw_callgraph graph;
    struct lw_builder *builder;

    if (!session->order.strip ||
        lw_callgraph_source(session->profile) != LW_GRAPH_GIVEN)
        return true;
    builder = lw_builder_new(err);
    if (!builder)
        return false;
    if (lw_callgraph_init(&graph, session->profile, LW_GRAPH_GIVEN, NULL, err) &&
        lw_callgraph_strip(&graph, LW_STRIP_AS_PSTATS, err) &&
        lw_builder_add_graph(builder, &graph, err))
        stripped = lw_builder_finish(builder, err);
    else
        lw_builder_free(builder);
    lw_callgraph_release(&graph);
    if (!stripped)
        return false;
    lw_profile_free(session->profile);
    session->profile = stripped;
    session->order.strip = false;
    return true;
}

static bool add_profile(struct session *session, const char *name,
                        const struct lw_profile *profile, struct lw_error *err)
{
    const struct lw_profile *both[2] = { NULL, profile };
    struct lw_profile *merged;

    if (!bake_strip(session, err))
        return false;
    both[0] = session->profile;
    merged = lw_profile_merge(both, 2, err);
    if (!merged)
        return false;
    lw_profile_free(session->profile);
    session->profile = merged;
    forget_order(session);
    lw_profiles_add_head(&session->head, name, profile);
    return lw_buf_check(&session->head, err);
}

/* As Python words an OSError. */
static bool say_missing(const char *name, int error, struct lw_error *err)
{
    struct lw_buf text;
    bool done;

    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "%s: [Errno %d] %s: ", name, error, strerror(error));
    lw_pstats_add_repr(&text, name);
    done = lw_buf_check(&text, err) &&
           say(err, "Failed to load statistics for ", text.bytes);
    lw_buf_release(&text);
    return done;
}

static bool do_add(struct session *session, char *arg, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    struct lw_profile *profile;
    bool done;
    int fault;

    if (!is_loaded(session))
        return true;
    if (!find_fault(arg, &fault, err))
        return false;
    if (fault)
        return say_missing(arg, fault, err);
    profile = open_profile(arg, &why);
    if (!profile)
        return go_on(&why, err);
    done = add_profile(session, arg, profile, err);
    lw_profile_free(profile);
    return done;
}

/* Asking */

/* As pstats: a fraction over 1 is said and left out, what is no pattern is said in the
 * listing. */
static bool add_pstats_word(struct lw_query *query, const char *word,
                            struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };
    double fraction;
    int64_t count;

    if (lw_text_i64(word, strlen(word), &count))
        return lw_query_add_count(query, count, err);
    if (lw_text_double(word, strlen(word), &fraction) &&
        (fraction < 0 || fraction > 1)) {
        puts("Fraction argument must be in [0, 1]");
        return true;
    }
    if (lw_query_add_word(query, word, &why))
        return true;
    if (why.code == LW_ERR_NOMEM)
        return lw_fail(err, why.code, "%s", why.text);
    query->restriction_count--; /* the one that could not be made */
    return lw_query_add_invalid(query, word, err);
}

static bool print_part(const struct session *session, enum lw_pstats_part part,
                       const struct lw_query *query, struct lw_error *err)
{
    struct lw_selection selection = { 0 };
    struct lw_callgraph graph;
    struct lw_buf out;
    bool done;

    lw_buf_init(&out, 0);
    done = lw_query_graph(query, session->profile, &graph, err) &&
           lw_query_select(query, &graph, &selection, err) &&
           lw_pstats_print(part, &graph, query, &selection,
                           session->head.len ? session->head.bytes : NULL, &out, err);
    if (done && out.len > 0) /* pstats may have nothing to say */
        fwrite(out.bytes, 1, out.len, stdout);
    lw_buf_release(&out);
    lw_selection_release(&selection);
    lw_callgraph_release(&graph);
    return done;
}

static bool ask_as_pstats(struct session *session, enum lw_pstats_part part, char *arg,
                          struct lw_error *err)
{
    struct lw_query query;
    const char *word;
    bool done = true;

    lw_query_init(&query);
    while (done && (word = lw_shell_next_word(&arg)) != NULL)
        done = add_pstats_word(&query, word, err);
    if (done && is_loaded(session)) {
        lw_shell_set_order(&session->order, &query);
        query.strip = session->order.strip;
        query.how_strip = LW_STRIP_AS_PSTATS;
        done = print_part(session, part, &query, err);
    }
    lw_query_release(&query);
    return done;
}

static bool do_stats(struct session *session, char *arg, struct lw_error *err)
{
    return ask_as_pstats(session, LW_PSTATS_STATS, arg, err);
}

static bool do_callers(struct session *session, char *arg, struct lw_error *err)
{
    return ask_as_pstats(session, LW_PSTATS_CALLERS, arg, err);
}

static bool do_callees(struct session *session, char *arg, struct lw_error *err)
{
    return ask_as_pstats(session, LW_PSTATS_CALLEES, arg, err);
}

static bool show_view(struct session *session, const struct lw_analysis *view,
                      char *arg, struct lw_error *err)
{
    struct lw_error why = { LW_OK, "" };

    return !is_loaded(session) ||
           lw_shell_show_view(session->profile, view, &session->order, arg, &why) ||
           go_on(&why, err);
}

/* Order */

/* pstats' browser knows names and abbreviations, but not the old numbers. */
static const struct lw_sort_key *find_key(const char *word)
{
    return isalpha((unsigned char)word[0]) ? lw_sort_key_find(word, NULL) : NULL;
}

static bool do_sort(struct session *session, char *arg, struct lw_error *err)
{
    const struct lw_sort_key *keys[LW_QUERY_KEYS_MAX];
    size_t count = 0;
    const char *word;
    bool good = *arg != '\0';

    (void)err;
    if (!is_loaded(session))
        return true;
    while (good && (word = lw_shell_next_word(&arg)) != NULL) {
        good = count < LW_QUERY_KEYS_MAX && (keys[count] = find_key(word)) != NULL;
        count++;
    }
    if (!good) {
        puts("Valid sort keys (unique prefixes are accepted):");
        for (size_t i = 0; i < lw_sort_key_count; i++)
            printf("%s -- %s\n", lw_sort_keys[i].name, lw_sort_keys[i].title);
        return true;
    }
    memcpy(session->order.keys, keys, count * sizeof(*keys));
    session->order.key_count = count;
    session->order.reverse = false;
    return true;
}

static bool do_reverse(struct session *session, char *arg, struct lw_error *err)
{
    (void)arg;
    (void)err;
    if (is_loaded(session) && session->order.key_count > 0)
        session->order.reverse = !session->order.reverse;
    return true;
}

static bool do_strip(struct session *session, char *arg, struct lw_error *err)
{
    (void)arg;
    (void)err;
    if (is_loaded(session)) {
        session->order.strip = true;
        forget_order(session);
    }
    return true;
}

/* The end */

static bool do_quit(struct session *session, char *arg, struct lw_error *err)
{
    (void)arg;
    (void)err;
    session->is_over = true;
    return true;
}

static bool do_eof(struct session *session, char *arg, struct lw_error *err)
{
    putchar('\n');
    return do_quit(session, arg, err);
}

/* Help */

#define ARGUMENTS_HELP \
    "Arguments may be:\n" \
    "* An integer maximum number of entries to print.\n" \
    "* A decimal fractional number between 0 and 1, controlling\n" \
    "  what fraction of selected entries to print.\n" \
    "* A regular expression; only entries with function names\n" \
    "  that match it are printed."

static bool do_help(struct session *session, char *arg, struct lw_error *err);

/* Sorted, as help lists them. */
static const struct word words[] = {
    { "EOF", do_eof, "Leave the profile browser." },
    { "add", do_add, "Add profile info from given file to current statistics object." },
    { "callees", do_callees,
      "Print callees statistics from the current stat object.\n" ARGUMENTS_HELP },
    { "callers", do_callers,
      "Print callers statistics from the current stat object.\n" ARGUMENTS_HELP },
    { "help", do_help, "Show help for a given command." },
    { "quit", do_quit, "Leave the profile browser." },
    { "read", do_read,
      "Read in profile data from a specified file.\n"
      "Without argument, reload the current file." },
    { "reverse", do_reverse, "Reverse the sort order of the profiling report." },
    { "sort", do_sort,
      "Sort profile data according to specified keys.\n"
      "(Typing `sort' without arguments lists valid keys.)" },
    { "stats", do_stats,
      "Print statistics from the current stat object.\n" ARGUMENTS_HELP },
    { "strip", do_strip,
      "Strip leading path information from filenames in the report." },
};
static const size_t word_count = sizeof(words) / sizeof(words[0]);

static const struct word *find_word(const char *name)
{
    for (size_t i = 0; i < word_count; i++)
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    return NULL;
}

/* A view that is not also a command of pstats', which goes before it. */
static const struct lw_analysis *find_view(const char *name)
{
    return find_word(name) ? NULL : lw_analysis_find(name);
}

/* NAME behind the others, on a line of its own if it does not fit. */
static void print_topic(const char *name, size_t *column)
{
    size_t len = strlen(name);

    if (*column > 0 && *column + 2 + len > HELP_WIDTH) {
        putchar('\n');
        *column = 0;
    }
    printf("%s%s", *column ? "  " : "", name);
    *column += len + (*column ? 2 : 0);
}

static void print_topics(void)
{
    size_t column = 0;

    puts("\nDocumented commands (type help <topic>):\n"
         "========================================");
    for (size_t i = 0; i < word_count; i++)
        print_topic(words[i].name, &column);
    puts("\n\n"
         "Views, as lapwing report prints them (type help <topic>):\n"
         "=========================================================");
    column = 0;
    for (size_t i = 0; i < lw_analysis_count; i++)
        if (!find_word(lw_analyses[i]->name))
            print_topic(lw_analyses[i]->name, &column);
    puts("\n");
}

static bool do_help(struct session *session, char *arg, struct lw_error *err)
{
    const struct word *word = find_word(arg);
    const struct lw_analysis *view = find_view(arg);

    (void)session;
    if (!*arg)
        print_topics();
    else if (word)
        puts(word->help);
    else if (view)
        printf("Show %s.\n%sOptions are those of 'lapwing report': '%s --help' lists "
               "them.\n",
               view->summary, view->takes_restrictions ? ARGUMENTS_HELP "\n" : "",
               view->name);
    else
        return say(err, "*** No help on ", arg);
    return true;
}

/* Lines */

/* TEXT without the space around it, ended in place. */
static char *strip_space(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Do what LINE says, which is neither empty nor "!...". */
static bool do_line(struct session *session, char *line, struct lw_error *err)
{
    const struct lw_analysis *view;
    const struct word *word;
    char name[32]; /* longer than any command */
    size_t len = 0;
    char *arg;

    while (isalnum((unsigned char)line[len]) || line[len] == '_')
        len++;
    snprintf(name, sizeof(name), "%.*s", (int)len, line);
    word = find_word(name);
    view = find_view(name);
    if (!word && !view)
        return say(err, "*** Unknown syntax: ", line);
    arg = strip_space(line + len);
    return word ? word->run(session, arg, err) : show_view(session, view, arg, err);
}

/* An empty line is the last command again, "?x" is "help x". */
static bool do_input(struct session *session, char *input, struct lw_error *err)
{
    char *line = strip_space(input);
    struct lw_buf copy;
    bool done;

    if (line[0] == '!')
        return say(err, "*** Unknown syntax: ", line);
    if (*line) {
        lw_buf_reset(&session->last);
        lw_buf_addf(&session->last, "%s%s", line[0] == '?' ? "help " : "",
                    line + (line[0] == '?'));
    }
    if (!lw_buf_check(&session->last, err))
        return false;
    if (session->last.len == 0)
        return true;
    lw_buf_init(&copy, 0); /* a command may write to its line */
    lw_buf_add(&copy, session->last.bytes, session->last.len);
    done = lw_buf_check(&copy, err) && do_line(session, copy.bytes, err);
    lw_buf_release(&copy);
    return done;
}

/* Completion */

static void offer(struct lw_buf *out, const char *name, const char *word)
{
    if (strncmp(name, word, strlen(word)) == 0)
        lw_buf_addf(out, "%s\n", name);
}

static void offer_commands(struct lw_buf *out, const char *word)
{
    for (size_t i = 0; i < word_count; i++)
        offer(out, words[i].name, word);
    for (size_t i = 0; i < lw_analysis_count; i++)
        if (!find_word(lw_analyses[i]->name))
            offer(out, lw_analyses[i]->name, word);
}

static void offer_options(struct lw_buf *out, const char *word)
{
    char name[32]; /* longer than any option's */

    for (const struct lw_option *o = lw_shell_view_options; o->kind != LW_ARG_END; o++)
        if (o->name) {
            snprintf(name, sizeof(name), "--%s", o->name);
            offer(out, name, word);
        }
}

/* Files and folders whose path goes on from WORD; hidden ones only when asked for. */
static void offer_files(struct lw_buf *out, const char *word)
{
    const char *base = lw_text_basename(word);
    struct lw_buf path;
    struct dirent *entry;
    DIR *folder;

    lw_buf_init(&path, 0);
    lw_buf_add(&path, word, (size_t)(base - word));
    if (path.failure)
        return;
    folder = opendir(path.len ? path.bytes : ".");
    while (folder && (entry = readdir(folder)) != NULL) {
        if (!lw_text_starts(entry->d_name, base) ||
            (entry->d_name[0] == '.' && base[0] != '.'))
            continue;
        lw_buf_addf(
            out, "%.*s%s%s\n", (int)(base - word), word, entry->d_name,
            entry->d_type == DT_DIR && !lw_text_ends(entry->d_name, ".lap") ? "/" : "");
    }
    if (folder)
        closedir(folder);
    lw_buf_release(&path);
}

/* Does LINE begin with the name of a view and something behind it? */
static bool is_of_view(const char *line)
{
    char name[32]; /* longer than any view's */

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, " "), line);
    return line[strlen(name)] == ' ' && find_view(name);
}

static void complete(void *context, const char *line, size_t len, const char *word,
                     struct lw_buf *out)
{
    (void)context;
    if (len == 0 || strncmp(line, "help ", 5) == 0)
        offer_commands(out, word);
    else if (strncmp(line, "sort ", 5) == 0)
        for (size_t i = 0; i < lw_sort_key_count; i++)
            offer(out, lw_sort_keys[i].name, word);
    else if (strncmp(line, "read ", 5) == 0 || strncmp(line, "add ", 4) == 0)
        offer_files(out, word);
    else if (word[0] == '-' && is_of_view(line))
        offer_options(out, word);
}

/* The loop */

static bool read_first(struct session *session, int argc, char **argv,
                       struct lw_error *err)
{
    if (argc == 0)
        return lw_latest_warn(NULL, err) && read_latest(session, err);
    if (!read_profile(session, argv[0], err))
        return false;
    for (int i = 1; i < argc; i++)
        if (!do_add(session, argv[i], err))
            return false;
    return true;
}

static bool serve(struct session *session, struct lw_lines *lines, struct lw_error *err)
{
    struct lw_buf prompt;
    bool done = true;

    lw_buf_init(&prompt, 0);
    while (done && !session->is_over) {
        char end[] = "EOF";
        char *line = NULL;

        lw_buf_reset(&prompt);
        lw_text_add_printable(&prompt, session->name.bytes, session->name.len);
        lw_buf_add_text(&prompt, "% ");
        done = lw_buf_check(&prompt, err) &&
               lw_lines_read(lines, prompt.bytes, &line, err) &&
               do_input(session, line ? line : end, err);
    }
    lw_buf_release(&prompt);
    return done;
}

static int run(const void *args, int argc, char **argv, struct lw_error *err)
{
    struct session session = { 0 };
    struct lw_lines *lines = NULL;
    bool done;

    (void)args;
    lw_buf_init(&session.name, 0);
    lw_buf_init(&session.head, 0);
    lw_buf_init(&session.last, 0);
    done = read_first(&session, argc, argv, err);
    if (done) {
        puts("Welcome to the profile statistics browser.");
        lines = lw_lines_open(complete, NULL, err);
        done = lines && serve(&session, lines, err);
    }
    if (done)
        puts("Goodbye.");
    lw_lines_close(lines);
    lw_profile_free(session.profile);
    lw_buf_release(&session.name);
    lw_buf_release(&session.head);
    lw_buf_release(&session.last);
    return done ? LW_EXIT_DONE : LW_EXIT_FAILED;
}

const struct lw_command lw_cmd_shell = {
    .name = "shell",
    .summary = "browse profiles as with 'python -m pstats', and more",
    .usage = "lapwing shell [RUN|FILE...]",
    .description =
        "Opens a run (the latest, if none is named) or any file of a known format and "
        "takes the commands of pstats' browser: read, add, sort, reverse, strip, stats, "
        "callers, callees, help, quit, with the same restrictions; and every view of "
        "'lapwing report' by its name, with its options. Several files are added up.\n\n"
        "At a terminal there are a history and completion with Tab; a script on "
        "standard input works as well.",
    .operands_max = LW_ANY_NUMBER,
    .run = run,
};
