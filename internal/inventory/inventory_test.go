package inventory

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

func TestTheSameHardwareIsSaidOnlyWhereItIsKnown(t *testing.T) {
	registry := all.New()
	encode := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	list := List(t.Context(), registry)
	if len(list) == 0 || list[0].Name != "cpu" || len(list[0].Devices) != 1 {
		t.Fatalf("%+v", list)
	}
	host := list[0].Devices[0]
	if text := encode(host); !strings.Contains(text, `"same_hardware":[`) {
		t.Errorf("List: %s", text)
	}
	if text := encode(Describe(host.Properties)); strings.Contains(text, "same_hardware") || !strings.Contains(text, `"capabilities":["`) {
		t.Errorf("Describe: %s", text)
	}
}

func TestBackendsThatAreNotBuiltInAreTheLast(t *testing.T) {
	list := List(t.Context(), new(core.Registry))
	names := []string{}
	for _, b := range list {
		names = append(names, b.Name)
		if b.BuiltIn || b.Reason != NotBuilt(b.Name) {
			t.Errorf("%+v", b)
		}
	}
	if !slices.Equal(names, all.Tags()) || !slices.Equal(names, Missing(new(core.Registry))) {
		t.Errorf("%q", names)
	}
}
