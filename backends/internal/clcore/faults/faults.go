//go:build (opencl || oneapi) && linux && cgo

package faults

/*
#cgo CFLAGS: -I${SRCDIR}/../driver
#include "table.h"
#include <stdatomic.h>

enum {
#define SLOT(name, since, optional, handle) slot_##name,
	DLX_CL_FUNCTIONS(SLOT)
	usm_slots,
	before_usm = usm_slots - 1,
	DLX_USM_FUNCTIONS(SLOT)
	slots
};

static const char *const names[] = {
#define NAME(name, since, optional, handle) #name,
	DLX_CL_FUNCTIONS(NAME)
	DLX_USM_FUNCTIONS(NAME)
};

// Arguments of OpenCL are integers and addresses, 14 at most. Passing on more than
// a caller gave is harmless under the conventions of amd64 and arm64.
typedef uintptr_t word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static function real[slots];
static atomic_long left[slots]; // calls until the one that fails; 0 if none does
static atomic_long failed;
static atomic_long made[slots]; // calls since the program began

// A call that returns a handle fails by returning none, and does not set its code.
#define INTERPOSER(name, since, optional, handle) \
	static word interposer_##name(word a, word b, word c, word d, word e, word f, word g, word h, \
			word i, word j, word k, word l, word m, word n) { \
		atomic_fetch_add(&made[slot_##name], 1); \
		if (atomic_load(&left[slot_##name]) > 0 && atomic_fetch_sub(&left[slot_##name], 1) == 1) { \
			atomic_fetch_add(&failed, 1); \
			return handle ? 0 : (word)(intptr_t)CL_OUT_OF_RESOURCES; \
		} \
		return real[slot_##name](a, b, c, d, e, f, g, h, i, j, k, l, m, n); \
	}
DLX_CL_FUNCTIONS(INTERPOSER)
DLX_USM_FUNCTIONS(INTERPOSER)

static const function interposers[] = {
#define ADDRESS(name, since, optional, handle) interposer_##name,
	DLX_CL_FUNCTIONS(ADDRESS)
	DLX_USM_FUNCTIONS(ADDRESS)
};

static const char *name_of(int i) { return names[i]; }

static void install(word *table, int first, int end) {
	for (int i = first; i < end; i++) {
		word *entry = &table[i - first];
		if (!*entry) continue;
		real[i] = (function)*entry;
		*entry = (word)interposers[i];
	}
}

static void arm(int i, long n) {
	atomic_store(&failed, 0);
	atomic_store(&left[i], n);
}

static long made_of(int i) { return atomic_load(&made[i]); }

static long disarm(int i) {
	atomic_store(&left[i], 0);
	return atomic_load(&failed);
}
*/
import "C"

import "unsafe"

// Install puts interposers into the table of package driver, for good. They pass
// calls on, unless told otherwise.
func Install(table []uintptr) { C.install((*C.word)(unsafe.Pointer(&table[0])), 0, C.usm_slots) }

// InstallUSM puts them into a platform's table for unified shared memory, for good. All tables that get them must be of
// one platform.
func InstallUSM(table []uintptr) {
	C.install((*C.word)(unsafe.Pointer(&table[0])), C.usm_slots, C.slots)
}

// Calls are the names of the functions, in the order of the tables.
func Calls() []string {
	names := make([]string, C.slots)
	for i := range names {
		names[i] = C.GoString(C.name_of(C.int(i)))
	}
	return names
}

// Arm makes the n-th call from now on, counted from 1, of the function at index i
// of [Calls] fail, with CL_OUT_OF_RESOURCES or without a result.
func Arm(i int, n int64) { C.arm(C.int(i), C.long(n)) }

// Disarm ends that, and reports whether the call came.
func Disarm(i int) bool { return C.disarm(C.int(i)) > 0 }

// Made is how often the functions were called, in the order of [Calls], since the interposers were installed.
func Made() []int64 {
	made := make([]int64, C.slots)
	for i := range made {
		made[i] = int64(C.made_of(C.int(i)))
	}
	return made
}
