/* What Valgrind's callgrind writes, and pyprof2calltree, yappi, Xdebug and our own writer
 * with it: a call graph as text, specified in Valgrind's manual, "Callgrind Format
 * Specification".
 *
 *     events: Ir                what is counted
 *     fl=(1) train.py           the file, and in it
 *     fn=(1) step               the function: (number) and, the first time, its name
 *     10 500                    a position (here a line) and what it cost
 *     +2 300                    the same, relative to the position before
 *     cfi=(2) nn.py             called: in this file
 *     cfn=(2) forward           this function,
 *     calls=3 7                 three times, at its line 7,
 *     * 1400                    from the same line as before; it cost so much in all
 *
 * Numbers of names are counted apart for files, functions and objects. A function is
 * told by object, file and name; its own cost is the sum of its lines, its total that
 * and what its calls cost, but for calls of itself, and never more than the whole: the
 * format does not say more, and in a ring of functions even that is an estimate. How
 * much of a callee's own cost is one caller's is not said at all, so it is shared out
 * as its total is, which is gprof's way.
 *
 * One of the events is taken: the first that is a time, else the first. If it is no
 * time, 1 ns is 1 of it, and that is said (model/measure.h). */

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "model/callgraph.h" /* lw_calls_add */
#include "model/measure.h"
#include "readers/reader.h"

#define EVENTS_MAX 64   /* Valgrind has 13 */
#define POSITIONS_MAX 2 /* "instr line" */

/* Names of one kind, by the number that the file gives them. */
struct names {
    struct name {
        uint64_t number;
        lw_string_id string;
    } * list;
    size_t count;
    size_t capacity;
    struct lw_map map; /* index + 1 */
};

struct function {
    lw_string_id object, file, name;
    uint32_t line; /* the first it was met at; 0: none */
    int64_t calls;
    int64_t self_calls; /* of those, the ones made by itself */
    double self;
    double callees; /* what its calls of others cost */
};

struct edge {
    uint32_t caller, callee;
    int64_t calls;
    double total;
};

/* Where the text is. */
struct spot {
    lw_string_id object, file;
    uint32_t function; /* LW_NONE: none yet */
};

struct reading {
    struct lw_builder *out;
    struct names objects, files, names;
    struct function *functions;
    size_t function_count;
    size_t function_capacity;
    struct lw_map function_map; /* index + 1 */
    struct edge *edges;
    size_t edge_count;
    size_t edge_capacity;
    struct lw_map edge_map; /* index + 1 */

    struct spot here;
    lw_string_id function_file; /* what fl said: where the function is */
    lw_string_id called_object, called_file, called_name;
    bool has_called_object, has_called_file, has_called_name;
    bool after_calls; /* the next line is what the calls cost */
    int64_t calls;
    uint32_t called_line;

    unsigned position_count;
    unsigned line_position; /* which of them is the line; POSITIONS_MAX: none */
    uint64_t positions[POSITIONS_MAX];
    unsigned event; /* which is taken */
    unsigned event_count;
    double event_ns; /* 1 of it */
    lw_string_id event_name;
    bool is_time;
    size_t number; /* of the line */
};

static bool fail(const struct reading *r, const char *what, struct lw_error *err)
{
    return lw_fail(err, LW_ERR_FORMAT, "line %zu: %s", r->number, what);
}

/* Names */

static bool is_name(const void *owner, uint32_t number, const void *key)
{
    return ((const struct names *)owner)->list[number - 1].number ==
           *(const uint64_t *)key;
}

/* "(3) name" gives number 3 a name, "(3)" is that name, anything else is a name. A number
 * that none was given to is an error, but for objects: files that were cut out of larger
 * ones have such, and an object only tells functions of one name apart. Its number does
 * that as well. */
static bool read_name(struct reading *r, struct names *names, const char *text,
                      size_t len, lw_string_id *id, struct lw_error *err)
{
    const char *bracket = len > 0 && text[0] == '(' ? memchr(text, ')', len) : NULL;
    uint64_t number, hash;
    uint32_t found;
    size_t skip;

    if (!bracket || !lw_text_u64(text + 1, (size_t)(bracket - text - 1), &number))
        return lw_builder_string(r->out, text, len, id, err);
    hash = lw_hash_u64(number);
    found = lw_map_find(&names->map, hash, is_name, names, &number);
    skip = (size_t)(bracket + 1 - text);
    while (skip < len && text[skip] == ' ')
        skip++;
    if (skip == len) {
        if (!found && names == &r->objects)
            return lw_builder_string(r->out, text, len, id, err);
        if (!found)
            return fail(r, "a number that no name was given to", err);
        *id = names->list[found - 1].string;
        return true;
    }
    if (!lw_builder_string(r->out, text + skip, len - skip, id, err))
        return false;
    if (!found) {
        if (!lw_grow(&names->list, &names->capacity, names->count + 1,
                     sizeof(*names->list), err) ||
            !lw_map_add(&names->map, hash, (uint32_t)names->count + 1, err))
            return false;
        names->list[names->count].number = number;
        found = (uint32_t)++names->count;
    }
    names->list[found - 1].string = *id;
    return true;
}

static bool is_function(const void *owner, uint32_t number, const void *key)
{
    const struct function *a = &((const struct reading *)owner)->functions[number - 1];
    const struct function *b = key;

    return a->object == b->object && a->file == b->file && a->name == b->name;
}

static bool find_function(struct reading *r, lw_string_id object, lw_string_id file,
                          lw_string_id name, uint32_t *index, struct lw_error *err)
{
    struct function function = { .object = object, .file = file, .name = name };
    uint64_t hash = lw_hash_u64(lw_hash_u64((uint64_t)object << 32 | file) ^ name);
    uint32_t found = lw_map_find(&r->function_map, hash, is_function, r, &function);

    if (!found) {
        if (r->function_count >= LW_NONE - 1)
            return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 functions");
        if (!lw_grow(&r->functions, &r->function_capacity, r->function_count + 1,
                     sizeof(function), err) ||
            !lw_map_add(&r->function_map, hash, (uint32_t)r->function_count + 1, err))
            return false;
        r->functions[r->function_count++] = function;
        found = (uint32_t)r->function_count;
    }
    *index = found - 1;
    return true;
}

static bool is_edge(const void *owner, uint32_t number, const void *key)
{
    const struct edge *a = &((const struct reading *)owner)->edges[number - 1];
    const struct edge *b = key;

    return a->caller == b->caller && a->callee == b->callee;
}

static bool find_edge(struct reading *r, uint32_t caller, uint32_t callee,
                      struct edge **edge, struct lw_error *err)
{
    struct edge key = { .caller = caller, .callee = callee };
    uint64_t hash = lw_hash_u64((uint64_t)caller << 32 | callee);
    uint32_t found = lw_map_find(&r->edge_map, hash, is_edge, r, &key);

    if (!found) {
        if (r->edge_count >= LW_NONE - 1)
            return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 pairs of functions");
        if (!lw_grow(&r->edges, &r->edge_capacity, r->edge_count + 1, sizeof(key),
                     err) ||
            !lw_map_add(&r->edge_map, hash, (uint32_t)r->edge_count + 1, err))
            return false;
        r->edges[r->edge_count++] = key;
        found = (uint32_t)r->edge_count;
    }
    *edge = &r->edges[found - 1];
    return true;
}

/* The head */

/* The next word from *AT on; false: there is none. */
static bool next_word(const char **at, const char *end, const char **word, size_t *len)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
    *word = *at;
    while (*at < end && **at != ' ' && **at != '\t')
        ++*at;
    *len = (size_t)(*at - *word);
    return *len > 0;
}

/* How many ns one of an event is that is named after its unit; 0: it is no time. */
static double time_of(const char *word, size_t len)
{
    static const struct {
        const char *name;
        double ns;
    } times[] = {
        { "ns", 1 },        { "nanoseconds", 1 },    { "us", 1e3 },
        { "usec", 1e3 },    { "microseconds", 1e3 }, { "ms", 1e6 },
        { "msec", 1e6 },    { "milliseconds", 1e6 }, { "s", 1e9 },
        { "sec", 1e9 },     { "seconds", 1e9 },      { "time_(10ns)", 10 },
        { "time_(ns)", 1 }, { "time_(us)", 1e3 },    { "time_(\xc2\xb5s)", 1e3 },
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (strlen(times[i].name) == len && strncasecmp(times[i].name, word, len) == 0)
            return times[i].ns;
    return 0;
}

static bool read_events(struct reading *r, const char *at, const char *end,
                        struct lw_error *err)
{
    const char *word;
    size_t len;

    r->event_count = 0;
    r->is_time = false;
    while (next_word(&at, end, &word, &len)) {
        double ns = time_of(word, len);

        if (r->event_count == EVENTS_MAX)
            return fail(r, "more events than there may be", err);
        if (r->event_count == 0 || (ns > 0 && !r->is_time)) {
            if (!lw_builder_string(r->out, word, len, &r->event_name, err))
                return false;
            r->event = r->event_count;
            r->event_ns = ns > 0 ? ns : 1;
            r->is_time = ns > 0;
        }
        r->event_count++;
    }
    return r->event_count > 0 || fail(r, "no event is named", err);
}

static bool read_positions(struct reading *r, const char *at, const char *end,
                           struct lw_error *err)
{
    const char *word;
    size_t len;

    r->position_count = 0;
    r->line_position = POSITIONS_MAX;
    while (next_word(&at, end, &word, &len)) {
        if (r->position_count == POSITIONS_MAX)
            return fail(r, "more positions than instr and line", err);
        if (len == 4 && memcmp(word, "line", 4) == 0)
            r->line_position = r->position_count;
        r->position_count++;
    }
    return r->position_count > 0 || fail(r, "no position is named", err);
}

/* Costs */

/* "12", "0x8048", "+3", "-3" or "*", relative to the one before. */
static bool read_position(uint64_t *position, const char *word, size_t len)
{
    uint64_t number = 0;

    if (len == 1 && word[0] == '*')
        return true;
    if (word[0] == '+' || word[0] == '-') {
        if (!lw_text_u64(word + 1, len - 1, &number))
            return false;
        *position = word[0] == '+' ? *position + number : *position - number;
        return true;
    }
    if (len > 2 && word[0] == '0' && word[1] == 'x')
        return lw_text_hex(word + 2, len - 2, position);
    return lw_text_u64(word, len, position);
}

static uint32_t line_of(const struct reading *r, const uint64_t *positions)
{
    uint64_t line = r->line_position < POSITIONS_MAX ? positions[r->line_position] : 0;

    return line <= UINT32_MAX ? (uint32_t)line : 0;
}

static bool add_call_cost(struct reading *r, double cost, struct lw_error *err)
{
    struct function *functions;
    struct edge *edge = NULL;
    uint32_t callee;

    if (!find_function(r, r->has_called_object ? r->called_object : r->here.object,
                       r->has_called_file ? r->called_file : r->here.file,
                       r->called_name, &callee, err) ||
        !find_edge(r, r->here.function, callee, &edge, err))
        return false;
    functions = r->functions;
    edge->calls = lw_calls_add(edge->calls, r->calls);
    edge->total += cost;
    functions[callee].calls = lw_calls_add(functions[callee].calls, r->calls);
    if (functions[callee].line == 0)
        functions[callee].line = r->called_line;
    if (callee == r->here.function)
        functions[callee].self_calls =
            lw_calls_add(functions[callee].self_calls, r->calls);
    else
        functions[r->here.function].callees += cost;
    r->after_calls = false;
    r->has_called_object = r->has_called_file = r->has_called_name = false;
    return true;
}

static bool read_cost(struct reading *r, const char *at, const char *end,
                      struct lw_error *err)
{
    struct function *function;
    const char *word;
    double cost = 0;
    size_t len;

    for (unsigned i = 0; i < r->position_count; i++)
        if (!next_word(&at, end, &word, &len) ||
            !read_position(&r->positions[i], word, len))
            return fail(r, "neither a position and costs nor a known word", err);
    for (unsigned i = 0; next_word(&at, end, &word, &len); i++) {
        double value;

        if (i == r->event_count && i > 0)
            return fail(r, "more costs than there are events", err);
        if (!lw_text_double(word, len, &value) || value < 0)
            return fail(r, "a cost that is no number, 0 or more", err);
        if (i == r->event)
            cost = value;
    }
    if (r->here.function == LW_NONE)
        return fail(r, "a cost of no function", err);
    if (r->after_calls)
        return add_call_cost(r, cost, err);
    function = &r->functions[r->here.function];
    function->self += cost;
    if (function->line == 0 && r->here.file == r->function_file)
        function->line = line_of(r, r->positions);
    return true;
}

/* "calls=3 7": so many, and where the callee is. */
static bool read_calls(struct reading *r, const char *at, const char *end,
                       struct lw_error *err)
{
    uint64_t positions[POSITIONS_MAX] = { r->positions[0], r->positions[1] };
    const char *word;
    size_t len;

    if (!next_word(&at, end, &word, &len) || !lw_text_i64(word, len, &r->calls) ||
        r->calls < 0)
        return fail(r, "calls= without a number", err);
    if (r->here.function == LW_NONE || !r->has_called_name)
        return fail(r, "calls= without fn= and cfn=", err);
    for (unsigned i = 0; i < r->position_count; i++)
        if (next_word(&at, end, &word, &len) &&
            !read_position(&positions[i], word, len))
            return fail(r, "a position that is none", err);
    r->called_line = line_of(r, positions);
    r->after_calls = true;
    return true;
}

/* Lines */

static bool set_function(struct reading *r, const char *text, size_t len,
                         struct lw_error *err)
{
    lw_string_id name;

    r->here.file = r->function_file;
    return read_name(r, &r->names, text, len, &name, err) &&
           find_function(r, r->here.object, r->here.file, name, &r->here.function, err);
}

/* Where a jump goes is not of interest, but the name may be given to its number here. */
static bool read_jump_name(struct reading *r, struct names *names, const char *text,
                           size_t len, struct lw_error *err)
{
    const char *bracket = len > 0 && text[0] == '(' ? memchr(text, ')', len) : NULL;
    lw_string_id id;

    return !bracket || bracket == text + len - 1 ||
           read_name(r, names, text, len, &id, err);
}

/* KEY=VALUE; what is not known (jumps, and whatever comes) is passed over. */
static bool read_assignment(struct reading *r, const char *key, size_t key_len,
                            const char *value, size_t len, struct lw_error *err)
{
    char word[4] = "";

    if (key_len == 5 && memcmp(key, "calls", 5) == 0)
        return read_calls(r, value, value + len, err);
    if (key_len >= sizeof(word))
        return true;
    memcpy(word, key, key_len);
    if (strcmp(word, "fn") == 0)
        return set_function(r, value, len, err);
    if (strcmp(word, "fl") == 0) {
        if (!read_name(r, &r->files, value, len, &r->function_file, err))
            return false;
        r->here.file = r->function_file;
        return true;
    }
    if (strcmp(word, "fi") == 0 || strcmp(word, "fe") == 0)
        return read_name(r, &r->files, value, len, &r->here.file, err);
    if (strcmp(word, "ob") == 0)
        return read_name(r, &r->objects, value, len, &r->here.object, err);
    if (strcmp(word, "jfi") == 0)
        return read_jump_name(r, &r->files, value, len, err);
    if (strcmp(word, "jfn") == 0)
        return read_jump_name(r, &r->names, value, len, err);
    if (strcmp(word, "job") == 0)
        return read_jump_name(r, &r->objects, value, len, err);
    if (strcmp(word, "cob") == 0) {
        r->has_called_object = true;
        return read_name(r, &r->objects, value, len, &r->called_object, err);
    }
    if (strcmp(word, "cfi") == 0 || strcmp(word, "cfl") == 0) {
        r->has_called_file = true;
        return read_name(r, &r->files, value, len, &r->called_file, err);
    }
    if (strcmp(word, "cfn") == 0) {
        r->has_called_name = true;
        return read_name(r, &r->names, value, len, &r->called_name, err);
    }
    return true;
}

/* KEY: VALUE of the head; most of them are for people. */
static bool read_header(struct reading *r, const char *key, size_t key_len,
                        const char *value, size_t len, struct lw_error *err)
{
    if (key_len == 6 && memcmp(key, "events", 6) == 0)
        return read_events(r, value, value + len, err);
    if (key_len == 9 && memcmp(key, "positions", 9) == 0)
        return read_positions(r, value, value + len, err);
    while (len > 0 && *value == ' ') {
        value++;
        len--;
    }
    if (key_len == 3 && memcmp(key, "cmd", 3) == 0 && len > 0)
        return lw_builder_fact(r->out, "command", value, len, err);
    return true;
}

/* What the line is, its first letters say: a letter begins a word up to '=' or ':'. */
static bool read_line(struct reading *r, const char *line, size_t len,
                      struct lw_error *err)
{
    size_t word = 0;

    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    while (len > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    if (len == 0 || line[0] == '#')
        return true;
    while (word < len && ((line[word] | 0x20) >= 'a' && (line[word] | 0x20) <= 'z'))
        word++;
    if (word > 0 && word < len && line[word] == '=')
        return read_assignment(r, line, word, line + word + 1, len - word - 1, err);
    if (word > 0 && word < len && line[word] == ':')
        return read_header(r, line, word, line + word + 1, len - word - 1, err);
    return read_cost(r, line, line + len, err);
}

static bool read_lines(struct reading *r, const struct lw_file_view *view,
                       struct lw_error *err)
{
    const char *line = (const char *)view->bytes, *end = line + view->len;

    for (r->number = 1; line < end; r->number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;

        if (!read_line(r, line, (size_t)(stop - line), err))
            return false;
        line = newline ? newline + 1 : end;
    }
    return !r->after_calls || fail(r, "calls= without what they cost", err);
}

/* At the end */

static bool add_function(struct reading *r, const struct function *function,
                         double whole, uint32_t *index, struct lw_error *err)
{
    double total = function->self + function->callees;
    struct lw_frame frame = { .name = function->name,
                              .file =
                                  function->file ? function->file : function->object,
                              .first_line = function->line };
    struct lw_graph_function row = { 0 };

    frame.kind = frame.file ? LW_FRAME_PYTHON : LW_FRAME_NATIVE;
    if (!frame.file)
        frame.first_line = 0; /* a line of nothing */
    row.cost.calls = function->calls;
    row.cost.primitive_calls = function->calls - function->self_calls;
    row.cost.self_s = function->self * r->event_ns / 1e9;
    row.cost.total_s = (total < whole ? total : whole) * r->event_ns / 1e9;
    return lw_builder_frame(r->out, &frame, &row.frame, err) &&
           lw_builder_function(r->out, &row, index, err);
}

static bool add_edge(struct reading *r, const struct edge *edge, struct lw_error *err)
{
    const struct function *callee = &r->functions[edge->callee];
    double total = callee->self + callee->callees;
    struct lw_graph_edge row = { edge->caller, edge->callee, { 0 } };

    row.cost.calls = row.cost.primitive_calls = edge->calls;
    row.cost.total_s = edge->total * r->event_ns / 1e9;
    row.cost.self_s = total > 0 ? row.cost.total_s * (callee->self / total) : 0;
    return lw_builder_edge(r->out, &row, err);
}

static bool add_unit(struct reading *r, struct lw_error *err)
{
    const char *event = lw_profile_text(lw_builder_profile(r->out), r->event_name);
    struct lw_buf text;
    bool done;

    lw_buf_init(&text, 0);
    lw_buf_addf(&text, "1 ns is 1 %s in the file", event);
    done = lw_buf_check(&text, err) &&
           lw_builder_fact(r->out, "unit", text.bytes, text.len, err);
    lw_buf_reset(&text);
    lw_buf_addf(&text, "Figures are %s, not times", event);
    done = done && lw_buf_check(&text, err) &&
           lw_measure_set(r->out, LW_UNIT_COUNT, text.bytes, err);
    lw_buf_release(&text);
    return done;
}

static bool finish(struct reading *r, struct lw_error *err)
{
    double whole = 0;

    for (size_t i = 0; i < r->function_count; i++)
        whole += r->functions[i].self;
    for (size_t i = 0; i < r->function_count; i++) {
        uint32_t index; /* i: the builder has no other functions */

        if (!add_function(r, &r->functions[i], whole, &index, err))
            return false;
    }
    for (size_t i = 0; i < r->edge_count; i++)
        if (!add_edge(r, &r->edges[i], err))
            return false;
    return r->is_time || r->event_count == 0 || add_unit(r, err);
}

static void release_names(struct names *names)
{
    lw_free(names->list);
    lw_map_release(&names->map);
}

static bool read_callgrind(const struct lw_source *source,
                           unsigned want __attribute__((unused)),
                           struct lw_builder *out, struct lw_error *err)
{
    struct reading r = { .out = out,
                         .here.function = LW_NONE,
                         .position_count = 1, /* a line, if nothing is said */
                         .event_ns = 1 };
    bool done = read_lines(&r, &source->view, err) && finish(&r, err);

    release_names(&r.objects);
    release_names(&r.files);
    release_names(&r.names);
    lw_map_release(&r.function_map);
    lw_map_release(&r.edge_map);
    lw_free(r.functions);
    lw_free(r.edges);
    return done;
}

static bool has_line(const struct lw_source *source, const char *start)
{
    size_t len = strlen(start);

    for (const unsigned char *p = source->head; p;) {
        size_t left = source->head_len - (size_t)(p - source->head);

        if (left >= len && memcmp(p, start, len) == 0)
            return true;
        p = memchr(p, '\n', left);
        p = p ? p + 1 : NULL;
    }
    return false;
}

/* Newer ones say it; of the others a line begins with "events:", and one names the
 * writer, a file or a function. No other text is so. */
static bool sniff_callgrind(const struct lw_source *source)
{
    if (source->head_len == 0 || memchr(source->head, '\0', source->head_len))
        return false;
    return has_line(source, "# callgrind format") ||
           (has_line(source, "events:") &&
            (has_line(source, "creator:") || has_line(source, "fl=") ||
             has_line(source, "fn=")));
}

const struct lw_reader lw_reader_callgrind = {
    .name = "callgrind",
    .summary = "call graphs of callgrind, pyprof2calltree, yappi and Xdebug",
    .suffixes = ".callgrind",
    .sniff = sniff_callgrind,
    .read = read_callgrind,
};
