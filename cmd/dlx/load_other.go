//go:build !linux

package main

import "github.com/dlx-go/dlx/core"

// dropCache returns an error: this program knows only Linux's way to drop files from the page cache.
func dropCache([]string) (string, error) {
	return "", core.Errorf(core.ErrNotSupported, "dlx", "load", "--cold: this program can drop files from the page cache only on Linux")
}
