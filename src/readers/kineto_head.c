#include "readers/kineto_head.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json_in.h"
#include "base/text.h"
#include "readers/kineto.h"
#include "readers/kineto_args.h"

#define INFO_BYTES ((size_t)1 << 20) /* of all members: they are for a person */

void lw_kineto_head_init(struct lw_kineto_head *head, struct lw_builder *out,
                         uint32_t rank)
{
    head->out = out;
    head->rank = rank;
    lw_buf_init(&head->info, 0);
    lw_buf_init(&head->text, 0);
}

void lw_kineto_head_release(struct lw_kineto_head *head)
{
    lw_buf_release(&head->info);
    lw_buf_release(&head->text);
}

static struct lw_trace *trace_of(const struct lw_kineto_head *head)
{
    return lw_builder_profile(head->out)->trace;
}

/* The value that TOKEN is, for the functions that read an event's. */
static struct lw_value value_of(const struct lw_json_in *json, enum lw_json_token token)
{
    struct lw_value value = { json->text, json->len, LW_VALUE_NONE, false };

    if (token == LW_JSON_STRING) {
        value.form = LW_VALUE_TEXT;
        value.escaped = json->escaped;
    } else if (token == LW_JSON_NUMBER) {
        value.form = LW_VALUE_WORD;
    }
    return value;
}

static void take_gpu_number(struct lw_trace_gpu *gpu, const struct lw_json_in *key,
                            const struct lw_value *value)
{
    int64_t number;

    if (!lw_value_i64(value, &number))
        return;
    if (lw_json_is(key, "id") && number >= INT32_MIN && number <= INT32_MAX)
        gpu->id = (int32_t)number;
    else if (lw_json_is(key, "totalGlobalMem"))
        gpu->memory_bytes = number;
    else if (lw_json_is(key, "computeMajor"))
        gpu->compute_major = number;
    else if (lw_json_is(key, "computeMinor"))
        gpu->compute_minor = number;
    else if (lw_json_is(key, "numSms"))
        gpu->sm_count = number;
    else if (lw_json_is(key, "maxThreadsPerMultiprocessor"))
        gpu->max_threads_per_sm = number;
    else if (lw_json_is(key, "warpSize"))
        gpu->warp_size = number;
}

static bool read_gpu(struct lw_kineto_head *head, struct lw_json_in *json,
                     struct lw_error *err)
{
    struct lw_trace *trace = trace_of(head);
    struct lw_trace_gpu gpu = { head->rank, -1, 0, -1, -1, -1, -1, -1, -1 };
    enum lw_json_token token;

    while ((token = lw_json_next(json)) == LW_JSON_KEY) {
        struct lw_json_in key = *json;
        struct lw_value value;

        token = lw_json_next(json);
        value = value_of(json, token);
        if (lw_json_is(&key, "name") && value.form == LW_VALUE_TEXT) {
            if (!lw_kineto_string(head->out, &value, &head->text, &gpu.name, err))
                return false;
        } else {
            take_gpu_number(&gpu, &key, &value);
        }
        if (!lw_json_skip_rest(json, token))
            break;
    }
    if (!lw_grow(&trace->gpus, &trace->gpu_capacity, trace->gpu_count + 1, sizeof(gpu),
                 err))
        return false;
    trace->gpus[trace->gpu_count++] = gpu;
    return true;
}

static bool read_gpus(struct lw_kineto_head *head, const struct lw_value *value,
                      struct lw_error *err)
{
    struct lw_json_in json;

    lw_json_in_init(&json, value->text, value->len);
    if (lw_json_next(&json) != LW_JSON_ARRAY)
        return true;
    while (lw_json_next(&json) == LW_JSON_OBJECT)
        if (!read_gpu(head, &json, err))
            return false;
    return true;
}

/* What "distributedInfo" says of the job. */
struct job {
    int64_t rank, world_size; /* -1: not told */
    struct lw_value backend;
};

static void read_job(const struct lw_value *info, struct job *job)
{
    struct lw_json_in json;

    job->rank = job->world_size = -1;
    job->backend.form = LW_VALUE_NONE;
    lw_json_in_init(&json, info->text, info->len);
    if (lw_json_next(&json) != LW_JSON_OBJECT)
        return;
    while (lw_json_next(&json) == LW_JSON_KEY) {
        struct lw_json_in key = json;
        enum lw_json_token token = lw_json_next(&json);
        struct lw_value value = value_of(&json, token);
        int64_t number;

        if (lw_json_is(&key, "backend") && value.form == LW_VALUE_TEXT)
            job->backend = value;
        else if (lw_value_i64(&value, &number) && number >= 0) {
            if (lw_json_is(&key, "rank"))
                job->rank = number;
            else if (lw_json_is(&key, "world_size"))
                job->world_size = number;
        }
        if (!lw_json_skip_rest(&json, token))
            break;
    }
}

void lw_kineto_rank_of_job(const struct lw_value *info, int64_t *rank)
{
    struct job job;

    read_job(info, &job);
    if (job.rank >= 0)
        *rank = job.rank;
}

static bool add_job(struct lw_kineto_head *head, const struct lw_value *info,
                    struct lw_error *err)
{
    struct lw_trace_rank *rank = &trace_of(head)->ranks[head->rank];
    struct job job;

    read_job(info, &job);
    if (job.rank >= 0)
        rank->rank = job.rank;
    if (job.world_size >= 0)
        rank->world_size = job.world_size;
    return job.backend.form == LW_VALUE_NONE ||
           lw_kineto_string(head->out, &job.backend, &head->text, &rank->backend, err);
}

static void add_info(struct lw_kineto_head *head, const struct lw_member *member)
{
    bool quotes = member->value.form == LW_VALUE_TEXT;

    if (member->key_len + member->value.len > INFO_BYTES - head->info.len)
        return;
    lw_buf_add_text(&head->info, head->info.len ? ",\"" : "{\"");
    lw_buf_add(&head->info, member->key, member->key_len);
    lw_buf_add_text(&head->info, quotes ? "\":\"" : "\":");
    lw_buf_add(&head->info, member->value.text, member->value.len);
    if (quotes)
        lw_buf_add_char(&head->info, '"');
}

bool lw_kineto_head_add(struct lw_kineto_head *head, const struct lw_member *member,
                        struct lw_error *err)
{
    struct lw_trace_rank *rank = &trace_of(head)->ranks[head->rank];
    uint64_t base_ns;

    add_info(head, member);
    if (lw_member_is(member, "deviceProperties") ||
        lw_member_is(member, "computeProperties"))
        return read_gpus(head, &member->value, err);
    if (lw_member_is(member, "distributedInfo"))
        return add_job(head, &member->value, err);
    if (lw_member_is(member, "host_name") && member->value.form == LW_VALUE_TEXT)
        return lw_kineto_string(head->out, &member->value, &head->text, &rank->host,
                                err);
    if (lw_member_is(member, "baseTimeNanoseconds") &&
        lw_value_u64(&member->value, &base_ns) && base_ns <= INT64_MAX / 2)
        rank->base_ns = base_ns;
    return true;
}

bool lw_kineto_head_finish(struct lw_kineto_head *head, struct lw_error *err)
{
    struct lw_trace *trace = trace_of(head);
    struct lw_trace_rank *rank = &trace->ranks[head->rank];

    if (head->info.len == 0)
        return lw_buf_check(&head->info, err);
    lw_buf_add_char(&head->info, '}');
    return lw_buf_check(&head->info, err) &&
           lw_builder_string(head->out, head->info.bytes, head->info.len, &rank->info,
                             err);
}

/* The name of a rank */

#define RANK_DIGITS 5 /* more are a process's number, or a time */

/* The digits at TEXT as a rank; -1: there are none, or too many. */
static int64_t take_rank(const char *text)
{
    size_t len = strspn(text, "0123456789");
    int64_t rank;

    return len > 0 && len <= RANK_DIGITS && lw_text_i64(text, len, &rank) ? rank : -1;
}

int64_t lw_kineto_rank_of_name(const char *name)
{
    static const char *const words[] = { "rank", "worker" };
    const char *base = lw_text_basename(name), *dot, *under;
    int64_t rank;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (const char *p = base; (p = strstr(p, words[i])) != NULL;) {
            p += strlen(words[i]);
            rank = take_rank(p + (*p == '-' || *p == '_'));
            if (rank >= 0)
                return rank;
        }
    dot = strstr(base, ".pt.trace.json");
    dot = dot ? dot : strstr(base, ".json");
    for (under = dot; under && under > base && under[-1] != '_';)
        under--;
    if (!under || under == base || strspn(under, "0123456789") != (size_t)(dot - under))
        return -1;
    return take_rank(under);
}
