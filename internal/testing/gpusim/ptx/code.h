// code.h is what token.c, load.c and decode.c make of a text, and run.c runs.
#ifndef DLX_PTX_CODE_H
#define DLX_PTX_CODE_H

#include "ptx.h"

#include <setjmp.h>
#include <stdbool.h>

enum {
    PTX_MAX_THREADS = 1024,     // of a block
    PTX_MAX_SHARED = 48 << 10,  // bytes that a kernel can declare
    PTX_MAX_PARAMS = 4 << 10,   // bytes
    PTX_MAX_SLOTS = 8 << 10,    // of a function
    PTX_MAX_CODE = 64 << 10,    // instructions of a function
    PTX_MAX_NAMES = 1 << 10,    // of one kind, in a function
    PTX_MAX_TEXT = 8 << 20,     // bytes
};

// Addresses in shared memory are offsets; as generic addresses they lie above this one.
#define PTX_SHARED_WINDOW (UINT64_C(1) << 62)

// A piece of the text.
typedef struct {
    const char *at;
    size_t size;
} ptx_word;

typedef enum {
    OP_MOV,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_MUL_HI,
    OP_MUL_WIDE,
    OP_MAD,
    OP_MAD_HI,
    OP_MAD_WIDE,
    OP_DIV,
    OP_REM,
    OP_MIN,
    OP_MAX,
    OP_ABS,
    OP_NEG,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_NOT,
    OP_CNOT,
    OP_SHL,
    OP_SHR,
    OP_SHF_L,
    OP_SHF_R,
    OP_BFE,
    OP_BFI,
    OP_POPC,
    OP_CLZ,
    OP_BREV,
    OP_PRMT,
    OP_LOP3,
    OP_SELP,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_CVT,
    OP_ADD_FLOAT,
    OP_MUL_FLOAT,
    OP_MIN_FLOAT,
    OP_MAX_FLOAT,
    OP_FLOAT_OF_INT,
    OP_INT_OF_FLOAT,
    OP_PACK,
    OP_UNPACK,
    OP_TO_SHARED,
    OP_FROM_SHARED,
    OP_LOAD,
    OP_STORE,
    OP_BRANCH,
    OP_BARRIER,
    OP_EXIT,
    OP_TRAP,
} ptx_op;

typedef enum { SPACE_GENERIC, SPACE_PARAM, SPACE_GLOBAL, SPACE_SHARED } ptx_space;

// ptx_type is what an instruction's type says: 'b', 'u', 's', 'f' or 'p', and its bits, 1
// for a predicate.
typedef struct {
    char kind;
    uint8_t bits;
} ptx_type;

// Each thread has an array of slots: its registers, the special registers, and the constants of
// the code, so that an operand is always the index of a slot. A slot holds the bits of
// its value, and zeros above.
typedef struct {
    uint8_t op;
    bool is_signed;
    bool unless;    // runs where the guard is 0
    uint8_t shift;  // 64 less the bits of the type, or of the source of a conversion
    uint8_t lanes;  // words of a vector: 1, 2 or 4
    uint8_t space;
    uint8_t out_shift;  // of a conversion: 64 less the bits of the destination's type
    bool out_signed;
    uint16_t guard;  // a slot: that of the constant 1 where there is no guard
    uint16_t d[4];   // slots of destinations; of a store and a pack, of its sources
    uint16_t a, b, c, e;
    uint32_t target;  // of a branch
    int64_t offset;   // of an address
    uint64_t mask;    // the bits of the destination
    int line;
    ptx_word name;  // with all its parts, as it is written
} ptx_insn;

// Slots that every function has.
enum {
    SLOT_ONE,
    SLOT_ZERO,
    SLOT_TID,
    SLOT_NTID = SLOT_TID + 3,
    SLOT_CTAID = SLOT_NTID + 3,
    SLOT_NCTAID = SLOT_CTAID + 3,
    SLOT_LANEID = SLOT_NCTAID + 3,
    SLOT_FIRST_FREE,
};

// A name of a parameter, of a variable in shared memory, or of a label.
typedef struct {
    ptx_word name;
    uint32_t offset;  // bytes, or instructions
    uint32_t size;
} ptx_name;

typedef struct {
    ptx_name *list;
    uint32_t count;
} ptx_names;

// One declaration of registers: prefix alone, or prefix0, prefix1, ...
typedef struct {
    ptx_word prefix;
    bool numbered;
    uint32_t count;
    uint16_t first;  // slot
    uint8_t bits;
} ptx_registers;

struct ptx_function {
    ptx_function *next;
    const ptx_module *module;
    ptx_word name;
    unsigned max_threads;
    ptx_names params, shared, labels;
    uint32_t param_bytes, shared_bytes;
    ptx_registers *registers;
    uint32_t register_count;
    uint64_t *slots;    // as they are when a thread begins
    uint8_t *constant;  // bits of a constant slot, 0 of others: the decoder's
    uint32_t slot_count;
    ptx_insn *code;
    uint32_t code_count;
};

struct ptx_module {
    char *text;
    ptx_names shared;  // variables outside all functions
    uint32_t shared_bytes;
    ptx_function *functions;
    uint64_t patience;
    ptx_trace *trace;
};

// ---- Reading ---------------------------------------------------------------------------

typedef enum { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_MARK } ptx_token_kind;

typedef struct {
    ptx_token_kind kind;
    ptx_word word;
    uint64_t number;
    int line;
} ptx_token;

typedef struct {
    const char *at;
    int line;
    ptx_token token;  // the one to look at
    ptx_module *module;
    ptx_function *function;
    char *log;
    size_t room;
    jmp_buf end;
} ptx_reader;

// ptx_fail ends the load with a message about the line that is read.
_Noreturn void ptx_fail(ptx_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ptx_next(ptx_reader *r);
bool ptx_same(ptx_word word, const char *text);
bool ptx_accept(ptx_reader *r, const char *text);  // goes past the token if it is this one
void ptx_expect(ptx_reader *r, const char *text);
ptx_word ptx_take_word(ptx_reader *r);
uint64_t ptx_take_number(ptx_reader *r);  // with its sign
// ptx_grow returns a list of items with room for one more, zeroed.
void *ptx_grow(ptx_reader *r, void *list, uint32_t count, size_t item, uint32_t limit);
const ptx_name *ptx_look_up(const ptx_names *names, ptx_word name);
bool ptx_parse_type(ptx_word text, ptx_type *type);
// ptx_slot makes a slot of the function, which holds a value when a thread begins. bits is
// 0 but for a constant.
uint16_t ptx_slot(ptx_reader *r, uint64_t value, uint8_t bits);

// ptx_decode reads the rest of a statement that begins with the token to look at.
void ptx_decode(ptx_reader *r);

#endif
