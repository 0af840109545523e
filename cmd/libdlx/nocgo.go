//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "libdlx is a C shared library: build it with cgo, by scripts/build-libdlx.sh")
	os.Exit(1)
}
