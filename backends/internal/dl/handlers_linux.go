//go:build linux && cgo

package dl

/*
#include <pthread.h>
#include <signal.h>
#include <string.h>

// Up to SIGSTKFLT, signals of which Go makes panics and stack traces: Go itself never changes their
// handlers later. After it, signals that the program may ignore at any time by os/signal.
static const int dlx_kept[] = {
	SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGSTKFLT,
	SIGABRT, SIGQUIT, SIGURG, SIGPROF, SIGPIPE, SIGHUP, SIGINT, SIGTERM,
};
enum { dlx_go_alone = 7 };

enum { dlx_kept_count = sizeof dlx_kept / sizeof *dlx_kept };

static struct {
	pthread_mutex_t mu;
	long inside; // calls that have begun and not ended
	struct sigaction before[dlx_kept_count]; // the handlers at the first of them
} dlx_calls = {.mu = PTHREAD_MUTEX_INITIALIZER};

static int dlx_same(const struct sigaction *a, const struct sigaction *b) {
	return a->sa_sigaction == b->sa_sigaction && a->sa_flags == b->sa_flags && !memcmp(&a->sa_mask, &b->sa_mask, sizeof a->sa_mask);
}

// glibc fills a part of the mask only.
static void dlx_current(int i, struct sigaction *out) {
	memset(out, 0, sizeof *out);
	sigaction(dlx_kept[i], NULL, out);
}

static void dlx_keep(void) {
	pthread_mutex_lock(&dlx_calls.mu);
	if (dlx_calls.inside++ == 0)
		for (int i = 0; i < dlx_kept_count; i++) dlx_current(i, &dlx_calls.before[i]);
	pthread_mutex_unlock(&dlx_calls.mu);
}

// Go handles all signals by one function, that of SIGSEGV.
static int dlx_by_go(const struct sigaction *a) {
	return a->sa_handler == SIG_IGN || a->sa_sigaction == dlx_calls.before[0].sa_sigaction;
}

static void dlx_put_back(void) {
	pthread_mutex_lock(&dlx_calls.mu);
	for (int i = 0; i < dlx_kept_count; i++) {
		struct sigaction now;
		dlx_current(i, &now);
		if (dlx_same(&now, &dlx_calls.before[i]) || (i >= dlx_go_alone && dlx_by_go(&now))) continue;
		sigaction(dlx_kept[i], &dlx_calls.before[i], NULL);
	}
	dlx_calls.inside--;
	pthread_mutex_unlock(&dlx_calls.mu);
}
*/
import "C"

// KeepHandlers records how the process handles the signals that Go turns into panics, that end the process,
// or that the runtime uses. It returns a function that restores the handlers that a driver has changed since.
// Use it around calls in which a driver may install its own handlers, as Intel's OpenCL does when it builds a
// program. Otherwise a nil dereference anywhere in the Go program would end the process instead of being a
// panic:
//
//	defer dl.KeepHandlers()()
//
// Calls may overlap. All of them restore what the first one recorded, so that none takes a driver's handlers
// for the program's. Changes by os/signal in between are kept. Call the returned function once.
func KeepHandlers() (putBack func()) {
	C.dlx_keep()
	return func() { C.dlx_put_back() }
}
