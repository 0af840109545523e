package buildtag

import (
	"strings"
	"testing"
)

// Whatever a program lacks a backend for, it says which tag adds it.
func TestEveryReasonNamesTheTag(t *testing.T) {
	for _, backend := range names {
		if how := How(backend); !strings.Contains(how, "-tags "+backend) {
			t.Errorf("%s: %q", backend, how)
		}
		for _, system := range []string{"linux", "darwin", "windows"} {
			for _, cgo := range []bool{false, true} {
				if why := missing(backend, system, cgo); !strings.Contains(why, "-tags "+backend) {
					t.Errorf("%s on %s, cgo %v: %q", backend, system, cgo, why)
				}
			}
		}
		if Missing(backend) == "" {
			t.Errorf("%s: no reason", backend)
		}
	}
	for _, other := range []string{"", "cpu", "ext_dev"} {
		if how := How(other); how != "" {
			t.Errorf("%q: %q", other, how)
		}
	}
}
