/* What run.json holds: set piece by piece, written, and read back.
 *
 *     {
 *       "format": "lapwing run", "major": 1, "minor": 0,
 *       "state": "finished",
 *       "command": "python train.py --epochs 3",
 *       "arguments": ["python", "train.py", "--epochs", "3"],
 *       "parameters": {"epochs": "3"},
 *       "facts": {"host": "a", "commit": "1cc6fe5...", "dirty": "yes"},
 *       "rank": 0,
 *       "clock": {"start_ns": 1, "end_ns": 2, "wall_start_ns": 3, "wall_end_ns": 4},
 *       "exit_code": 0,
 *       "losses": [{"cause": "...", "unit": "...", "count": 5}]
 *     }
 *
 * Members that are not known are left out. */

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "base/text.h"
#include "lap/chunk.h"
#include "lap/run.h"

#define FORMAT_NAME "lapwing run"

static const char *const state_names[] = { [LW_RUN_RUNNING] = "running",
                                           [LW_RUN_FINISHED] = "finished",
                                           [LW_RUN_BROKEN] = "running" };

void lw_run_info_init(struct lw_run_info *info)
{
    memset(info, 0, sizeof(*info));
    lw_arena_init(&info->arena);
    info->rank = -1;
    info->exit_code = -1;
}

void lw_run_info_release(struct lw_run_info *info)
{
    lw_free(info->arguments);
    lw_free(info->parameters);
    lw_free(info->facts);
    lw_free(info->losses);
    lw_arena_release(&info->arena);
    lw_run_info_init(info);
}

static const char *copy(struct lw_run_info *info, const char *text,
                        struct lw_error *err)
{
    return lw_arena_copy(&info->arena, text, strlen(text), err);
}

bool lw_run_info_set_command(struct lw_run_info *info, const char *command,
                             struct lw_error *err)
{
    const char *text = command ? copy(info, command, err) : NULL;

    if (command && !text)
        return false;
    info->command = text;
    return true;
}

bool lw_run_info_add_argument(struct lw_run_info *info, const char *text,
                              struct lw_error *err)
{
    const char *copied = copy(info, text, err);

    if (!copied || !lw_grow(&info->arguments, &info->argument_capacity,
                            info->argument_count + 1, sizeof(*info->arguments), err))
        return false;
    info->arguments[info->argument_count++] = copied;
    return true;
}

static bool set_pair(struct lw_run_info *info, struct lw_run_pair **pairs,
                     size_t *count, size_t *capacity, const char *key,
                     const char *value, struct lw_error *err)
{
    struct lw_run_pair pair = { NULL, NULL };
    size_t i = 0;

    while (i < *count && strcmp((*pairs)[i].key, key) != 0)
        i++;
    if (!value) {
        if (i < *count)
            memmove(*pairs + i, *pairs + i + 1, (--*count - i) * sizeof(**pairs));
        return true;
    }
    pair.key = copy(info, key, err);
    pair.value = copy(info, value, err);
    if (!pair.key || !pair.value || !lw_grow(pairs, capacity, i + 1, sizeof(pair), err))
        return false;
    (*pairs)[i] = pair;
    *count += i == *count;
    return true;
}

bool lw_run_info_set_parameter(struct lw_run_info *info, const char *key,
                               const char *value, struct lw_error *err)
{
    return set_pair(info, &info->parameters, &info->parameter_count,
                    &info->parameter_capacity, key, value, err);
}

bool lw_run_info_set_fact(struct lw_run_info *info, const char *key, const char *value,
                          struct lw_error *err)
{
    return set_pair(info, &info->facts, &info->fact_count, &info->fact_capacity, key,
                    value, err);
}

const char *lw_run_info_fact(const struct lw_run_info *info, const char *key)
{
    for (size_t i = 0; i < info->fact_count; i++)
        if (strcmp(info->facts[i].key, key) == 0)
            return info->facts[i].value;
    return NULL;
}

bool lw_run_info_add_loss(struct lw_run_info *info, const char *cause, const char *unit,
                          uint64_t count, struct lw_error *err)
{
    struct lw_run_loss loss = { .count = count };

    for (size_t i = 0; i < info->loss_count; i++)
        if (strcmp(info->losses[i].cause, cause) == 0 &&
            strcmp(info->losses[i].unit, unit) == 0) {
            info->losses[i].count += count;
            return true;
        }
    loss.cause = copy(info, cause, err);
    loss.unit = copy(info, unit, err);
    if (!loss.cause || !loss.unit ||
        !lw_grow(&info->losses, &info->loss_capacity, info->loss_count + 1,
                 sizeof(loss), err))
        return false;
    info->losses[info->loss_count++] = loss;
    return true;
}

/* Writing */

static void write_pairs(struct lw_json_out *json, const char *key,
                        const struct lw_run_pair *pairs, size_t count)
{
    if (!count)
        return;
    lw_json_key(json, key);
    lw_json_object(json);
    for (size_t i = 0; i < count; i++)
        lw_json_key_text(json, pairs[i].key, pairs[i].value);
    lw_json_end(json, '}');
}

static void write_time(struct lw_json_out *json, const char *key, uint64_t ns)
{
    if (ns)
        lw_json_key_u64(json, key, ns);
}

void lw_run_info_write(const struct lw_run_info *info, struct lw_buf *out)
{
    struct lw_json_out json;

    lw_json_start(&json, out, true);
    lw_json_object(&json);
    lw_json_key_text(&json, "format", FORMAT_NAME);
    lw_json_key_u64(&json, "major", LW_LAP_MAJOR);
    lw_json_key_u64(&json, "minor", LW_LAP_MINOR);
    lw_json_key_text(&json, "state", state_names[info->state]);
    if (info->command)
        lw_json_key_text(&json, "command", info->command);
    if (info->argument_count) {
        lw_json_key(&json, "arguments");
        lw_json_array(&json);
        for (size_t i = 0; i < info->argument_count; i++)
            lw_json_text(&json, info->arguments[i], strlen(info->arguments[i]));
        lw_json_end(&json, ']');
    }
    write_pairs(&json, "parameters", info->parameters, info->parameter_count);
    write_pairs(&json, "facts", info->facts, info->fact_count);
    if (info->rank >= 0)
        lw_json_key_u64(&json, "rank", (uint64_t)info->rank);
    lw_json_key(&json, "clock");
    lw_json_object(&json);
    write_time(&json, "start_ns", info->start_ns);
    write_time(&json, "end_ns", info->end_ns);
    write_time(&json, "wall_start_ns", info->wall_start_ns);
    write_time(&json, "wall_end_ns", info->wall_end_ns);
    lw_json_end(&json, '}');
    if (info->exit_code >= 0)
        lw_json_key_u64(&json, "exit_code", (uint64_t)info->exit_code);
    if (info->loss_count) {
        lw_json_key(&json, "losses");
        lw_json_array(&json);
        for (size_t i = 0; i < info->loss_count; i++) {
            lw_json_object(&json);
            lw_json_key_text(&json, "cause", info->losses[i].cause);
            lw_json_key_text(&json, "unit", info->losses[i].unit);
            lw_json_key_u64(&json, "count", info->losses[i].count);
            lw_json_end(&json, '}');
        }
        lw_json_end(&json, ']');
    }
    lw_json_end(&json, '}');
    lw_buf_add_char(out, '\n');
}

/* Reading. `text` holds the last key or string, decoded. */

struct reading {
    struct lw_json_in json;
    struct lw_run_info *info;
    struct lw_buf key, text;
    bool is_run;
    uint64_t major, minor;
};

static bool take_text(struct reading *r, struct lw_buf *into, struct lw_error *err)
{
    lw_buf_reset(into);
    lw_buf_add(into, "", 0); /* so that an empty text is not NULL */
    lw_json_unescape(&r->json, into);
    return lw_buf_check(into, err);
}

static uint64_t number_of(const struct reading *r)
{
    uint64_t value;

    return lw_text_u64(r->json.text, r->json.len, &value) ? value : 0;
}

/* The members of an object, each given to MEMBER; `key` is its name. Values that are
 * neither text nor number are passed over. */
typedef bool member_function(struct reading *r, enum lw_json_token token,
                             struct lw_error *err);

static bool read_object(struct reading *r, member_function *member,
                        struct lw_error *err)
{
    for (;;) {
        enum lw_json_token token = lw_json_next(&r->json);

        if (token == LW_JSON_OBJECT_END)
            return true;
        if (token != LW_JSON_KEY)
            return lw_json_fail(&r->json, err);
        if (!take_text(r, &r->key, err))
            return false;
        token = lw_json_next(&r->json);
        if (token == LW_JSON_STRING && !take_text(r, &r->text, err))
            return false;
        if (!member(r, token, err))
            return false;
    }
}

static bool pass_over(struct reading *r, enum lw_json_token token, struct lw_error *err)
{
    return lw_json_skip_rest(&r->json, token) || lw_json_fail(&r->json, err);
}

static bool parameter_member(struct reading *r, enum lw_json_token token,
                             struct lw_error *err)
{
    if (token != LW_JSON_STRING)
        return pass_over(r, token, err);
    return lw_run_info_set_parameter(r->info, r->key.bytes, r->text.bytes, err);
}

static bool fact_member(struct reading *r, enum lw_json_token token,
                        struct lw_error *err)
{
    if (token != LW_JSON_STRING)
        return pass_over(r, token, err);
    return lw_run_info_set_fact(r->info, r->key.bytes, r->text.bytes, err);
}

static bool key_is(const struct reading *r, const char *key)
{
    return strcmp(r->key.bytes, key) == 0;
}

static bool clock_member(struct reading *r, enum lw_json_token token,
                         struct lw_error *err)
{
    if (token != LW_JSON_NUMBER)
        return pass_over(r, token, err);
    if (key_is(r, "start_ns"))
        r->info->start_ns = number_of(r);
    else if (key_is(r, "end_ns"))
        r->info->end_ns = number_of(r);
    else if (key_is(r, "wall_start_ns"))
        r->info->wall_start_ns = number_of(r);
    else if (key_is(r, "wall_end_ns"))
        r->info->wall_end_ns = number_of(r);
    return true;
}

/* A loss is added with count 0 and no text when its object begins, then filled. */
static bool loss_member(struct reading *r, enum lw_json_token token,
                        struct lw_error *err)
{
    struct lw_run_loss *loss = &r->info->losses[r->info->loss_count - 1];
    const char *text;

    if (token == LW_JSON_NUMBER) {
        if (key_is(r, "count"))
            loss->count = number_of(r);
        return true;
    }
    if (token != LW_JSON_STRING)
        return pass_over(r, token, err);
    text = copy(r->info, r->text.bytes, err);
    if (!text)
        return false;
    if (key_is(r, "cause"))
        loss->cause = text;
    else if (key_is(r, "unit"))
        loss->unit = text;
    return true;
}

static bool read_losses(struct reading *r, struct lw_error *err)
{
    for (;;) {
        enum lw_json_token token = lw_json_next(&r->json);
        struct lw_run_info *info = r->info;

        if (token == LW_JSON_ARRAY_END)
            return true;
        if (token != LW_JSON_OBJECT)
            return lw_json_fail(&r->json, err);
        if (!lw_grow(&info->losses, &info->loss_capacity, info->loss_count + 1,
                     sizeof(*info->losses), err))
            return false;
        info->losses[info->loss_count++] = (struct lw_run_loss){ "", "", 0 };
        if (!read_object(r, loss_member, err))
            return false;
    }
}

static bool read_arguments(struct reading *r, struct lw_error *err)
{
    for (;;) {
        enum lw_json_token token = lw_json_next(&r->json);

        if (token == LW_JSON_ARRAY_END)
            return true;
        if (token != LW_JSON_STRING)
            return lw_json_fail(&r->json, err);
        if (!take_text(r, &r->text, err) ||
            !lw_run_info_add_argument(r->info, r->text.bytes, err))
            return false;
    }
}

static bool top_member(struct reading *r, enum lw_json_token token,
                       struct lw_error *err)
{
    if (token == LW_JSON_STRING) {
        if (key_is(r, "format"))
            r->is_run = strcmp(r->text.bytes, FORMAT_NAME) == 0;
        else if (key_is(r, "state"))
            r->info->state = strcmp(r->text.bytes, "finished") == 0 ? LW_RUN_FINISHED
                                                                    : LW_RUN_RUNNING;
        else if (key_is(r, "command"))
            return lw_run_info_set_command(r->info, r->text.bytes, err);
        return true;
    }
    if (token == LW_JSON_NUMBER) {
        if (key_is(r, "major"))
            r->major = number_of(r);
        else if (key_is(r, "minor"))
            r->minor = number_of(r);
        else if (key_is(r, "rank"))
            r->info->rank = (int64_t)(number_of(r) & INT64_MAX);
        else if (key_is(r, "exit_code"))
            r->info->exit_code = (int32_t)(number_of(r) & INT32_MAX);
        return true;
    }
    if (token == LW_JSON_OBJECT && key_is(r, "parameters"))
        return read_object(r, parameter_member, err);
    if (token == LW_JSON_OBJECT && key_is(r, "facts"))
        return read_object(r, fact_member, err);
    if (token == LW_JSON_OBJECT && key_is(r, "clock"))
        return read_object(r, clock_member, err);
    if (token == LW_JSON_ARRAY && key_is(r, "arguments"))
        return read_arguments(r, err);
    if (token == LW_JSON_ARRAY && key_is(r, "losses"))
        return read_losses(r, err);
    return pass_over(r, token, err);
}

bool lw_run_info_read(struct lw_run_info *info, const char *text, size_t len,
                      struct lw_error *err)
{
    struct reading r = { .info = info };
    bool done;

    lw_json_in_init(&r.json, text, len);
    done = lw_json_next(&r.json) == LW_JSON_OBJECT ? read_object(&r, top_member, err)
                                                   : lw_json_fail(&r.json, err);
    if (done && !r.is_run)
        done = lw_fail(err, LW_ERR_FORMAT, "does not say that it is a Lapwing run");
    done = done && lw_lap_check_version(r.major, r.minor, err);
    lw_buf_release(&r.key);
    lw_buf_release(&r.text);
    return done;
}
