/* Follows the name log. Each record is copied before it is looked at, and believed
 * only as far as its own length and the log's allow. */

#include "recorder/name_log.h"

#include <string.h>

#include "base/alloc.h"

void lw_name_log_init(struct lw_name_log *log)
{
    memset(log, 0, sizeof(*log));
}

void lw_name_log_release(struct lw_name_log *log)
{
    lw_free(log->names);
    memset(log, 0, sizeof(*log));
}

static uint8_t frame_kind(uint32_t kind)
{
    switch (kind) {
    case LW_NAME_C: return LW_FRAME_C;
    case LW_NAME_MARK: return LW_FRAME_MARK;
    case LW_NAME_OP: return LW_FRAME_OP;
    case LW_NAME_PHASE: return LW_FRAME_PHASE;
    default: return LW_FRAME_PYTHON;
    }
}

/* RECORD is ours; TEXT, its file and its name, lies in the log. */
static bool add_name(struct lw_name_log *log, struct lw_lap_writer *writer,
                     const struct lw_agent_name *record, const char *text,
                     struct lw_error *err)
{
    struct lw_name name = { record->kind, 0 };
    struct lw_frame frame = {
        .first_line = record->first_line,
        .variant = record->variant,
        .kind = frame_kind(record->kind),
    };

    if (!lw_grow(&log->names, &log->capacity, log->count + 1, sizeof(*log->names),
                 err) ||
        !lw_lap_writer_string(writer, text + record->file_len, record->name_len,
                              &frame.name, err))
        return false;
    if (record->kind == LW_NAME_COUNTER) {
        name.id = frame.name;
    } else if (!lw_lap_writer_string(writer, text, record->file_len, &frame.file,
                                     err) ||
               !lw_lap_writer_frame(writer, &frame, &name.id, err)) {
        return false;
    }
    log->names[log->count++] = name;
    return true;
}

/* Twice what an agent ever gives. */
#define NUMBERS_MOST (1u << 22)

static uint64_t names_lost(const struct lw_shared *shared)
{
    return atomic_load_explicit(&lw_shared_header(shared)->lost[LW_LOST_NAMES],
                                memory_order_relaxed);
}

/* RECORD is at the start of LEFT bytes of the log: it is whole, and its number is the next
 * but for names that the agent says it lost. */
static bool record_is_sound(const struct lw_name_log *log,
                            const struct lw_shared *shared,
                            const struct lw_agent_name *record, uint64_t left)
{
    uint64_t need = sizeof(*record) + (uint64_t)record->file_len + record->name_len;

    return record->record_bytes <= left && record->record_bytes % 8 == 0 &&
           need <= record->record_bytes && record->number > log->count &&
           record->number < NUMBERS_MOST &&
           record->number - 1 - log->count + log->missing <= names_lost(shared);
}

/* Bring the log up to NUMBER, whose name is the next that is there. */
static bool pass_over_lost(struct lw_name_log *log, uint32_t number,
                           struct lw_error *err)
{
    if (!lw_grow(&log->names, &log->capacity, number, sizeof(*log->names), err))
        return false;
    while (log->count < number - 1) {
        log->names[log->count++] = (struct lw_name){ LW_NAME_LOST, 0 };
        log->missing++;
    }
    return true;
}

bool lw_name_log_read(struct lw_name_log *log, const struct lw_shared *shared,
                      struct lw_lap_writer *writer, struct lw_error *err)
{
    uint64_t used = lw_shared_names_used(shared);
    const unsigned char *bytes;

    if (!lw_shared_reach_names(shared, used, err))
        return false;
    bytes = lw_shared_names(shared);
    while (!log->damaged && log->read_bytes < used) {
        const unsigned char *at = bytes + log->read_bytes;
        uint64_t left = used - log->read_bytes;
        struct lw_agent_name record;

        if (left >= sizeof(record))
            memcpy(&record, at, sizeof(record));
        if (left < sizeof(record) || !record_is_sound(log, shared, &record, left)) {
            log->damaged = true;
            break;
        }
        if (!pass_over_lost(log, record.number, err) ||
            !add_name(log, writer, &record, (const char *)at + sizeof(record), err))
            return false;
        log->read_bytes += record.record_bytes;
    }
    return true;
}

const struct lw_name *lw_name_log_find(const struct lw_name_log *log, uint32_t number)
{
    return number - 1u < log->count ? &log->names[number - 1] : NULL;
}

bool lw_name_log_has_lost(const struct lw_name_log *log, const struct lw_shared *shared,
                          uint32_t number)
{
    const struct lw_name *name = lw_name_log_find(log, number);

    return name ? name->kind == LW_NAME_LOST : names_lost(shared) > log->missing;
}

static bool add_note(struct lw_lap_writer *writer, const char *text, lw_frame_id *id,
                     struct lw_error *err)
{
    struct lw_frame frame = { .kind = LW_FRAME_NOTE };

    return lw_lap_writer_string(writer, text, strlen(text), &frame.name, err) &&
           lw_lap_writer_frame(writer, &frame, id, err);
}

bool lw_name_log_frame(struct lw_name_log *log, const struct lw_shared *shared,
                       struct lw_lap_writer *writer, uint32_t function,
                       lw_frame_id *frame, struct lw_error *err)
{
    const struct lw_name *name;

    if (!log->has_special_names) {
        if (!add_note(writer, "(more)", &log->more, err) ||
            !add_note(writer, "(unknown)", &log->unknown, err))
            return false;
        log->has_special_names = true;
    }
    if (function == LW_FUNCTION_MORE) {
        *frame = log->more;
        return true;
    }
    if (function > log->count && function < LW_FUNCTION_UNKNOWN &&
        !lw_name_log_read(log, shared, writer, err))
        return false;
    name = lw_name_log_find(log, function);
    *frame = name && name->kind != LW_NAME_COUNTER && name->kind != LW_NAME_LOST
                 ? name->id
                 : log->unknown;
    return true;
}
