package tensorfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// openReader opens a device that reads files itself.
func openReader(tb testing.TB, opaque bool) core.Device {
	return coretest.OpenSimulated(tb, coretest.Options{Submit: stream.Submit, Log: tb.Logf, Opaque: opaque, Files: true})
}

func TestADeviceReadsTheFileItself(t *testing.T) {
	entries, bytes := manySmall()
	header := withHeader("{"+strings.Join(entries, ",")+"}", coretest.Pattern(bytes, 5)...)
	unaligned := withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"F64","shape":[262144],"data_offsets":[1,2097153]}}`, coretest.Pattern(2097153, 3)...)
	paths := []string{
		mixed(t, t.TempDir()),
		put(t, filepath.Join(t.TempDir(), "large header.safetensors"), header),
		put(t, filepath.Join(t.TempDir(), "unaligned.safetensors"), unaligned),
	}
	for _, name := range realFiles {
		paths = append(paths, realPath(name))
	}
	for _, opaque := range []bool{false, true} {
		d := openReader(t, opaque)
		for _, path := range paths {
			l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadCUFile, Budget: 1 << 20, Threads: 3})
			checkLoaded(t, path, d, l)
			r := l.Report
			if f := r.Files[0]; f.Read != tensorfile.ReadCUFile && filepath.Ext(path) != ".npz" || len(r.Refused) > 0 {
				t.Errorf("%+v, %v", f, r.Refused)
			}
			if r.Bytes > 1<<20 && r.ByDevice < r.Bytes*9/10 { // the rest are small tensors that are packed
				t.Errorf("%s: the device has read %d of %d bytes", path, r.ByDevice, r.Bytes)
			}
		}
	}
	if n := core.Live()["coretest.File"]; n != 0 {
		t.Errorf("%d files are open", n)
	}
}

// What the device cannot read as it is comes another way, with the same result.
func TestADeviceReadsOnlyWhatStaysAsItIs(t *testing.T) {
	path, host := mixed(t, t.TempDir()), openHost(t)
	for name, o := range map[string]tensorfile.LoadOptions{
		"rows":      {Slices: []tensorfile.Slice{{Axis: 0, Index: 1, Count: 3}}, Only: []string{"large", "huge"}},
		"partly":    {Slices: []tensorfile.Slice{{Name: "large", Axis: 1, Index: 1, Count: 3}}, Only: []string{"large", "huge"}},
		"converts":  {DType: core.TypeFloat64, Only: []string{"large", "huge", "half"}},
		"packs":     {Slices: []tensorfile.Slice{{Axis: 1, Index: 1, Count: 3}}, Only: []string{"large", "huge"}},
		"checksums": {Checksum: tensorfile.SHA256},
	} {
		t.Run(name, func(t *testing.T) {
			want := load(t, path, host, o)
			d := openReader(t, false)
			o.Read = tensorfile.ReadCUFile
			got := load(t, path, d, o)
			for _, tensor := range want.Names {
				checkSame(t, onHost(t, d, got.Tensors[tensor]), want.Tensors[tensor])
				if got.Report.Checksums[tensor] != want.Report.Checksums[tensor] {
					t.Errorf("%s: another checksum", tensor)
				}
			}
			f := got.Report.Files[0]
			if byDevice := f.Read == tensorfile.ReadCUFile; byDevice != (got.Report.ByDevice > 0) || byDevice != (name == "rows" || name == "partly") || !byDevice && !strings.Contains(f.Reason, name) {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestADeviceThatCannotReadFiles(t *testing.T) {
	path := mixed(t, t.TempDir())
	o := tensorfile.LoadOptions{Read: tensorfile.ReadCUFile}
	for _, d := range []core.Device{openHost(t), targets[1].open(t)} {
		_, err := tensorfile.Load(t.Context(), path, d, o)
		coretest.WantError(t, err, core.ErrNotSupported, d.ID().String())
		if err != nil && !strings.Contains(err.Error(), "read by auto, map or direct") {
			t.Errorf("%v: it does not say what to do", err)
		}
	}
	_, err := tensorfile.Load(t.Context(), filepath.Join(t.TempDir(), "x.npy"), openHost(t), o)
	coretest.WantError(t, err, fs.ErrNotExist, "a file that does not exist")
}

func TestADeviceThatFailsToReadLeavesNothing(t *testing.T) {
	entries, bytes := manySmall()
	paths := []string{
		mixed(t, t.TempDir()),
		put(t, filepath.Join(t.TempDir(), "large header.safetensors"), withHeader("{"+strings.Join(entries, ",")+"}", coretest.Pattern(bytes, 5)...)),
	}
	for _, path := range paths {
		for _, call := range []string{"OpenFile", "ReadAt", "Alloc", "NewStream", "lose"} {
			for _, failure := range []error{core.ErrNotSupported, core.ErrInvalid} {
				for n := 1; n <= 4; n++ {
					b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Files: true})
					d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
					if err != nil {
						t.Fatal(err)
					}
					fired, calls := b.Fail(call, n, failure), 0
					l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{Read: tensorfile.ReadCUFile, Budget: 1 << 20, Progress: func(int64, int64) {
						if calls++; calls == n && call == "lose" {
							b.Lose(0)
						}
					}})
					at := fmt.Sprintf("%s of %s, call %d", call, filepath.Base(path), n)
					switch {
					case err == nil:
						if fired() && call != "Alloc" { // of a buffer, for which host memory will do
							t.Errorf("%s: no error", at)
						}
						_ = l.Close()
					case call == "lose":
						coretest.WantError(t, err, core.ErrDeviceLost, at)
					default:
						coretest.WantError(t, err, failure, at)
					}
					if err := d.Close(); err != nil {
						t.Errorf("%s: left open: %v", at, err)
					}
				}
			}
		}
	}
}

func TestAFileThatBecomesShorterWhileTheDeviceReadsIt(t *testing.T) {
	content, err := os.ReadFile(mixed(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), content)
	short := false
	_, err = tensorfile.Load(t.Context(), path, openReader(t, false), tensorfile.LoadOptions{Read: tensorfile.ReadCUFile, Budget: 256 << 10, Threads: 1, Progress: func(int64, int64) {
		if !short {
			short = true
			if err := os.Truncate(path, 100_000); err != nil {
				t.Error(err)
			}
		}
	}})
	coretest.WantError(t, err, core.ErrInvalid, "a file that becomes shorter")
	if err != nil && !strings.Contains(err.Error(), "became shorter") {
		t.Error(err)
	}
}

// notCached loads a file that is not in the page cache by auto, and returns the report.
func notCached(t *testing.T, d core.Device) tensorfile.LoadReport {
	t.Helper()
	path := mixed(t, t.TempDir())
	dropFromCache(t, path)
	l := load(t, path, d, tensorfile.LoadOptions{Budget: 1 << 20})
	if f := l.Report.Files[0]; f.Read == tensorfile.ReadMap || f.Read == tensorfile.ReadBuffered {
		t.Skipf("the file system keeps what is dropped in its page cache, or reads only through that: %+v", f)
	}
	checkLoaded(t, path, d, l)
	return l.Report
}

func TestAutoLetsADeviceReadWhatIsNotCached(t *testing.T) {
	if r := notCached(t, openReader(t, false)); r.Files[0].Read != tensorfile.ReadCUFile || len(r.Refused) > 0 || !strings.Contains(r.Files[0].Reason, "page cache") {
		t.Errorf("%+v", r)
	}
	// A device that is not set up for it.
	if r := notCached(t, targets[1].open(t)); r.Files[0].Read != tensorfile.ReadDirect || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Reason, "Options.Files") {
		t.Errorf("%+v", r)
	}
	// A device that no interface says can read files.
	host := openHost(t)
	if r := notCached(t, host); r.Files[0].Read != tensorfile.ReadDirect || len(r.Refused) != 0 {
		t.Errorf("%+v", r)
	}
	// What is in the page cache comes from there.
	if f := load(t, mixed(t, t.TempDir()), openReader(t, false), tensorfile.LoadOptions{}).Report.Files[0]; f.Cached > 0.9 && f.Read != tensorfile.ReadMap {
		t.Errorf("in the page cache, but read by the device: %+v", f)
	}
}

// A device that is set up may still refuse a file, or find out when it reads that it cannot: then auto does without.
func TestAutoDoesWithoutADeviceThatRefuses(t *testing.T) {
	for call, read := range map[string]tensorfile.ReadMode{"OpenFile": tensorfile.ReadDirect, "ReadAt": tensorfile.ReadCUFile} {
		b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Files: true})
		d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		b.Fail(call, 1, core.ErrNotSupported)
		r := notCached(t, d)
		if r.Files[0].Read != read || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Reason, "the test made this call fail") {
			t.Errorf("%s: %+v", call, r)
		}
		b.Fail("ReadAt", 1, core.ErrInvalid) // no reason to try another way
		path := mixed(t, t.TempDir())
		dropFromCache(t, path)
		if l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{}); err == nil {
			_ = l.Close()
			t.Errorf("%s: no error after a read that failed", call)
		} else if !errors.Is(err, core.ErrInvalid) {
			t.Error(err)
		}
	}
}
