/* Giving numbers to names; see agent/names.h. */

#include "agent/names.h"

#include <stdlib.h>
#include <string.h>

/* A program that makes a name of each batch's number must not take all memory, nor all
 * numbers from functions: 65,536 names, 8 MB of text. */
enum {
    FIRST_SLOTS = 256,
    MOST_TEXTS = 1 << 16,
    MOST_TEXT_BYTES = 8 << 20,
};

bool lw_names_init(struct lw_names *names)
{
    memset(names, 0, sizeof(*names));
    names->count = 1;
    names->slot_mask = FIRST_SLOTS - 1;
    names->slots = calloc(FIRST_SLOTS, sizeof(*names->slots));
    return names->slots && pthread_mutex_init(&names->lock, NULL) == 0;
}

void lw_names_release(struct lw_names *names)
{
    for (uint32_t i = 0; i < names->text_count; i++)
        free(names->texts[i]);
    free(names->texts);
    free(names->slots);
    pthread_mutex_destroy(&names->lock);
    memset(names, 0, sizeof(*names));
}

void lw_names_lock(struct lw_names *names)
{
    pthread_mutex_lock(&names->lock);
}

void lw_names_unlock(struct lw_names *names)
{
    pthread_mutex_unlock(&names->lock);
}

uint32_t lw_names_take(struct lw_names *names, struct lw_agent_name *head,
                       const char *file, const char *name)
{
    head->number = names->count++;
    if (names->log)
        lw_region_add_name(names->log, head, file, name);
    return head->number;
}

/* ---- interned names ----------------------------------------------------------------- */

/* FNV-1a: names are short, and few. */
static uint32_t add_hash(uint32_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

static bool is_text(const struct lw_name_text *text, const struct lw_name_text *key,
                    const char *file, const char *name)
{
    return text->hash == key->hash && text->kind == key->kind &&
           text->file_len == key->file_len && text->name_len == key->name_len &&
           memcmp(text->text, file, key->file_len) == 0 &&
           memcmp(lw_name_text_name(text), name, key->name_len) == 0;
}

static void put_slot(struct lw_names *names, uint32_t index)
{
    uint32_t at = names->texts[index]->hash;

    while (names->slots[at & names->slot_mask])
        at++;
    names->slots[at & names->slot_mask] = index + 1;
}

/* Room for one text more; false: no memory. */
static bool make_room(struct lw_names *names)
{
    uint32_t need = names->text_count + 1;

    if (need > names->text_capacity) {
        uint32_t capacity = names->text_capacity ? names->text_capacity * 2 : 64;
        struct lw_name_text **texts =
            realloc(names->texts, capacity * sizeof(*names->texts));

        if (!texts)
            return false;
        names->texts = texts;
        names->text_capacity = capacity;
    }
    if (need * 2 > names->slot_mask + 1) {
        uint32_t size = (names->slot_mask + 1) * 2;
        uint32_t *slots = calloc(size, sizeof(*slots));

        if (!slots)
            return false;
        free(names->slots);
        names->slots = slots;
        names->slot_mask = size - 1;
        for (uint32_t i = 0; i < names->text_count; i++)
            put_slot(names, i);
    }
    return true;
}

static void log_text(struct lw_names *names, const struct lw_name_text *text)
{
    struct lw_agent_name head = {
        .number = text->number,
        .kind = text->kind,
        .file_len = text->file_len,
        .name_len = text->name_len,
    };

    lw_region_add_name(names->log, &head, text->text, lw_name_text_name(text));
}

/* NULL: there is no room. */
static struct lw_name_text *add_text(struct lw_names *names,
                                     const struct lw_name_text *key, const char *file,
                                     const char *name)
{
    size_t bytes = sizeof(*key) + key->file_len + key->name_len + 2;
    struct lw_name_text *text;

    if (names->text_count >= MOST_TEXTS ||
        names->text_bytes + bytes > MOST_TEXT_BYTES || !make_room(names))
        return NULL;
    text = malloc(bytes);
    if (!text)
        return NULL;
    *text = *key;
    memcpy(text->text, file, key->file_len);
    text->text[key->file_len] = '\0';
    memcpy(text->text + key->file_len + 1, name, key->name_len);
    text->text[key->file_len + 1 + key->name_len] = '\0';
    text->number = names->count++;
    names->texts[names->text_count] = text;
    put_slot(names, names->text_count++);
    names->text_bytes += bytes;
    if (names->log)
        log_text(names, text);
    return text;
}

const struct lw_name_text *lw_names_intern(struct lw_names *names,
                                           enum lw_agent_name_kind kind,
                                           const char *file, size_t file_len,
                                           const char *name, size_t name_len)
{
    struct lw_name_text key = {
        .file_len = (uint32_t)(file_len < LW_NAME_BYTES ? file_len : LW_NAME_BYTES),
        .name_len = (uint32_t)(name_len < LW_NAME_BYTES ? name_len : LW_NAME_BYTES),
        .kind = (uint16_t)kind,
    };
    struct lw_name_text *text = NULL;
    uint32_t at, slot;

    key.hash = add_hash(2166136261u ^ key.kind, file, key.file_len);
    key.hash = add_hash(key.hash * 16777619u, name, key.name_len);
    lw_names_lock(names);
    for (at = key.hash; (slot = names->slots[at & names->slot_mask]); at++) {
        text = names->texts[slot - 1];
        if (is_text(text, &key, file, name))
            break;
    }
    if (!slot)
        text = add_text(names, &key, file, name);
    if (!text && names->log)
        lw_region_count_lost(names->log, LW_LOST_NAMES);
    lw_names_unlock(names);
    return text;
}

/* ---- the log ------------------------------------------------------------------------ */

bool lw_names_log_interned(struct lw_names *names, uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = names->text_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (names->texts[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == names->text_count || names->texts[low]->number != number)
        return false;
    log_text(names, names->texts[low]);
    return true;
}

void lw_names_count_lost(struct lw_names *names, enum lw_agent_loss cause)
{
    lw_names_lock(names);
    if (names->log)
        lw_region_count_lost(names->log, cause);
    lw_names_unlock(names);
}

void lw_names_log_to_nobody(struct lw_names *names)
{
    lw_names_lock(names);
    names->log = NULL;
    lw_names_unlock(names);
}
