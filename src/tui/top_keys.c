/* Keys into choices. */

#include <string.h>

#include "base/text.h"
#include "tui/keys.h"
#include "tui/top.h"

#define GONE_NS 5000000000ull /* a thread that was not seen for so long has ended */

const struct lw_top_key lw_top_keys[] = {
    { "?", "help", "show what the keys do" },
    { "q", "quit", "quit" },
    { "s", "self", "sort by the time in the function itself" },
    { "t", "total", "sort by the time in it and in what it calls" },
    { "f", "func", "show functions" },
    { "l", "line", "show lines" },
    { "p", "proc", "show one process, the next one, all" },
    { "h", "thread", "show one thread, the next one, all" },
    { "/", "filter", "show what a regular expression finds in 'function file:line'" },
    { "space", "pause", "stop counting, and go on" },
    { "w", "time", "count time on a processor, time holding the GIL, all time" },
    { "a", "all", "sort by recent time, or by all time since the start" },
    { "r", "reset", "count from now on" },
    { "arrows, page up/down, home, end", NULL, "move through the rows" },
    { NULL, NULL, NULL },
};

/* Choices */

static bool is_alive(const struct lw_top *top, const struct lw_top_thread *thread)
{
    return thread->last_ns && top->now_ns - thread->last_ns < GONE_NS;
}

/* Processes are in the order in which their first threads were seen. */
static bool is_first_of_process(const struct lw_top *top, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (top->threads[i].pid == top->threads[index].pid &&
            is_alive(top, &top->threads[i]))
            return false;
    return is_alive(top, &top->threads[index]);
}

static void choose_process(struct lw_top *top)
{
    bool is_behind = top->pid == 0;
    pid_t next = 0;

    for (size_t i = 0; i < top->thread_count && !next; i++) {
        if (!is_first_of_process(top, i))
            continue;
        if (is_behind)
            next = top->threads[i].pid;
        else
            is_behind = top->threads[i].pid == top->pid;
    }
    top->pid = next;
    top->thread = 0;
}

static void choose_thread(struct lw_top *top)
{
    for (uint32_t i = top->thread; i < top->thread_count; i++)
        if (is_alive(top, &top->threads[i]) &&
            (!top->pid || top->threads[i].pid == top->pid)) {
            top->thread = i + 1;
            return;
        }
    top->thread = 0;
}

/* Names stay: what they cost is spent, and most come again. */
static void reset(struct lw_top *top)
{
    top->entry_count = 0;
    lw_map_reset(&top->by_key);
    top->samples = top->moving = top->folded = 0;
    top->gil_ns = top->elapsed_ns = top->recent_ns = 0;
}

/* The filter */

static bool take_filter(struct lw_top *top, struct lw_error *err)
{
    struct lw_pattern pattern = { 0 };
    struct lw_error bad;

    top->mode = LW_TOP_TABLE;
    if (top->typing.len && !lw_pattern_init(&pattern, top->typing.bytes, &bad)) {
        lw_buf_add_text(&top->message, bad.text);
        return lw_buf_check(&top->message, err);
    }
    lw_pattern_release(&top->pattern);
    top->pattern = pattern;
    lw_buf_reset(&top->filter);
    if (top->typing.len)
        lw_buf_add(&top->filter, top->typing.bytes, top->typing.len);
    return lw_buf_check(&top->filter, err);
}

static void take_back(struct lw_buf *text)
{
    while (text->len && (text->bytes[text->len - 1] & 0xc0) == 0x80)
        text->len--; /* the later bytes of a character */
    if (text->len)
        text->bytes[--text->len] = '\0';
}

static bool press_in_filter(struct lw_top *top, uint32_t key, struct lw_error *err)
{
    if (key == LW_KEY_ENTER)
        return take_filter(top, err);
    if (key == LW_KEY_ESCAPE)
        top->mode = LW_TOP_TABLE;
    else if (key == LW_KEY_BACKSPACE)
        take_back(&top->typing);
    else if (key >= ' ' && key < LW_KEY_NONE)
        lw_text_add_code(&top->typing, key);
    return lw_buf_check(&top->typing, err);
}

static bool begin_filter(struct lw_top *top, struct lw_error *err)
{
    top->mode = LW_TOP_FILTER;
    lw_buf_reset(&top->typing);
    if (top->filter.len)
        lw_buf_add(&top->typing, top->filter.bytes, top->filter.len);
    return lw_buf_check(&top->typing, err);
}

/* Keys */

static void move(struct lw_top *top, uint32_t key)
{
    size_t page = top->page ? top->page : 1;

    /* How far down there is something is seen when it is drawn. */
    if (key == LW_KEY_DOWN)
        top->first++;
    else if (key == LW_KEY_PAGE_DOWN)
        top->first += page;
    else if (key == LW_KEY_END)
        top->first = SIZE_MAX / 2;
    else if (key == LW_KEY_UP)
        top->first -= top->first > 0;
    else if (key == LW_KEY_PAGE_UP)
        top->first -= top->first < page ? top->first : page;
    else
        top->first = 0;
}

static bool press_in_table(struct lw_top *top, uint32_t key, struct lw_error *err)
{
    switch (key) {
    case 'q': top->has_quit = true; break;
    case 's':
    case 't': top->by_total = key == 't'; break;
    case 'f':
    case 'l': top->by_line = key == 'l'; break;
    case 'p': choose_process(top); break;
    case 'h': choose_thread(top); break;
    case 'w': top->time = (top->time + 1) % LW_TOP_TIMES; break;
    case '/': return begin_filter(top, err);
    case ' ': top->is_paused = !top->is_paused; break;
    case 'a': top->by_all = !top->by_all; break;
    case 'r': reset(top); break;
    case '?': top->mode = LW_TOP_HELP; return true;
    case LW_KEY_UP:
    case LW_KEY_DOWN:
    case LW_KEY_PAGE_UP:
    case LW_KEY_PAGE_DOWN:
    case LW_KEY_HOME:
    case LW_KEY_END: move(top, key); return true;
    default: return true;
    }
    top->first = 0; /* other rows, or another order: the first ones matter */
    return true;
}

bool lw_top_press(struct lw_top *top, uint32_t key, struct lw_error *err)
{
    if (key == LW_KEY_NONE)
        return true;
    lw_buf_reset(&top->message);
    if (top->mode == LW_TOP_FILTER)
        return press_in_filter(top, key, err);
    if (top->mode == LW_TOP_HELP) {
        top->mode = LW_TOP_TABLE;
        top->has_quit = key == 'q';
        return true;
    }
    return press_in_table(top, key, err);
}
