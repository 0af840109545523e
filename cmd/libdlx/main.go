//go:build cgo

package main

import (
	"fmt"
	"os"
)

// main runs only if the package is built as a program, which is of no use.
func main() {
	fmt.Fprintln(os.Stderr, "libdlx is a C shared library: build it by scripts/build-libdlx.sh")
	os.Exit(1)
}
