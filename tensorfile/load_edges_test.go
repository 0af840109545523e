package tensorfile_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// fileOf writes a .safetensors file with a header of a multiple of 8 bytes and more, and n bytes of elements.
func fileOf(t *testing.T, header string, more, n int) string {
	t.Helper()
	header += strings.Repeat(" ", (8-len(header)%8)%8+more)
	data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for i := range n {
		data = append(data, byte(i*7%60))
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Elements that are aligned in the file are converted also if they are read with others, before which the range that is
// read begins at an odd byte.
func TestLoadConvertsAfterAnOddByte(t *testing.T) {
	path := fileOf(t, `{"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"I8","shape":[5],"data_offsets":[3,8]},`+
		`"c":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}`, 0, 24)
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	for _, to := range targets {
		d := to.open(t)
		for _, read := range []tensorfile.ReadMode{tensorfile.ReadMap, tensorfile.ReadDirect} {
			l := load(t, path, d, tensorfile.LoadOptions{Read: read, Only: []string{"b", "c"}, DType: core.TypeFloat64})
			for _, name := range l.Names {
				want := must[*core.Tensor](t)(must[*core.Tensor](t)(f.Tensor(name)).AsType(t.Context(), core.TypeFloat64))
				checkEqual(t, onHost(t, d, l.Tensors[name]), want)
			}
		}
	}
}

// The parts of rows that are read one by one, since much lies between them, have a checksum like all others.
func TestChecksumOfWideRows(t *testing.T) {
	const rows, columns, from = 4, 100_000, 50_000
	path := fileOf(t, fmt.Sprintf(`{"x":{"dtype":"U32","shape":[%d,%d],"data_offsets":[0,%d]}}`, rows, columns, 4*rows*columns), 0, 4*rows*columns)
	data := content(t, path)
	data = data[len(data)-4*rows*columns:]
	var part []byte
	for row := range rows {
		part = append(part, data[4*(row*columns+from):4*(row+1)*columns]...)
	}
	want := fmt.Sprintf("%08x", crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli)))
	for _, to := range targets {
		d := to.open(t)
		for _, budget := range []int64{0, 128 << 10} { // whole rows, and pieces of them
			l := load(t, path, d, tensorfile.LoadOptions{Budget: budget, Checksum: tensorfile.CRC32C, Slices: []tensorfile.Slice{{Axis: 1, Index: 1, Count: 2}}})
			if got := l.Report.Checksums["x"]; got != want {
				t.Errorf("%s, budget %d: checksum %s, want %s", to.name, budget, got, want)
			}
			got, err := core.Values[uint32](onHost(t, d, l.Tensors["x"]))
			if err != nil {
				t.Fatal(err)
			}
			if got[columns-from] != binary.LittleEndian.Uint32(part[4*(columns-from):]) {
				t.Errorf("%s, budget %d: wrong elements", to.name, budget)
			}
		}
	}
}

// A large tensor is aligned in host memory, also if it is not in the file.
func TestLoadAlignsLargeTensors(t *testing.T) {
	const bytes = 2 << 20
	path := fileOf(t, fmt.Sprintf(`{"x":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, bytes/4, bytes), 3, bytes)
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	for _, read := range []tensorfile.ReadMode{tensorfile.ReadMap, tensorfile.ReadDirect} {
		l := load(t, path, openHost(t), tensorfile.LoadOptions{Read: read})
		if _, err := core.Values[float32](l.Tensors["x"]); err != nil {
			t.Errorf("%s: %v", read, err)
		}
		checkEqual(t, l.Tensors["x"], must[*core.Tensor](t)(f.Tensor("x")))
	}
}

// A part without elements is loaded also where the other extents multiply to more than an int64, and reads nothing.
func TestLoadPartsWithoutElements(t *testing.T) {
	path := fileOf(t, `{"none":{"dtype":"F32","shape":[0,1099511627776,1099511627776],"data_offsets":[0,0]},`+
		`"rows":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}`, 0, 32)
	for _, to := range targets {
		l := load(t, path, to.open(t), tensorfile.LoadOptions{Checksum: tensorfile.CRC32C, Slices: []tensorfile.Slice{
			{Name: "none", Axis: 1, Index: 1, Count: 3}, {Name: "rows", Axis: 0, Index: 0, Count: 3},
		}})
		if shape := l.Tensors["none"].Shape(); !slices.Equal(shape, []int64{0, 366503875925, 1 << 40}) {
			t.Errorf("%s: shape %v", to.name, shape)
		}
		if shape := l.Tensors["rows"].Shape(); !slices.Equal(shape, []int64{0, 4}) || l.Report.Read != 0 {
			t.Errorf("%s: shape %v, %d bytes read", to.name, shape, l.Report.Read)
		}
	}
	if from, to := (tensorfile.Slice{}).Rows(5); from != 0 || to != 0 {
		t.Errorf("no parts: rows from %d to %d", from, to)
	}
}

// Load returns the error of the context, and not the cause for which it was canceled.
func TestLoadEndsWithItsContext(t *testing.T) {
	path, d := mixed(t, t.TempDir()), openHost(t)
	for after := 1; ; after++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		l, err := tensorfile.Load(ctx, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect, Progress: func(int64, int64) {
			if calls++; calls == after {
				cancel(errors.New("enough"))
			}
		}})
		cancel(nil)
		if err == nil {
			_ = l.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("canceled after %d pieces: %v", after, err)
		}
		if calls < after {
			break
		}
	}
}
