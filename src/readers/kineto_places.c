/* A thread may be 5555 in one event and "5555" in another, and a stream 7 or "stream 7":
 * a place is known by what is between the quotes. Names come before or behind the events,
 * also of threads that have none. */

#include "readers/kineto_places.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "readers/kineto_args.h"

void lw_kineto_places_init(struct lw_kineto_places *places, struct lw_builder *out,
                           uint32_t rank)
{
    memset(places, 0, sizeof(*places));
    places->out = out;
    places->rank = rank;
    places->last = LW_NONE;
    lw_buf_init(&places->text, 0);
}

void lw_kineto_places_release(struct lw_kineto_places *places)
{
    lw_buf_release(&places->text);
    lw_map_release(&places->map);
    lw_map_release(&places->process_map);
    lw_free(places->list);
    lw_free(places->processes);
}

static bool string_of(struct lw_kineto_places *places, const struct lw_value *value,
                      lw_string_id *id, struct lw_error *err)
{
    return lw_kineto_string(places->out, value, &places->text, id, err);
}

struct lw_kineto_text lw_kineto_text(const struct lw_builder *out, lw_string_id id)
{
    const struct lw_strings *strings = lw_builder_profile(out)->strings;
    struct lw_kineto_text text = { lw_strings_text(strings, id),
                                   lw_strings_len(strings, id) };

    return text;
}

static bool is_place(const void *owner, uint32_t number, const void *key)
{
    const struct lw_kineto_place *a =
        &((const struct lw_kineto_places *)owner)->list[number - 1];
    const struct lw_kineto_place *b = key;

    return a->pid == b->pid && a->tid == b->tid;
}

bool lw_kineto_place(struct lw_kineto_places *places,
                     const struct lw_trace_event *event, struct lw_kineto_place **found,
                     struct lw_error *err)
{
    struct lw_kineto_place place = { .track = LW_NONE, .open = LW_NONE };
    uint64_t hash;
    uint32_t number;

    if (places->last != LW_NONE && lw_kineto_is_text(&places->last_tid, &event->tid) &&
        lw_kineto_is_text(&places->last_pid, &event->pid)) {
        *found = &places->list[places->last];
        return true;
    }
    if (!string_of(places, &event->pid, &place.pid, err) ||
        !string_of(places, &event->tid, &place.tid, err))
        return false;
    hash = lw_hash_u64((uint64_t)place.pid << 32 | place.tid);
    number = lw_map_find(&places->map, hash, is_place, places, &place);
    if (!number) {
        if (places->count >= LW_NONE - 1)
            return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 threads");
        if (!lw_grow(&places->list, &places->capacity, places->count + 1, sizeof(place),
                     err) ||
            !lw_map_add(&places->map, hash, (uint32_t)places->count + 1, err))
            return false;
        places->list[places->count++] = place;
        number = (uint32_t)places->count;
    }
    places->last = number - 1;
    places->last_pid = lw_kineto_text(places->out, place.pid);
    places->last_tid = lw_kineto_text(places->out, place.tid);
    *found = &places->list[places->last];
    return true;
}

/* "5555", "stream 7"; -1: no number. */
static int64_t number_of(const char *text, size_t len)
{
    const char *digits = text;
    int64_t number;

    if (len > 7 && memcmp(text, "stream ", 7) == 0)
        digits += 7;
    return lw_text_i64(digits, len - (size_t)(digits - text), &number) && number >= 0
               ? number
               : -1;
}

bool lw_kineto_track(struct lw_kineto_places *places,
                     const struct lw_trace_event *event, struct lw_kineto_place **place,
                     struct lw_error *err)
{
    const struct lw_strings *strings = lw_builder_profile(places->out)->strings;
    struct lw_trace *trace = lw_builder_profile(places->out)->trace;
    struct lw_track track = { .rank = places->rank, .device = -1 };

    if (!lw_kineto_place(places, event, place, err))
        return false;
    if ((*place)->track != LW_NONE)
        return true;
    track.pid = (*place)->pid;
    track.tid = (*place)->tid;
    track.number = number_of(lw_strings_text(strings, track.tid),
                             lw_strings_len(strings, track.tid));
    if (trace->track_count >= LW_NONE)
        return lw_fail(err, LW_ERR_LIMIT, "more than 2^32 tracks");
    if (!lw_grow(&trace->tracks, &trace->track_capacity, trace->track_count + 1,
                 sizeof(track), err))
        return false;
    (*place)->track = (uint32_t)trace->track_count;
    trace->tracks[trace->track_count++] = track;
    return true;
}

/* Names */

static bool is_process(const void *owner, uint32_t number, const void *key)
{
    const struct lw_kineto_places *places = owner;

    return places->processes[number - 1].pid == *(const lw_string_id *)key;
}

static uint32_t find_process(const struct lw_kineto_places *places, lw_string_id pid)
{
    return lw_map_find(&places->process_map, lw_hash_u64(pid), is_process, places,
                       &pid);
}

/* The process of FROM, whose pointer is good until another is met. */
static bool get_process(struct lw_kineto_places *places,
                        const struct lw_trace_event *from,
                        struct lw_kineto_process **process, struct lw_error *err)
{
    struct lw_kineto_process added = { 0 };
    uint32_t number;

    if (!string_of(places, &from->pid, &added.pid, err))
        return false;
    number = find_process(places, added.pid);
    if (!number) {
        if (!lw_grow(&places->processes, &places->process_capacity,
                     places->process_count + 1, sizeof(added), err) ||
            !lw_map_add(&places->process_map, lw_hash_u64(added.pid),
                        (uint32_t)places->process_count + 1, err))
            return false;
        places->processes[places->process_count++] = added;
        number = (uint32_t)places->process_count;
    }
    *process = &places->processes[number - 1];
    return true;
}

static bool add_of_process(struct lw_kineto_places *places,
                           const struct lw_trace_event *from,
                           const struct lw_member *member, struct lw_error *err)
{
    struct lw_kineto_process *process;

    if (!get_process(places, from, &process, err))
        return false;
    if (lw_member_is(member, "name"))
        return string_of(places, &member->value, &process->name, err);
    if (lw_member_is(member, "labels"))
        return string_of(places, &member->value, &process->labels, err);
    if (lw_member_is(member, "sort_index"))
        (void)lw_value_i64(&member->value, &process->sort_index);
    return true;
}

static bool add_of_thread(struct lw_kineto_places *places,
                          const struct lw_trace_event *from,
                          const struct lw_member *member, struct lw_error *err)
{
    struct lw_kineto_place *place;

    if (!lw_kineto_place(places, from, &place, err))
        return false;
    if (lw_member_is(member, "name"))
        return string_of(places, &member->value, &place->name, err);
    if (lw_member_is(member, "sort_index"))
        (void)lw_value_i64(&member->value, &place->sort_index);
    return true;
}

bool lw_kineto_places_name(struct lw_kineto_places *places,
                           const struct lw_trace_event *from, struct lw_error *err)
{
    bool is_thread = lw_value_starts(&from->name, "thread_");
    bool is_process = lw_value_starts(&from->name, "process_");

    for (size_t i = 0; i < from->member_count; i++) {
        const struct lw_member *member = &from->members[i];

        if ((is_thread && !add_of_thread(places, from, member, err)) ||
            (is_process && !add_of_process(places, from, member, err)))
            return false;
    }
    return true;
}

void lw_kineto_places_finish(struct lw_kineto_places *places)
{
    struct lw_trace *trace = lw_builder_profile(places->out)->trace;

    for (size_t i = 0; i < places->count; i++) {
        const struct lw_kineto_place *place = &places->list[i];
        uint32_t number = find_process(places, place->pid);
        struct lw_track *track;

        if (place->track == LW_NONE)
            continue;
        track = &trace->tracks[place->track];
        track->name = place->name;
        track->sort_index = place->sort_index;
        if (number) {
            const struct lw_kineto_process *process = &places->processes[number - 1];

            track->process_name = process->name;
            track->process_labels = process->labels;
            track->process_sort_index = process->sort_index;
        }
    }
}
