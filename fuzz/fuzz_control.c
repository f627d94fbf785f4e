/* Any bytes as the small texts that tell Lapwing's parts what to do, which somebody else
 * may have written. The first byte says which:
 *
 *     'j'  run.json (lap/run.h), read and, if it is sound, written and read again
 *     'a'  the variable LAPWING_AGENT (agent/handover.h)
 *     'f'  the sentence of a process that could not follow an order
 *          (recorder/window_order.h) */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/handover.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/folder.h"
#include "lap/run.h"
#include "recorder/window_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void read_run(const char *text, size_t len)
{
    struct lw_run_info info, again;
    struct lw_error err = { LW_OK, "" };
    struct lw_buf written;

    lw_run_info_init(&info);
    if (lw_run_info_read(&info, text, len, &err)) {
        lw_buf_init(&written, 0);
        lw_run_info_write(&info, &written);
        lw_run_info_init(&again);
        if (!lw_buf_check(&written, NULL) ||
            !lw_run_info_read(&again, written.bytes, written.len, NULL) ||
            again.argument_count != info.argument_count || again.state != info.state ||
            /* Keys that are no UTF-8 may be the same once they are written. */
            again.fact_count > info.fact_count || again.loss_count > info.loss_count)
            abort();
        lw_run_info_release(&again);
        lw_buf_release(&written);
    } else if (!err.text[0]) {
        abort();
    }
    lw_run_info_release(&info);
}

static void read_variable(const char *text)
{
    struct lw_agent_config config;

    if (lw_agent_config_parse(&config, text)) {
        if (!config.socket[0] ||
            memchr(config.socket, '\0', sizeof(config.socket)) == NULL)
            abort();
    } else if (config.socket[0]) {
        abort();
    }
}

static void read_sentence(const char *text, size_t len)
{
    static struct lw_kineto_folder given = { .folder = LW_FOLDER_CLOSED };
    char path[] = "/dev/shm/fuzz-control-XXXXXX", why[40];

    given.theirs = (struct lw_theirs){ geteuid(), getegid() };
    if (given.folder.fd < 0 &&
        (!mkdtemp(path) || !lw_folder_open(&given.folder, path, NULL)))
        abort();
    if (!lw_folder_replace(&given.folder, "failed", text, len, NULL))
        abort();
    if (lw_order_look(&given, why, sizeof(why)) == LW_ORDER_FAILED &&
        (!memchr(why, '\0', sizeof(why)) || strchr(why, '\n')))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text;

    if (len == 0)
        return 0;
    text = lw_copy_text((const char *)bytes + 1, len - 1, NULL);
    if (!text)
        abort();
    switch (bytes[0]) {
    case 'j': read_run(text, len - 1); break;
    case 'a': read_variable(text); break;
    case 'f': read_sentence(text, len - 1); break;
    default: break;
    }
    lw_free(text);
    return 0;
}
