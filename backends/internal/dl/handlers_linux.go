//go:build linux && cgo

package dl

/*
#include <pthread.h>
#include <signal.h>
#include <string.h>

// Signals that Go makes panics and stack traces of, up to SIGSTKFLT: whoever changes how they are
// handled is not Go. Behind it those that os/signal may be told to ignore at any time.
static const int dlx_kept[] = {
	SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGSTKFLT,
	SIGABRT, SIGQUIT, SIGURG, SIGPROF, SIGPIPE, SIGHUP, SIGINT, SIGTERM,
};
enum { dlx_go_alone = 7 };

enum { dlx_kept_count = sizeof dlx_kept / sizeof *dlx_kept };

static struct {
	pthread_mutex_t mu;
	long inside; // calls that have begun and not ended
	struct sigaction before[dlx_kept_count]; // what the first of them found
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

// KeepHandlers notes how the process handles the signals that Go makes panics of, that
// end it or that the runtime uses, and returns a function that puts back what a driver
// changed since. It stands around calls in which a driver may install handlers of its
// own, as Intel's OpenCL does when it builds a program; a nil dereference anywhere in the Go
// program would then end the process instead of being a panic:
//
//	defer dl.KeepHandlers()()
//
// Calls may overlap: what the first of them found is what each puts back, so that
// none takes the driver's handlers for the program's. What os/signal does meanwhile
// stays. The function is called once.
func KeepHandlers() (putBack func()) {
	C.dlx_keep()
	return func() { C.dlx_put_back() }
}
