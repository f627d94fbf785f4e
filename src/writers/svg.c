/* A flame graph in one file: each function as a box as wide as the time in it, what it
 * called below it. Any browser opens it, with no network and no other file.
 *
 *     +---------------------- all ----------------------+
 *     |      main (train.py:40)                          |
 *     |  step                     |  evaluate  |
 *     |  conv2d        |
 *
 * The file has a still picture, which any viewer of images shows, and every node's
 * numbers with a script (flame.js) that draws them anew to zoom, search and walk with the
 * keys. All threads are added up. Of siblings the longest is first, and colours are by
 * file, so that the eye finds a module again. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "base/map.h"
#include "base/text.h"
#include "model/calltree.h"
#include "model/losses.h"
#include "model/units.h"
#include "writers/flame.h"
#include "writers/writer.h"

#define WIDTH 1200.0 /* of the still picture */
#define ROW 18       /* pixels; these three are flame.js's, too */
#define HEAD 52
#define LETTER 7.25
#define NARROWEST 0.4 /* a box less wide cannot be seen */

struct writing {
    const struct lw_profile *profile;
    struct lw_calltree tree;
    uint32_t *order; /* owned: nodes, the longest first, so parents before children */
    uint32_t *number_of; /* owned: by node, its place in that order */
    uint32_t *name_of;   /* owned: by frame, its number among the names; 0: none yet */
    lw_frame_id *names;  /* owned: by that number; the first is the root's */
    uint32_t name_count;
    double *x;          /* owned: by node, pixels in the still picture */
    double *next_x;     /* owned: by node, where its next child goes */
    uint32_t max_depth; /* of what is wide enough to be seen */
    struct lw_buf scratch;
    struct lw_buf *out;
};

/* Text in XML: marks escaped, and what XML has no way to say replaced. */
static void add_xml(struct lw_buf *out, const char *text, size_t len)
{
    size_t plain = 0; /* start of the run that is copied as it is */
    uint32_t code;

    for (size_t i = 0; i < len;) {
        size_t size = lw_text_utf8(text + i, len - i, &code);
        const char *instead = NULL;

        if (!size || (code < ' ' && code != '\n' && code != '\t') || code == 0xfffe ||
            code == 0xffff)
            instead = LW_TEXT_BAD_UTF8;
        else if (code == '<')
            instead = "&lt;";
        else if (code == '>')
            instead = "&gt;";
        else if (code == '&')
            instead = "&amp;";
        else if (code == '"')
            instead = "&quot;";
        if (instead) {
            lw_buf_add(out, text + plain, i - plain);
            lw_buf_add_text(out, instead);
            plain = i + (size ? size : 1);
        }
        i += size ? size : 1;
    }
    lw_buf_add(out, text + plain, len - plain);
}

/* What the scratch buffer holds, which is then empty again. */
static void add_scratch(struct writing *w)
{
    if (w->scratch.failure) {
        if (!w->out->failure)
            w->out->failure = w->scratch.failure;
        return;
    }
    add_xml(w->out, w->scratch.bytes, w->scratch.len);
    lw_buf_reset(&w->scratch);
}

/* Order and places */

/* qsort() takes no context, so what is compared comes along. */
struct ranked {
    uint64_t total_ns;
    uint32_t node;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->total_ns != y->total_ns)
        return x->total_ns > y->total_ns ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* A parent takes at least as long as its child, and has the smaller number if it takes
 * just as long: so it comes first. The root does whatever the others are. */
static bool sort_nodes(struct writing *w, struct lw_error *err)
{
    const struct lw_calltree *tree = &w->tree;
    struct ranked *ranked = lw_alloc(tree->node_count * sizeof(*ranked), err);

    if (!ranked)
        return false;
    for (size_t i = 0; i < tree->node_count; i++)
        ranked[i] = (struct ranked){ tree->nodes[i].total_ns, (uint32_t)i };
    qsort(ranked, tree->node_count, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; i < tree->node_count; i++) {
        w->order[i] = ranked[i].node;
        w->number_of[ranked[i].node] = (uint32_t)i;
    }
    lw_free(ranked);
    return true;
}

static double width_of(const struct writing *w, uint32_t node)
{
    uint64_t all_ns = w->tree.nodes[0].total_ns;

    if (node == 0)
        return WIDTH;
    return all_ns ? WIDTH * (double)w->tree.nodes[node].total_ns / (double)all_ns : 0;
}

static void place_nodes(struct writing *w)
{
    for (size_t i = 1; i < w->tree.node_count; i++) {
        uint32_t node = w->order[i];
        uint32_t parent = w->tree.nodes[node].parent;

        w->x[node] = w->next_x[node] = w->next_x[parent];
        w->next_x[parent] += width_of(w, node);
        if (width_of(w, node) >= NARROWEST && w->tree.nodes[node].depth > w->max_depth)
            w->max_depth = w->tree.nodes[node].depth;
    }
}

static void number_names(struct writing *w)
{
    w->name_count = 1; /* the root's */
    for (size_t i = 1; i < w->tree.node_count; i++) {
        lw_frame_id frame = w->tree.nodes[w->order[i]].frame;

        if (w->name_of[frame] == 0) {
            w->names[w->name_count] = frame;
            w->name_of[frame] = w->name_count++;
        }
    }
}

/* Names */

/* One hue for each file, light enough for black letters; builtins are grey. */
static void add_colour(struct lw_buf *out, const struct lw_profile *profile,
                       const struct lw_frame *frame)
{
    const char *file = lw_profile_text(profile, frame->file);
    const char *base = lw_text_basename(file);
    uint64_t hash = lw_hash_bytes(base, strlen(base));

    if (!frame->file)
        lw_buf_add_text(out, "hsl(0,0%,80%)");
    else
        lw_buf_addf(out, "hsl(%u,%u%%,%u%%)", (unsigned)(hash % 360),
                    60 + (unsigned)(hash / 360 % 20), 70 + (unsigned)(hash / 7200 % 8));
}

static void add_name(struct lw_buf *out, const struct lw_profile *profile,
                     const struct lw_frame *frame)
{
    lw_text_add_printable(out, lw_profile_text(profile, frame->name),
                          lw_strings_len(profile->strings, frame->name));
}

static void add_place(struct lw_buf *out, const struct lw_profile *profile,
                      const struct lw_frame *frame)
{
    if (!frame->file)
        return;
    lw_text_add_printable(out, lw_profile_text(profile, frame->file),
                          lw_strings_len(profile->strings, frame->file));
    if (frame->first_line)
        lw_buf_addf(out, ":%" PRIu32, frame->first_line);
}

/* The still picture */

static void write_title(struct writing *w, uint32_t node)
{
    const struct lw_calltree_node *n = &w->tree.nodes[node];
    const struct lw_frame *frame = lw_profile_frame(w->profile, n->frame);
    uint64_t all_ns = w->tree.nodes[0].total_ns;

    if (node == 0) {
        lw_buf_add_text(&w->scratch, "all");
    } else {
        add_name(&w->scratch, w->profile, frame);
        if (frame->file) {
            lw_buf_add_text(&w->scratch, " (");
            add_place(&w->scratch, w->profile, frame);
            lw_buf_add_char(&w->scratch, ')');
        }
    }
    lw_buf_add_text(&w->scratch, " \xc2\xb7 total ");
    lw_units_add_ns(&w->scratch, (int64_t)n->total_ns);
    lw_buf_add_text(&w->scratch, ", ");
    lw_units_add_share(&w->scratch, all_ns ? (double)n->total_ns / (double)all_ns : 0);
    add_scratch(w);
}

static void write_label(struct writing *w, uint32_t node, double x, unsigned y)
{
    const struct lw_calltree_node *n = &w->tree.nodes[node];
    double letters = (width_of(w, node) - 6) / LETTER;
    size_t fit;

    if (letters < 2)
        return;
    lw_buf_addf(w->out, "<text x=\"%.1f\" y=\"%u\">", x + 3, y + 13);
    if (node == 0)
        lw_buf_add_text(&w->scratch, "all");
    else
        add_name(&w->scratch, w->profile, lw_profile_frame(w->profile, n->frame));
    if (!w->scratch.failure) {
        size_t len = w->scratch.len;

        fit = lw_text_fit(w->scratch.bytes, len, (size_t)letters);
        if (fit < len) {
            fit = lw_text_fit(w->scratch.bytes, len, (size_t)letters - 1);
            w->scratch.len = fit;
            lw_buf_add_text(&w->scratch, "\xe2\x80\xa6");
        }
    }
    add_scratch(w);
    lw_buf_add_text(w->out, "</text>");
}

static void write_box(struct writing *w, uint32_t node)
{
    const struct lw_calltree_node *n = &w->tree.nodes[node];
    unsigned y = HEAD + ROW * n->depth;

    if (width_of(w, node) < NARROWEST)
        return;
    lw_buf_add_text(w->out, "<g class=\"box\"><title>");
    write_title(w, node);
    lw_buf_addf(w->out,
                "</title><rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\"",
                w->x[node], y, width_of(w, node), ROW - 1);
    lw_buf_add_text(w->out, " fill=\"");
    if (node == 0)
        lw_buf_add_text(w->out, "hsl(0,0%,88%)");
    else
        add_colour(w->out, w->profile, lw_profile_frame(w->profile, n->frame));
    lw_buf_add_text(w->out, "\"/>");
    write_label(w, node, w->x[node], y);
    lw_buf_add_text(w->out, "</g>\n");
}

/* The numbers */

static void write_names(struct writing *w, struct lw_json_out *json,
                        struct lw_buf *text)
{
    lw_json_key(json, "names");
    lw_json_array(json);
    for (uint32_t i = 0; i < w->name_count; i++) {
        const struct lw_frame *frame = lw_profile_frame(w->profile, w->names[i]);
        size_t name_end, place_end;

        lw_buf_reset(text);
        if (i == 0)
            lw_buf_add_text(text, "all");
        else
            add_name(text, w->profile, frame);
        name_end = text->len;
        if (i > 0)
            add_place(text, w->profile, frame);
        place_end = text->len;
        if (i == 0)
            lw_buf_add_text(text, "hsl(0,0%,88%)");
        else
            add_colour(text, w->profile, frame);
        if (text->failure) {
            json->out->failure = text->failure;
            return;
        }
        lw_json_array(json);
        lw_json_text(json, text->bytes, name_end);
        lw_json_text(json, text->bytes + name_end, place_end - name_end);
        lw_json_text(json, text->bytes + place_end, text->len - place_end);
        lw_json_end(json, ']');
    }
    lw_json_end(json, ']');
}

enum column { PARENT, NAME, SELF, CALLS };

static void write_column(struct writing *w, struct lw_json_out *json, const char *key,
                         enum column column)
{
    lw_json_key(json, key);
    lw_json_array(json);
    for (size_t i = 0; i < w->tree.node_count; i++) {
        const struct lw_calltree_node *node = &w->tree.nodes[w->order[i]];

        switch (column) {
        case PARENT: lw_json_u64(json, w->number_of[node->parent]); break;
        case NAME: lw_json_u64(json, i ? w->name_of[node->frame] : 0); break;
        case SELF: lw_json_u64(json, node->self_ns); break;
        case CALLS: lw_json_u64(json, node->calls); break;
        }
    }
    lw_json_end(json, ']');
}

static void write_numbers(struct writing *w)
{
    struct lw_json_out json;
    struct lw_buf text;

    lw_buf_init(&text, 0);
    lw_json_start(&json, &w->scratch, false);
    lw_json_object(&json);
    write_names(w, &json, &text);
    write_column(w, &json, "parent", PARENT);
    write_column(w, &json, "name", NAME);
    write_column(w, &json, "self", SELF);
    if (w->tree.source == LW_GRAPH_CALLS)
        write_column(w, &json, "calls", CALLS);
    lw_json_end(&json, '}');
    lw_buf_release(&text);
    lw_buf_add_text(w->out, "<metadata id=\"data\">");
    add_scratch(w);
    lw_buf_add_text(w->out, "</metadata>\n");
}

/* The file */

static const char style[] = "<style>\n"
                            "svg { background: #fff; font: 12px monospace; }\n"
                            "text { fill: #111; pointer-events: none; }\n"
                            "#title { font: bold 15px sans-serif; }\n"
                            "#note { font: 12px sans-serif; }\n"
                            "svg:focus { outline: none; }\n" /* a box shows it */
                            ".box { cursor: pointer; }\n"
                            ".box:hover rect, .chosen rect { stroke: #000; }\n"
                            ".above { opacity: 0.55; }\n"
                            ".hit rect { fill: #e3f; }\n"
                            "input { width: 225px; font: 12px monospace; }\n"
                            "@media (prefers-color-scheme: dark) {\n"
                            "  svg { background: #1b1b1f; }\n"
                            "  #title, #status, #found { fill: #eee; }\n"
                            "  .box:hover rect, .chosen rect { stroke: #fff; }\n"
                            "}\n"
                            "</style>\n";

/* A plain box for text is the one thing SVG lacks: that is HTML's. */
static const char search_box[] =
    "<foreignObject id=\"place\" x=\"950\" y=\"6\" width=\"240\" height=\"26\""
    " visibility=\"hidden\">"
    "<input xmlns=\"http://www.w3.org/1999/xhtml\" id=\"search\" type=\"search\""
    " aria-label=\"search\" placeholder=\"search: a regular expression\"/>"
    "</foreignObject>\n";

/* Behind the title what is missing, if anything is. */
static void write_remark(struct writing *w)
{
    lw_losses_add_line(w->profile, &w->scratch);
    if (w->scratch.len == 0)
        return;
    lw_buf_add_text(w->out, "<tspan id=\"note\" dx=\"12\">");
    add_scratch(w);
    lw_buf_add_text(w->out, "</tspan>");
}

static void write_head(struct writing *w)
{
    const char *title = lw_profile_fact(w->profile, "command");
    unsigned height = HEAD + ROW * (w->max_depth + 1) + 8;

    if (!title)
        title = lw_profile_fact(w->profile, "file");
    lw_buf_addf(w->out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%u\""
                " viewBox=\"0 0 %.0f %u\" tabindex=\"0\">\n<title>",
                WIDTH, height, WIDTH, height);
    lw_text_add_printable(&w->scratch, title ? title : "", title ? strlen(title) : 0);
    lw_buf_add_text(&w->scratch, title ? ": flame graph" : "flame graph");
    add_scratch(w);
    lw_buf_add_text(w->out, "</title>\n");
    lw_buf_add_text(w->out, style);
    lw_buf_add_text(w->out, "<text id=\"title\" x=\"6\" y=\"22\">");
    lw_text_add_printable(&w->scratch, title ? title : "flame graph",
                          strlen(title ? title : "flame graph"));
    add_scratch(w);
    write_remark(w);
    lw_buf_add_text(w->out, "</text>\n<text id=\"status\" x=\"6\" y=\"42\" "
                            "aria-live=\"polite\">");
    write_title(w, 0);
    lw_buf_add_text(w->out, "</text>\n<text id=\"found\" y=\"42\" "
                            "text-anchor=\"end\" aria-live=\"polite\"></text>\n");
    lw_buf_add_text(w->out, search_box);
}

static void write_file(struct writing *w)
{
    write_head(w);
    lw_buf_add_text(w->out, "<g id=\"boxes\">\n");
    for (size_t i = 0; i < w->tree.node_count; i++)
        write_box(w, w->order[i]);
    lw_buf_add_text(w->out, "</g>\n");
    write_numbers(w);
    lw_buf_add_text(w->out, "<script><![CDATA[\n");
    lw_buf_add_text(w->out, lw_flame_js);
    lw_buf_add_text(w->out, "]]></script>\n</svg>\n");
}

static bool prepare(struct writing *w, struct lw_error *err)
{
    size_t nodes = w->tree.node_count, frames;

    lw_stacks_frames(w->profile->stacks, &frames);
    if (nodes <= 1)
        return lw_fail(err, LW_ERR_UNSUPPORTED,
                       "there are no calls and no samples to write");
    w->order = lw_alloc(nodes * sizeof(*w->order), err);
    w->number_of = lw_alloc(nodes * sizeof(*w->number_of), err);
    w->name_of = lw_zalloc(frames, sizeof(*w->name_of), err);
    w->names = lw_zalloc(frames + 1, sizeof(*w->names), err);
    w->x = lw_zalloc(nodes, sizeof(*w->x), err);
    w->next_x = lw_zalloc(nodes, sizeof(*w->next_x), err);
    if (!w->order || !w->number_of || !w->name_of || !w->names || !w->x || !w->next_x ||
        !sort_nodes(w, err))
        return false;
    place_nodes(w);
    number_names(w);
    return true;
}

static bool write_svg(const struct lw_profile *profile, struct lw_buf *out,
                      struct lw_error *err)
{
    struct writing w = { .profile = profile, .out = out };
    bool done =
        lw_calltree_init(&w.tree, profile, LW_GRAPH_ANY, NULL, err) && prepare(&w, err);

    if (done)
        write_file(&w);
    lw_calltree_release(&w.tree);
    lw_buf_release(&w.scratch);
    lw_free(w.order);
    lw_free(w.number_of);
    lw_free(w.name_of);
    lw_free(w.names);
    lw_free(w.x);
    lw_free(w.next_x);
    return done;
}

const struct lw_writer lw_writer_svg = {
    .name = "svg",
    .summary = "a flame graph for any browser: zoom, search, keys, no network",
    .suffixes = ".svg",
    .lacks = "in which thread and when functions were called",
    .want = LW_WANT_CALLS | LW_WANT_SAMPLE_SUMS,
    .write = write_svg,
};
