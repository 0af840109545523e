// Package gpusimtest calls the functions of the simulated CUDA driver, and of other
// libraries, from Go tests by the names that they are exported under: with no header and
// no binding.
package gpusimtest
