/* speedscope's events, read by the look of the one before.
 *
 *     {"type":"O","frame":12,"at":17.5}
 *     {"type":"C","frame":12,"at":19}
 *
 * A file holds millions, and whoever wrote it put the same bytes around the three values
 * of each. So the first is read as JSON, what lies around its values is noted, and an
 * event that looks the same needs no tokens: three values to read, four pieces to compare.
 * Whatever is not plain (an exponent, too many digits, another order) does not match, and
 * is read as JSON again. */
#ifndef LW_READERS_EVENT_SHAPE_H
#define LW_READERS_EVENT_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LW_SHAPED_TYPE,
    LW_SHAPED_FRAME,
    LW_SHAPED_AT,
    LW_SHAPED_MEMBERS,
    LW_SHAPED_OTHER = LW_SHAPED_MEMBERS, /* a member that says nothing to us */
};

struct lw_shaped_event {
    char type; /* 'O' or 'C' */
    uint32_t frame;
    uint64_t at_ns;
};

struct lw_event_shape {
    unsigned count;                    /* of values met; all: it is known */
    unsigned order[LW_SHAPED_MEMBERS]; /* which of them comes first ... */
    const char
        *piece[LW_SHAPED_MEMBERS + 1];       /* borrowed from the file: what lies ... */
    size_t piece_len[LW_SHAPED_MEMBERS + 1]; /* ... before, between and behind them */
};

/* Note an event while it is read as JSON: begin at the byte behind its '{', tell each
 * value as it lies in the text, end at its '}'. An event that has a member twice, or
 * others, leaves no shape. */
void lw_event_shape_begin(struct lw_event_shape *shape, const char *at);
void lw_event_shape_value(struct lw_event_shape *shape, unsigned member,
                          const char *text, size_t len);
void lw_event_shape_end(struct lw_event_shape *shape, const char *at);

/* Read the event whose first byte behind '{' is AT. True: it has the shape, EVENT is
 * filled and *BRACKET is its '}'. DIGITS: of ns behind the point of "at". */
bool lw_event_shape_match(const struct lw_event_shape *shape, const char *at,
                          const char *end, unsigned digits,
                          struct lw_shaped_event *event, const char **bracket);

#endif
