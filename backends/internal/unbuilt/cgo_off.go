//go:build !cgo

package unbuilt

const cgo = false
