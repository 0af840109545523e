// Package barecuda copies in a loop of cuMemcpyAsync, by CUDA's driver API alone. It is the baseline for
// copies of dlx on CUDA.
//
// Without cgo, and on other systems than Linux, [Open] fails and says why.
package barecuda
