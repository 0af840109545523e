package tensorfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// put writes a file and returns its path. It was last written an hour ago.
func put(tb testing.TB, path string, data []byte) string {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestLoadRefusesWhatItCannotDo(t *testing.T) {
	folder := t.TempDir()
	path := mixed(t, folder)
	d := openHost(t)
	for _, c := range []struct {
		path    string
		options tensorfile.LoadOptions
		want    error
		text    string
	}{
		{path, tensorfile.LoadOptions{Only: []string{"large", "typo*"}}, core.ErrInvalid, `no tensor matches "typo*"`},
		{path, tensorfile.LoadOptions{Only: []string{"[a"}}, core.ErrInvalid, `the glob "[a" is malformed`},
		{path, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "none", Count: 2}}}, core.ErrInvalid, `no tensor matches "none"`},
		{path, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "large", Axis: 2, Count: 2}}}, core.ErrLayout, `tensor "large": it has 2 axes, and no axis 2`},
		{path, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "large", Index: 2, Count: 2}}}, core.ErrInvalid, "part 2 of 2"},
		{path, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "f4", Index: 1, Count: 6}}}, core.ErrNotSupported, "cut bytes"},
		{path, tensorfile.LoadOptions{Budget: 1000}, core.ErrInvalid, "a budget of 1000 bytes: it must be at least 131072"},
		{path, tensorfile.LoadOptions{Threads: -1}, core.ErrInvalid, "-1 threads"},
		{path, tensorfile.LoadOptions{Read: "fast"}, core.ErrInvalid, `reading "fast"`},
		{path, tensorfile.LoadOptions{Checksum: "md5"}, core.ErrInvalid, `checksum "md5"`},
		{path, tensorfile.LoadOptions{DType: core.DType{Code: typecode.Float, Bits: 24, Lanes: 1}, Only: []string{"large"}}, core.ErrDType, `tensor "large": it cannot be loaded as`},
		{filepath.Join(folder, "missing.npy"), tensorfile.LoadOptions{}, fs.ErrNotExist, "missing.npy"},
		{put(t, filepath.Join(folder, "x.bin"), []byte("text")), tensorfile.LoadOptions{}, core.ErrNotSupported, "x.bin"},
	} {
		_, err := tensorfile.Load(t.Context(), c.path, d, c.options)
		coretest.WantError(t, err, c.want, c.text)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: it does not say %q", err, c.text)
		}
	}
	if _, err := tensorfile.Load(t.Context(), path, nil, tensorfile.LoadOptions{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without a device: %v", err)
	}
}

func TestAFileThatIsChangedMeanwhileIsAnError(t *testing.T) {
	content, err := os.ReadFile(mixed(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(path string) error{
		"shorter": func(path string) error { return os.Truncate(path, 100_000) },
		"longer":  func(path string) error { return os.Truncate(path, int64(len(content))+1) },
		"written": func(path string) error { return os.WriteFile(path, content[:len(content)-1], 0o600) },
		"touched": func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) },
	}
	for _, to := range targets {
		for _, mode := range readModes[2:] {
			for name, change := range changes {
				t.Run(fmt.Sprintf("%s/%s/%s", to.name, mode, name), func(t *testing.T) {
					path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), content)
					d, changed := to.open(t), false
					l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{Read: mode, Budget: 256 << 10, Checksum: tensorfile.CRC32C, Progress: func(int64, int64) {
						if !changed {
							changed = true
							if err := change(path); err != nil {
								t.Error(err)
							}
						}
					}})
					if err == nil {
						_ = l.Close()
					}
					coretest.WantError(t, err, core.ErrInvalid, name)
				})
			}
		}
	}
}

func TestADeviceThatFailsLeavesNothing(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, opaque := range []bool{false, true} {
		for _, call := range []string{"Alloc", "NewStream", "Copy", "Record", "Synchronize", "HostView", "work", "lose"} {
			for n := 1; n < 20; n += n {
				for _, mode := range readModes[2:] {
					b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Opaque: opaque})
					found, err := b.Devices(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					d, err := b.Open(t.Context(), found[0].ID)
					if err != nil {
						t.Fatal(err)
					}
					fired, calls := func() bool { return true }, 0
					lost := func(int64, int64) {
						if calls++; calls == n && call == "lose" {
							b.Lose(0)
						}
					}
					if call != "lose" {
						fired = b.Fail(call, n, core.ErrDeviceLost)
					}
					l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{Read: mode, Budget: 1 << 20, Progress: lost})
					// Another kind of buffer will do, and Submit of package stream can do without an event.
					spared := call == "Alloc" || call == "HostView" || call == "Record"
					if failed := fired() && (call != "lose" || calls > n); failed && err == nil && !spared || !failed && err != nil && call != "lose" {
						t.Errorf("%s, call %d: failed is %v, and the error %v", call, n, failed, err)
					} else if err != nil && !errors.Is(err, core.ErrDeviceLost) {
						t.Errorf("%s, call %d: %v", call, n, err)
					}
					if err == nil {
						_ = l.Close()
					}
					if err := d.Close(); err != nil {
						t.Errorf("%s, call %d: left open: %v", call, n, err)
					}
				}
			}
		}
	}
}
