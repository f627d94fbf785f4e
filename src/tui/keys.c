/* Terminals agree on these (xterm, VT220, Linux, tmux, screen):
 *
 *     ESC [ A, ESC O A                arrows A to D, home H, end F; with modifiers in
 *                                     between: ESC [ 1 ; 5 A
 *     ESC [ 5 ~                       page up; 6 down; 1, 7 home; 4, 8 end
 */

#include "tui/keys.h"

#include "base/text.h"

#define ESCAPE 0x1b
#define SEQUENCE_MAX 32 /* bytes; a longer one is noise */
#define UTF8_MAX 4

static uint32_t key_of_letter(unsigned char letter)
{
    switch (letter) {
    case 'A': return LW_KEY_UP;
    case 'B': return LW_KEY_DOWN;
    case 'C': return LW_KEY_RIGHT;
    case 'D': return LW_KEY_LEFT;
    case 'H': return LW_KEY_HOME;
    case 'F': return LW_KEY_END;
    default: return LW_KEY_NONE;
    }
}

static uint32_t key_of_digit(unsigned char digit)
{
    switch (digit) {
    case '1':
    case '7': return LW_KEY_HOME;
    case '4':
    case '8': return LW_KEY_END;
    case '5': return LW_KEY_PAGE_UP;
    case '6': return LW_KEY_PAGE_DOWN;
    default: return LW_KEY_NONE;
    }
}

/* ESC [ parameters final */
static size_t decode_sequence(const unsigned char *bytes, size_t len, bool is_all,
                              uint32_t *key)
{
    for (size_t i = 2; i < len && i < SEQUENCE_MAX; i++)
        if (bytes[i] >= 0x40 && bytes[i] <= 0x7e) {
            bool is_digit = bytes[i] == '~' && i == 3; /* not "[15~", which is F5 */

            *key = is_digit ? key_of_digit(bytes[2]) : key_of_letter(bytes[i]);
            return i + 1;
        }
    return is_all || len >= SEQUENCE_MAX ? len : 0;
}

static size_t decode_escape(const unsigned char *bytes, size_t len, bool is_all,
                            uint32_t *key)
{
    if (len == 1) {
        *key = is_all ? LW_KEY_ESCAPE : LW_KEY_NONE;
        return is_all;
    }
    if (bytes[1] == '[')
        return decode_sequence(bytes, len, is_all, key);
    if (bytes[1] == 'O') {
        if (len > 2)
            *key = key_of_letter(bytes[2]);
        return len > 2 ? 3 : is_all ? len : 0;
    }
    *key = LW_KEY_ESCAPE; /* and then another key: pressed fast, or with Alt */
    return 1;
}

size_t lw_key_decode(const unsigned char *bytes, size_t len, bool is_all, uint32_t *key)
{
    size_t used;

    *key = LW_KEY_NONE;
    if (len == 0)
        return 0;
    if (bytes[0] == ESCAPE)
        return decode_escape(bytes, len, is_all, key);
    if (bytes[0] == '\r' || bytes[0] == '\n') {
        *key = LW_KEY_ENTER;
        return 1;
    }
    if (bytes[0] == 0x7f || bytes[0] == '\b') {
        *key = LW_KEY_BACKSPACE;
        return 1;
    }
    used = lw_text_utf8((const char *)bytes, len, key);
    if (used)
        return used;
    *key = LW_KEY_NONE;
    /* A character that is not whole yet, or a byte that begins none. */
    return bytes[0] >= 0xc2 && bytes[0] <= 0xf4 && len < UTF8_MAX && !is_all ? 0 : 1;
}
