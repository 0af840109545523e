package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
)

func TestAFailureIsADocumentToo(t *testing.T) {
	for _, c := range []struct {
		args    string
		command string
		code    int
		want    errorResult // a message that has this as a part
	}{
		{"inspect nosuch.npy", "inspect", exitFailed, errorResult{"failed", "", "stat", int64(syscall.ENOENT), "nosuch.npy"}},
		{"plan --from vulkan", "plan", exitFailed, errorResult{"not supported", "vulkan", "Open", 0, whyDriverless}},
		{"plan --from ext_dev:7", "plan", exitFailed, errorResult{"wrong device", "ext_dev", "Open", 0, "ext_dev:7"}},
		{"move " + digits + " --via cpu --tensor nosuch", "move", exitFailed, errorResult{"invalid argument", "move", "Tensor", 0, "nosuch"}},
		{"plan --bytes -1", "plan", exitUsage, errorResult{"usage", "", "", 0, "--bytes"}},
		{"move " + digits, "move", exitUsage, errorResult{"usage", "", "", 0, "via"}},
		{"nosuch", "dlx", exitUsage, errorResult{"usage", "", "", 0, "nosuch"}},
		{"version --nosuch", "version", exitUsage, errorResult{"usage", "", "", 0, "--nosuch"}},
	} {
		for _, args := range [][]string{
			append(strings.Fields(c.args), "--json"),
			append([]string{"--json"}, strings.Fields(c.args)...),
		} {
			o := dlx(t, args...)
			got := decodeError(t, o, c.command)
			if !strings.Contains(got.Message, c.want.Message) || !strings.Contains(o.stderr, c.want.Message) {
				t.Errorf("%s: message %q, stderr %q, want %q in both", args, got.Message, o.stderr, c.want.Message)
			}
			got.Message = c.want.Message
			if o.code != c.code || got != c.want {
				t.Errorf("%s: exit code %d, error %+v; want %d, %+v", args, o.code, got, c.code, c.want)
			}
		}
	}
}

// decodeError reads the error of a document that has no result.
func decodeError(t *testing.T, o outcome, command string) errorResult {
	t.Helper()
	var e *errorResult
	if r := decodeBoth[any](t, o, command, &e); r != nil || e == nil {
		t.Fatalf("result %v, error %v", r, e)
	}
	return *e
}

func TestTheKindOfAnErrorIsThatOfItsCause(t *testing.T) {
	driver := &core.Error{Backend: "vulkan", Call: "vkAllocateMemory", Code: -2, Err: core.ErrOutOfMemory}
	for _, c := range []struct {
		err  error
		want errorResult
	}{
		{driver, errorResult{"out of memory", "vulkan", "vkAllocateMemory", -2, driver.Error()}},
		{fmt.Errorf("trip 3: %w", driver), errorResult{"out of memory", "vulkan", "vkAllocateMemory", -2, "trip 3: " + driver.Error()}},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, errorResult{"failed", "", "open", int64(syscall.EACCES), "open x: " + syscall.EACCES.Error()}},
		{&move.MismatchError{Tensor: "x"}, errorResult{"mismatch", "", "", 0, (&move.MismatchError{Tensor: "x"}).Error()}},
		{errors.New("a\xff"), errorResult{"failed", "", "", 0, `a\xff`}},
	} {
		if got := newErrorResult(c.err, true); *got != c.want {
			t.Errorf("%v: %+v, want %+v", c.err, *got, c.want)
		}
	}
	if newErrorResult(nil, true) != nil {
		t.Error("success has an error")
	}
}

func TestAFailureKeepsWhatWasFoundOutBefore(t *testing.T) {
	o := planned(t, "--from", "ext_dev:0", "--to", "cpu", "--copy", "never", "--json")
	var e *errorResult
	r := decodeBoth[planResult](t, o, "plan", &e)
	if o.code != exitFailed || len(r.Pairs) != 1 || e == nil || !strings.Contains(e.Message, "ext_dev:0 -> cpu: the plan says why") {
		t.Errorf("exit code %d, %+v, %+v", o.code, r, e)
	}
}
