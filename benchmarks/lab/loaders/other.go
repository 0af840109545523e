//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "loaders: the page cache can be emptied, and read past, only on Linux")
	os.Exit(1)
}
