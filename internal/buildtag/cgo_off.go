//go:build !cgo

package buildtag

const cgo = false
