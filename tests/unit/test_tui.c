#include "test.h"

#include "base/alloc.h"
#include "tui/keys.h"
#include "tui/screen.h"

static uint32_t key_of(const char *bytes, size_t *used, bool is_all)
{
    uint32_t key = 0;

    *used = lw_key_decode((const unsigned char *)bytes, strlen(bytes), is_all, &key);
    return key;
}

TEST(keys_are_told_by_their_bytes)
{
    static const struct {
        const char *bytes;
        size_t used;
        uint32_t key;
    } keys[] = {
        { "q", 1, 'q' },
        { "qx", 1, 'q' },
        { "\r", 1, LW_KEY_ENTER },
        { "\x7f", 1, LW_KEY_BACKSPACE },
        { "\xc3\xb6", 2, 0xf6 },
        { "\xff", 1, LW_KEY_NONE },
        { "\033[A", 3, LW_KEY_UP },
        { "\033OB", 3, LW_KEY_DOWN },
        { "\033[1;5C", 6, LW_KEY_RIGHT },
        { "\033[5~", 4, LW_KEY_PAGE_UP },
        { "\033[6~q", 4, LW_KEY_PAGE_DOWN },
        { "\033[15~", 5, LW_KEY_NONE }, /* F5 is not page up */
        { "\033[1~", 4, LW_KEY_HOME },
        { "\033[8~", 4, LW_KEY_END },
        { "\033[H", 3, LW_KEY_HOME },
        { "\033[F", 3, LW_KEY_END },
        { "\033[<0;10;10M", 11, LW_KEY_NONE }, /* a mouse */
        { "\033q", 1, LW_KEY_ESCAPE },
    };
    size_t used;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        CHECK_EQ(key_of(keys[i].bytes, &used, false), keys[i].key);
        CHECK_EQ(used, keys[i].used);
    }
}

TEST(a_key_that_is_not_whole_is_waited_for)
{
    static const char *const parts[] = {
        "", "\033", "\033[", "\033[1;", "\033O", "\xc3"
    };
    size_t used;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        CHECK_EQ(key_of(parts[i], &used, false), LW_KEY_NONE);
        CHECK_EQ(used, 0);
    }
    CHECK_EQ(key_of("\033", &used, true), LW_KEY_ESCAPE);
    CHECK_EQ(used, 1);
    CHECK_EQ(key_of("\033[1", &used, true), LW_KEY_NONE);
    CHECK_EQ(used, 3);
    CHECK_EQ(key_of("\xc3", &used, true), LW_KEY_NONE);
    CHECK_EQ(used, 1);
}

TEST(noise_without_end_is_taken_away)
{
    char noise[65] = "\033[";
    size_t used;

    memset(noise + 2, '1', sizeof(noise) - 3);
    CHECK_EQ(key_of(noise, &used, false), LW_KEY_NONE);
    CHECK_EQ(used, 64);
}

static void add(struct lw_screen *screen, enum lw_screen_style style, const char *text)
{
    lw_screen_add(screen, style, text, strlen(text));
}

static void check_text(void (*show)(const struct lw_screen *, struct lw_buf *),
                       const struct lw_screen *screen, const char *want)
{
    struct lw_buf out;

    lw_buf_init(&out, 0);
    show(screen, &out);
    CHECK_STR(out.bytes, want);
    lw_buf_release(&out);
}

TEST(rows_are_cut_to_the_width_and_the_height)
{
    struct lw_screen screen;

    lw_screen_init(&screen);
    lw_screen_reset(&screen, 3, 6);
    add(&screen, LW_SCREEN_PLAIN, "forward and back");
    add(&screen, LW_SCREEN_PLAIN,
        "gr\xc3\xb6\xc3\x9f"
        "en   ");
    lw_screen_addf(&screen, LW_SCREEN_PLAIN, "%s",
                   "\xe6\xbc\xa2\xe5\xad\x97 \xe6\xbc"
                   "\xa2\xe5\xad\x97");
    add(&screen, LW_SCREEN_PLAIN, "one too many");
    check_text(lw_screen_add_plain, &screen,
               "forwar\ngr\xc3\xb6\xc3\x9f"
               "en\n\xe6\xbc\xa2\xe5\xad\x97\n"); /* half a wide one does not fit */
    lw_screen_reset(&screen, 2, 10);
    lw_screen_add_lines(&screen, LW_SCREEN_PLAIN, "a\n\nb", 4);
    check_text(lw_screen_add_plain, &screen, "a\n\n");
    lw_screen_reset(&screen, 0, 0);
    add(&screen, LW_SCREEN_PLAIN, "a");
    check_text(lw_screen_add_escapes, &screen, "\033[H");
    lw_screen_release(&screen);
}

TEST(a_name_cannot_steer_the_terminal)
{
    struct lw_screen screen;

    lw_screen_init(&screen);
    lw_screen_reset(&screen, 1, 40);
    add(&screen, LW_SCREEN_PLAIN, "a\033[2J\nb");
    check_text(lw_screen_add_escapes, &screen, "\033[Ha\\x1b[2J\\x0ab\033[K");
    lw_screen_release(&screen);
}

TEST(only_what_is_not_written_over_is_cleared)
{
    struct lw_screen screen;

    lw_screen_init(&screen);
    lw_screen_reset(&screen, 4, 3);
    add(&screen, LW_SCREEN_BOLD, "abc");
    add(&screen, LW_SCREEN_REVERSE, "a");
    lw_screen_fill(&screen, 3);
    check_text(lw_screen_add_escapes, &screen,
               "\033[H\033[1mabc\033[0m\r\n\033[7ma  \033[0m\r\n\033[K\033[J");
    lw_screen_release(&screen);
}

TEST(a_screen_without_memory_says_so_once_at_the_end)
{
    struct lw_error err = { LW_OK, "" };
    struct lw_screen screen;

    for (uint64_t n = 1; n <= 2; n++) {
        lw_screen_init(&screen);
        lw_screen_reset(&screen, 4, 10);
        lw_alloc_fail_in(n);
        add(&screen, LW_SCREEN_PLAIN, "abc");
        lw_alloc_fail_in(0);
        add(&screen, LW_SCREEN_PLAIN, "def");
        CHECK(!lw_screen_check(&screen, &err));
        CHECK_EQ(err.code, LW_ERR_NOMEM);
        lw_screen_release(&screen);
    }
}
