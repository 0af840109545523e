// kernel.c: kernels that run on the host. A block's threads run one after the other. A thread that comes to a barrier
// waits on a stack of its own until all threads of its block have come there.

#undef _FORTIFY_SOURCE  // the way out of a kernel leads to another stack

#include "kernel.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_SIZE = 64 << 10 };

// fiber is a stack on which threads run, one after the other until one waits.
struct fiber {
    jmp_buf at;  // where it goes on
    uint8_t *stack;
    unsigned thread;  // that runs or waits on it
    bool begun, waits;
};

// seen is memory that the kernel may use.
struct seen {
    uintptr_t begin, end;
    bool write;
};

// The launch that runs. There is one at a time, since the lock is held.
static struct {
    struct kernel_state state;
    const struct kernel *kernel;
    void **arguments;
    unsigned threads, next;  // of the block, and the next that begins
    jmp_buf home;
    struct fiber **fibers, *current;
    unsigned count, used;  // fibers that there are, and that the block uses
    struct seen *seen;
    size_t seen_count;
    CUresult result;
    uintptr_t bad;
} now;

static void place_thread(unsigned i) {
    unsigned x = now.state.threads[0], y = now.state.threads[1];
    now.state.thread[0] = i % x;
    now.state.thread[1] = i / x % y;
    now.state.thread[2] = i / x / y;
}

// leave ends the launch with a failure. It does not return, nor do the threads that wait.
static void leave(CUresult code) {
    now.result = code;
    for (unsigned i = 0; i < now.used; i++) now.fibers[i]->begun = false;
    _longjmp(now.home, 1);
}

// pause goes back to block_run, until that resumes the fiber.
static void pause_fiber(void) {
    if (_setjmp(now.current->at) == 0) _longjmp(now.home, 1);
}

static void barrier(void) {
    now.current->waits = true;
    pause_fiber();
    place_thread(now.current->thread);
}

// check is called before each access. What was found last is looked at first the next time.
static void check(unsigned long at, unsigned long bytes, int write) {
    for (size_t i = 0; i < now.seen_count; i++) {
        const struct seen s = now.seen[i];
        if (at < s.begin || at >= s.end || bytes > s.end - at || (write && !s.write)) continue;
        if (i > 1) {
            now.seen[i] = now.seen[i / 2];
            now.seen[i / 2] = s;
        }
        return;
    }
    uintptr_t stack = (uintptr_t)now.current->stack;
    if (at >= stack && at - stack < STACK_SIZE && bytes <= stack + STACK_SIZE - at) return;
    now.bad = at;
    leave(CUDA_ERROR_ILLEGAL_ADDRESS);
}

// threads_run runs threads on a fiber until none is left to begin; and again, when it is resumed.
static void threads_run(void) {
    for (;; pause_fiber()) {
        // Where threads wait, none begins behind one that has ended: it never came to the barrier.
        do {
            now.current->thread = now.next++;
            place_thread(now.current->thread);
            now.kernel->run(now.arguments);
        } while (now.used == 1 && now.next < now.threads);
    }
}

// fiber_new adds a fiber.
static bool fiber_new(void) {
    struct fiber **more = realloc(now.fibers, (now.count + 1) * sizeof *more);
    if (more == NULL) return false;
    now.fibers = more;
    void *p = mmap(NULL, SIM_PAGE + STACK_SIZE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    struct fiber *f = p == MAP_FAILED ? NULL : malloc(sizeof *f);
    if (f == NULL) return false;
    mprotect(p, SIM_PAGE, PROT_NONE);
    *f = (struct fiber){.stack = (uint8_t *)p + SIM_PAGE};
    more[now.count++] = f;
    return true;
}

// resume lets a fiber go on until it waits or has run its threads.
static void resume(struct fiber *f) {
    now.current = f;
    f->waits = false;
    if (_setjmp(now.home) != 0) return;
    if (f->begun) _longjmp(f->at, 1);
    f->begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&context, threads_run, 0);
    setcontext(&context);
}

// block_run runs the threads of a block.
static CUresult block_run(void) {
    now.next = now.used = 0;
    while (now.next < now.threads) {
        if (now.used == now.count && !fiber_new()) return CUDA_ERROR_OUT_OF_MEMORY;
        resume(now.fibers[now.used++]);
        if (now.result != CUDA_SUCCESS) return now.result;
    }
    for (;;) {
        unsigned waiting = 0;
        for (unsigned i = 0; i < now.used; i++) waiting += now.fibers[i]->waits;
        if (waiting == 0) return CUDA_SUCCESS;
        if (waiting != now.threads) {  // "evaluates identically across the thread block"
            for (unsigned i = 0; i < now.used; i++) now.fibers[i]->begun = false;
            return CUDA_ERROR_LAUNCH_FAILED;
        }
        for (unsigned i = 0; i < now.used; i++) {
            resume(now.fibers[i]);
            if (now.result != CUDA_SUCCESS) return now.result;
        }
    }
}

// seen_add notes memory that the kernel may use.
static bool seen_add(uintptr_t begin, size_t bytes, bool write) {
    struct seen *more = realloc(now.seen, (now.seen_count + 1) * sizeof *more);
    if (more == NULL) return false;
    now.seen = more;
    more[now.seen_count++] = (struct seen){begin, begin + bytes, write};
    return true;
}

// look notes all memory that work of a context reaches, at the addresses where the simulator has it.
static bool look(const sim_context *ctx) {
    for (const sim_range *r = sim_range_next(NULL); r; r = sim_range_next(r))
        if (r->active && sim_range_reached(r, ctx, false) &&
            !seen_add((uintptr_t)r->work, r->size, sim_range_reached(r, ctx, true)))
            return false;
    return true;
}

// translate turns the address that was handed out into the one where the bytes are. Others are left as they are: to
// use them fails.
static void translate(void *argument) {
    uintptr_t at = *(uintptr_t *)argument;
    const sim_range *r = sim_range_find(at);
    if (r) *(uintptr_t *)argument = (uintptr_t)r->work + (at - r->address);
}

static bool prepare(const struct kernel_table *table, const struct kernel *kernel, void **arguments, size_t bytes,
                    const unsigned grid[3], const unsigned block[3], const sim_context *ctx) {
    now.state = (struct kernel_state){.barrier = barrier, .access = check};
    for (int i = 0; i < 3; i++) {
        now.state.blocks[i] = grid[i];
        now.state.threads[i] = block[i];
    }
    now.kernel = kernel;
    now.arguments = arguments;
    now.threads = block[0] * block[1] * block[2];
    now.result = CUDA_SUCCESS;
    now.seen_count = 0;
    *table->now = &now.state;
    return seen_add((uintptr_t)&now.state, sizeof now.state, false) && seen_add((uintptr_t)arguments, bytes, false) &&
           seen_add((uintptr_t)table->begin, (size_t)(table->end - table->begin), true) && look(ctx);
}

CUresult kernel_run(const struct kernel_table *table, const struct kernel *kernel, void **arguments, size_t bytes,
                    const unsigned grid[3], const unsigned block[3], const sim_op *op) {
    void **own = malloc(bytes);  // a launch may be repeated
    if (own == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(own, arguments, bytes);
    for (size_t i = 0; kernel->arguments[i].size; i++) {
        own[i] = (uint8_t *)own + ((uint8_t *)arguments[i] - (uint8_t *)arguments);
        if (kernel->arguments[i].pointer) translate(own[i]);
    }
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    if (prepare(table, kernel, own, bytes, grid, block, op->ctx)) {
        const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2], last = sim_random() & 1 ? blocks - 1 : 0;
        r = CUDA_SUCCESS;
        for (uint64_t i = 0; i < blocks && r == CUDA_SUCCESS; i++) {
            uint64_t b = last ? last - i : i;  // the order of blocks is not defined
            now.state.block[0] = (unsigned)(b % grid[0]);
            now.state.block[1] = (unsigned)(b / grid[0] % grid[1]);
            now.state.block[2] = (unsigned)(b / grid[0] / grid[1]);
            r = block_run();
        }
    }
    if (r == CUDA_ERROR_ILLEGAL_ADDRESS)
        sim_misuse(op->call, "%s: thread %u of block %u uses %p, which it must not", kernel->name, now.state.thread[0],
                   now.state.block[0], (void *)now.bad);
    if (r == CUDA_ERROR_LAUNCH_FAILED)
        sim_misuse(op->call, "%s: not all threads of a block come to a barrier", kernel->name);
    free(own);
    return r;
}
