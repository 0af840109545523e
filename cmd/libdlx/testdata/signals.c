/* The library leaves the handlers that a program set before, and the signals of the terminal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t seen;
static void note(int number) { seen = number; }

int main(int argc, char **argv) {
	if (argc != 2) {
		return 2;
	}
	struct sigaction mine, now;
	memset(&mine, 0, sizeof mine);
	mine.sa_handler = note;
	sigaction(SIGUSR1, &mine, NULL);
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	const char *(*version)(void);
	*(void **)&version = dlsym(library, "dlx_version");
	if (version == NULL || version()[0] == 0) {
		fprintf(stderr, "no version\n");
		return 1;
	}
	raise(SIGUSR1);
	if (seen != SIGUSR1) {
		fprintf(stderr, "the handler was not called\n");
		return 1;
	}
	for (int i = 1; i < 32; i++) {
		sigaction(i, NULL, &now);
		if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN && i != SIGUSR1) { /* nohup ignores SIGHUP */
			printf("%d%s ", i, now.sa_flags & SA_ONSTACK ? "" : " without SA_ONSTACK");
		}
	}
	printf("\n");
	dlclose(library); /* has no effect */
	return version()[0] == 0;
}
