package main

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

// Every command that takes a device says which tag adds the backend that a program lacks.
func TestADeviceOfAMissingBackendNamesItsTag(t *testing.T) {
	for _, name := range all.Tags() {
		for _, args := range []string{
			"plan --from cpu --to " + name, "plan --from " + name + ":0 --to cpu", "load --to " + name + ":0 " + tensors,
			"move --via cpu," + name + " " + digits, "bench --device " + name + ":0", "bench --pair cpu," + name, "bench --transfer cpu->" + name,
			"plan --json --from cpu --to " + name,
		} {
			t.Run(args, func(t *testing.T) {
				got := dlxWith(t, t.Context(), []core.Backend{cpu.New()}, strings.Fields(args)...)
				if got.code != 1 || !strings.Contains(got.stdout+got.stderr, "-tags "+name) {
					t.Errorf("exit code %d, and the tag is not named: %s%s", got.code, got.stdout, got.stderr)
				}
			})
		}
		for _, args := range []string{"devices", "devices --json", "plan"} {
			t.Run(args+" without "+name, func(t *testing.T) {
				if got := dlxWith(t, t.Context(), []core.Backend{cpu.New()}, strings.Fields(args)...); got.code != 0 || !strings.Contains(got.stdout, "-tags "+name) {
					t.Errorf("exit code %d, and the tag is not named: %s%s", got.code, got.stdout, got.stderr)
				}
			})
		}
	}
}
