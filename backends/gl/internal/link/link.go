//go:build gl && linux && cgo

package link

// #cgo LDFLAGS: -L${SRCDIR}/lib -ldl
import "C"
