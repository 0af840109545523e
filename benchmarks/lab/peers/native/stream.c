// The loops of STREAM and the C library's memcpy, for the Go program that started it: a line in, a line of JSON out.
//
//   prepare BYTES                  three arrays of so many bytes each, written to before they are measured
//   run KERNEL KIND THREADS N      does KERNEL N times in so many threads, and answers how long that took
//
// KERNEL is copy, scale, add or triad. KIND is memcpy (copy only), loop, which the compiler makes of plain C, or nt, with
// stores that pass by the caches. The threads wait for each other after each pass over the arrays, as STREAM's do.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { MOST_THREADS = 64, LINE = 64, CHECKED = 4096 };
enum kernel { COPY, SCALE, ADD, TRIAD, KERNELS };
enum kind { MEMCPY, LOOP, NT, KINDS };
static const char *const kernel_names[] = {"copy", "scale", "add", "triad"};
static const char *const kind_names[] = {"memcpy", "loop", "nt"};
static const double scalar = 3;

// dst[i] = what the kernel makes of a[i] and b[i]. The parts of the threads are whole cache lines, and so aligned.
struct pass {
  enum kernel kernel;
  enum kind kind;
  double *dst;
  const double *a, *b;
  size_t elements;
};

static void loops(enum kernel kernel, double *restrict dst, const double *restrict a, const double *restrict b, size_t n) {
  switch (kernel) {
  case COPY: for (size_t i = 0; i < n; i++) dst[i] = a[i]; break;
  case SCALE: for (size_t i = 0; i < n; i++) dst[i] = scalar * a[i]; break;
  case ADD: for (size_t i = 0; i < n; i++) dst[i] = a[i] + b[i]; break;
  default: for (size_t i = 0; i < n; i++) dst[i] = a[i] + scalar * b[i]; break;
  }
}

#ifdef __SSE2__
static void streams(enum kernel kernel, double *restrict dst, const double *restrict a, const double *restrict b, size_t n) {
  const __m128d s = _mm_set1_pd(scalar);
  switch (kernel) {
  case COPY: for (size_t i = 0; i < n; i += 2) _mm_stream_pd(dst + i, _mm_load_pd(a + i)); break;
  case SCALE: for (size_t i = 0; i < n; i += 2) _mm_stream_pd(dst + i, _mm_mul_pd(s, _mm_load_pd(a + i))); break;
  case ADD: for (size_t i = 0; i < n; i += 2) _mm_stream_pd(dst + i, _mm_add_pd(_mm_load_pd(a + i), _mm_load_pd(b + i))); break;
  default:
    for (size_t i = 0; i < n; i += 2) _mm_stream_pd(dst + i, _mm_add_pd(_mm_load_pd(a + i), _mm_mul_pd(s, _mm_load_pd(b + i))));
  }
  _mm_sfence();
}
#endif

static void run_part(const struct pass *p, size_t thread, size_t threads) {
  const size_t lines = (p->elements * sizeof(double) + LINE - 1) / LINE, per_line = LINE / sizeof(double);
  size_t from = lines * thread / threads * per_line, to = lines * (thread + 1) / threads * per_line;
  if (to > p->elements) to = p->elements;
  double *dst = p->dst + from;
  const double *a = p->a + from, *b = p->b + from;
  if (p->kind == MEMCPY) memcpy(dst, a, (to - from) * sizeof(double));
#ifdef __SSE2__
  else if (p->kind == NT) streams(p->kernel, dst, a, b, to - from);
#endif
  else loops(p->kernel, dst, a, b, to - from);
}

// gate lets the threads through when all have come. They poll for a while, as those of OpenMP do: to sleep and to be woken
// takes longer than a pass over small arrays.
struct gate {
  atomic_size_t come, opened;
};

static void pass_gate(struct gate *g, size_t threads) {
  size_t now = atomic_load(&g->opened);
  if (atomic_fetch_add(&g->come, 1) + 1 == threads) {
    atomic_store(&g->come, 0);
    atomic_store(&g->opened, now + 1);
    return;
  }
  for (long spins = 0; atomic_load(&g->opened) == now; spins++)
    if (spins > 20000) sched_yield();
}

struct worker {
  const struct pass *pass;
  size_t thread, threads;
  long passes;
  struct gate *gate;
};

static void *work(void *argument) {
  const struct worker *w = argument;
  pass_gate(w->gate, w->threads); // all have started
  for (long i = 0; i < w->passes; i++) {
    run_part(w->pass, w->thread, w->threads);
    pass_gate(w->gate, w->threads);
  }
  return NULL;
}

// run returns the nanoseconds of all passes, or -1 where the threads cannot be had.
static long long run(const struct pass *p, size_t threads, long passes) {
  pthread_t ids[MOST_THREADS];
  struct worker workers[MOST_THREADS];
  struct gate gate = {0, 0};
  for (size_t i = 0; i < threads; i++) workers[i] = (struct worker){p, i, threads, passes, &gate};
  for (size_t i = 1; i < threads; i++)
    if (pthread_create(&ids[i], NULL, work, &workers[i])) return -1; // the program ends, and with it the others
  struct timespec start, end;
  pass_gate(&gate, threads);
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long i = 0; i < passes; i++) {
    run_part(p, 0, threads);
    pass_gate(&gate, threads);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  for (size_t i = 1; i < threads; i++) pthread_join(ids[i], NULL);
  return (end.tv_sec - start.tv_sec) * 1000000000LL + (end.tv_nsec - start.tv_nsec);
}

static double *array(size_t bytes, double value) {
  double *p = NULL;
  if (posix_memalign((void **)&p, 4096, bytes)) return NULL;
  for (size_t i = 0; i < bytes / sizeof(double); i++) p[i] = value + (double)(i % 1021);
  return p;
}

// check runs everything on small arrays and compares each element. It returns what was wrong, or NULL.
static const char *check(void) {
  static char wrong[128];
  static _Alignas(LINE) double dst[CHECKED], a[CHECKED], b[CHECKED];
  for (size_t i = 0; i < CHECKED; i++) a[i] = (double)i, b[i] = (double)(7 * i + 1);
  for (int kernel = 0; kernel < KERNELS; kernel++)
    for (int kind = 0; kind < KINDS; kind++)
      for (size_t threads = 1; threads <= 3; threads++) {
#ifndef __SSE2__
        if (kind == NT) continue;
#endif
        if (kind == MEMCPY && kernel != COPY) continue;
        memset(dst, 0xff, sizeof dst);
        struct pass p = {kernel, kind, dst, a, b, CHECKED};
        if (run(&p, threads, 1) < 0) return "a thread cannot be started";
        for (size_t i = 0; i < CHECKED; i++) {
          double want = kernel == COPY ? a[i] : kernel == SCALE ? scalar * a[i] : kernel == ADD ? a[i] + b[i] : a[i] + scalar * b[i];
          if (dst[i] != want) {
            snprintf(wrong, sizeof wrong, "%s %s: element %zu is %g and not %g", kernel_names[kernel], kind_names[kind], i, dst[i], want);
            return wrong;
          }
        }
      }
  return NULL;
}

static int index_of(const char *name, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (!strcmp(name, names[i])) return i;
  return -1;
}

static void answer(const char *error) {
  if (error) printf("{\"error\": \"%s\"}\n", error);
  else printf("{}\n");
  fflush(stdout);
}

int main(void) {
  char line[256], kernel_name[16], kind_name[16];
  double *arrays[3] = {NULL, NULL, NULL};
  size_t bytes = 0, threads;
  long passes;
  const char *wrong = check();
  if (wrong) return answer(wrong), 1;
  printf("{\"version\": \"C compiler %s\"}\n", __VERSION__);
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "prepare %zu", &bytes) == 1) {
      int missing = 0;
      bytes = bytes / LINE * LINE;
      for (int i = 0; i < 3; i++) {
        free(arrays[i]);
        arrays[i] = array(bytes, i);
        missing |= !arrays[i];
      }
      if (missing) bytes = 0;
      answer(missing ? "out of memory" : NULL);
    } else if (sscanf(line, "run %15s %15s %zu %ld", kernel_name, kind_name, &threads, &passes) == 4) {
      int kernel = index_of(kernel_name, kernel_names, KERNELS), kind = index_of(kind_name, kind_names, KINDS);
      if (!bytes || kernel < 0 || kind < 0 || (kind == MEMCPY && kernel != COPY) || threads < 1 || threads > MOST_THREADS || passes < 1) {
        answer("there is no such run, or it is not prepared");
        continue;
      }
#ifndef __SSE2__
      if (kind == NT) {
        answer("not supported: stores that pass by the caches are written for SSE2 only");
        continue;
      }
#endif
      struct pass p = {kernel, kind, arrays[0], arrays[1], arrays[2], bytes / sizeof(double)};
      long long ns = run(&p, threads, passes);
      if (ns < 0) return answer("a thread cannot be started"), 1;
      printf("{\"ns\": %lld}\n", ns);
      fflush(stdout);
    } else answer("the line is not understood");
  }
  for (int i = 0; i < 3; i++) free(arrays[i]);
  return 0;
}
