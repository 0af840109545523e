// The parts of cuFile's binary interface that this package uses, by the names of the API's reference.
#ifndef DLX_CUFILE_LAYOUT_H
#define DLX_CUFILE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// CUfileError_t: a CUfileOpError and a CUresult, both the size of an int.
typedef struct {
	int32_t err;
	int32_t cuda;
} dlx_cufile_error;

// CUfileDescr_t.
typedef struct {
	int32_t type;
	union {
		int32_t fd;
		void *other; // of Windows
	} handle;
	const void *operations; // of a file system in user space; null here
} dlx_cufile_descr;

enum { dlx_cufile_opaque_fd = 1 }; // CU_FILE_HANDLE_TYPE_OPAQUE_FD

_Static_assert(sizeof(dlx_cufile_error) == 8, "CUfileError_t");
_Static_assert(sizeof(dlx_cufile_descr) == 24, "CUfileDescr_t");
_Static_assert(offsetof(dlx_cufile_descr, handle) == 8, "CUfileDescr_t.handle");
_Static_assert(offsetof(dlx_cufile_descr, operations) == 16, "CUfileDescr_t.fs_ops");

#endif
