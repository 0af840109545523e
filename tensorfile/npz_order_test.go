package tensorfile_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// backwards makes an archive whose directory lists the members in the opposite order of their data.
func backwards(t *testing.T, members ...packed) []byte {
	t.Helper()
	file := archive(t, members...)
	mark := []byte("PK\x01\x02")
	begin, end := bytes.Index(file, mark), bytes.LastIndex(file, []byte("PK\x05\x06"))
	var headers [][]byte
	for at := begin; at < end; {
		next := end
		if i := bytes.Index(file[at+1:end], mark); i >= 0 {
			next = at + 1 + i
		}
		headers = append(headers, file[at:next])
		at = next
	}
	if len(headers) != len(members) {
		t.Fatalf("the directory has %d headers, want %d", len(headers), len(members))
	}
	slices.Reverse(headers)
	return append(append(file[:begin:begin], bytes.Join(headers, nil)...), file[end:]...)
}

func TestLoadAnArchiveWhoseDirectoryIsInAnotherOrder(t *testing.T) {
	array := npy("{'descr': '|u1', 'fortran_order': False, 'shape': (300, 1000), }", make([]byte, 300_000)...)
	members := []packed{{name: "a.npy", data: array}, {name: "b.npy", data: array}, {name: "c.npy", data: array}}
	for _, method := range []uint16{zip.Store, zip.Deflate} { // deflated, the elements are many more than the file has bytes
		for i := range members {
			members[i].method = method
		}
		path := filepath.Join(t.TempDir(), "x.npz")
		if err := os.WriteFile(path, backwards(t, members...), 0o600); err != nil {
			t.Fatal(err)
		}
		d := openHost(t)
		for _, o := range []tensorfile.LoadOptions{{}, {Only: []string{"a", "c"}}, {Slices: []tensorfile.Slice{{Axis: 0, Index: 1, Count: 2}}}} {
			l := load(t, path, d, o)
			if f := l.Report.Files[0]; f.Cached != -1 && (f.Cached <= 0 || f.Cached > 1) { // it was just written
				t.Errorf("method %d, %+v: %v of the file is in the page cache", method, o, f.Cached)
			}
			if o.Slices == nil && o.Only == nil {
				checkLoaded(t, path, d, l)
			}
			for name, x := range l.Tensors {
				if x.DType() != core.TypeUint8 || !bytes.Equal(elements(t, x), make([]byte, x.NumBytes())) {
					t.Errorf("method %d, %+v: %s is %v with other elements", method, o, name, x)
				}
			}
		}
	}
}
