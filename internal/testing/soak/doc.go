// Package soak runs random programs over the whole of dlx and compares them with a model.
//
// A program is a list of steps over the public API, generated from a seed, for one goroutine or several.
// Programs do what users do, and mix it:
//
//   - They make tensors on memory of every origin, view them, move them between all devices with every
//     option, copy them with and without streams, and close them.
//   - The host and commands of the program itself write to tensors.
//   - Tensors are exported and imported, and passed to another goroutine with unfinished work on them.
//   - Streams of different devices wait for each other by semaphores. A program wraps its own OpenGL
//     context, and maps one memfd several times.
//   - Tensors go to another process and come back, by package share.
//   - Contexts end and devices close in the middle.
//
// The model keeps by value what every tensor must contain. It also knows which tensors share bytes, are
// read-only or closed, or hold the result of failed work. After a step that orders the work, the bytes are
// compared. The report of a move is compared with what happened, and an error must be one that the model
// predicts.
//
// Programs run in child processes, since some defects end the process. A program that fails is made as short
// as possible, and printed as Go code that runs in the root of this module.
//
//	make soak                       # a million steps
//	make soak SOAK_STEPS=10000000   # another number of steps
//	make soak SOAK_SEED=42          # from another seed; a run prints its seed
package soak
