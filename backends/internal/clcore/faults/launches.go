//go:build (opencl || oneapi) && linux && cgo

package faults

/*
#cgo CFLAGS: -I${SRCDIR}/../driver
#include "table.h"
#include <stddef.h>
#include <string.h>

static __typeof__(&clSetKernelArg) set_arg;
static __typeof__(&clEnqueueNDRangeKernel) launch;
static __typeof__(&clGetMemObjectInfo) info;
static cl_mem buffers[2]; // the first two arguments of the kernel
static long launches, overlaps;

// overlap reports whether both buffers were made over the same host memory.
static int overlap(void) {
	uintptr_t first[2] = {0, 0};
	size_t size[2] = {0, 0};
	for (int i = 0; i < 2; i++) {
		if (!buffers[i] || info(buffers[i], CL_MEM_HOST_PTR, sizeof first[i], &first[i], NULL) ||
				info(buffers[i], CL_MEM_SIZE, sizeof size[i], &size[i], NULL) || !first[i])
			return 0;
	}
	return buffers[0] != buffers[1] && first[0] < first[1] + size[1] && first[1] < first[0] + size[0];
}

static cl_int watched_set_arg(cl_kernel k, cl_uint i, size_t n, const void *value) {
	if (i < 2 && n == sizeof(cl_mem)) memcpy(&buffers[i], value, n);
	return set_arg(k, i, n, value);
}

static cl_int watched_launch(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset, const size_t *global,
		const size_t *local, cl_uint n, const cl_event *list, cl_event *event) {
	launches++;
	overlaps += overlap();
	return launch(q, k, dims, offset, global, local, n, list, event);
}

#define SLOT(name) table[offsetof(struct dlx_cl_table, name) / sizeof *table]

static void watch(uintptr_t *table) {
	set_arg = (__typeof__(set_arg))SLOT(clSetKernelArg);
	launch = (__typeof__(launch))SLOT(clEnqueueNDRangeKernel);
	info = (__typeof__(info))SLOT(clGetMemObjectInfo);
	SLOT(clSetKernelArg) = (uintptr_t)watched_set_arg;
	SLOT(clEnqueueNDRangeKernel) = (uintptr_t)watched_launch;
	launches = overlaps = 0;
}

static long count_launches(void) { return launches; }
static long count_overlaps(void) { return overlaps; }
*/
import "C"

import "unsafe"

// WatchLaunches makes the table of package driver count the launches of kernels. It does not put back the calls that it
// replaces. While it counts, one goroutine at a time launches kernels.
func WatchLaunches(table []uintptr) { C.watch((*C.uintptr_t)(unsafe.Pointer(&table[0]))) }

// Launches returns the number of launches since WatchLaunches, and how many of them had as their first two arguments
// different cl_mem over the same host memory, for which clCreateBuffer leaves the result undefined.
func Launches() (all, overlapping int64) {
	return int64(C.count_launches()), int64(C.count_overlaps())
}
