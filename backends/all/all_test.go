package all

import (
	"errors"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestNewRegistersTheHostAndWhatTheTagsName(t *testing.T) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this program does not know how it was built")
	}
	settings := make(map[string]string)
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	want := []string{"cpu"}
	tags := strings.Split(settings["-tags"], ",")
	for _, name := range Tags() {
		built := settings["GOOS"] == "linux" && settings["CGO_ENABLED"] == "1"
		if name == "metal" {
			built = settings["GOOS"] == "darwin"
		}
		if built && slices.Contains(tags, name) {
			want = append(want, name)
		}
	}

	var got []string
	for _, b := range New().Backends() {
		got = append(got, b.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("backends %v, want %v: the host first, and each that was built in", got, want)
	}
}

// A new backend is a folder, with a file for builds without its tag, and a line in backends.
func TestEveryFolderWithATagIsABackend(t *testing.T) {
	files, err := filepath.Glob("../*/unbuilt.go")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, f := range files {
		folders = append(folders, filepath.Base(filepath.Dir(f)))
	}
	if got := slices.Sorted(slices.Values(Tags())); !slices.Equal(got, folders) {
		t.Errorf("tags %v, folders %v", got, folders)
	}
}

func TestEveryBackendServesItsDevices(t *testing.T) {
	r := New()
	for _, b := range r.Backends() {
		t.Run(b.Name(), func(t *testing.T) {
			ctx := t.Context()
			probe := b.Probe(ctx)
			list, err := b.Devices(ctx)
			if probe.Available != (err == nil) || probe.Available == (probe.Reason != "") {
				t.Errorf("probe %+v, but Devices fails with %v", probe, err)
			}
			coretest.NeedDriver(t, probe.Reason, "a driver for "+b.Name())
			for _, p := range list {
				d, err := r.Open(ctx, p.ID)
				if err != nil {
					t.Errorf("%v: %v", p.ID, err)
					continue
				}
				if d.ID() != p.ID {
					t.Errorf("%v opens as %v", p.ID, d.ID())
				}
				if err := d.Close(); err != nil {
					t.Errorf("%v: %v", p.ID, err)
				}
			}
		})
	}
}

func TestRegistriesAreIndependent(t *testing.T) {
	first := New()
	if err := first.Register(New().Backends()[0]); !errors.Is(err, core.ErrExists) {
		t.Errorf("a second backend of the same name: %v", err)
	}
	if len(first.Backends()) != len(New().Backends()) {
		t.Error("registries share their backends")
	}
}
