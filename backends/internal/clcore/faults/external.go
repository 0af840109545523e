//go:build (opencl || oneapi) && linux && cgo

package faults

/*
#cgo CFLAGS: -I${SRCDIR}/../driver
#include "table.h"
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static __typeof__(&clCreateBuffer) make_buffer;
static atomic_long acquired, transfers;

static cl_int acquire(cl_command_queue q, cl_uint n, const cl_mem *m, cl_uint w, const cl_event *l, cl_event *e) {
	atomic_fetch_add(&acquired, n);
	atomic_fetch_add(&transfers, n);
	return CL_SUCCESS;
}

static cl_int release(cl_command_queue q, cl_uint n, const cl_mem *m, cl_uint w, const cl_event *l, cl_event *e) {
	atomic_fetch_sub(&acquired, n);
	return CL_SUCCESS;
}

// A memfd stands for an opaque descriptor. Like a driver, it owns that on success.
static cl_mem import_fd(cl_context c, const cl_mem_properties *p, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
	struct stat st;
	int fd = (int)p[1];
	if (p[0] != CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR || fstat(fd, &st) || (size_t)st.st_size < size) {
		*code = CL_INVALID_PROPERTY;
		return NULL;
	}
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cl_mem m = make_buffer(c, flags | CL_MEM_USE_HOST_PTR, size, memory, code);
	if (m) close(fd);
	return m;
}

static uintptr_t address_of_acquire(void) { return (uintptr_t)acquire; }
static uintptr_t address_of_release(void) { return (uintptr_t)release; }

static void serve(uintptr_t *table) {
	make_buffer = (__typeof__(&clCreateBuffer))table[offsetof(struct dlx_cl_table, clCreateBuffer) / sizeof *table];
	table[offsetof(struct dlx_cl_table, clCreateBufferWithProperties) / sizeof *table] = (uintptr_t)import_fd;
}
static long count_acquired(void) { return atomic_load(&acquired); }
static long count_transfers(void) { return atomic_load(&transfers); }
*/
import "C"

import "unsafe"

// ServeFDs makes memory of descriptors, which no driver without a card imports, and
// returns the functions that acquire and release it. The call that does so is not
// put back. A mapping stays when its buffer is released.
func ServeFDs(table []uintptr) (acquire, release uintptr) {
	C.serve((*C.uintptr_t)(unsafe.Pointer(&table[0])))
	return uintptr(C.address_of_acquire()), uintptr(C.address_of_release())
}

// Acquired is how many buffers are acquired now, and how often one was.
func Acquired() (now, ever int64) { return int64(C.count_acquired()), int64(C.count_transfers()) }
