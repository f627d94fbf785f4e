/* The machine code a thread of a target was in, from a copy of its registers and stack:
 * who called whom, by the rules of .eh_frame, and where a library has none, by frame
 * pointers. The thread runs on meanwhile.
 *
 * The rule of each instruction is worked out once and kept. */
#ifndef LW_SAMPLER_UNWIND_H
#define LW_SAMPLER_UNWIND_H

#include "base/map.h"
#include "sampler/elf.h"
#include "sampler/os.h"
#include "sampler/unwind_rules.h"

/* A program or library in the target, by its place in `images`. */
struct lw_unwind_module {
    struct lw_elf elf;
    bool is_opened; /* `elf` holds what could be found */
};

struct lw_unwind_known {
    uint64_t pc;
    struct lw_unwind_row row;
    bool has_row;
};

struct lw_unwinder {
    struct lw_memory *memory; /* borrowed */
    pid_t pid;
    struct lw_os_images images;
    struct lw_unwind_module *modules; /* one for each image; owned */
    uint32_t generation;              /* grows when other files are mapped: what was
                                       * known of addresses is not true any more */
    uint64_t listed_ns;
    bool has_met_unknown;          /* an address in no file */
    struct lw_unwind_known *known; /* from 1 on in by_pc; owned */
    size_t known_count, known_capacity;
    struct lw_map by_pc;
    unsigned char *scratch; /* owned */
};

enum lw_unwind_end {
    LW_UNWIND_WHOLE,          /* up to where the thread began */
    LW_UNWIND_CUT,            /* the stack goes on beyond what was copied */
    LW_UNWIND_LOST,           /* there is no rule: code made at run time, or broken */
    LW_UNWIND_NEEDS_REGISTER, /* whose value was not given */
};

/* Addresses of instructions, the innermost first: of callers it is one within the call,
 * not the one behind it. */
struct lw_unwound {
    uint64_t *addresses; /* owned */
    size_t count, capacity;
    enum lw_unwind_end end;
};

bool lw_unwinder_init(struct lw_unwinder *unwinder, struct lw_memory *memory, pid_t pid,
                      struct lw_error *err) LW_MUST_CHECK;
void lw_unwinder_release(struct lw_unwinder *unwinder); /* zeroed is fine */

/* Look again what is mapped, if it is time to. */
void lw_unwinder_refresh(struct lw_unwinder *unwinder, uint64_t now_ns);

/* The image that ADDRESS lies in, and what is known of it; SIZE_MAX: none. */
size_t lw_unwinder_image(struct lw_unwinder *unwinder, uint64_t address);
const struct lw_elf *lw_unwinder_elf(struct lw_unwinder *unwinder, size_t image);

/* The rule of the instruction at PC; NULL: there is none. Good until the next call. */
const struct lw_unwind_row *lw_unwinder_row(struct lw_unwinder *unwinder, uint64_t pc);

/* Unwind from REGISTERS into OUT, which is emptied first; false: no memory. */
bool lw_unwinder_run(struct lw_unwinder *unwinder, struct lw_registers registers,
                     const struct lw_stack_copy *stack, struct lw_unwound *out)
    LW_MUST_CHECK;

#endif
