// A stand-in for libcufile.so.0 whose device memory is the host's. The test sets its variables.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "../layout.h"

struct file { int fd; };

// The next call of this kind fails or is short: 2 register, 3 read by errno, 4 read by code, 5 short read.
int dlx_standin_fault;
int dlx_standin_code;
int dlx_standin_files; // that are registered

static int fault(int which) {
	if (dlx_standin_fault != which) return 0;
	dlx_standin_fault = 0;
	return 1;
}

dlx_cufile_error cuFileDriverOpen(void) {
	const char *code = getenv("DLX_CUFILE_OPEN");
	return (dlx_cufile_error){code ? atoi(code) : 0, 0};
}

dlx_cufile_error cuFileHandleRegister(void **handle, dlx_cufile_descr *d) {
	if (fault(2)) return (dlx_cufile_error){dlx_standin_code, 999};
	if (d->type != dlx_cufile_opaque_fd || d->operations) return (dlx_cufile_error){5022, 0};
	struct file *f = malloc(sizeof *f);
	f->fd = d->handle.fd;
	*handle = f;
	dlx_standin_files++;
	return (dlx_cufile_error){0, 0};
}

void cuFileHandleDeregister(void *handle) {
	free(handle);
	dlx_standin_files--;
}

ssize_t cuFileRead(void *handle, void *base, size_t n, off_t from, off_t to) {
	if (fault(3)) { errno = dlx_standin_code; return -1; }
	if (fault(4)) return -dlx_standin_code;
	if (fault(5) && n > 1) n /= 2;
	return pread(((struct file *)handle)->fd, (char *)base + to, n, from);
}
