package coretest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// roleVariable is what TestRoles does, in a process of its own.
const roleVariable = "DLX_CORETEST_ROLE"

func TestRoles(t *testing.T) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		return // the parts of TestAChildIsRepeated
	case "parent":
		Child(t, t.Name(), roleVariable+"=child")(t)
	case "parent of nobody":
		Child(t, "TestOfNoName")(t)
	default:
		t.Run("that goes/well", func(*testing.T) {})
		t.Run("that is left out", func(t *testing.T) { t.Skip("for a reason") })
		t.Run("that fails", func(t *testing.T) { t.Error("and says so") })
	}
}

func TestAChildIsRepeated(t *testing.T) {
	for _, c := range []struct {
		role string
		says []string
	}{
		{"parent", []string{
			"    --- PASS: TestRoles/that_goes/well", "    --- SKIP: TestRoles/that_is_left_out", "for a reason",
			"    --- FAIL: TestRoles/that_fails", "and says so", "--- FAIL: TestRoles", `TestRoles with ["` + roleVariable + `=child"]: exit status 1`,
		}},
		{"parent of nobody", []string{"--- FAIL: TestRoles", "there is no such test"}},
	} {
		parent := exec.Command(os.Args[0], "-test.run=^TestRoles$", "-test.v")
		parent.Env = append(os.Environ(), roleVariable+"="+c.role)
		out, err := parent.CombinedOutput()
		if err == nil {
			t.Errorf("%s: it passes", c.role)
		}
		for _, text := range c.says {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: it lacks %q:\n%s", c.role, text, out)
			}
		}
	}
}
