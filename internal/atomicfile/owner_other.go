//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// adopt does nothing: what a system without Unix's permissions gives a new file in
// the folder is what the old one had.
func adopt(*os.File, fs.FileInfo) {}
