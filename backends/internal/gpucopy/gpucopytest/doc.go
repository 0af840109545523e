// Package gpucopytest runs the shaders of package gpucopy on a Vulkan device, for its
// tests and for measurements: as little Vulkan as that takes, with the validation
// layer on. That is built with the tag vulkan, on Linux with cgo. It also has the cases that every machine for the shaders must pass:
// see [Machine].
package gpucopytest
