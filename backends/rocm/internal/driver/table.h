// The table of HIP's functions. A function that the library lacks is one that returns hipErrorNotSupported.
#ifndef DLX_HIP_TABLE_H
#define DLX_HIP_TABLE_H

#include <stdint.h>

#include "abi.h"
#include "functions.h"

#define DLX_DECLARED(name) __typeof__(name) *name;
#define DLX_OWN(name, parameters) hipError_t (*name) parameters;
#define DLX_COMPILER(name, parameters) int (*name) parameters;

extern struct dlx_hip {
	DLX_HIP_FUNCTIONS(DLX_DECLARED)
	DLX_HIP_FUNCTIONS_OF_VERSIONS(DLX_OWN)
} dlx_hip;
extern struct dlx_hiprtc { DLX_HIPRTC_FUNCTIONS(DLX_COMPILER) } dlx_hiprtc;

// An entry is the name of a function and its pointer in a table.
struct dlx_entry {
	const char *name;
	void **at;
};
extern const struct dlx_entry dlx_hip_entries[], dlx_hiprtc_entries[];
extern const int dlx_hip_count, dlx_hiprtc_count;

// dlx_hip_missing stands for the functions that a library lacks.
extern void *const dlx_hip_missing;

// dlx_hip_version is what hipRuntimeGetVersion has returned.
extern int dlx_hip_version;

#endif
