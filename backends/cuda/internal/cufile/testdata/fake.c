// A fake for libcufile.so.0. If DLX_CUFILE_DRIVER names a driver of CUDA, it writes to the memory of its
// devices, for which a context must be current; else its device memory is the host's. The test sets its variables, or
// DLX_CUFILE_FAULT and DLX_CUFILE_CODE in the environment.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "../layout.h"

struct file { int fd; }; // of its own, which reads at any position

// The next call of this kind fails or is short: 2 register, 3 read by errno, 4 read by code, 5 short read.
int dlx_fake_fault;
int dlx_fake_code;
int dlx_fake_files; // that are registered
int dlx_fake_reads; // that succeeded

static int (*copy)(uint64_t, const void *, size_t);
static int (*range)(uint64_t *, size_t *, uint64_t);

static int fault(int which) {
	return __sync_bool_compare_and_swap(&dlx_fake_fault, which, 0);
}

dlx_cufile_error cuFileDriverOpen(void) {
	const char *code = getenv("DLX_CUFILE_OPEN"), *driver = getenv("DLX_CUFILE_DRIVER");
	if (getenv("DLX_CUFILE_FAULT")) dlx_fake_fault = atoi(getenv("DLX_CUFILE_FAULT"));
	if (getenv("DLX_CUFILE_CODE")) dlx_fake_code = atoi(getenv("DLX_CUFILE_CODE"));
	if (driver) {
		void *library = dlopen(driver, RTLD_NOW);
		if (!library) return (dlx_cufile_error){5033, 0};
		copy = (int (*)(uint64_t, const void *, size_t))dlsym(library, "cuMemcpyHtoD_v2");
		range = (int (*)(uint64_t *, size_t *, uint64_t))dlsym(library, "cuMemGetAddressRange_v2");
		if (!copy || !range) return (dlx_cufile_error){5033, 0};
	}
	return (dlx_cufile_error){code ? atoi(code) : 0, 0};
}

dlx_cufile_error cuFileHandleRegister(void **handle, dlx_cufile_descr *d) {
	char path[40];
	if (fault(2)) return (dlx_cufile_error){dlx_fake_code, 999};
	if (d->type != dlx_cufile_opaque_fd || d->operations) return (dlx_cufile_error){5022, 0};
	snprintf(path, sizeof path, "/proc/self/fd/%d", d->handle.fd);
	struct file *f = malloc(sizeof *f);
	if ((f->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
		free(f);
		return (dlx_cufile_error){5022, 0};
	}
	*handle = f;
	__sync_fetch_and_add(&dlx_fake_files, 1);
	return (dlx_cufile_error){0, 0};
}

void cuFileHandleDeregister(void *handle) {
	close(((struct file *)handle)->fd);
	free(handle);
	__sync_fetch_and_sub(&dlx_fake_files, 1);
}

ssize_t cuFileRead(void *handle, void *base, size_t n, off_t from, off_t to) {
	int fd = ((struct file *)handle)->fd;
	if (fault(3)) { errno = dlx_fake_code; return -1; }
	if (fault(4)) return -dlx_fake_code;
	if (fault(5) && n > 1) n /= 2;
	ssize_t got;
	if (copy) {
		uint64_t start;
		size_t size;
		if (range(&start, &size, (uint64_t)base) != 0 || start != (uint64_t)base || to < 0 || (size_t)to + n > size) return -5022;
		char *bytes = malloc(n);
		got = pread(fd, bytes, n, from);
		if (got > 0 && copy((uint64_t)base + to, bytes, got) != 0) got = -5011;
		free(bytes);
	} else {
		got = pread(fd, (char *)base + to, n, from);
	}
	if (got >= 0) __sync_fetch_and_add(&dlx_fake_reads, 1);
	return got;
}
