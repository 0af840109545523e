package tensorfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// A stored member with a damaged byte is refused where it is copied, and where it lies in
// place if that was asked for.
func TestADamagedByteOfAStoredMemberIsFound(t *testing.T) {
	whole := realData(t, "digits.npz")
	for _, info := range must[*tensorfile.File](t)(tensorfile.Parse(whole, "digits.npz", tensorfile.OpenOptions{})).Tensors() {
		for _, at := range []int64{0, info.Bytes / 2, info.Bytes - 1} {
			data := bytes.Clone(whole)
			data[info.Offset+at] ^= 0x10
			path := filepath.Join(t.TempDir(), "x.npz")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, verify := range []bool{false, true} {
				options := tensorfile.OpenOptions{VerifyChecksums: verify}
				for name, file := range map[string]*tensorfile.File{
					"mapped": must[*tensorfile.File](t)(tensorfile.Open(path, options)),
					"parsed": must[*tensorfile.File](t)(tensorfile.Parse(data, "x.npz", options)),
				} {
					for _, other := range file.Tensors() {
						x, err := file.Tensor(other.Name)
						switch damaged := other.Name == info.Name && (verify || !other.InPlace); {
						case damaged:
							checkError(t, err, tensorfile.NPZ, core.ErrInvalid, `tensor "`+info.Name+`": its data is damaged: the checksum is`)
						case err != nil:
							t.Errorf("%s, byte %d of %s, verify %v: %s: %v", name, at, info.Name, verify, other.Name, err)
						}
						if err == nil {
							x.Close()
						}
					}
				}
			}
		}
	}
}

func TestVerifyChecksumsAcceptsWhatIsSound(t *testing.T) {
	for _, name := range realFiles {
		f := must[*tensorfile.File](t)(tensorfile.Open(realPath(name), tensorfile.OpenOptions{VerifyChecksums: true}))
		for _, info := range f.Tensors() {
			x, err := f.Tensor(info.Name)
			if err != nil {
				if info.Reason == "" {
					t.Errorf("%s: %s: %v", name, info.Name, err)
				}
				continue
			}
			x.Close()
		}
	}
}

func TestVerifyChecksumsOfAClosedFile(t *testing.T) {
	f := must[*tensorfile.File](t)(tensorfile.Open(realPath("digits.npz"), tensorfile.OpenOptions{VerifyChecksums: true}))
	name := f.Tensors()[0].Name
	f.Close()
	if _, err := f.Tensor(name); !errors.Is(err, core.ErrClosed) {
		t.Error(err)
	}
}
