package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/core"
)

// filled is a flag whose argument is a text that is not empty, such as the name of a file: an empty one is that of a variable of a
// script that is not set, and would have no effect.
type filled string

// String returns the text.
func (f *filled) String() string { return string(*f) }

// Set sets the text.
func (f *filled) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: leave the flag out, or name something")
	}
	*f = filled(text)
	return nil
}

// Type returns the type in the help text.
func (f *filled) Type() string { return "string" }

// noEffect returns an error if one of the flags was given, which has no effect for the reason why.
func noEffect(flags *pflag.FlagSet, why string, names ...string) error {
	for _, name := range names {
		if flags.Changed(name) {
			return fmt.Errorf("--%s has no effect %s: leave it out", name, why)
		}
	}
	return nil
}

// output is a file that a flag names; an empty path is none.
type output struct{ flag, path string }

// checkDifferent returns an error if two of the files are the same one.
func checkDifferent(files []output) error {
	var errs []error
	for i, b := range files {
		for _, a := range files[:i] {
			if a.path != "" && a.path != "-" && sameFile(a.path, b.path) {
				errs = append(errs, core.Errorf(core.ErrInvalid, "command", b.flag, "--%s and --%s would both write to %s: name two files", a.flag, b.flag, b.path))
			}
		}
	}
	return errors.Join(errs...)
}

// sameFile reports whether two paths name one file. Pipes and devices, such as /dev/null, take several results.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return x.Mode().IsRegular() && os.SameFile(x, y)
	}
	return errA != nil && errB != nil && absolute(a) == absolute(b)
}

// absolute returns the absolute path of a file that need not exist, without symbolic links in its folder.
func absolute(path string) string {
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		return fmt.Sprintf("%q cannot be found", path) // writing it fails
	}
	return filepath.Join(folder, filepath.Base(path))
}
