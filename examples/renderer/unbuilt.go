//go:build !(vulkan && linux && cgo)

// Command renderer hands a buffer of a Vulkan renderer to CUDA and back, where it is built with the backends for both.
package main

import "log"

func main() {
	log.Fatal("this program needs Linux, cgo and the tags cuda and vulkan: go run -tags cuda,vulkan ./examples/renderer")
}
