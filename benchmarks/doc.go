// Package benchmarks measures dlx and, beside it, the call of an empty C function, the C library's memcpy or
// NumPy's copyto. Samples of a case and of its baselines alternate in one run. A machine that is slow for a
// while is then slow for all of them, and the ratio does not change.
//
//	cases := benchmarks.Select(benchmarks.Cases(), "dlpack/")
//	report, err := benchmarks.Run(ctx, cases, benchmarks.Options{Registry: all.New(), Samples: 21, MaxTime: time.Second})
//
// A [Report] is JSON that holds every sample. The command dlx bench prints it, writes it to a file and
// compares it with an older one. No test passes or fails because of a time: a missed [Target] is a line in a
// report.
package benchmarks
