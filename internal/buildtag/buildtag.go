// Package buildtag says how a backend gets into a program, for the errors of programs that lack it.
package buildtag

import (
	"runtime"
	"slices"
)

// names are the backends that need a build tag, which has the name of the backend. A test of backends/all finds those that
// are not here.
var names = []string{"cuda", "rocm", "opencl", "oneapi", "vulkan", "gl", "metal", "webgpu"}

// How returns how a backend gets into a program, such as "build with -tags vulkan, on Linux with cgo". It is "" for the
// backends that need no tag, and for those that are not of dlx.
func How(backend string) string {
	switch {
	case !slices.Contains(names, backend):
		return ""
	case backend == "metal":
		return "build with -tags metal, on macOS"
	}
	return "build with -tags " + backend + ", on Linux with cgo"
}

// Missing returns why this program lacks a backend that needs a tag, and what adds it.
func Missing(backend string) string { return missing(backend, runtime.GOOS, cgo) }

// missing is Missing of a program for a system, with or without cgo.
func missing(backend, system string, cgo bool) string {
	switch {
	case backend == "metal" && system != "darwin":
		return "needs macOS: build for that with -tags metal"
	case backend == "metal":
		return "built without the tag metal: build with -tags metal"
	case system != "linux":
		return "needs Linux: build for that with cgo and -tags " + backend
	case !cgo:
		return "built without cgo: build with CGO_ENABLED=1 and -tags " + backend
	}
	return "built without the tag " + backend + ": " + How(backend)
}
