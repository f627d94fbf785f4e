#include "test.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sampler/pause.h"
#include "sampler/unwind.h"
#include "sampler/unwind_dwarf.h"

#define FRAMES_MAX 64
#define STACK_BYTES 65536

/* ---- this very process, beside the C library's own unwinder ---------------------------- */

#if defined(__x86_64__)
static struct lw_registers registers_of(const ucontext_t *context)
{
    static const int places[LW_REG_COUNT] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP
    };
    struct lw_registers registers = { .known = 0 };

    for (unsigned i = 0; i < LW_REG_COUNT; i++)
        lw_registers_set(&registers, i,
                         (uint64_t)context->uc_mcontext.gregs[places[i]]);
    return registers;
}
#else
static struct lw_registers registers_of(const ucontext_t *context)
{
    struct lw_registers registers = { .known = 0 };

    for (unsigned i = 0; i < 31; i++)
        lw_registers_set(&registers, i, context->uc_mcontext.regs[i]);
    lw_registers_set(&registers, LW_REG_STACK, context->uc_mcontext.sp);
    lw_registers_set(&registers, LW_REG_PC, context->uc_mcontext.pc);
    return registers;
}
#endif

static struct {
    struct lw_unwound ours;
    void *theirs[FRAMES_MAX];
    int their_count;
    bool was_called;
} seen;

/* Copy as much of the stack as there is, page by page. */
static size_t copy_stack(struct lw_memory *memory, uint64_t address,
                         unsigned char *bytes)
{
    size_t len = 0;

    while (len < STACK_BYTES) {
        size_t part = 4096 - (address + len) % 4096;

        if (len + part > STACK_BYTES ||
            !lw_memory_get(memory, address + len, bytes + len, part))
            break;
        len += part;
    }
    return len;
}

__attribute__((noinline)) static void look(void)
{
    static unsigned char bytes[STACK_BYTES];
    struct lw_unwinder unwinder;
    struct lw_stack_copy stack = { .bytes = bytes };
    struct lw_registers registers;
    struct lw_memory memory;
    ucontext_t context;

    CHECK(lw_memory_open(&memory, getpid(), -1, NULL));
    CHECK(lw_unwinder_init(&unwinder, &memory, getpid(), NULL));
    lw_unwinder_refresh(&unwinder, 1);
    seen.their_count = backtrace(seen.theirs, FRAMES_MAX);
    CHECK(getcontext(&context) == 0);
    registers = registers_of(&context);
    stack.address = registers.value[LW_REG_STACK] - LW_STACK_BELOW;
    stack.len = copy_stack(&memory, stack.address, bytes);
    CHECK(lw_unwinder_run(&unwinder, registers, &stack, &seen.ours));
    seen.was_called = true;
    lw_unwinder_release(&unwinder);
}

/* From the second frame on (in the first they were taken a line apart) both have the same
 * addresses, counted from where the process began: a sanitizer puts a frame of its own
 * on top of theirs. Those of callers are ours plus one. */
static void check_alike(bool has_signal)
{
    bool met_signal = false;

    CHECK(seen.was_called);
    CHECK_EQ(seen.ours.end, LW_UNWIND_WHOLE);
    CHECK((size_t)seen.their_count >= seen.ours.count && seen.ours.count > 3);
    for (size_t i = 1; i < seen.ours.count; i++) {
        size_t of_root = seen.ours.count - i;
        uint64_t theirs =
            (uint64_t)(uintptr_t)seen.theirs[(size_t)seen.their_count - of_root];
        bool is_interrupted = seen.ours.addresses[i] == theirs;

        CHECK(is_interrupted || seen.ours.addresses[i] + 1 == theirs);
        met_signal = met_signal || is_interrupted;
    }
    CHECK_EQ(met_signal, has_signal);
    lw_free(seen.ours.addresses);
    memset(&seen, 0, sizeof(seen));
}

static int compare_and_look(const void *a, const void *b)
{
    if (!seen.was_called)
        look();
    return *(const int *)a - *(const int *)b;
}

TEST(callers_through_a_library_are_those_that_the_c_library_finds)
{
    int numbers[] = { 3, 1, 2 };

    qsort(numbers, 3, sizeof(numbers[0]), compare_and_look);
    check_alike(false);
}

static void on_signal(int number)
{
    (void)number;
    look();
}

TEST(a_signal_handlers_caller_is_whatever_was_interrupted)
{
    const struct sigaction action = { .sa_handler = on_signal };
    struct sigaction old;

    CHECK(sigaction(SIGUSR1, &action, &old) == 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(sigaction(SIGUSR1, &old, NULL) == 0);
    check_alike(true);
}

/* ---- every instruction ----------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* What the stepped child does: the C library from many sides, its stubs too. */
__attribute__((noinline)) static int work(void)
{
    int numbers[] = { 5, 3, 9, 1, 7 };
    char text[64];
    char *copy;
    int n;

    raise(SIGSTOP);
    qsort(numbers, 5, sizeof(numbers[0]), compare);
    n = snprintf(text, sizeof(text), "%d %.3f %s", numbers[0], 1.5, "stepped");
    copy = strdup(text);
    n += (int)strtol(copy ? copy : "0", NULL, 10);
    free(copy);
    n += getenv("HOME") != NULL;
    return n + (int)getpid();
}

static bool step(pid_t child)
{
    int status = 0;

    return ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

/* Wherever the child is, unwinding must come out where it began. */
TEST(every_instruction_of_a_program_has_its_callers)
{
    static unsigned char bytes[STACK_BYTES];
    struct lw_unwound unwound = { NULL };
    struct lw_unwinder unwinder;
    struct lw_memory memory;
    unsigned steps = 0, whole = 0;
    uint64_t root = 0;
    int status;
    pid_t child = fork();

    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        _exit(work() > 0 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(lw_memory_open(&memory, child, -1, NULL));
    CHECK(lw_unwinder_init(&unwinder, &memory, child, NULL));
    lw_unwinder_refresh(&unwinder, 1);
    while (steps < 5000 && step(child)) {
        struct lw_stack_copy stack = { .bytes = bytes };
        struct lw_registers registers;

        CHECK(lw_pause_registers(child, &registers));
        stack.address = registers.value[LW_REG_STACK] - LW_STACK_BELOW;
        stack.len = copy_stack(&memory, stack.address, bytes);
        CHECK(lw_unwinder_run(&unwinder, registers, &stack, &unwound));
        steps++;
        if (unwound.end != LW_UNWIND_WHOLE)
            continue;
        if (root == 0)
            root = unwound.addresses[unwound.count - 1];
        whole += unwound.addresses[unwound.count - 1] == root && unwound.count > 4;
    }
    CHECK(steps > 500);
    CHECK_EQ(whole, steps);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    lw_free(unwound.addresses);
    lw_unwinder_release(&unwinder);
}

/* ---- made by hand ---------------------------------------------------------------------- */

#if defined(__x86_64__) /* by the numbers of its registers */

/* An .eh_frame of one function of 0x20 bytes at CODE, whose instructions are given. */
#define HEADER 0x10000u
#define CODE 0x8000u

struct made {
    unsigned char bytes[512];
    size_t len;
    struct lw_memory memory;
    struct lw_memory_piece piece;
};

static void put(struct made *made, const void *bytes, size_t len)
{
    memcpy(made->bytes + made->len, bytes, len);
    made->len += len;
}

static void put_u32(struct made *made, uint32_t value)
{
    put(made, &value, sizeof(value));
}

static void make(struct made *made, const unsigned char *code, size_t code_len)
{
    static const unsigned char head[] = { 1, 0x1b, 0x03, 0x3b };
    static const unsigned char cie[] = {
        1, 'z',       'R', 0, 1, 0x78, LW_REG_RETURN, 1, 0x1b, 0x0c, LW_REG_STACK,
        8, 0x80 | 16, 1,   0, 0
    };
    size_t fde_at;

    memset(made, 0, sizeof(*made));
    put(made, head, sizeof(head));
    put_u32(made, 0);
    put_u32(made, 1);
    put_u32(made, (uint32_t)(CODE - HEADER));
    fde_at = 12 + 8 + 4 + 4 + sizeof(cie);
    put_u32(made, (uint32_t)fde_at);
    put_u32(made, 4 + sizeof(cie)); /* the CIE is at 20 */
    put_u32(made, 0);
    put(made, cie, sizeof(cie));
    CHECK_EQ(made->len, fde_at);
    put_u32(made, (uint32_t)(4 + 4 + 4 + 1 + code_len));
    put_u32(made, (uint32_t)(made->len - 20));
    put_u32(made, (uint32_t)(CODE - (HEADER + made->len)));
    put_u32(made, 0x20);
    put(made, "", 1);
    put(made, code, code_len);
    made->piece = (struct lw_memory_piece){ HEADER, made->bytes, made->len };
    lw_memory_image(&made->memory, &made->piece, 1);
}

static bool find(struct made *made, uint64_t pc, struct lw_unwind_row *row)
{
    unsigned char scratch[512];

    return lw_unwind_row_find(row, &made->memory, HEADER, pc, scratch, sizeof(scratch));
}

/* push rbp; mov rbp, rsp; ...; leave; ret */
static const unsigned char with_frame[] = {
    0x41,         0x0e, 16,
    0x86,         2,                  /* after 1: cfa = rsp+16, rbp at cfa-16 */
    0x43,         0x0d, LW_REG_FRAME, /* after 4: cfa = rbp+16 */
    0x0a,                             /* remember */
    0x4b,         0xc6, 0x0c,
    LW_REG_STACK, 8,    /* after 15: rbp as it was, cfa = rsp+8 */
    0x41,         0x0b, /* after 16: as remembered */
};

TEST(rows_change_along_a_function_as_its_prologue_does)
{
    struct lw_unwind_row row;
    struct made made;

    make(&made, with_frame, sizeof(with_frame));
    CHECK(find(&made, CODE, &row));
    CHECK_EQ(row.cfa.reg, LW_REG_STACK);
    CHECK_EQ(row.cfa.offset, 8);
    CHECK_EQ(row.kept[1].kind, LW_RULE_SAME); /* rbp */
    CHECK_EQ(row.kept[6].kind, LW_RULE_AT_OFFSET);
    CHECK_EQ(row.kept[6].offset, -8);
    CHECK_EQ(row.function, CODE);
    CHECK_EQ(row.function_len, 0x20);

    CHECK(find(&made, CODE + 1, &row));
    CHECK_EQ(row.cfa.offset, 16);
    CHECK_EQ(row.kept[1].kind, LW_RULE_AT_OFFSET);
    CHECK_EQ(row.kept[1].offset, -16);
    CHECK(find(&made, CODE + 14, &row));
    CHECK_EQ(row.cfa.reg, LW_REG_FRAME);
    CHECK(find(&made, CODE + 15, &row));
    CHECK_EQ(row.cfa.reg, LW_REG_STACK);
    CHECK_EQ(row.kept[1].kind, LW_RULE_SAME);
    CHECK(find(&made, CODE + 0x1f, &row));
    CHECK_EQ(row.cfa.reg, LW_REG_FRAME);
    CHECK_EQ(row.kept[1].kind, LW_RULE_AT_OFFSET);
}

TEST(an_address_outside_of_every_function_has_no_row)
{
    struct lw_unwind_row row;
    struct made made;

    make(&made, with_frame, sizeof(with_frame));
    CHECK(!find(&made, CODE - 1, &row));
    CHECK(!find(&made, CODE + 0x20, &row));
}

TEST(a_table_cut_anywhere_is_no_row_and_no_crash)
{
    struct lw_unwind_row row;
    struct made made;

    make(&made, with_frame, sizeof(with_frame));
    for (size_t len = 0; len < made.len; len++) {
        made.piece.len = len;
        CHECK(!find(&made, CODE + 4, &row));
    }
}

TEST(the_linkers_stub_is_told_by_an_expression)
{
    /* cfa = rsp + 8 + (((rip & 15) >= 11) << 3), as in every .plt */
    static const unsigned char code[] = { 0x0f, 11,   0x77, 8,    0x80, 0,   0x3f,
                                          0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
    const uint64_t words[] = { 0x1234, 0x5678 };
    struct lw_stack_copy stack = { 0x7000, (const unsigned char *)words,
                                   sizeof(words) };
    struct lw_registers registers = { .known = 0 };
    struct lw_unwind_row row;
    struct made made;

    make(&made, code, sizeof(code));
    CHECK(find(&made, CODE + 10, &row));
    CHECK_EQ(row.cfa.kind, LW_RULE_EXPRESSION);
    lw_registers_set(&registers, LW_REG_STACK, 0x7000);
    lw_registers_set(&registers, LW_REG_PC, CODE + 10);
    CHECK_EQ(lw_unwind_row_step(&row, &stack, &registers), LW_STEP_DONE);
    CHECK_EQ(registers.value[LW_REG_PC], 0x1234);

    lw_registers_set(&registers, LW_REG_STACK, 0x7000);
    lw_registers_set(&registers, LW_REG_PC, CODE + 11);
    CHECK_EQ(lw_unwind_row_step(&row, &stack, &registers), LW_STEP_DONE);
    CHECK_EQ(registers.value[LW_REG_PC], 0x5678);
    CHECK_EQ(registers.value[LW_REG_STACK], 0x7010);
}

TEST(a_step_says_why_it_cannot_be_taken)
{
    static const unsigned char root[] = { 0x07, LW_REG_RETURN };
    static const unsigned char by_frame[] = { 0x0c, LW_REG_FRAME, 16 };
    const uint64_t words[] = { 0x1234 };
    struct lw_stack_copy stack = { 0x7000, (const unsigned char *)words,
                                   sizeof(words) };
    struct lw_registers registers = { .known = 0 };
    struct lw_unwind_row row;
    struct made made;

    lw_registers_set(&registers, LW_REG_STACK, 0x7000);
    lw_registers_set(&registers, LW_REG_PC, CODE);
    make(&made, root, sizeof(root));
    CHECK(find(&made, CODE, &row));
    CHECK_EQ(lw_unwind_row_step(&row, &stack, &registers), LW_STEP_ROOT);

    make(&made, by_frame, sizeof(by_frame));
    CHECK(find(&made, CODE, &row));
    CHECK_EQ(lw_unwind_row_step(&row, &stack, &registers), LW_STEP_NEEDS_REGISTER);
    lw_registers_set(&registers, LW_REG_FRAME, 0x9000);
    CHECK_EQ(lw_unwind_row_step(&row, &stack, &registers), LW_STEP_CUT);
    lw_registers_set(&registers, LW_REG_FRAME, 0x6000 - 16);
    CHECK(lw_unwind_row_step(&row, &stack, &registers) != LW_STEP_DONE);
}
#endif

/* ---- numbers --------------------------------------------------------------------------- */

TEST(dwarf_numbers_keep_their_sign)
{
    static const unsigned char bytes[] = { 0x7f, 0xff, 0x00, 0x80, 0x7f, 0xfe };
    struct lw_cursor at = lw_cursor_make(bytes, sizeof(bytes));

    CHECK_EQ(lw_dwarf_signed(&at), -1);
    CHECK_EQ(lw_dwarf_signed(&at), 127);
    CHECK_EQ(lw_dwarf_signed(&at), -128);
    CHECK_EQ(lw_dwarf_fixed(&at, 1, true), -2);
    CHECK(!at.failed);
    CHECK_EQ(lw_dwarf_fixed(&at, 1, false), 0);
    CHECK(at.failed);
}

TEST(an_expression_that_never_ends_its_stack_is_refused)
{
    static const unsigned char deep[40] = { [0 ... 39] = 0x31 };
    static const unsigned char empty[] = { 0x22 };
    struct lw_registers registers = { .known = 0 };
    struct lw_stack_copy stack = { 0 };
    bool needs = false;
    uint64_t value;

    CHECK(!lw_dwarf_evaluate(deep, sizeof(deep), &registers, &stack, NULL, &value,
                             &needs));
    CHECK(!lw_dwarf_evaluate(empty, sizeof(empty), &registers, &stack, NULL, &value,
                             &needs));
    CHECK(!needs);
    CHECK(!lw_dwarf_evaluate((const unsigned char *)"\x77", 2, &registers, &stack, NULL,
                             &value, &needs));
    CHECK(needs);
}
