// Package parts holds what programs over dlx's API need besides that API: memory of
// every origin, kernels of the program's own, and reading and writing of elements
// wherever they lie. Package soak draws programs that use it, and the Go code that it
// prints of a failure calls it.
package parts
