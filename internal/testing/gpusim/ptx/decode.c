// decode.c reads statements: [@[!]guard] instruction operands;
#include "code.h"

#include <string.h>

// ---- Operands --------------------------------------------------------------------------

typedef struct {
    uint16_t slot;
    uint8_t bits;
} operand;

static bool find_register(const ptx_function *f, ptx_word name, operand *out) {
    for (uint32_t i = 0; i < f->register_count; i++) {
        const ptx_registers *g = &f->registers[i];
        if (name.size < g->prefix.size || memcmp(name.at, g->prefix.at, g->prefix.size) != 0)
            continue;
        uint32_t n = 0;
        size_t k = g->prefix.size;
        if (g->numbered) {
            if (k == name.size || (name.at[k] == '0' && name.size > k + 1)) continue;
            for (; k < name.size && name.at[k] >= '0' && name.at[k] <= '9' && n < g->count; k++)
                n = 10 * n + (uint32_t)(name.at[k] - '0');
        }
        if (k != name.size || n >= g->count) continue;
        *out = (operand){(uint16_t)(g->first + n), g->bits};
        return true;
    }
    return false;
}

static bool find_special(ptx_word name, operand *out) {
    static const struct {
        const char *name;
        uint16_t first;
    } list[] = {{"%tid.", SLOT_TID},
                {"%ntid.", SLOT_NTID},
                {"%ctaid.", SLOT_CTAID},
                {"%nctaid.", SLOT_NCTAID}};
    if (ptx_same(name, "%laneid")) {
        *out = (operand){SLOT_LANEID, 32};
        return true;
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        size_t n = strlen(list[i].name);
        char axis = name.size == n + 1 && memcmp(name.at, list[i].name, n) == 0 ? name.at[n] : '\0';
        if (axis >= 'x' && axis <= 'z') {
            *out = (operand){(uint16_t)(list[i].first + axis - 'x'), 32};
            return true;
        }
    }
    return false;
}

static const ptx_name *find_shared(const ptx_reader *r, ptx_word name) {
    const ptx_name *n = ptx_look_up(&r->function->shared, name);
    return n != NULL ? n : ptx_look_up(&r->module->shared, name);
}

// check_bits refuses a register that the type does not fit. Loads, stores and conversions take
// wider ones.
static uint16_t check_bits(ptx_reader *r, ptx_word name, operand o, unsigned bits, bool wider) {
    if (o.bits == bits || (wider && o.bits > bits && bits > 1)) return o.slot;
    ptx_fail(r, "%.*s has %u bits, the instruction takes %u", (int)name.size, name.at, o.bits,
             bits);
}

static operand take_register(ptx_reader *r, unsigned bits, bool wider) {
    ptx_word name = ptx_take_word(r);
    operand o;
    if (!find_register(r->function, name, &o))
        ptx_fail(r, "there is no register %.*s", (int)name.size, name.at);
    check_bits(r, name, o, bits, wider);
    return o;
}

static uint64_t low_bits(unsigned bits) { return UINT64_MAX >> (64 - bits); }

static uint16_t take_source(ptx_reader *r, unsigned bits, bool wider) {
    if (r->token.kind != TOKEN_WORD)
        return ptx_slot(r, ptx_take_number(r) & low_bits(bits), (uint8_t)bits);
    ptx_word name = ptx_take_word(r);
    operand o;
    if (find_register(r->function, name, &o) || find_special(name, &o))
        return check_bits(r, name, o, bits, wider);
    const ptx_name *shared = find_shared(r, name);
    if (shared == NULL || bits < 32)
        ptx_fail(r, "%.*s is no operand that is covered here", (int)name.size, name.at);
    return ptx_slot(r, shared->offset, (uint8_t)bits);
}

// take_vector reads {a, b, ...} of registers into insn->d, or of sources if given is set.
static void take_vector(ptx_reader *r, ptx_insn *insn, unsigned bits, bool wider, bool given) {
    ptx_expect(r, "{");
    for (unsigned i = 0; i < insn->lanes; i++) {
        if (i > 0) ptx_expect(r, ",");
        insn->d[i] = given ? take_source(r, bits, wider) : take_register(r, bits, wider).slot;
    }
    ptx_expect(r, "}");
}

// ---- Instructions with a table -----------------------------------------------------------

// What each operand is, the destination first: t has the bits of the type, w twice as many, u 32,
// p is a predicate. types are the kinds and bits that it comes with; f stands for b as well.
static const struct form {
    const char *name;
    uint8_t op;
    const char *operands, *kinds;
    uint8_t least, most;
} forms[] = {
    {"mov", OP_MOV, "tt", "pbusf", 1, 64},
    {"cvta.to.global", OP_MOV, "tt", "u", 64, 64},
    {"cvta.global", OP_MOV, "tt", "u", 64, 64},
    {"cvta.to.shared", OP_TO_SHARED, "tt", "u", 64, 64},
    {"cvta.shared", OP_FROM_SHARED, "tt", "u", 64, 64},
    {"add", OP_ADD, "ttt", "us", 16, 64},
    {"sub", OP_SUB, "ttt", "us", 16, 64},
    {"mul.lo", OP_MUL, "ttt", "us", 16, 64},
    {"mul.hi", OP_MUL_HI, "ttt", "us", 16, 64},
    {"mul.wide", OP_MUL_WIDE, "wtt", "us", 16, 32},
    {"mad.lo", OP_MAD, "tttt", "us", 16, 64},
    {"mad.hi", OP_MAD_HI, "tttt", "us", 16, 64},
    {"mad.wide", OP_MAD_WIDE, "wttw", "us", 16, 32},
    {"div", OP_DIV, "ttt", "us", 16, 64},
    {"rem", OP_REM, "ttt", "us", 16, 64},
    {"min", OP_MIN, "ttt", "us", 16, 64},
    {"max", OP_MAX, "ttt", "us", 16, 64},
    {"abs", OP_ABS, "tt", "s", 16, 64},
    {"neg", OP_NEG, "tt", "s", 16, 64},
    {"and", OP_AND, "ttt", "pb", 1, 64},
    {"or", OP_OR, "ttt", "pb", 1, 64},
    {"xor", OP_XOR, "ttt", "pb", 1, 64},
    {"not", OP_NOT, "tt", "pb", 1, 64},
    {"cnot", OP_CNOT, "tt", "b", 16, 64},
    {"shl", OP_SHL, "ttu", "b", 16, 64},
    {"shr", OP_SHR, "ttu", "bus", 16, 64},
    {"shf.l.wrap", OP_SHF_L, "uuuu", "b", 32, 32},
    {"shf.r.wrap", OP_SHF_R, "uuuu", "b", 32, 32},
    {"bfe", OP_BFE, "ttuu", "us", 32, 64},
    {"bfi", OP_BFI, "tttuu", "b", 32, 64},
    {"popc", OP_POPC, "ut", "b", 32, 64},
    {"clz", OP_CLZ, "ut", "b", 32, 64},
    {"brev", OP_BREV, "tt", "b", 32, 64},
    {"prmt", OP_PRMT, "uuuu", "b", 32, 32},
    {"lop3", OP_LOP3, "uuuuu", "b", 32, 32},
    {"selp", OP_SELP, "tttp", "busf", 16, 64},
    {"setp.eq", OP_EQ, "ptt", "bus", 16, 64},
    {"setp.ne", OP_NE, "ptt", "bus", 16, 64},
    {"setp.lt", OP_LT, "ptt", "us", 16, 64},
    {"setp.le", OP_LE, "ptt", "us", 16, 64},
    {"setp.gt", OP_GT, "ptt", "us", 16, 64},
    {"setp.ge", OP_GE, "ptt", "us", 16, 64},
    {"setp.lo", OP_LT, "ptt", "u", 16, 64},
    {"setp.ls", OP_LE, "ptt", "u", 16, 64},
    {"setp.hi", OP_GT, "ptt", "u", 16, 64},
    {"setp.hs", OP_GE, "ptt", "u", 16, 64},
    {"add.rn", OP_ADD_FLOAT, "ttt", "f", 32, 32},
    {"mul.rn", OP_MUL_FLOAT, "ttt", "f", 32, 32},
    {"min", OP_MIN_FLOAT, "ttt", "f", 32, 32},
    {"max", OP_MAX_FLOAT, "ttt", "f", 32, 32},
    {"cvt.rn.f32", OP_FLOAT_OF_INT, "tt", "s", 32, 32},
    {"cvt.rzi.s32", OP_INT_OF_FLOAT, "tt", "f", 32, 32},
};

static unsigned operand_bits(char operand, ptx_type type) {
    switch (operand) {
    case 'w': return 2u * type.bits;
    case 'u': return 32;
    case 'p': return 1;
    default: return type.bits;
    }
}

// decode_packing reads mov between a register and a vector of its parts, false if it is another
// mov.
static bool decode_packing(ptx_reader *r, ptx_insn *insn, ptx_type type) {
    operand whole = {0};
    if (insn->op != OP_MOV || type.kind != 'b') return false;
    bool unpack = ptx_same(r->token.word, "{");
    if (!unpack) {
        whole = take_register(r, type.bits, false);
        ptx_expect(r, ",");
        if (!ptx_same(r->token.word, "{")) {
            insn->d[0] = whole.slot;
            insn->a = take_source(r, type.bits, false);
            return true;
        }
    }
    // The first part tells how many there are.
    const char *end = r->at + strcspn(r->at, "}");
    insn->lanes = 1;
    for (const char *at = r->at; at < end && insn->lanes < 8; at++) insn->lanes += *at == ',';
    if (type.bits < 32 || (insn->lanes != 2 && insn->lanes != 4) || type.bits / insn->lanes < 16)
        ptx_fail(r, "a vector of %u parts is not covered here", insn->lanes);
    insn->op = unpack ? OP_UNPACK : OP_PACK;
    unsigned part = type.bits / insn->lanes;
    insn->shift = (uint8_t)(64 - part);
    take_vector(r, insn, part, false, !unpack);
    if (unpack) {
        ptx_expect(r, ",");
        insn->a = take_source(r, type.bits, false);
    } else {
        insn->a = whole.slot;
    }
    return true;
}

static bool decode_form(ptx_reader *r, ptx_insn *insn, ptx_word stem, ptx_type type) {
    const struct form *form = forms, *end = forms + sizeof forms / sizeof *forms;
    while (form < end && !(ptx_same(stem, form->name) && strchr(form->kinds, type.kind) != NULL))
        form++;
    if (form == end || type.bits < form->least || type.bits > form->most) return false;
    insn->op = form->op;
    insn->is_signed = type.kind == 's';
    insn->shift = (uint8_t)(64 - type.bits);
    unsigned bits = operand_bits(form->operands[0], type);
    insn->mask = low_bits(bits);
    if (decode_packing(r, insn, type)) return true;
    insn->d[0] = take_register(r, bits, false).slot;
    uint16_t *sources[] = {&insn->a, &insn->b, &insn->c, &insn->e};
    for (size_t i = 1; form->operands[i] != '\0'; i++) {
        ptx_expect(r, ",");
        *sources[i - 1] = take_source(r, operand_bits(form->operands[i], type), false);
    }
    return true;
}

// ---- Memory ------------------------------------------------------------------------------

// next_part takes what stands before the next dot off a name.
static ptx_word next_part(ptx_word *name) {
    const char *dot = memchr(name->at, '.', name->size);
    ptx_word part = {name->at, dot != NULL ? (size_t)(dot - name->at) : name->size};
    size_t gone = part.size + (dot != NULL);
    *name = (ptx_word){name->at + gone, name->size - gone};
    return part;
}

static bool is_one_of(ptx_word part, const char *const *list) {
    while (*list != NULL && !ptx_same(part, *list)) list++;
    return *list != NULL;
}

// take_address reads [base], [base+n] or [n].
static void take_address(ptx_reader *r, ptx_insn *insn, size_t bytes) {
    ptx_expect(r, "[");
    insn->a = SLOT_ZERO;
    const ptx_name *param = NULL;
    if (r->token.kind == TOKEN_WORD) {
        param =
            insn->space == SPACE_PARAM ? ptx_look_up(&r->function->params, r->token.word) : NULL;
        if (param != NULL) {
            ptx_next(r);
        } else if (insn->space == SPACE_PARAM) {
            ptx_fail(r, "%.*s is no parameter: they are read by name", (int)r->token.word.size,
                     r->token.word.at);
        } else if (insn->space == SPACE_SHARED) {
            insn->a = take_source(r, 32, true);
        } else if (find_shared(r, r->token.word) != NULL) {
            ptx_fail(r, "%.*s lies in shared memory", (int)r->token.word.size, r->token.word.at);
        } else {
            insn->a = take_source(r, 64, false);
        }
        if (!ptx_same(r->token.word, "]")) {
            ptx_accept(r, "+");
            insn->offset = (int64_t)ptx_take_number(r);
        }
    } else {
        insn->offset = (int64_t)ptx_take_number(r);
    }
    ptx_expect(r, "]");
    if (insn->space != SPACE_PARAM) return;
    if (param == NULL || insn->offset < 0 || (uint64_t)insn->offset + bytes > param->size ||
        ((uint64_t)insn->offset + param->offset) % bytes != 0) {
        ptx_fail(r, "the access goes past the parameter, or is not aligned");
    }
    insn->offset += param->offset;
}

static bool decode_memory(ptx_reader *r, ptx_insn *insn, ptx_word parts) {
    static const struct {
        const char *name;
        uint8_t space;
    } spaces[] = {{"param", SPACE_PARAM}, {"global", SPACE_GLOBAL}, {"shared", SPACE_SHARED}};
    // Advice about caches; memory of the host has one order for all of them.
    static const char *const load_ways[] = {"ca", "cg", "cs", "lu", "cv", "nc", NULL};
    static const char *const store_ways[] = {"wb", "cg", "cs", "wt", NULL};
    bool load = ptx_same(next_part(&parts), "ld");
    insn->op = load ? OP_LOAD : OP_STORE;
    ptx_word part = next_part(&parts);
    if (ptx_same(part, "volatile") || ptx_same(part, "weak")) part = next_part(&parts);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        if (!ptx_same(part, spaces[i].name)) continue;
        insn->space = spaces[i].space;
        part = next_part(&parts);
        break;
    }
    if (insn->space == SPACE_PARAM && !load) return false;
    if (is_one_of(part, load ? load_ways : store_ways)) part = next_part(&parts);
    if (ptx_same(part, "v2") || ptx_same(part, "v4")) {
        insn->lanes = (uint8_t)(part.at[1] - '0');
        part = next_part(&parts);
    }
    ptx_type type;
    if (!ptx_parse_type(part, &type) || parts.size != 0) return false;
    if (type.kind == 'p' || type.bits * insn->lanes > 128) return false;
    insn->is_signed = type.kind == 's';
    insn->shift = (uint8_t)(64 - type.bits);
    size_t bytes = (size_t)type.bits / 8 * insn->lanes;
    if (!load) {
        take_address(r, insn, bytes);
        ptx_expect(r, ",");
    }
    if (insn->lanes > 1) {
        // A sign goes to the bits of a register, which the lanes share.
        take_vector(r, insn, type.bits, type.kind != 's', !load);
        insn->mask = low_bits(type.bits);
    } else if (load) {
        operand o = take_register(r, type.bits, true);
        insn->d[0] = o.slot;
        insn->mask = low_bits(o.bits);
    } else {
        insn->d[0] = take_source(r, type.bits, true);
    }
    if (load) {
        ptx_expect(r, ",");
        take_address(r, insn, bytes);
    }
    return true;
}

// ---- The rest ------------------------------------------------------------------------------

static bool decode_conversion(ptx_reader *r, ptx_insn *insn, ptx_word parts) {
    ptx_type to, from;
    next_part(&parts);
    if (!ptx_parse_type(next_part(&parts), &to) || !ptx_parse_type(next_part(&parts), &from) ||
        parts.size != 0 || strchr("us", to.kind) == NULL || strchr("us", from.kind) == NULL)
        return false;
    insn->op = OP_CVT;
    insn->is_signed = from.kind == 's';
    insn->shift = (uint8_t)(64 - from.bits);
    insn->out_signed = to.kind == 's';
    insn->out_shift = (uint8_t)(64 - to.bits);
    operand d = take_register(r, to.bits, true);
    insn->d[0] = d.slot;
    insn->mask = low_bits(d.bits);
    ptx_expect(r, ",");
    insn->a = take_source(r, from.bits, true);
    return true;
}

// decode_control reads what has no type.
static bool decode_control(ptx_reader *r, ptx_insn *insn, ptx_word name) {
    if (ptx_same(name, "bra") || ptx_same(name, "bra.uni")) {
        insn->op = OP_BRANCH;
        insn->name = ptx_take_word(r);  // until the function is read
    } else if (ptx_same(name, "ret") || ptx_same(name, "exit") || ptx_same(name, "ret.uni")) {
        insn->op = OP_EXIT;
    } else if (ptx_same(name, "bar.sync") || ptx_same(name, "barrier.sync.aligned")) {
        insn->op = OP_BARRIER;
        if (ptx_take_number(r) > 15) ptx_fail(r, "there are barriers 0 to 15");
    } else if (ptx_same(name, "trap")) {
        insn->op = OP_TRAP;
    } else {
        return false;
    }
    return true;
}

void ptx_decode(ptx_reader *r) {
    ptx_insn insn = {.guard = SLOT_ONE, .lanes = 1};
    if (ptx_accept(r, "@")) {
        insn.unless = ptx_accept(r, "!");
        insn.guard = take_register(r, 1, false).slot;
    }
    insn.line = r->token.line;
    if (r->token.kind == TOKEN_END) ptx_fail(r, "the text ends within an entry");
    ptx_word name = insn.name = r->token.kind == TOKEN_WORD ? ptx_take_word(r) : r->token.word;
    ptx_word stem = name, first = next_part(&stem);
    ptx_type type = {0};
    bool typed = false;
    stem = name;
    for (size_t i = name.size; i > 0 && !typed; i--) {
        if (name.at[i - 1] != '.') continue;
        typed = ptx_parse_type((ptx_word){name.at + i, name.size - i}, &type);
        stem.size = i - 1;
        break;
    }
    bool known;
    if (ptx_same(first, "ld") || ptx_same(first, "st"))
        known = decode_memory(r, &insn, name);
    else if (ptx_same(first, "cvt"))
        known = decode_conversion(r, &insn, name) || (typed && decode_form(r, &insn, stem, type));
    else
        known = decode_control(r, &insn, name) || (typed && decode_form(r, &insn, stem, type));
    if (!known) {
        r->token.line = insn.line;
        ptx_fail(r, "the instruction %.*s is not covered", (int)name.size, name.at);
    }
    ptx_expect(r, ";");
    ptx_function *f = r->function;
    ptx_insn *code = ptx_grow(r, f->code, f->code_count, sizeof *code, PTX_MAX_CODE);
    f->code = code;
    code[f->code_count++] = insn;
}
