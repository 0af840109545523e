package tensorfile_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

// manySmall returns the entries of a header of many small tensors, of which some have no elements, are not aligned in the
// file, or are large, and the number of their bytes.
func manySmall() (entries []string, bytes int) {
	add := func(dtype string, size, n int) {
		entries = append(entries, fmt.Sprintf(`"model.layers.%d.weight":{"dtype":%q,"shape":[%d],"data_offsets":[%d,%d]}`, len(entries), dtype, n, bytes, bytes+size*n))
		bytes += size * n
	}
	for i := range 1200 {
		switch {
		case i%400 == 399:
			add("U8", 1, 1<<20+3)
		case i%100 == 50:
			add("F64", 8, 0)
		case i%300 == 0:
			add("U8", 1, 4097)
		default:
			add("I16", 2, 2048)
		}
	}
	return entries, bytes
}

func TestLoadReadsWhileTheHeaderIsParsed(t *testing.T) {
	entries, bytes := manySmall()
	data := coretest.Pattern(bytes, 5)
	swapped := slices.Clone(entries)
	swapped[700], swapped[701] = swapped[701], swapped[700]
	for name, entries := range map[string][]string{"in order": entries, "in another order": swapped} {
		path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), withHeader("{"+strings.Join(entries, ",")+"}", data...))
		for _, to := range targets {
			t.Run(name+"/"+to.name, func(t *testing.T) {
				d := to.open(t)
				var done, total int64
				l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect, Budget: 1 << 20, Progress: func(n, of int64) {
					if n < done || total != 0 && of != total {
						t.Errorf("progress went from %d of %d to %d of %d", done, total, n, of)
					}
					done, total = n, of
				}})
				checkLoaded(t, path, d, l)
				if done != int64(bytes) || total != done || l.Report.Read != done {
					t.Errorf("progress ended at %d of %d; %d bytes were read, the file has %d", done, total, l.Report.Read, bytes)
				}
			})
		}
	}
}

func TestAMalformedEndOfALargeHeader(t *testing.T) {
	entries, bytes := manySmall()
	data := coretest.Pattern(bytes, 6)
	twice := slices.Clone(entries)
	twice[500] = strings.Replace(twice[500], "layers.500.", "layers.3.", 1)
	for name, test := range map[string]struct {
		entries []string
		last    string
		want    error
	}{
		"syntax":                     {entries, `"x":{]`, core.ErrInvalid},
		"twice":                      {entries, entries[3], core.ErrInvalid},
		"twice, each with its bytes": {twice, fmt.Sprintf(`"x":{"dtype":"U8","shape":[0],"data_offsets":[%d,%d]}`, bytes, bytes), core.ErrInvalid},
		"gap":                        {entries, fmt.Sprintf(`"x":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, bytes+1, bytes+2), core.ErrLayout},
		"overlap":                    {entries, `"x":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}`, core.ErrLayout},
		"beyond":                     {entries, fmt.Sprintf(`"x":{"dtype":"U8","shape":[9],"data_offsets":[%d,%d]}`, bytes, bytes+9), core.ErrLayout},
	} {
		path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), withHeader("{"+strings.Join(append(slices.Clone(test.entries), test.last), ",")+"}", data...))
		for _, to := range targets {
			if _, err := tensorfile.Load(t.Context(), path, to.open(t), tensorfile.LoadOptions{Read: tensorfile.ReadDirect}); !errors.Is(err, test.want) {
				t.Errorf("%s, %s: %v, want %v", name, to.name, err, test.want)
			}
		}
	}
}

// Load finds a name that repeats while it makes the tensors, and says what Open says. Nothing stays open.
func TestLoadRefusesATensorThatIsThereTwice(t *testing.T) {
	const full, empty = `"%s":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, `"%s":{"dtype":"U8","shape":[0],"data_offsets":[%d,%[2]d]}`
	other := put(t, filepath.Join(t.TempDir(), "other.safetensors"), withHeader("{"+fmt.Sprintf(full, "y", 0, 1)+"}", 1))
	third := put(t, filepath.Join(t.TempDir(), "third.safetensors"), withHeader("{"+fmt.Sprintf(full, "x", 0, 1)+"}", 1))
	for name, header := range map[string]string{
		"two with elements":    fmt.Sprintf(full, "x", 0, 1) + "," + fmt.Sprintf(full, "x", 1, 2),
		"two without elements": fmt.Sprintf(empty, "x", 0) + "," + fmt.Sprintf(empty, "x", 0) + "," + fmt.Sprintf(full, "z", 0, 2),
		"one with elements":    fmt.Sprintf(empty, "x", 0) + "," + fmt.Sprintf(full, "x", 0, 2),
	} {
		header = strings.Replace(header, "[1],\"data_offsets\":[0,2]", "[2],\"data_offsets\":[0,2]", 1)
		path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), withHeader("{"+header+"}", 1, 2))
		_, want := tensorfile.Open(path, tensorfile.OpenOptions{})
		checkError(t, want, tensorfile.Safetensors, core.ErrInvalid, `tensor "x" is there twice`)
		for _, to := range targets {
			for _, paths := range [][]string{{path}, {path, other}, {other, path}, {path, third}, {third, path}} {
				_, err := tensorfile.LoadAll(t.Context(), paths, to.open(t), tensorfile.LoadOptions{})
				if err == nil || want == nil || err.Error() != want.Error() {
					t.Errorf("%s, %s, %d files: %v, want %v", name, to.name, len(paths), err, want)
				}
			}
		}
	}
}

func TestACancelledLoadOfALargeHeader(t *testing.T) {
	entries, bytes := manySmall()
	path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), withHeader("{"+strings.Join(entries, ",")+"}", coretest.Pattern(bytes, 7)...))
	for _, to := range targets {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := tensorfile.Load(ctx, path, to.open(t), tensorfile.LoadOptions{Read: tensorfile.ReadDirect, Progress: func(int64, int64) { cancel() }})
		if cancel(); err != nil && !errors.Is(err, context.Canceled) { // it may have been done
			t.Errorf("%s: %v", to.name, err)
		}
		if _, err := tensorfile.Load(ctx, path, to.open(t), tensorfile.LoadOptions{Read: tensorfile.ReadDirect}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v after the context ended", to.name, err)
		}
	}
}

// The heap grows once for all tensors, and not each time that it has doubled.
func TestALargeHeaderTakesOneCollection(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("sanitizers allocate")
	}
	var header strings.Builder
	const count = 60_000
	for i := range count {
		fmt.Fprintf(&header, `%c"model.layers.%d.weight":{"dtype":"U8","shape":[8],"data_offsets":[%d,%d]}`, "{,"[min(i, 1)], i, 8*i, 8*i+8)
	}
	path := put(t, filepath.Join(t.TempDir(), "x.safetensors"), withHeader(header.String()+"}", make([]byte, 8*count)...))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	d := openHost(t)
	least := uint32(1 << 31)
	for range 3 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l, err := tensorfile.Load(t.Context(), path, d, tensorfile.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		_ = l.Close()
		least = min(least, after.NumGC-before.NumGC)
	}
	if least > 1 {
		t.Errorf("a load ran the garbage collector %d times", least)
	}
}
