// Runs a kernel that was compiled for the host: this file is compiled and linked with it. The blocks run one after
// another. The threads of a block run one after another, too, each up to the next barrier, so that a barrier
// that is missing shows: what the last thread has to write is then read before it is written.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THREADS = 256, STACK = 64 << 10, ALIGNMENT = 16, PAGE = 4096 };

typedef void kernel_function(void *dst, const void *src, const void *constants);

static struct {
	kernel_function *function;
	void *dst;
	const void *src, *constants;
	uint32_t thread, count, block[3], grid[3]; // count is the threads of a block
	ucontext_t scheduler, threads[THREADS];
	int running, waited;
} run;

static char stacks[THREADS][STACK] __attribute__((aligned(4096)));

// What a kernel asks for.
uint32_t dlx_thread(void) { return run.thread; }
uint32_t dlx_threads(void) { return run.count; }
uint32_t dlx_block(int axis) { return run.block[axis]; }
uint32_t dlx_grid(int axis) { return run.grid[axis]; }

void dlx_barrier(void) {
	run.waited = 1;
	swapcontext(&run.threads[run.thread], &run.scheduler);
}

static void body(void) {
	run.function(run.dst, run.src, run.constants);
	run.running--;
}

// run_block runs a block. Most kernels have no barrier: if the first thread meets none, the others need no stacks.
static void run_block(void) {
	run.running = run.count;
	for (uint32_t i = 0; i < run.count; i++) {
		run.thread = i;
		if (i > 0 && !run.waited) {
			body();
			continue;
		}
		ucontext_t *c = &run.threads[i];
		getcontext(c);
		c->uc_stack.ss_sp = stacks[i];
		c->uc_stack.ss_size = STACK;
		c->uc_link = &run.scheduler;
		makecontext(c, body, 0);
		swapcontext(&run.scheduler, c);
	}
	// All threads meet the same barriers.
	while (run.running > 0) {
		for (uint32_t i = 0; i < run.count; i++) {
			run.thread = i;
			swapcontext(&run.scheduler, &run.threads[i]);
		}
	}
}

// A room is for a copy of a window, at an aligned address. After it comes a page that nothing may touch, at most
// ALIGNMENT - 1 bytes behind the window; before it lie bytes that must not change.
enum { ROOM = 8 << 20, BEFORE = 64, CANARY = 0xa5 };
static char *rooms[2];

static char *window_in(int room, size_t size) { return rooms[room] + ROOM - (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// fill copies a window into a room.
static int fill(int room, const void *window, size_t size) {
	if (rooms[room] == NULL) {
		char *pages = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED || mprotect(pages + ROOM, PAGE, PROT_NONE) != 0)
			return -1;
		rooms[room] = pages;
	}
	if (size + ALIGNMENT + BEFORE > ROOM)
		return -1;
	char *at = window_in(room, size);
	memset(at - BEFORE, CANARY, rooms[room] + ROOM - (at - BEFORE));
	memcpy(at, window, size);
	return 0;
}

// is_kept reports whether the bytes around the window are as before.
static int is_kept(int room, size_t size) {
	const char *at = window_in(room, size);
	for (const char *p = at - BEFORE; p < rooms[room] + ROOM; p++)
		if ((p < at || p >= at + size) && *p != (char)CANARY)
			return 0;
	return 1;
}

// dlx_run launches a kernel, with blocks of at most THREADS threads, on windows of the memory. An access behind them ends the program. The result is -1 if the kernel
// wrote around a window or into the source, and -2 if a window or a block is too large.
int dlx_run(kernel_function *f, void *dst, size_t dst_size, const void *src, size_t src_size, const void *constants, const uint32_t *grid, uint32_t threads) {
	if (threads > THREADS || fill(0, dst, dst_size) != 0 || fill(1, src, src_size) != 0)
		return -2;
	run.function = f, run.dst = window_in(0, dst_size), run.src = window_in(1, src_size), run.constants = constants, run.waited = 0;
	run.count = threads;
	memcpy(run.grid, grid, sizeof run.grid);
	for (run.block[2] = 0; run.block[2] < grid[2]; run.block[2]++)
		for (run.block[1] = 0; run.block[1] < grid[1]; run.block[1]++)
			for (run.block[0] = 0; run.block[0] < grid[0]; run.block[0]++)
				run_block();
	memcpy(dst, run.dst, dst_size);
	return is_kept(0, dst_size) && is_kept(1, src_size) && memcmp(run.src, src, src_size) == 0 ? 0 : -1;
}
