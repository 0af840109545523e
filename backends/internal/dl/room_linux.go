//go:build linux && cgo

package dl

/*
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct dlx_rehearsal {
	pthread_mutex_t curtain; // held until all threads are there
	int starved;             // a thread found no memory
};

// A thread takes its stack and, with its first malloc, room for its heap. Both stay with the process when the thread
// ends, for the next one.
static void *dlx_thread(void *arg) {
	struct dlx_rehearsal *r = arg;
	void *p = malloc(64);
	pthread_mutex_lock(&r->curtain);
	if (!p) r->starved = 1;
	pthread_mutex_unlock(&r->curtain);
	free(p);
	return NULL;
}

static int dlx_bounded(void) {
	struct rlimit l;
	return !getrlimit(RLIMIT_AS, &l) && l.rlim_cur != RLIM_INFINITY;
}

static int dlx_room(int threads, int fewer, size_t bytes) {
	pthread_t *all = calloc(threads, sizeof *all);
	if (!all) return 0;
	struct dlx_rehearsal r = {.curtain = PTHREAD_MUTEX_INITIALIZER};
	sigset_t every, before; // signals are for threads that Go knows
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	pthread_mutex_lock(&r.curtain);
	int n = 0;
	while (n < threads && !pthread_create(&all[n], NULL, dlx_thread, &r)) n++;
	pthread_mutex_unlock(&r.curtain);
	for (int i = 0; i < n; i++) pthread_join(all[i], NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(all);
	if (!fewer && (n < threads || r.starved)) return 0;
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return 0;
	munmap(p, bytes);
	return 1;
}

static int dlx_processors(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
*/
import "C"

import "github.com/dlx-go/dlx/core"

func (r Room) check(backend, call string) error {
	if C.dlx_bounded() == 0 {
		return nil
	}
	threads, fewer := max(1, C.dlx_processors())+C.int(r.Threads), C.int(0)
	if r.Fewer {
		fewer = 1
	}
	if C.dlx_room(threads, fewer, C.size_t(r.Bytes)) != 0 {
		return nil
	}
	return core.Errorf(core.ErrOutOfMemory, backend, call, "the driver needs %d threads and %d MB more of address space, and RLIMIT_AS leaves too little: raise ulimit -v", int(threads), r.Bytes>>20)
}
