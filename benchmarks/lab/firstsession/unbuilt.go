//go:build !(cuda && vulkan && linux && cgo)

package main

const noExperiments = "this program was built without experiments: build it on Linux with cgo and -tags cuda,vulkan"

func experiments() []experiment { return nil }
