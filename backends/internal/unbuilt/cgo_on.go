//go:build cgo

package unbuilt

const cgo = true
