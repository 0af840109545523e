package coretest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// verdict records how a test would have ended.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Logf(string, ...any)               {}
func (v *verdict) Helper()                           {}
func (v *verdict) Skip(args ...any)                  { v.skipped = fmt.Sprint(args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.failed = fmt.Sprintf(format, args...) }

func TestAMissingDriverFailsUnlessItMay(t *testing.T) {
	for _, c := range []struct{ may, lack, missing, skipped, failed string }{
		{"", "", "", "", ""},
		{"1", "", "", "", ""},
		{"1", "", "no loader", "no loader", ""},
		{"", "", "no loader", "", "no loader: install a driver"},
		{"0", "", "no loader", "", "no loader: install a driver"},
		{"", "oneapi", "oneapi: no device", "oneapi: no device", ""},
		{"", "oneapi", "", "", ""},
		{"", "oneapi", "opencl: no device", "", "opencl: no device: install a driver"},
	} {
		t.Setenv("DLX_WITHOUT_DRIVERS", c.may)
		t.Setenv("DLX_DRIVERS_LACK", c.lack)
		v := &verdict{TB: t}
		coretest.NeedDriver(v, c.missing, "a driver")
		if v.skipped != c.skipped || !strings.HasPrefix(v.failed, c.failed) || (v.failed == "") != (c.failed == "") {
			t.Errorf("DLX_WITHOUT_DRIVERS=%q, DLX_DRIVERS_LACK=%q, %q is missing: skipped %q, failed %q", c.may, c.lack, c.missing, v.skipped, v.failed)
		}
		v = &verdict{TB: t}
		if out := coretest.LeavesOut(v, c.missing, "a driver"); out != (c.skipped != "") || v.skipped != "" || (v.failed == "") != (c.failed == "") {
			t.Errorf("DLX_WITHOUT_DRIVERS=%q, DLX_DRIVERS_LACK=%q, %q is missing: left out %v, skipped %q, failed %q", c.may, c.lack, c.missing, out, v.skipped, v.failed)
		}
	}
}
