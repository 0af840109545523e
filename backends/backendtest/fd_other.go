//go:build !unix

package backendtest

import "github.com/dlx-go/dlx/core"

// fileID identifies an open file.
type fileID struct{}

// fileOf fails: there are no descriptors here that memory could be exported as.
func fileOf(int) (fileID, error) {
	return fileID{}, errNoDescriptors
}

// bytesOf fails for the same reason.
func bytesOf(int) (int64, error) { return 0, errNoDescriptors }

// descriptors fails for the same reason.
func descriptors() (int, error) { return 0, errNoDescriptors }

var errNoDescriptors = core.Errorf(core.ErrNotSupported, "backendtest", "fstat", "this system has no descriptors of memory")
