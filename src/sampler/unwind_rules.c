#include "sampler/unwind_rules.h"

#include "sampler/unwind_dwarf.h"

/* How addresses are written (DW_EH_PE): the low half says of which size, the next three
 * bits from where they count. */
#define PE_OMIT 0xff
#define PE_SIZE 0x0f
#define PE_BASE 0x70
#define PE_PCREL 0x10
#define PE_DATAREL 0x30
#define PE_INDIRECT 0x80
#define PE_UDATA4 0x03
#define PE_SDATA4_DATAREL 0x3b /* the only table that linkers write */

#define TABLE_AT_ONCE 128 /* entries read together at the end of the search */
#define REMEMBERED_MAX 16
#define INSTRUCTIONS_MAX 100000

enum {
    CFA_ADVANCE = 0x40, /* these three carry their operand in the low six bits */
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE1 = 0x02,
    CFA_ADVANCE2 = 0x03,
    CFA_ADVANCE4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_NEGATE_RA_STATE = 0x2d, /* aarch64: the return address is signed from here on */
    CFA_GNU_ARGS_SIZE = 0x2e,
};

/* A record of .eh_frame, its bytes and where they lie in the target. */
struct record {
    uint64_t address; /* behind the length */
    const unsigned char *bytes;
    size_t len;
};

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_column;
    unsigned pointer_encoding;
    bool has_augmentation_data;
    bool is_signal;
    struct lw_cursor instructions;
};

struct interpreter {
    struct lw_unwind_row row, initial;
    struct lw_unwind_row remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    const struct cie *cie;
    uint64_t header; /* of .eh_frame_hdr */
    uint64_t at;     /* the instruction that `row` holds for */
    struct lw_cursor code;
    uint64_t code_address; /* of the end of `code` */
    bool failed;
};

/* ---- addresses ---------------------------------------------------------------------- */

/* The address at the cursor, whose end lies at END in the target. */
static uint64_t read_address(struct lw_cursor *at, uint64_t end, unsigned encoding,
                             uint64_t header)
{
    static const unsigned char sizes[] = { 8, 0, 2, 4, 8, 0, 0, 0 };
    uint64_t here = end - lw_cursor_left(at);
    unsigned size = sizes[encoding & 7];
    uint64_t value;

    if (size == 0 || (encoding & PE_INDIRECT)) {
        at->failed = true;
        return 0;
    }
    value = lw_dwarf_fixed(at, size, (encoding & 8) != 0);
    if ((encoding & PE_BASE) == PE_PCREL)
        value += here;
    else if ((encoding & PE_BASE) == PE_DATAREL)
        value += header;
    else if ((encoding & PE_BASE) != 0)
        at->failed = true;
    return value;
}

/* ---- instructions ------------------------------------------------------------------- */

/* The rule of REG, or NULL: it is none of those that are followed. */
static struct lw_unwind_rule *rule_of(struct lw_unwind_row *row, uint64_t reg)
{
    if (reg >= 64 || (LW_REGS_KEPT >> reg & 1) == 0)
        return NULL;
    return &row->kept[__builtin_popcountll(LW_REGS_KEPT & ((1ull << reg) - 1))];
}

static void set_rule(struct interpreter *in, uint64_t reg, struct lw_unwind_rule rule)
{
    struct lw_unwind_rule *place = rule_of(&in->row, reg);

    if (place)
        *place = rule;
}

static void set_offset(struct interpreter *in, uint64_t reg, enum lw_rule_kind kind,
                       int64_t factored)
{
    int64_t offset;

    if (__builtin_mul_overflow(factored, in->cie->data_align, &offset))
        in->failed = true;
    else
        set_rule(in, reg,
                 (struct lw_unwind_rule){ .kind = (uint8_t)kind, .offset = offset });
}

static void set_register(struct interpreter *in, uint64_t reg, uint64_t other)
{
    set_rule(in, reg,
             (struct lw_unwind_rule){ .kind = LW_RULE_REGISTER,
                                      .reg = (uint8_t)(other < 255 ? other : 255) });
}

static void restore(struct interpreter *in, uint64_t reg)
{
    const struct lw_unwind_rule *rule = rule_of(&in->initial, reg);

    if (rule)
        set_rule(in, reg, *rule);
}

static struct lw_unwind_rule read_expression(struct interpreter *in,
                                             enum lw_rule_kind kind)
{
    struct lw_unwind_rule rule = { .kind = (uint8_t)kind };
    uint64_t len = lw_cursor_varint(&in->code);
    const void *code = lw_cursor_bytes(&in->code, len);

    if (!code || len > sizeof(rule.code)) {
        rule.kind = LW_RULE_UNDEFINED;
        in->failed = in->failed || kind == LW_RULE_EXPRESSION;
        return rule;
    }
    rule.code_len = (uint8_t)len;
    memcpy(rule.code, code, len);
    return rule;
}

static void define_cfa(struct interpreter *in, uint64_t reg, int64_t offset)
{
    if (reg >= LW_REG_COUNT)
        in->failed = true;
    else
        in->row.cfa = (struct lw_unwind_rule){ .kind = LW_RULE_REGISTER,
                                               .reg = (uint8_t)reg,
                                               .offset = offset };
}

static int64_t read_offset(struct interpreter *in)
{
    return (int64_t)lw_cursor_varint(&in->code);
}

static int64_t read_factored(struct interpreter *in)
{
    int64_t offset;

    if (__builtin_mul_overflow(lw_dwarf_signed(&in->code), in->cie->data_align,
                               &offset))
        in->failed = true;
    return in->failed ? 0 : offset;
}

static void run_cfa(struct interpreter *in, unsigned op)
{
    struct lw_unwind_rule *cfa = &in->row.cfa;
    uint64_t reg;

    switch (op) {
    case CFA_DEF_CFA:
        reg = lw_cursor_varint(&in->code);
        define_cfa(in, reg, read_offset(in));
        break;
    case CFA_DEF_CFA_SF:
        reg = lw_cursor_varint(&in->code);
        define_cfa(in, reg, read_factored(in));
        break;
    case CFA_DEF_CFA_REGISTER:
        define_cfa(in, lw_cursor_varint(&in->code),
                   cfa->kind == LW_RULE_REGISTER ? cfa->offset : 0);
        break;
    case CFA_DEF_CFA_OFFSET: define_cfa(in, cfa->reg, read_offset(in)); break;
    case CFA_DEF_CFA_OFFSET_SF: define_cfa(in, cfa->reg, read_factored(in)); break;
    case CFA_DEF_CFA_EXPRESSION: *cfa = read_expression(in, LW_RULE_EXPRESSION); break;
    default: in->failed = true; /* one that we do not know */
    }
}

static void run_state(struct interpreter *in, unsigned op)
{
    if (op == CFA_REMEMBER_STATE) {
        if (in->remembered_count == REMEMBERED_MAX)
            in->failed = true;
        else
            in->remembered[in->remembered_count++] = in->row;
    } else if (in->remembered_count == 0)
        in->failed = true;
    else
        in->row = in->remembered[--in->remembered_count];
}

static void run_rule(struct interpreter *in, unsigned op)
{
    uint64_t reg = lw_cursor_varint(&in->code);

    switch (op) {
    case CFA_OFFSET_EXTENDED:
        set_offset(in, reg, LW_RULE_AT_OFFSET, read_offset(in));
        break;
    case CFA_OFFSET_EXTENDED_SF:
        set_offset(in, reg, LW_RULE_AT_OFFSET, lw_dwarf_signed(&in->code));
        break;
    case CFA_VAL_OFFSET: set_offset(in, reg, LW_RULE_OFFSET, read_offset(in)); break;
    case CFA_VAL_OFFSET_SF:
        set_offset(in, reg, LW_RULE_OFFSET, lw_dwarf_signed(&in->code));
        break;
    case CFA_RESTORE_EXTENDED: restore(in, reg); break;
    case CFA_UNDEFINED:
        set_rule(in, reg, (struct lw_unwind_rule){ .kind = LW_RULE_UNDEFINED });
        break;
    case CFA_SAME_VALUE:
        set_rule(in, reg, (struct lw_unwind_rule){ .kind = LW_RULE_SAME });
        break;
    case CFA_REGISTER: set_register(in, reg, lw_cursor_varint(&in->code)); break;
    case CFA_EXPRESSION:
        set_rule(in, reg, read_expression(in, LW_RULE_AT_EXPRESSION));
        break;
    default: set_rule(in, reg, read_expression(in, LW_RULE_EXPRESSION));
    }
}

static void advance(struct interpreter *in, uint64_t delta)
{
    in->at += delta * in->cie->code_align;
}

static void run_one(struct interpreter *in)
{
    unsigned op = (unsigned)lw_dwarf_fixed(&in->code, 1, false), low = op & 0x3f;

    if ((op & 0xc0) == CFA_ADVANCE) {
        advance(in, low);
        return;
    }
    if ((op & 0xc0) == CFA_OFFSET) {
        set_offset(in, low, LW_RULE_AT_OFFSET, read_offset(in));
        return;
    }
    if ((op & 0xc0) == CFA_RESTORE) {
        restore(in, low);
        return;
    }
    switch (op) {
    case CFA_NOP:
    case CFA_NEGATE_RA_STATE: break;
    case CFA_SET_LOC:
        in->at = read_address(&in->code, in->code_address, in->cie->pointer_encoding,
                              in->header);
        break;
    case CFA_ADVANCE1: advance(in, lw_dwarf_fixed(&in->code, 1, false)); break;
    case CFA_ADVANCE2: advance(in, lw_dwarf_fixed(&in->code, 2, false)); break;
    case CFA_ADVANCE4: advance(in, lw_dwarf_fixed(&in->code, 4, false)); break;
    case CFA_REMEMBER_STATE:
    case CFA_RESTORE_STATE: run_state(in, op); break;
    case CFA_GNU_ARGS_SIZE: lw_cursor_varint(&in->code); break;
    case CFA_OFFSET_EXTENDED:
    case CFA_OFFSET_EXTENDED_SF:
    case CFA_VAL_OFFSET:
    case CFA_VAL_OFFSET_SF:
    case CFA_RESTORE_EXTENDED:
    case CFA_UNDEFINED:
    case CFA_SAME_VALUE:
    case CFA_REGISTER:
    case CFA_EXPRESSION:
    case CFA_VAL_EXPRESSION: run_rule(in, op); break;
    default: run_cfa(in, op);
    }
}

/* Run CODE, which ends at END in the target, up to what holds at PC. */
static bool run(struct interpreter *in, struct lw_cursor code, uint64_t end,
                uint64_t pc)
{
    unsigned count = 0;

    in->code = code;
    in->code_address = end;
    while (lw_cursor_left(&in->code) > 0 && !in->failed && !in->code.failed) {
        struct lw_unwind_row before = in->row;

        if (count++ > INSTRUCTIONS_MAX)
            return false;
        run_one(in);
        if (in->at > pc) {
            in->row = before;
            return true;
        }
    }
    return !in->failed && !in->code.failed;
}

/* ---- records ------------------------------------------------------------------------ */

/* The record at ADDRESS into SCRATCH. */
static bool read_record(struct record *record, struct lw_memory *memory,
                        uint64_t address, unsigned char *scratch, size_t scratch_len)
{
    uint32_t len;

    /* 0 ends the section; 2^32-1 would say that the length is of 8 bytes. */
    if (!lw_memory_get(memory, address, &len, sizeof(len)) || len < 8 ||
        len > scratch_len || !lw_memory_get(memory, address + 4, scratch, len))
        return false;
    *record = (struct record){ address + 4, scratch, len };
    return true;
}

static bool parse_augmentation(struct cie *cie, const char *text, struct lw_cursor *at,
                               uint64_t end, uint64_t header)
{
    struct lw_cursor data;
    uint64_t data_len;

    if (text[0] != 'z')
        return text[0] == '\0';
    cie->has_augmentation_data = true;
    data_len = lw_cursor_varint(at);
    if (data_len > lw_cursor_left(at))
        return false;
    end -= lw_cursor_left(at) - data_len;
    data = lw_cursor_make(at->next, (size_t)data_len);
    at->next += data_len;
    for (text++; *text; text++) {
        if (*text == 'R')
            cie->pointer_encoding = (unsigned)lw_dwarf_fixed(&data, 1, false);
        else if (*text == 'S')
            cie->is_signal = true;
        else if (*text == 'L')
            lw_dwarf_fixed(&data, 1, false);
        else if (*text == 'P') {
            unsigned encoding = (unsigned)lw_dwarf_fixed(&data, 1, false);

            /* Where the language's handler is: of no interest, but what follows is. */
            read_address(&data, end, encoding & (unsigned)~PE_INDIRECT, header);
        } else if (*text != 'B') /* aarch64: signed with the other key */
            break;
    }
    return !data.failed;
}

static bool parse_cie(struct cie *cie, const struct record *record, uint64_t header)
{
    struct lw_cursor at = lw_cursor_make(record->bytes, record->len);
    const char *augmentation;
    unsigned version;

    *cie = (struct cie){ 0 };
    if (lw_dwarf_fixed(&at, 4, false) != 0) /* it is an FDE */
        return false;
    version = (unsigned)lw_dwarf_fixed(&at, 1, false);
    augmentation = (const char *)at.next;
    if ((version != 1 && version != 3) || !memchr(at.next, '\0', lw_cursor_left(&at)))
        return false;
    at.next += strlen(augmentation) + 1;
    cie->code_align = lw_cursor_varint(&at);
    cie->data_align = lw_dwarf_signed(&at);
    cie->return_column =
        version == 1 ? lw_dwarf_fixed(&at, 1, false) : lw_cursor_varint(&at);
    if (at.failed || cie->return_column != LW_REG_RETURN ||
        !parse_augmentation(cie, augmentation, &at, record->address + record->len,
                            header))
        return false;
    cie->instructions = at;
    return !at.failed;
}

/* Put the FDE's range into ROW and leave AT before its instructions. */
static bool parse_fde(struct lw_unwind_row *row, const struct record *record,
                      const struct cie *cie, uint64_t header, struct lw_cursor *at)
{
    uint64_t end = record->address + record->len;

    *at = lw_cursor_make(record->bytes + 4, record->len - 4);
    row->function = read_address(at, end, cie->pointer_encoding, header);
    row->function_len = read_address(at, end, cie->pointer_encoding & PE_SIZE, header);
    if (cie->has_augmentation_data)
        lw_cursor_bytes(at, lw_cursor_varint(at));
    row->is_signal = cie->is_signal;
    return !at->failed;
}

/* ---- the table ---------------------------------------------------------------------- */

struct table_entry {
    int32_t function, fde; /* both count from the header */
};

/* Where the table begins; 0: there is none that we can read. */
static uint64_t find_table(struct lw_memory *memory, uint64_t header, uint32_t *count)
{
    unsigned char head[4];
    uint64_t at = header + sizeof(head);

    if (!lw_memory_get(memory, header, head, sizeof(head)) || head[0] != 1 ||
        head[2] != PE_UDATA4 || head[3] != PE_SDATA4_DATAREL || head[1] == PE_OMIT)
        return 0;
    at += (head[1] & 7) == 3 ? 4 : 8; /* the address of eh_frame: not needed */
    if (!lw_memory_get(memory, at, count, sizeof(*count)))
        return 0;
    return at + sizeof(*count);
}

/* The last entry whose function begins at or before PC. */
static bool find_entry(struct lw_memory *memory, uint64_t header, uint64_t pc,
                       struct table_entry *found)
{
    struct table_entry entries[TABLE_AT_ONCE];
    uint32_t count = 0, low = 0, high;
    uint64_t table = find_table(memory, header, &count);

    if (table == 0)
        return false;
    for (high = count; high - low > TABLE_AT_ONCE;) {
        uint32_t middle = low + (high - low) / 2;

        if (!lw_memory_get(memory, table + 8ull * middle, found, sizeof(*found)))
            return false;
        if (header + (uint64_t)(int64_t)found->function <= pc)
            low = middle;
        else
            high = middle;
    }
    if (high == low || !lw_memory_get(memory, table + 8ull * low, entries,
                                      (high - low) * sizeof(entries[0])))
        return false;
    for (uint32_t i = high - low; i-- > 0;) {
        if (header + (uint64_t)(int64_t)entries[i].function <= pc) {
            *found = entries[i];
            return true;
        }
    }
    return false;
}

bool lw_unwind_row_find(struct lw_unwind_row *row, struct lw_memory *memory,
                        uint64_t header, uint64_t pc, unsigned char *scratch,
                        size_t scratch_len)
{
    struct interpreter in = { .header = header };
    struct table_entry entry;
    struct record fde, cie_record;
    struct lw_cursor code;
    struct cie cie;
    uint32_t back;

    if (!find_entry(memory, header, pc, &entry) ||
        !read_record(&fde, memory, header + (uint64_t)(int64_t)entry.fde, scratch,
                     scratch_len))
        return false;
    memcpy(&back, fde.bytes, sizeof(back));
    if (back == 0 ||
        !read_record(&cie_record, memory, fde.address - back, scratch + fde.len,
                     scratch_len - fde.len) ||
        !parse_cie(&cie, &cie_record, header) ||
        !parse_fde(&in.row, &fde, &cie, header, &code) ||
        pc - in.row.function >= in.row.function_len)
        return false;
    in.cie = &cie;
    in.at = in.row.function;
    if (!run(&in, cie.instructions, cie_record.address + cie_record.len, UINT64_MAX))
        return false;
    in.initial = in.row;
    if (!run(&in, code, fde.address + fde.len, pc))
        return false;
    *row = in.row;
    return row->cfa.kind == LW_RULE_REGISTER || row->cfa.kind == LW_RULE_EXPRESSION;
}
