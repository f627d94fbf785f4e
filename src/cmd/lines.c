/* libedit where both ends are a terminal, plain reading elsewhere. */

#include "cmd/lines.h"

#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#define HISTORY_LINES 1000
#define LINE_BYTES_MAX (1u << 20) /* of a script that may be no script at all */

struct lw_lines {
    lw_lines_complete *complete;
    void *context;      /* borrowed: the completer's */
    struct lw_buf line; /* the one being handed out */
    const char *prompt; /* borrowed while a line is read */
    EditLine *editor;   /* owned; NULL: no terminal */
    History *history;   /* owned; NULL: no terminal */
    char *history_path; /* owned; NULL: it is not kept */
};

/* Owned text, or NULL if there is no home to keep it in. */
static char *make_history_path(struct lw_error *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && *state;
    char *path = NULL;
    struct lw_buf folder;

    if (!has_state && (!home || !*home))
        return NULL;
    lw_buf_init(&folder, 0);
    lw_buf_addf(&folder, "%s%s/lapwing", has_state ? state : home,
                has_state ? "" : "/.local/state");
    if (lw_buf_check(&folder, err) && lw_file_make_folders(folder.bytes, err))
        path = lw_path_join(folder.bytes, "history", err);
    lw_buf_release(&folder);
    return path;
}

static struct lw_lines *lines_of(EditLine *editor)
{
    struct lw_lines *lines = NULL;

    el_get(editor, EL_CLIENTDATA, &lines);
    return lines;
}

static char *show_prompt(EditLine *editor)
{
    return (char *)lines_of(editor)->prompt;
}

/* How many of the words there are, and in *SHARED how many bytes all begin with. */
static size_t count_words(const struct lw_buf *words, size_t *shared)
{
    size_t count = 0;

    *shared = 0;
    for (const char *p = words->bytes; p && *p; count++) {
        size_t len = strcspn(p, "\n"), same = 0;

        if (count == 0)
            *shared = len;
        while (same < *shared && same < len && words->bytes[same] == p[same])
            same++;
        *shared = same;
        p += len + 1;
    }
    return count;
}

static void show_words(const struct lw_buf *words)
{
    struct lw_buf shown; /* names of files may hold anything */

    lw_buf_init(&shown, 0);
    putchar('\n');
    for (const char *p = words->bytes; *p;) {
        size_t len = strcspn(p, "\n");

        lw_text_add_printable(&shown, p, len);
        lw_buf_add_text(&shown, "  ");
        p += len + 1;
    }
    if (!shown.failure && shown.len)
        fwrite(shown.bytes, 1, shown.len, stdout);
    lw_buf_release(&shown);
    putchar('\n');
    fflush(stdout);
}

/* Put in what all candidates go on with; if that is nothing, show them. */
static unsigned char insert_words(EditLine *editor, const struct lw_buf *words,
                                  size_t word_len)
{
    size_t shared, count = count_words(words, &shared);
    char more[256]; /* of one word; a longer one is completed by two presses */

    if (count == 0)
        return CC_ERROR;
    if (count > 1 && shared <= word_len) {
        show_words(words);
        return CC_REDISPLAY;
    }
    snprintf(more, sizeof(more), "%.*s%s", (int)(shared - word_len),
             words->bytes + word_len,
             count == 1 && words->bytes[shared - 1] != '/' ? " " : "");
    return el_insertstr(editor, more) < 0 ? CC_ERROR : CC_REFRESH;
}

static unsigned char complete_word(EditLine *editor, int key)
{
    struct lw_lines *lines = lines_of(editor);
    const LineInfo *at = el_line(editor);
    size_t len = (size_t)(at->cursor - at->buffer);
    size_t word = len;
    struct lw_buf line, words;
    unsigned char what = CC_ERROR;

    (void)key;
    while (word > 0 && at->buffer[word - 1] != ' ')
        word--;
    lw_buf_init(&line, 0);
    lw_buf_init(&words, 0);
    lw_buf_add(&line, at->buffer, len);
    if (!line.failure) {
        lines->complete(lines->context, line.bytes, word, line.bytes + word, &words);
        if (!words.failure)
            what = insert_words(editor, &words, len - word);
    }
    lw_buf_release(&line);
    lw_buf_release(&words);
    return what;
}

static bool open_editor(struct lw_lines *lines, struct lw_error *err)
{
    struct lw_error ignored; /* no history is no reason not to start */
    HistEvent event;

    lines->editor = el_init("lapwing", stdin, stdout, stderr);
    lines->history = history_init();
    if (!lines->editor || !lines->history)
        return lw_fail(err, LW_ERR_NOMEM, "out of memory for editing lines");
    history(lines->history, &event, H_SETSIZE, HISTORY_LINES);
    history(lines->history, &event, H_SETUNIQUE, 1);
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_PROMPT, show_prompt);
    el_set(lines->editor, EL_SIGNAL, 1); /* leaves the terminal as it was */
    el_set(lines->editor, EL_EDITOR, "emacs");
    el_set(lines->editor, EL_HIST, history, lines->history);
    el_set(lines->editor, EL_ADDFN, "complete", "complete a word", complete_word);
    el_set(lines->editor, EL_BIND, "^I", "complete", NULL);
    el_source(lines->editor, NULL); /* the person's .editrc */
    lines->history_path = make_history_path(&ignored);
    if (lines->history_path)
        history(lines->history, &event, H_LOAD, lines->history_path);
    return true;
}

struct lw_lines *lw_lines_open(lw_lines_complete *complete, void *context,
                               struct lw_error *err)
{
    struct lw_lines *lines = lw_zalloc(1, sizeof(*lines), err);

    if (!lines)
        return NULL;
    lines->complete = complete;
    lines->context = context;
    lw_buf_init(&lines->line, LINE_BYTES_MAX);
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !open_editor(lines, err)) {
        lw_lines_close(lines);
        return NULL;
    }
    return lines;
}

void lw_lines_close(struct lw_lines *lines)
{
    HistEvent event;

    if (!lines)
        return;
    if (lines->history && lines->history_path)
        history(lines->history, &event, H_SAVE, lines->history_path);
    if (lines->history)
        history_end(lines->history);
    if (lines->editor)
        el_end(lines->editor);
    lw_free(lines->history_path);
    lw_buf_release(&lines->line);
    lw_free(lines);
}

/* From a terminal; false: the end. */
static bool edit_line(struct lw_lines *lines)
{
    HistEvent event;
    int len = 0;
    const char *text;

    text = el_gets(lines->editor, &len);
    if (!text || len <= 0)
        return false;
    if (text[strspn(text, " \t\n")])
        history(lines->history, &event, H_ENTER, text);
    lw_buf_add(&lines->line, text,
               text[len - 1] == '\n' ? (size_t)len - 1 : (size_t)len);
    return true;
}

/* From anything else; false: the end. */
static bool read_line(struct lw_lines *lines)
{
    int c;

    fputs(lines->prompt, stdout);
    fflush(stdout);
    c = getchar();
    if (c == EOF)
        return false;
    for (; c != EOF && c != '\n'; c = getchar())
        lw_buf_add_char(&lines->line, (char)c);
    return true;
}

bool lw_lines_read(struct lw_lines *lines, const char *prompt, char **line,
                   struct lw_error *err)
{
    lw_buf_reset(&lines->line);
    lw_buf_add(&lines->line, "", 0); /* an empty line is bytes, too */
    lines->prompt = prompt;
    *line = NULL;
    if (!(lines->editor ? edit_line(lines) : read_line(lines)))
        return true;
    if (!lw_buf_check(&lines->line, err))
        return false;
    *line = lines->line.bytes;
    return true;
}
