#include "sampler/unwind_dwarf.h"
#include "sampler/unwind_rules.h"

/* The address of a return may carry a signature in its high bits there. */
static uint64_t plain_code(uint64_t address)
{
#if defined(__aarch64__)
    return address & 0x0000ffffffffffffull;
#else
    return address;
#endif
}

static enum lw_unwind_step find_cfa(const struct lw_unwind_rule *rule,
                                    const struct lw_stack_copy *stack,
                                    const struct lw_registers *registers, uint64_t *cfa)
{
    bool needs_register = false;

    if (rule->kind == LW_RULE_EXPRESSION)
        return lw_dwarf_evaluate(rule->code, rule->code_len, registers, stack, NULL,
                                 cfa, &needs_register)
                   ? LW_STEP_DONE
               : needs_register ? LW_STEP_NEEDS_REGISTER
                                : LW_STEP_CUT;
    if (!lw_registers_has(registers, rule->reg))
        return LW_STEP_NEEDS_REGISTER;
    *cfa = registers->value[rule->reg] + (uint64_t)rule->offset;
    return LW_STEP_DONE;
}

/* The caller's value by RULE; false: it is not known. */
static bool find_value(const struct lw_unwind_rule *rule, uint64_t cfa,
                       const struct lw_stack_copy *stack,
                       const struct lw_registers *registers, uint64_t *value)
{
    bool needs_register = false;

    switch (rule->kind) {
    case LW_RULE_AT_OFFSET:
        return lw_stack_copy_word(stack, cfa + (uint64_t)rule->offset, value);
    case LW_RULE_OFFSET: *value = cfa + (uint64_t)rule->offset; return true;
    case LW_RULE_REGISTER:
        if (!lw_registers_has(registers, rule->reg))
            return false;
        *value = registers->value[rule->reg];
        return true;
    case LW_RULE_AT_EXPRESSION:
    case LW_RULE_EXPRESSION:
        if (!lw_dwarf_evaluate(rule->code, rule->code_len, registers, stack, &cfa,
                               value, &needs_register))
            return false;
        return rule->kind == LW_RULE_EXPRESSION ||
               lw_stack_copy_word(stack, *value, value);
    default: return false;
    }
}

enum lw_unwind_step lw_unwind_row_step(const struct lw_unwind_row *row,
                                       const struct lw_stack_copy *stack,
                                       struct lw_registers *registers)
{
    struct lw_registers caller = { .known = 0 };
    const struct lw_unwind_rule *rule = row->kept;
    enum lw_unwind_step step;
    uint64_t cfa = 0, pc;

    step = find_cfa(&row->cfa, stack, registers, &cfa);
    if (step != LW_STEP_DONE)
        return step;
    for (unsigned reg = 0; reg < LW_REG_COUNT; reg++) {
        uint64_t value;
        bool is_return = reg == LW_REG_RETURN;

        if ((LW_REGS_KEPT >> reg & 1) == 0)
            continue;
        if (rule->kind == LW_RULE_SAME) {
            if (lw_registers_has(registers, reg))
                lw_registers_set(&caller, reg, registers->value[reg]);
        } else if (find_value(rule, cfa, stack, registers, &value))
            lw_registers_set(&caller, reg, value);
        else if (is_return)
            return rule->kind == LW_RULE_UNDEFINED   ? LW_STEP_ROOT
                   : rule->kind == LW_RULE_AT_OFFSET ? LW_STEP_CUT
                                                     : LW_STEP_LOST;
        rule++;
    }
    if (!lw_registers_has(&caller, LW_REG_RETURN))
        return LW_STEP_NEEDS_REGISTER;
    pc = plain_code(caller.value[LW_REG_RETURN]);
    if (pc == 0)
        return LW_STEP_ROOT;
    /* A row that leads nowhere would lead there for ever. */
    if (cfa < registers->value[LW_REG_STACK] ||
        (cfa == registers->value[LW_REG_STACK] && pc == registers->value[LW_REG_PC]))
        return LW_STEP_LOST;
    lw_registers_set(&caller, LW_REG_STACK, cfa);
    lw_registers_set(&caller, LW_REG_PC, pc);
    *registers = caller;
    return LW_STEP_DONE;
}
