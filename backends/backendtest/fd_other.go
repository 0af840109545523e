//go:build !unix

package backendtest

import "github.com/dlx-go/dlx/core"

// fileID tells open files apart.
type fileID struct{}

// fileOf fails: there are no descriptors here that memory could be exported as.
func fileOf(int) (fileID, error) {
	return fileID{}, core.Errorf(core.ErrNotSupported, "backendtest", "fstat", "this system has no descriptors of memory")
}
