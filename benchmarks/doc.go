// Package benchmarks measures dlx beside what it is compared with: the bare call of a
// C function, the C library's memcpy, NumPy's copyto. A case and its baselines are
// sampled by turns in one run, so that a machine that is slow for a while is slow
// for all of them, and the ratio stays.
//
//	cases := benchmarks.Select(benchmarks.Cases(), "dlpack/")
//	report, err := benchmarks.Run(ctx, cases, benchmarks.Options{Registry: all.New(), Samples: 21, MaxTime: time.Second})
//
// A [Report] is JSON that holds every sample. The command `dlx bench` prints it,
// keeps it in a file and compares it with an older one. Nothing here passes or
// fails a test by the clock: a [Target] that is missed is a line in a report.
package benchmarks
