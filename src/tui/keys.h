/* What a person pressed, out of the bytes that a terminal sends for it. */
#ifndef LW_TUI_KEYS_H
#define LW_TUI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key is a character (its code point), or one of these, beyond all characters. */
enum lw_key {
    LW_KEY_NONE = 0x110000, /* nothing, or a key we do not know */
    LW_KEY_UP,
    LW_KEY_DOWN,
    LW_KEY_LEFT,
    LW_KEY_RIGHT,
    LW_KEY_PAGE_UP,
    LW_KEY_PAGE_DOWN,
    LW_KEY_HOME,
    LW_KEY_END,
    LW_KEY_ENTER,
    LW_KEY_BACKSPACE,
    LW_KEY_ESCAPE,
};

/* The first key of the LEN bytes at BYTES, in *KEY. Returns how many of them it takes;
 * 0: more have to come first. IS_ALL: no more will come, so that an escape character
 * alone is the key of that name. */
size_t lw_key_decode(const unsigned char *bytes, size_t len, bool is_all,
                     uint32_t *key);

#endif
