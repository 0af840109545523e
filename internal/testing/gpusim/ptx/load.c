// load.c reads the structure of a text: directives, entries with their parameters, and
// declarations. Statements are read in decode.c.
#include "code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Lists -----------------------------------------------------------------------------

static bool same_words(ptx_word a, ptx_word b) {
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

void *ptx_grow(ptx_reader *r, void *list, uint32_t count, size_t item, uint32_t limit) {
    if (count >= limit) ptx_fail(r, "more than %u of a kind", limit);
    if (count & (count - 1)) return list;
    size_t room = count == 0 ? 1 : 2 * (size_t)count;
    char *grown = realloc(list, room * item);
    if (grown == NULL) ptx_fail(r, "memory is out");
    memset(grown + count * item, 0, (room - count) * item);
    return grown;
}

const ptx_name *ptx_look_up(const ptx_names *names, ptx_word name) {
    for (uint32_t i = 0; i < names->count; i++)
        if (same_words(names->list[i].name, name)) return &names->list[i];
    return NULL;
}

static void add_name(ptx_reader *r, ptx_names *names, ptx_name n) {
    if (ptx_look_up(names, n.name) != NULL)
        ptx_fail(r, "%.*s is declared twice", (int)n.name.size, n.name.at);
    ptx_name *list = ptx_grow(r, names->list, names->count, sizeof *list, PTX_MAX_NAMES);
    names->list = list;
    list[names->count++] = n;
}

uint16_t ptx_slot(ptx_reader *r, uint64_t value, uint8_t bits) {
    ptx_function *f = r->function;
    for (uint32_t i = 0; bits != 0 && i < f->slot_count; i++)
        if (f->constant[i] == bits && f->slots[i] == value) return (uint16_t)i;
    uint64_t *slots = ptx_grow(r, f->slots, f->slot_count, sizeof *slots, PTX_MAX_SLOTS);
    f->slots = slots;
    uint8_t *constant = ptx_grow(r, f->constant, f->slot_count, sizeof *constant, PTX_MAX_SLOTS);
    f->constant = constant;
    slots[f->slot_count] = value;
    constant[f->slot_count] = bits;
    return (uint16_t)f->slot_count++;
}

// ---- Declarations ----------------------------------------------------------------------

bool ptx_parse_type(ptx_word text, ptx_type *type) {
    static const struct {
        const char *name;
        ptx_type type;
    } types[] = {
        {"pred", {'p', 1}}, {"b8", {'b', 8}},   {"b16", {'b', 16}}, {"b32", {'b', 32}},
        {"b64", {'b', 64}}, {"u8", {'u', 8}},   {"u16", {'u', 16}}, {"u32", {'u', 32}},
        {"u64", {'u', 64}}, {"s8", {'s', 8}},   {"s16", {'s', 16}}, {"s32", {'s', 32}},
        {"s64", {'s', 64}}, {"f32", {'f', 32}}, {"f64", {'f', 64}},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (ptx_same(text, types[i].name)) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

static ptx_type take_type(ptx_reader *r) {
    ptx_type type;
    ptx_word word = r->token.word;
    if (word.size < 2 || word.at[0] != '.' ||
        !ptx_parse_type((ptx_word){word.at + 1, word.size - 1}, &type)) {
        ptx_fail(r, "%.*s is no type that is covered", (int)word.size, word.at);
    }
    ptx_next(r);
    return type;
}

// take_variable reads [.align n] type name [size], and places it after *bytes.
static ptx_name take_variable(ptx_reader *r, uint32_t *bytes, uint32_t limit) {
    uint64_t alignment = 0, size = 1;
    if (ptx_accept(r, ".align")) {
        alignment = ptx_take_number(r);
        if (alignment == 0 || alignment > 128 || (alignment & (alignment - 1)) != 0)
            ptx_fail(r, "no alignment: %llu", (unsigned long long)alignment);
    }
    ptx_type type = take_type(r);
    if (type.kind == 'p') ptx_fail(r, "a predicate cannot lie in memory");
    if (alignment == 0) alignment = type.bits / 8;
    // A parameter that is a pointer may say to what.
    if (ptx_accept(r, ".ptr")) {
        while (r->token.kind == TOKEN_WORD && r->token.word.at[0] == '.') ptx_next(r);
        if (r->token.kind == TOKEN_NUMBER) ptx_next(r);
    }
    ptx_name n = {.name = ptx_take_word(r)};
    if (ptx_accept(r, "[")) {
        size = ptx_take_number(r);
        ptx_expect(r, "]");
    }
    n.offset = (uint32_t)((*bytes + alignment - 1) & ~(alignment - 1));
    if (size == 0 || size > limit || n.offset + size * (type.bits / 8) > limit) {
        ptx_fail(r, "%.*s is empty, or more than the %u bytes there are", (int)n.name.size,
                 n.name.at, limit);
    }
    n.size = (uint32_t)size * (type.bits / 8);
    *bytes = n.offset + n.size;
    return n;
}

static void take_shared(ptx_reader *r) {
    ptx_function *f = r->function;
    uint32_t *bytes = f != NULL ? &f->shared_bytes : &r->module->shared_bytes;
    ptx_name n = take_variable(r, bytes, PTX_MAX_SHARED);
    ptx_expect(r, ";");
    add_name(r, f != NULL ? &f->shared : &r->module->shared, n);
}

// rubbish is what a register holds before it is written.
static uint64_t rubbish(uint8_t bits) { return UINT64_C(0xA5A5A5A5A5A5A5A5) >> (64 - bits); }

static void take_registers(ptx_reader *r) {
    ptx_function *f = r->function;
    ptx_type type = take_type(r);
    do {
        ptx_registers g = {.prefix = ptx_take_word(r), .count = 1, .bits = type.bits};
        g.first = (uint16_t)f->slot_count;
        if (ptx_accept(r, "<")) {
            uint64_t count = ptx_take_number(r);
            ptx_expect(r, ">");
            if (count == 0 || count > PTX_MAX_SLOTS)
                ptx_fail(r, "%.*s: no or too many registers", (int)g.prefix.size, g.prefix.at);
            g.numbered = true;
            g.count = (uint32_t)count;
        }
        for (uint32_t i = 0; i < f->register_count; i++) {
            if (!same_words(f->registers[i].prefix, g.prefix)) continue;
            ptx_fail(r, "%.*s is declared twice", (int)g.prefix.size, g.prefix.at);
        }
        for (uint32_t i = 0; i < g.count; i++) ptx_slot(r, rubbish(g.bits), 0);
        f->registers = ptx_grow(r, f->registers, f->register_count, sizeof g, PTX_MAX_NAMES);
        f->registers[f->register_count++] = g;
    } while (ptx_accept(r, ","));
    ptx_expect(r, ";");
}

// ---- Entries ---------------------------------------------------------------------------

static void take_params(ptx_reader *r) {
    ptx_function *f = r->function;
    if (!ptx_accept(r, "(") || ptx_accept(r, ")")) return;
    do {
        ptx_expect(r, ".param");
        ptx_name n = take_variable(r, &f->param_bytes, PTX_MAX_PARAMS);
        add_name(r, &f->params, n);
    } while (ptx_accept(r, ","));
    ptx_expect(r, ")");
}

// take_limits reads what a launch of the entry must keep to, and hints for the compiler.
static void take_limits(ptx_reader *r) {
    ptx_function *f = r->function;
    f->max_threads = PTX_MAX_THREADS;
    while (!ptx_accept(r, "{")) {
        if (ptx_accept(r, ".maxntid")) {
            uint64_t threads = 1;
            do {
                uint64_t n = ptx_take_number(r);
                if (n == 0 || n > PTX_MAX_THREADS || threads * n > PTX_MAX_THREADS)
                    ptx_fail(r, ".maxntid is more than a block has");
                threads *= n;
            } while (ptx_accept(r, ","));
            f->max_threads = (unsigned)threads;
        } else if (ptx_accept(r, ".minnctapersm") || ptx_accept(r, ".maxnreg")) {
            ptx_take_number(r);
        } else {
            ptx_fail(r, "%.*s after an entry is not covered", (int)r->token.word.size,
                     r->token.word.at);
        }
    }
}

// take_label reads "name:" if that is what comes.
static bool take_label(ptx_reader *r) {
    ptx_reader before = *r;
    if (r->token.kind != TOKEN_WORD) return false;
    ptx_word name = ptx_take_word(r);
    if (!ptx_accept(r, ":")) {
        r->at = before.at;
        r->line = before.line;
        r->token = before.token;
        return false;
    }
    add_name(r, &r->function->labels, (ptx_name){.name = name, .offset = r->function->code_count});
    return true;
}

// link_branches replaces the labels of branches, which stand in their names, by what they stand
// for.
static void link_branches(ptx_reader *r) {
    ptx_function *f = r->function;
    for (uint32_t i = 0; i < f->code_count; i++) {
        ptx_insn *insn = &f->code[i];
        if (insn->op != OP_BRANCH) continue;
        const ptx_name *label = ptx_look_up(&f->labels, insn->name);
        r->token.line = insn->line;
        if (label == NULL)
            ptx_fail(r, "there is no label %.*s", (int)insn->name.size, insn->name.at);
        insn->target = label->offset;
        insn->name = (ptx_word){"bra", 3};
    }
}

static void take_entry(ptx_reader *r) {
    ptx_function *f = calloc(1, sizeof *f);
    if (f == NULL) ptx_fail(r, "memory is out");
    f->module = r->module;
    f->shared_bytes = r->module->shared_bytes;
    f->next = r->module->functions;
    r->function = r->module->functions = f;
    f->name = ptx_take_word(r);
    for (ptx_function *other = f->next; other != NULL; other = other->next)
        if (same_words(other->name, f->name))
            ptx_fail(r, "%.*s is defined twice", (int)f->name.size, f->name.at);
    for (int i = 0; i < SLOT_FIRST_FREE; i++) ptx_slot(r, i == SLOT_ONE, i <= SLOT_ZERO ? 64 : 0);
    take_params(r);
    take_limits(r);
    while (!ptx_accept(r, "}")) {
        if (ptx_accept(r, ".reg")) {
            take_registers(r);
        } else if (ptx_accept(r, ".shared")) {
            take_shared(r);
        } else if (ptx_accept(r, ".pragma")) {  // advice for the compiler: "nounroll"
            while (r->token.kind != TOKEN_END && !ptx_same(r->token.word, ";")) ptx_next(r);
            ptx_expect(r, ";");
        } else if (!take_label(r)) {
            ptx_decode(r);
        }
    }
    ptx_insn *code = ptx_grow(r, f->code, f->code_count, sizeof *code, PTX_MAX_CODE);
    f->code = code;
    code[f->code_count++] =
        (ptx_insn){.op = OP_EXIT, .guard = SLOT_ONE, .line = r->token.line, .name = {"}", 1}};
    link_branches(r);
    r->function = NULL;
}

static void take_module(ptx_reader *r) {
    ptx_expect(r, ".version");
    ptx_take_number(r);
    ptx_take_word(r);  // .0 after the 6
    ptx_expect(r, ".target");
    do ptx_take_word(r);
    while (ptx_accept(r, ","));
    ptx_expect(r, ".address_size");
    if (ptx_take_number(r) != 64) ptx_fail(r, "addresses of 64 bits only are covered");
    while (r->token.kind != TOKEN_END) {
        while (ptx_accept(r, ".visible") || ptx_accept(r, ".weak")) continue;
        if (ptx_accept(r, ".entry"))
            take_entry(r);
        else if (ptx_accept(r, ".shared"))
            take_shared(r);
        else
            ptx_fail(r, "%.*s is not covered", (int)r->token.word.size, r->token.word.at);
    }
}

// ---- Modules ---------------------------------------------------------------------------

// read_text is where ptx_fail ends.
static bool read_text(ptx_reader *r) {
    if (setjmp(r->end) != 0) return false;
    ptx_next(r);
    take_module(r);
    return true;
}

ptx_module *ptx_load(const char *text, char *log, size_t room) {
    size_t size = strlen(text);
    ptx_module *m = calloc(1, sizeof *m);
    char *copy = size <= PTX_MAX_TEXT ? malloc(size + 1) : NULL;
    if (m == NULL || copy == NULL) {
        if (room > 0)
            snprintf(log, room, "memory is out, or the text is longer than %d bytes", PTX_MAX_TEXT);
        free(m);
        free(copy);
        return NULL;
    }
    memcpy(copy, text, size + 1);
    *m = (ptx_module){.text = copy, .patience = UINT64_C(1) << 28};
    ptx_reader r = {.at = copy, .line = 1, .module = m, .log = log, .room = room};
    if (read_text(&r)) return m;
    ptx_unload(m);
    return NULL;
}

void ptx_unload(ptx_module *m) {
    if (m == NULL) return;
    for (ptx_function *f = m->functions, *next; f != NULL; f = next) {
        next = f->next;
        free(f->params.list);
        free(f->shared.list);
        free(f->labels.list);
        free(f->registers);
        free(f->slots);
        free(f->constant);
        free(f->code);
        free(f);
    }
    free(m->shared.list);
    free(m->text);
    free(m);
}

ptx_function *ptx_find(ptx_module *m, const char *name) {
    ptx_function *f = m->functions;
    while (f != NULL && !ptx_same(f->name, name)) f = f->next;
    return f;
}

size_t ptx_param_size(const ptx_function *f, int i) {
    return i >= 0 && (uint32_t)i < f->params.count ? f->params.list[i].size : 0;
}

unsigned ptx_max_threads(const ptx_function *f) { return f->max_threads; }

size_t ptx_shared_size(const ptx_function *f) { return f->shared_bytes; }

void ptx_set_patience(ptx_module *m, uint64_t branches) { m->patience = branches; }

void ptx_set_trace(ptx_module *m, ptx_trace *trace) { m->trace = trace; }
