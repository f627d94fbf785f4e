/* Names by their text; see ops_names.h. */

#include "ops_names.h"

/* Eight bytes at a time: names of backward nodes have fifty. */
static uint64_t hash_of(const char *text, size_t len, enum lw_agent_name_kind kind)
{
    const uint64_t factor = 0x9e3779b97f4a7c15ull;
    uint64_t hash = len ^ (uint64_t)kind << 32, word;

    for (; len >= sizeof(word); len -= sizeof(word), text += sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, text, len);
    hash = (hash ^ word) * factor;
    return hash ^ hash >> 32;
}

uint32_t py_ops_names_find(struct py_ops_names *names, enum lw_agent_name_kind kind,
                           const char *name)
{
    struct py_ops_place *place = py_ops_names_place(names, name);
    size_t len = strlen(name);
    const struct lw_name_text **slot =
        &names->by_text[hash_of(name, len, kind) & (PY_OPS_NAMES - 1)];
    const struct lw_name_text *text = *slot;

    if (!text || text->kind != kind || text->name_len != len ||
        memcmp(lw_name_text_name(text), name, len) != 0) {
        text = lw_names_intern(&py_tracer.functions.names, kind, "", 0, name, len);
        if (!text)
            return LW_FUNCTION_MORE;
        *slot = text;
    }
    place->at = name;
    place->text = text;
    return text->number;
}
