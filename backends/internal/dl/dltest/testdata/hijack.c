// A library in front of a driver's that passes every call on, and takes over the process's handlers of
// signals when it is loaded and in the calls that it is told to. HIJACK_CALLS(X) lists its functions:
// X(name, whether it takes the handlers over).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

static void fatal(int s) {
	static const char text[] = "a handler of the driver ended the process\n";
	ssize_t n = write(2, text, sizeof text - 1);
	_exit(n < 0 ? s : 70);
}

static void take_over(void) {
	// Not SIGURG, by which Go stops goroutines at any time.
	static const int taken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE, SIGTERM};
	struct sigaction a = {.sa_handler = fatal};
	for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++) sigaction(taken[i], &a, NULL);
}

// It has taken over everything when dlopen returns.
__attribute__((constructor)) static void begin(void) { take_over(); }

// Arguments are integers and addresses, 14 at most. Passing on more than a caller gave is harmless under
// the conventions of amd64 and arm64.
typedef uintptr_t word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static function real(const char *name) {
	void *library = dlopen(getenv("DLX_HIJACKED_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
	function f = library ? (function)dlsym(library, name) : NULL;
	if (!f) abort();
	return f;
}

#define DEFINE(name, takes)                                                                            \
	static function real_##name;                                                                       \
	word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k,  \
			word l, word m, word n) {                                                                  \
		if (!real_##name) real_##name = real(#name);                                                   \
		word r = real_##name(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                \
		if (takes) take_over();                                                                        \
		return r;                                                                                      \
	}
HIJACK_CALLS(DEFINE)

function vkGetDeviceProcAddr(word, word);

// in_front returns the function of this library that stands in front of found, if there is one.
static function in_front(const char *name, function found) {
	if (!found) return NULL;
	if (!strcmp(name, "vkGetDeviceProcAddr")) return (function)vkGetDeviceProcAddr;
#define CHOOSE(call, takes)                \
	if (!strcmp(name, #call)) {            \
		real_##call = found;               \
		return (function)call;             \
	}
	HIJACK_CALLS(CHOOSE)
	return found;
}

// The functions that find others.
#define DEFINE_LOOKUP(lookup, at)                                       \
	function lookup(word a, word b) {                                   \
		static function find;                                           \
		if (!find) find = real(#lookup);                                \
		word w[2] = {a, b};                                             \
		function found = (function)((word(*)(word, word))find)(a, b);   \
		return in_front((const char *)w[at], found);                    \
	}
DEFINE_LOOKUP(vkGetInstanceProcAddr, 1)
DEFINE_LOOKUP(vkGetDeviceProcAddr, 1)
DEFINE_LOOKUP(eglGetProcAddress, 0)
