//go:build !(vulkan && linux && cgo)

package main

import "log"

func main() {
	log.Fatal("this program needs Linux, cgo and the tags cuda and vulkan: go run -tags cuda,vulkan ./examples/renderer")
}
