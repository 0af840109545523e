//go:build !unix

package core

// checkNumber fails: on this system dlx knows no handles that are numbers. So none is
// ever duplicated or closed.
func checkNumber(call string, t HandleType, _ uintptr) (fileID, error) {
	return fileID{}, Errorf(ErrNotSupported, "core", call, "dlx does not know handles of type %v on this system", t)
}

func duplicateNumber(call string, _ uintptr) (uintptr, error) {
	return 0, Errorf(ErrNotSupported, "core", call, "dlx does not know numbers of this system")
}

func closeNumber(call string, _ uintptr) error {
	return Errorf(ErrNotSupported, "core", call, "dlx does not know numbers of this system")
}
