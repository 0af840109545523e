//go:build cuda && vulkan && linux && cgo

// Memory of the host, of the kinds that programs hand to a driver.

#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t pattern(uint64_t i) { return (uint8_t)(i * 7 + i / 4096); }

void fs_memory_fill(void *p, uint64_t size) {
	for (uint64_t i = 0; i < size; i++) ((uint8_t *)p)[i] = pattern(i);
}

uint64_t fs_memory_wrong(const void *p, uint64_t size) {
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < size; i++) wrong += ((const uint8_t *)p)[i] != pattern(i);
	return wrong;
}

static const char *because(const char *call) {
	static char why[256];
	snprintf(why, sizeof why, "%s: %s", call, strerror(errno));
	return why;
}

static const char *map_file(int fd, uint64_t size, int protection, int flags, void **p) {
	if (ftruncate(fd, (off_t)size)) return because("ftruncate");
	void *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (all == MAP_FAILED) return because("mmap");
	fs_memory_fill(all, size);
	munmap(all, size);
	*p = mmap(NULL, size, protection, flags, fd, 0);
	return *p == MAP_FAILED ? because("mmap") : NULL;
}

// in_file maps a file with the pattern. It closes fd in any case: a mapping needs it no longer.
static const char *in_file(int fd, uint64_t size, int protection, int flags, void **p) {
	if (fd < 0) return because("open");
	const char *why = map_file(fd, size, protection, flags, p);
	close(fd);
	return why;
}

static int file(const char *folder) {
	char name[4096];
	snprintf(name, sizeof name, "%s/dlx-first-session-XXXXXX", folder);
	int fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0) unlink(name);
	return fd;
}

const char *fs_memory_new(const char *kind, uint64_t size, const char *folder, void **p, int *writable) {
	const int both = PROT_READ | PROT_WRITE;
	*writable = strcmp(kind, "file_read_only") != 0;
	if (!strcmp(kind, "memfd")) return in_file(memfd_create("dlx first session", MFD_CLOEXEC), size, both, MAP_SHARED, p);
	if (!strcmp(kind, "file_shared")) return in_file(file(folder), size, both, MAP_SHARED, p);
	if (!strcmp(kind, "file_private")) return in_file(file(folder), size, both, MAP_PRIVATE, p);
	if (!strcmp(kind, "file_read_only")) return in_file(file(folder), size, PROT_READ, MAP_SHARED, p);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (!strcmp(kind, "huge_pages")) flags |= MAP_HUGETLB;
	int huge = !strcmp(kind, "transparent_huge_pages");
	if (huge || !strcmp(kind, "malloc")) {
		errno = posix_memalign(p, huge ? 2 << 20 : 4096, size);
		if (errno) return because("posix_memalign");
		if (huge && madvise(*p, size, MADV_HUGEPAGE)) return because("madvise");
	} else if ((*p = mmap(NULL, size, both, flags, -1, 0)) == MAP_FAILED) {
		return because("mmap");
	}
	fs_memory_fill(*p, size);
	return NULL;
}
