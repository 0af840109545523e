// run.c runs decoded functions.
#include "code.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNING, WAITING, ENDED };

typedef struct {
    uint32_t next;     // instruction
    uint32_t barrier;  // the instruction before that a waiting thread waits at
    uint8_t state;
    uint64_t branches;
} thread;

typedef struct {
    const ptx_function *function;
    unsigned grid[3], block[3], at[3];  // at: the block that runs
    unsigned count;                     // threads of a block
    ptx_translate *translate;
    void *ctx;
    unsigned char *params, *shared;
    uint64_t *slots;  // of all threads of a block
    thread *threads;
    unsigned *order;
    uint64_t random;
    char *log;
    size_t room;
} launch;

// fault tells where a launch ended.
static int fault(launch *l, unsigned id, const ptx_insn *insn, int status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static int fault(launch *l, unsigned id, const ptx_insn *insn, int status, const char *format,
                 ...) {
    if (l->room == 0) return status;
    ptx_word entry = l->function->name;
    unsigned x = id % l->block[0], y = id / l->block[0] % l->block[1],
             z = id / l->block[0] / l->block[1];
    int n = snprintf(l->log, l->room,
                     "%.*s, line %d, %.*s, thread (%u, %u, %u) of block (%u, %u, %u): ",
                     (int)entry.size, entry.at, insn->line, (int)insn->name.size, insn->name.at, x,
                     y, z, l->at[0], l->at[1], l->at[2]);
    va_list list;
    va_start(list, format);
    if (n >= 0 && (size_t)n < l->room) vsnprintf(l->log + n, l->room - (size_t)n, format, list);
    va_end(list);
    return status;
}

// ---- Memory ------------------------------------------------------------------------------

// locate returns where the bytes of an access are, NULL after *status was set.
static unsigned char *locate(launch *l, unsigned id, const ptx_insn *insn, uint64_t address,
                             size_t bytes, int *status) {
    unsigned space = insn->space;
    if (space == SPACE_PARAM) return l->params + address;
    if (address % bytes != 0) {
        *status = fault(l, id, insn, PTX_MISALIGNED, "0x%llx is no multiple of %zu",
                        (unsigned long long)address, bytes);
        return NULL;
    }
    if (space == SPACE_GENERIC && address >= PTX_SHARED_WINDOW &&
        address - PTX_SHARED_WINDOW < PTX_MAX_SHARED) {
        space = SPACE_SHARED;
        address -= PTX_SHARED_WINDOW;
    }
    if (l->function->module->trace != NULL) {
        unsigned block = (l->at[2] * l->grid[1] + l->at[1]) * l->grid[0] + l->at[0];
        l->function->module->trace(
            l->ctx, &(ptx_access){address, block, id, (unsigned)insn->line, (unsigned)bytes,
                                  insn->op == OP_STORE, space == SPACE_SHARED});
    }
    unsigned char *at;
    if (space == SPACE_SHARED) {
        uint32_t size = l->function->shared_bytes;
        at = bytes <= size && address <= size - bytes ? l->shared + address : NULL;
    } else {
        at = l->translate(l->ctx, address, bytes, insn->op == OP_STORE);
    }
    if (at == NULL) {
        const char *what = space == SPACE_SHARED ? "of the block" : "that the device may use so";
        *status = fault(l, id, insn, PTX_BAD_ACCESS, "%zu bytes at 0x%llx are no memory %s", bytes,
                        (unsigned long long)address, what);
    }
    return at;
}

static int access_memory(launch *l, unsigned id, const ptx_insn *insn, uint64_t *s) {
    size_t word = (64u - insn->shift) / 8;
    int status = PTX_OK;
    unsigned char *at =
        locate(l, id, insn, s[insn->a] + (uint64_t)insn->offset, word * insn->lanes, &status);
    if (at == NULL) return status;
    // The bytes of a word are in the order of the host, which is little-endian as a card is.
    for (unsigned i = 0; i < insn->lanes; i++, at += word) {
        if (insn->op == OP_STORE) {
            memcpy(at, &s[insn->d[i]], word);
            continue;
        }
        uint64_t value = 0;
        memcpy(&value, at, word);
        if (insn->is_signed) value = (uint64_t)((int64_t)(value << insn->shift) >> insn->shift);
        s[insn->d[i]] = value & insn->mask;
    }
    return PTX_OK;
}

// ---- Arithmetic ----------------------------------------------------------------------------

// high returns the upper half of a product.
static uint64_t high(uint64_t a, uint64_t b, unsigned bits, bool is_signed) {
    if (is_signed) return (uint64_t)(((__int128)(int64_t)a * (int64_t)b) >> bits);
    return (uint64_t)(((unsigned __int128)a * b) >> bits);
}

// What a division by zero gives is the machine's; cards give these.
static uint64_t quotient(uint64_t a, uint64_t b, bool is_signed) {
    if (b == 0) return UINT64_MAX;
    if (!is_signed) return a / b;
    return b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t remainder_of(uint64_t a, uint64_t b, bool is_signed) {
    if (b == 0) return a;
    if (!is_signed) return a % b;
    return b == UINT64_MAX ? 0 : (uint64_t)((int64_t)a % (int64_t)b);
}

static uint64_t extract(uint64_t a, unsigned position, unsigned length, unsigned bits,
                        bool is_signed) {
    unsigned last = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
    uint64_t sign = is_signed && length > 0 && (a >> last & 1) ? UINT64_MAX : 0;
    uint64_t keep = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
    if (position < bits && bits - position < length) keep = UINT64_MAX >> (64 - (bits - position));
    if (position >= bits) keep = 0;
    return ((position < bits ? a >> position : 0) & keep) | (sign & ~keep);
}

static uint64_t insert(uint64_t a, uint64_t b, unsigned position, unsigned length, unsigned bits) {
    if (position >= bits) return b;
    uint64_t keep = (length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1) << position;
    return (a << position & keep) | (b & ~keep);
}

static uint64_t reverse(uint64_t a, unsigned bits) {
    uint64_t out = 0;
    for (unsigned i = 0; i < bits; i++) out |= (a >> i & 1) << (bits - 1 - i);
    return out;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selector) {
    uint64_t bytes = a | b << 32, out = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned pick = selector >> (4 * i) & 15;
        uint64_t byte = bytes >> (8 * (pick & 7)) & 0xFF;
        if (pick & 8) byte = byte & 0x80 ? 0xFF : 0;
        out |= byte << (8 * i);
    }
    return out;
}

static uint64_t logic(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
    uint64_t out = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return out;
}

static float float_of(uint64_t slot) {
    uint32_t bits = (uint32_t)slot;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// slot_of returns the bits of a result, which has one NaN.
static uint64_t slot_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? bits : 0x7fffffff;
}

// smaller_float returns the smaller number, or the one that is no NaN. -0 is smaller than 0.
static uint64_t smaller_float(float a, float b) {
    if (a == 0 && b == 0) return slot_of(signbit(a) ? a : b);
    return slot_of(b != b || a < b ? a : b);
}

static uint64_t larger_float(float a, float b) {
    if (a == 0 && b == 0) return slot_of(signbit(a) ? b : a);
    return slot_of(b != b || a > b ? a : b);
}

// int_of_float rounds towards zero. Numbers beyond the range give its ends, and a NaN 0.
static uint64_t int_of_float(float x) {
    if (x != x) return 0;
    if (x >= 0x1p31f) return INT32_MAX;
    return x < -0x1p31f ? (uint32_t)INT32_MIN : (uint32_t)(int32_t)x;
}

// calculate returns what an instruction without a side effect gives, with any bits above.
static inline uint64_t calculate(const ptx_insn *insn, const uint64_t *s) {
    const unsigned bits = 64u - insn->shift;
    const bool is_signed = insn->is_signed;
    uint64_t a = s[insn->a], b = s[insn->b];
    const uint64_t c = s[insn->c];
    // A slot has zeros above its value: what depends on a sign widens it first.
#define WIDE(x) ((uint64_t)((int64_t)((x) << insn->shift) >> insn->shift))
#define SIGNED(x) ((int64_t)WIDE(x))
#define COMPARE(op) (is_signed ? SIGNED(a) op SIGNED(b) : a op b)
    switch (insn->op) {
    case OP_MOV: return a;
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_MUL: return a * b;
    case OP_MAD: return a * b + c;
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    case OP_NOT: return ~a;
    case OP_CNOT: return a == 0;
    case OP_NEG: return 0 - a;
    case OP_EQ: return a == b;
    case OP_NE: return a != b;
    case OP_LT: return COMPARE(<);
    case OP_LE: return COMPARE(<=);
    case OP_GT: return COMPARE(>);
    case OP_GE: return COMPARE(>=);
    case OP_SELP: return c ? a : b;
    case OP_SHL: return b < bits ? a << b : 0;
    case OP_SHF_L: return (b << 32 | a) << (c & 31) >> 32;
    case OP_SHF_R: return (b << 32 | a) >> (c & 31);
    case OP_BFI: return insert(a, b, c & 0xFF, s[insn->e] & 0xFF, bits);
    case OP_POPC: return (uint64_t)__builtin_popcountll(a);
    case OP_CLZ: return a == 0 ? bits : (uint64_t)__builtin_clzll(a) - insn->shift;
    case OP_BREV: return reverse(a, bits);
    case OP_PRMT: return permute(a, b, c);
    case OP_LOP3: return logic(a, b, c, s[insn->e]);
    case OP_TO_SHARED: return a - PTX_SHARED_WINDOW;
    case OP_FROM_SHARED: return a + PTX_SHARED_WINDOW;
    case OP_BFE: return extract(a, b & 0xFF, c & 0xFF, bits, is_signed);
    case OP_SHR:
        if (is_signed) return (uint64_t)((int64_t)WIDE(a) >> (b < bits ? b : bits - 1));
        return b < bits ? a >> b : 0;
    case OP_ADD_FLOAT: return slot_of(float_of(a) + float_of(b));
    case OP_MUL_FLOAT: return slot_of(float_of(a) * float_of(b));
    case OP_MIN_FLOAT: return smaller_float(float_of(a), float_of(b));
    case OP_MAX_FLOAT: return larger_float(float_of(a), float_of(b));
    case OP_FLOAT_OF_INT: return slot_of((float)(int32_t)a);
    case OP_INT_OF_FLOAT: return int_of_float(float_of(a));
    case OP_CVT:
        a = is_signed ? WIDE(a) : a << insn->shift >> insn->shift;
        a <<= insn->out_shift;
        return insn->out_signed ? (uint64_t)((int64_t)a >> insn->out_shift) : a >> insn->out_shift;
    }
    if (is_signed) {
        a = WIDE(a);
        b = WIDE(b);
    }
    switch (insn->op) {
    case OP_MUL_WIDE: return a * b;
    case OP_MAD_WIDE: return a * b + c;
    case OP_MUL_HI: return high(a, b, bits, is_signed);
    case OP_MAD_HI: return high(a, b, bits, is_signed) + c;
    case OP_DIV: return quotient(a, b, is_signed);
    case OP_REM: return remainder_of(a, b, is_signed);
    case OP_MIN: return COMPARE(<) ? a : b;
    case OP_MAX: return COMPARE(>) ? a : b;
    default: return (int64_t)a < 0 ? 0 - a : a;  // OP_ABS
    }
#undef WIDE
#undef SIGNED
#undef COMPARE
}

// ---- Threads -------------------------------------------------------------------------------

// run_thread runs a thread up to a barrier or its end.
static int run_thread(launch *l, unsigned id) {
    const ptx_insn *code = l->function->code, *insn = code + l->threads[id].next;
    thread *t = &l->threads[id];
    uint64_t *s = l->slots + (size_t)id * l->function->slot_count;
    const uint64_t patience = l->function->module->patience;
    for (;; insn++) {
        if (s[insn->guard] == insn->unless) continue;
        switch (insn->op) {
        default: s[insn->d[0]] = calculate(insn, s) & insn->mask; break;
        case OP_BRANCH:
            if (++t->branches > patience) {
                return fault(l, id, insn, PTX_ENDLESS, "%llu branches",
                             (unsigned long long)patience);
            }
            insn = code + insn->target - 1;
            break;
        case OP_LOAD:
        case OP_STORE: {
            int status = access_memory(l, id, insn, s);
            if (status != PTX_OK) return status;
            break;
        }
        case OP_PACK: {
            uint64_t whole = 0;
            for (unsigned i = 0; i < insn->lanes; i++)
                whole |= s[insn->d[i]] << (i * (64u - insn->shift));
            s[insn->a] = whole;
            break;
        }
        case OP_UNPACK: {
            uint64_t rest = s[insn->a];
            for (unsigned i = 0; i < insn->lanes; i++) {
                s[insn->d[i]] = rest << insn->shift >> insn->shift;
                rest >>= 64u - insn->shift;
            }
            break;
        }
        case OP_BARRIER:
            t->barrier = (uint32_t)(insn - code);
            t->next = t->barrier + 1;
            t->state = WAITING;
            return PTX_OK;
        case OP_EXIT: t->state = ENDED; return PTX_OK;
        case OP_TRAP: return fault(l, id, insn, PTX_FAILED, "the kernel gave up");
        }
    }
}

static void begin_block(launch *l) {
    const ptx_function *f = l->function;
    memset(l->shared, 0xA5, f->shared_bytes);
    for (unsigned id = 0; id < l->count; id++) {
        uint64_t *s = l->slots + (size_t)id * f->slot_count;
        memcpy(s, f->slots, f->slot_count * sizeof *s);
        s[SLOT_TID] = id % l->block[0];
        s[SLOT_TID + 1] = id / l->block[0] % l->block[1];
        s[SLOT_TID + 2] = id / l->block[0] / l->block[1];
        s[SLOT_LANEID] = id % 32;
        for (unsigned k = 0; k < 3; k++) {
            s[SLOT_NTID + k] = l->block[k];
            s[SLOT_CTAID + k] = l->at[k];
            s[SLOT_NCTAID + k] = l->grid[k];
        }
        l->threads[id] = (thread){0};
    }
}

static void shuffle(launch *l) {
    for (unsigned i = l->count - 1; i > 0; i--) {
        l->random = l->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        unsigned k = (unsigned)((l->random >> 32) % (i + 1)), id = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = id;
    }
}

static int run_block(launch *l) {
    begin_block(l);
    for (;;) {
        shuffle(l);
        for (unsigned i = 0; i < l->count; i++) {
            int status = run_thread(l, l->order[i]);
            if (status != PTX_OK) return status;
        }
        const thread *first = &l->threads[0];
        for (unsigned id = 1; id < l->count; id++) {
            const thread *t = &l->threads[id];
            if (t->state != first->state || t->barrier != first->barrier) {
                unsigned waits = t->state == WAITING ? id : 0;
                const ptx_insn *barrier = &l->function->code[l->threads[waits].barrier];
                return fault(l, waits, barrier, PTX_FAILED, "a barrier that not all threads reach");
            }
        }
        if (first->state == ENDED) return PTX_OK;
    }
}

static int run_grid(launch *l) {
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1];
    for (unsigned z = l->grid[2]; z-- > 0;) {
        for (uint64_t k = blocks; k-- > 0;) {
            l->at[0] = (unsigned)(k % l->grid[0]);
            l->at[1] = (unsigned)(k / l->grid[0]);
            l->at[2] = z;
            int status = run_block(l);
            if (status != PTX_OK) return status;
        }
    }
    return PTX_OK;
}

int ptx_run(const ptx_function *f, void *const *params, const unsigned grid[3],
            const unsigned block[3], ptx_translate *translate, void *ctx, char *log, size_t room) {
    launch l = {
        .function = f, .translate = translate, .ctx = ctx, .log = log, .room = room, .random = 1};
    uint64_t count = 1;
    for (int k = 0; k < 3; k++) {
        l.grid[k] = grid[k];
        l.block[k] = block[k];
        if (grid[k] == 0 || block[k] == 0 || block[k] > f->max_threads) count = 0;
        count *= block[k];
    }
    if (count == 0 || count > f->max_threads) {
        if (room > 0) {
            snprintf(log, room,
                     "%.*s: a grid of %u x %u x %u blocks of %u x %u x %u threads: it takes 1 to "
                     "%u threads",
                     (int)f->name.size, f->name.at, grid[0], grid[1], grid[2], block[0], block[1],
                     block[2], f->max_threads);
        }
        return PTX_BAD_LAUNCH;
    }
    l.count = (unsigned)count;
    l.params = calloc(1, f->param_bytes + 1);
    l.shared = malloc(f->shared_bytes + 1);
    l.slots = malloc(count * f->slot_count * sizeof *l.slots);
    l.threads = malloc(count * sizeof *l.threads);
    l.order = malloc(count * sizeof *l.order);
    int status = PTX_NO_MEMORY;
    if (l.params != NULL && l.shared != NULL && l.slots != NULL && l.threads != NULL &&
        l.order != NULL) {
        for (uint32_t i = 0; i < f->params.count; i++)
            memcpy(l.params + f->params.list[i].offset, params[i], f->params.list[i].size);
        for (unsigned id = 0; id < l.count; id++) l.order[id] = id;
        status = run_grid(&l);
    } else if (room > 0) {
        snprintf(log, room, "memory of the host is out");
    }
    free(l.params);
    free(l.shared);
    free(l.slots);
    free(l.threads);
    free(l.order);
    return status;
}
