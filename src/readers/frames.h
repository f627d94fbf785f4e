/* Frames as other tools' files tell of them: a name, perhaps a file, and one line of
 * which nobody says whether it is where the function begins or what it was executing.
 *
 * The whole file decides. A function (name and file) that is met at one line only is
 * taken to begin there: that is what tools write that work by function, we among them.
 * One that is met at several was told of line by line: its frames are lines of one
 * function, which begins at the smallest of them as far as anybody can know. So every
 * frame has to be there before the first can go to the builder. */
#ifndef LW_READERS_FRAMES_H
#define LW_READERS_FRAMES_H

#include "model/builder.h"

struct lw_told_frame {
    lw_string_id name;   /* of the builder */
    lw_string_id file;   /* likewise; 0: none */
    uint32_t first_line; /* where the file says so; 0: not known */
    uint32_t line;       /* 0: none */
    uint16_t column;     /* from 1; 0: not known */
};

/* What TEXT says: "name (file.py:12)" as py-spy and VizTracer write it, the line being
 * left out or not, or else just a name. The builder gets the strings. */
bool lw_told_frame_parse(struct lw_told_frame *told, const char *text, size_t len,
                         struct lw_builder *out, struct lw_error *err) LW_MUST_CHECK;

/* Add COUNT frames to OUT; IDS gets the number of each. */
bool lw_told_frames_add(const struct lw_told_frame *told, size_t count,
                        lw_frame_id *ids, struct lw_builder *out, struct lw_error *err)
    LW_MUST_CHECK;

#endif
