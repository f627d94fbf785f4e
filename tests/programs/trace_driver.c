/* What the readers make of a trace, as lines of JSON, so that a test in Python can hold it
 * against what Python's own json module reads from the same file.
 *
 *     trace_driver [--args] FILE [...]       several files are ranks of one trace */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "model/merge.h"
#include "readers/reader.h"

static const struct lw_profile *profile;
static struct lw_buf line;

static const char *text(lw_string_id id)
{
    struct lw_json_out json;

    lw_buf_reset(&line);
    lw_json_start(&json, &line, false);
    lw_json_text(&json, lw_profile_text(profile, id),
                 lw_strings_len(profile->strings, id));
    return line.bytes;
}

static void print_text(const char *key, lw_string_id id)
{
    printf(", \"%s\": %s", key, text(id));
}

static void print_op(const struct lw_op_detail *op)
{
    print_text("shapes", op->shapes);
    print_text("types", op->types);
    print_text("strides", op->strides);
    print_text("values", op->values);
    print_text("stack", op->stack);
    printf(", \"sequence\": %" PRId64 ", \"forward_thread\": %" PRIu64
           ", \"record_id\": %" PRId64,
           op->sequence, op->forward_thread, op->record_id);
}

static void print_work(const struct lw_work_detail *work)
{
    printf(", \"device\": %d, \"stream\": %" PRId64
           ", \"blocks\": %.17g, \"warps\": %.17g, \"occupancy\": %.17g"
           ", \"bandwidth\": %.17g, \"bytes\": %" PRId64,
           work->device, work->stream, work->blocks_per_sm, work->warps_per_sm,
           work->occupancy, work->bandwidth_gbps, work->bytes);
    printf(", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"registers\": %" PRId64
           ", \"shared\": %" PRId64 ", \"wait_stream\": %" PRId64
           ", \"wait_correlation\": %" PRIu64,
           work->grid[0], work->grid[1], work->grid[2], work->block[0], work->block[1],
           work->block[2], work->registers, work->shared_bytes, work->wait_stream,
           work->wait_correlation);
}

static void print_collective(uint32_t index)
{
    const struct lw_collective *c;

    if (index == LW_NONE)
        return;
    c = &profile->trace->collectives[index];
    print_text("collective", c->name);
    print_text("dtype", c->dtype);
    print_text("group", c->group);
    print_text("group_text", c->group_text);
    print_text("ranks", c->ranks);
    printf(", \"in_count\": %" PRId64 ", \"out_count\": %" PRId64
           ", \"group_size\": %" PRId64,
           c->in_count, c->out_count, c->group_size);
}

static void print_detail(const struct lw_event *event)
{
    const struct lw_trace *trace = profile->trace;

    if (event->detail == LW_NONE)
        return;
    switch (event->kind) {
    case LW_EVENT_OP:
    case LW_EVENT_RANGE:
        print_op(&trace->ops[event->detail]);
        print_collective(trace->ops[event->detail].collective);
        break;
    case LW_EVENT_PYTHON:
        printf(", \"python\": [%" PRId64 ", %" PRId64 ", %" PRId64 "]",
               trace->pythons[event->detail].id,
               trace->pythons[event->detail].parent_id,
               trace->pythons[event->detail].module_id);
        break;
    default:
        print_work(&trace->works[event->detail]);
        print_collective(trace->works[event->detail].collective);
        break;
    }
}

static void print_events(void)
{
    const struct lw_trace *trace = profile->trace;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct lw_event *event = &trace->events[i];

        printf("{\"is\": \"event\", \"kind\": %u, \"track\": %u, \"start\": %" PRIu64
               ", \"duration\": %" PRIu64 ", \"correlation\": %" PRIu64
               ", \"external\": %" PRIu64 ", \"parent\": %" PRId64,
               event->kind, event->track, event->start_ns, event->duration_ns,
               event->correlation, event->external,
               event->parent == LW_NONE ? -1 : (int64_t)event->parent);
        print_text("name", event->name);
        print_text("category", event->category);
        print_detail(event);
        if (trace->args)
            print_text("args", trace->args[i]);
        puts("}");
    }
}

static void print_places(void)
{
    const struct lw_trace *trace = profile->trace;

    for (size_t i = 0; i < trace->track_count; i++) {
        const struct lw_track *track = &trace->tracks[i];

        printf("{\"is\": \"track\", \"rank\": %u, \"is_device\": %d, \"device\": %d"
               ", \"number\": %" PRId64 ", \"sort_index\": %" PRId64 ", \"count\": %u",
               track->rank, track->is_device, track->device, track->number,
               track->sort_index, track->count);
        print_text("pid", track->pid);
        print_text("tid", track->tid);
        print_text("name", track->name);
        print_text("process_name", track->process_name);
        puts("}");
    }
    for (size_t i = 0; i < trace->gpu_count; i++) {
        const struct lw_trace_gpu *gpu = &trace->gpus[i];

        printf("{\"is\": \"gpu\", \"rank\": %u, \"id\": %d, \"memory\": %" PRId64
               ", \"major\": %" PRId64 ", \"minor\": %" PRId64 ", \"sms\": %" PRId64
               ", \"threads\": %" PRId64 ", \"warp\": %" PRId64,
               gpu->rank, gpu->id, gpu->memory_bytes, gpu->compute_major,
               gpu->compute_minor, gpu->sm_count, gpu->max_threads_per_sm,
               gpu->warp_size);
        print_text("name", gpu->name);
        puts("}");
    }
    for (size_t i = 0; i < trace->rank_count; i++) {
        const struct lw_trace_rank *rank = &trace->ranks[i];

        printf("{\"is\": \"rank\", \"rank\": %" PRId64 ", \"world_size\": %" PRId64
               ", \"base\": %" PRIu64 ", \"clock\": %" PRId64 ", \"events\": %" PRIu64,
               rank->rank, rank->world_size, rank->base_ns, rank->clock_ns,
               rank->event_count);
        print_text("file", rank->file);
        print_text("backend", rank->backend);
        print_text("host", rank->host);
        print_text("info", rank->info);
        puts("}");
    }
}

static void print_rest(void)
{
    const struct lw_trace *trace = profile->trace;

    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct lw_memory_event *m = &trace->memory[i];

        printf("{\"is\": \"memory\", \"time\": %" PRIu64 ", \"address\": %" PRIu64
               ", \"bytes\": %" PRId64 ", \"allocated\": %" PRId64
               ", \"reserved\": %" PRId64 ", \"type\": %d, \"device\": %d"
               ", \"track\": %u}\n",
               m->time_ns, m->address, m->bytes, m->allocated, m->reserved,
               m->device_type, m->device, m->track);
    }
    for (size_t i = 0; i < trace->flow_count; i++)
        printf("{\"is\": \"flow\", \"forward\": %u, \"backward\": %u}\n",
               trace->flows[i].forward, trace->flows[i].backward);
    for (size_t i = 0; i < trace->point_count; i++) {
        printf("{\"is\": \"point\", \"time\": %" PRIu64 ", \"value\": %.17g",
               trace->points[i].time_ns, trace->points[i].value);
        print_text("name", trace->points[i].name);
        puts("}");
    }
    for (size_t i = 0; i < profile->loss_count; i++) {
        printf("{\"is\": \"loss\", \"count\": %" PRIu64, profile->losses[i].count);
        print_text("cause", profile->losses[i].cause);
        print_text("unit", profile->losses[i].unit);
        puts("}");
    }
    printf("{\"is\": \"trace\", \"base\": %" PRIu64 ", \"events\": %zu}\n",
           trace->base_ns, trace->event_count);
}

int main(int count, char **words)
{
    unsigned want = LW_WANT_TRACE;
    struct lw_profile *opened[16], *merged = NULL;
    struct lw_error err = { LW_OK, "" };
    size_t files = 0;

    for (int i = 1; i < count && files < 16; i++) {
        if (strcmp(words[i], "--args") == 0) {
            want |= LW_WANT_ARGS;
        } else if (!(opened[files] = lw_profile_open(words[i], want, &err))) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        } else {
            files++;
        }
    }
    if (files > 1)
        merged =
            lw_profile_merge((const struct lw_profile *const *)opened, files, &err);
    profile = files > 1 ? merged : files ? opened[0] : NULL;
    if (!profile || !profile->trace) {
        fprintf(stderr, "%s\n", err.code ? err.text : "no trace");
        return 1;
    }
    lw_buf_init(&line, 0);
    print_places();
    print_events();
    print_rest();
    lw_buf_release(&line);
    lw_profile_free(merged);
    for (size_t i = 0; i < files; i++)
        lw_profile_free(opened[i]);
    return 0;
}
