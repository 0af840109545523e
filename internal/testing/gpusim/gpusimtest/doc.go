// Package gpusimtest calls functions of the simulated CUDA driver, and of other libraries, from Go tests. It
// finds them by their exported names, without a header and without a binding.
package gpusimtest
