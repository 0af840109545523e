// Package barecuda is the loop of cuMemcpyAsync that a copy of dlx on CUDA is measured
// beside: CUDA's driver API and nothing of dlx.
//
// Without cgo, and on other systems than Linux, [Open] says why there is none of that.
package barecuda
