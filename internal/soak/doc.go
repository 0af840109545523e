// Package soak is a model of the whole of dlx, and random programs over it.
//
// A program is drawn from a seed: steps over the public API as users mix it, in one
// goroutine or in several. Tensors are made on memory of every origin, viewed, moved
// with every option between all devices, copied on streams and on none, written by the
// host and by work of the program's own, exported, imported, given to another goroutine
// with the work on them, looked at and closed. Streams of different devices wait for
// each other by semaphores, a program wraps its own context of OpenGL and maps one memfd
// several times, and contexts end and devices close in the middle. The model keeps by
// value what every tensor must contain, which tensors share bytes, what is read-only,
// closed, or holds the result of work that failed. After a step that orders it the bytes
// are compared, a report of a move is compared with what happened, and an error must be
// one that the model predicts.
//
// Programs run in child processes, since some defects end the process. A program that
// goes wrong is made as short as it can be, and printed as Go code that runs in the root
// of this module.
//
//	make soak                       # a million steps
//	make soak SOAK_STEPS=10000000   # or as many as wanted
//	make soak SOAK_SEED=42          # from another seed; it is printed
package soak
