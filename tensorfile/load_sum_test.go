package tensorfile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestChecksumsAreThoseOfTheBytes(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, path := range []string{path, realPath("digits_fortran.npy"), realPath("digits_compressed.npz"), realPath("digits.npz")} {
		f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
		for _, to := range targets {
			d := to.open(t)
			for _, mode := range readModes[2:] {
				for _, kind := range []tensorfile.Checksum{tensorfile.CRC32C, tensorfile.SHA256} {
					l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Checksum: kind, Budget: 256 << 10, Threads: 4})
					for _, info := range f.Tensors() {
						if info.Reason != "" {
							continue
						}
						data, _ := memoryOf(t, must[*core.Tensor](t)(f.Tensor(info.Name)))
						want := fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
						if kind == tensorfile.SHA256 {
							sum := sha256.Sum256(data)
							want = hex.EncodeToString(sum[:])
						}
						if got := l.Report.Checksums[info.Name]; got != want {
							t.Errorf("%s, %s, %s: %q of %q, want %q", to.name, mode, kind, got, info.Name, want)
						}
					}
				}
			}
		}
	}
}

// A part has the checksum of its own bytes, before they are converted.
func TestChecksumsOfParts(t *testing.T) {
	path := mixed(t, t.TempDir())
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	x := must[*core.Tensor](t)(f.Tensor("huge"))
	for _, to := range targets {
		d := to.open(t)
		for axis := range 3 {
			l := load(t, path, d, tensorfile.LoadOptions{
				Read: tensorfile.ReadDirect, Checksum: tensorfile.CRC32C, Budget: 256 << 10, DType: core.TypeFloat32,
				Only: []string{"huge", "h*"}, Slices: []tensorfile.Slice{{Name: "huge", Axis: axis, Index: 1, Count: 3}},
			})
			want := fmt.Sprintf("%08x", crc32.Checksum(elements(t, sliceOf(t, x, axis, 1, 3)), crc32.MakeTable(crc32.Castagnoli)))
			if got := l.Report.Checksums["huge"]; got != want {
				t.Errorf("%s, axis %d: %q, want %q", to.name, axis, got, want)
			}
		}
	}
}
