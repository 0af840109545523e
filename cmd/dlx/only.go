package main

import (
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// only is the globs of --only.
type only struct {
	globs   []string
	matched map[string]bool // those that a name has matched
}

// check returns an error if a glob is malformed.
func (o *only) check() error {
	for _, glob := range o.globs {
		if _, err := tensorfile.Match(glob, ""); err != nil {
			return fmt.Errorf("invalid argument %q for --only: %w", glob, err)
		}
	}
	return nil
}

// match reports whether the name of a tensor matches one of the globs, or there are none.
func (o *only) match(name string) bool {
	found := len(o.globs) == 0
	for _, glob := range o.globs {
		if ok, _ := tensorfile.Match(glob, name); ok {
			if o.matched == nil {
				o.matched = make(map[string]bool)
			}
			found, o.matched[glob] = true, true
		}
	}
	return found
}

// unused returns an error of a command for a glob that no name has matched.
func (o *only) unused(command string) error {
	for _, glob := range o.globs {
		if !o.matched[glob] {
			return core.Errorf(core.ErrInvalid, "dlx", command, "no tensor matches %q; dlx inspect lists the tensors of a file", glob)
		}
	}
	return nil
}
