package tensorfile

import (
	"cmp"

	"github.com/dlx-go/dlx/core"
)

// OpenOptions are the options of [Open] and [Parse]. The zero value is the default.
type OpenOptions struct {
	// InflateLimit is the largest number of bytes that one compressed tensor may inflate to; 0 is 4 GiB.
	InflateLimit int64

	// Unaligned makes [File.Tensor] return a tensor in place even if its memory is not aligned
	// for the element type, as in archives that NumPy wrote. Such a tensor can be copied, but
	// [core.Values] returns ErrLayout for it.
	Unaligned bool

	// VerifyChecksums makes each call of [File.Tensor] verify the checksum of a tensor that is in
	// place in an .npz file, which reads the whole tensor. For a tensor of an .npz file that is
	// copied or inflated, the checksum is always verified. The other formats have no checksums.
	VerifyChecksums bool

	// VoidAs names the types of the elements that .npy and .npz files store as raw void, such as '<V2', '|V1' and '<f1'.
	// NumPy writes the types of ml_dtypes so, and their names are lost. An array of raw void has the first of the types with
	// its size; without one of that size, it is refused. Open returns ErrInvalid for a type whose numbers are not whole bytes.
	VoidAs []core.DType
}

// opening is how a file is opened.
type opening struct {
	OpenOptions
	// If not nil, each is called for each tensor of a .safetensors header as soon as it is read, before the tensors are
	// checked against each other. Its offset counts from byte base of the file, after which there are size bytes.
	each func(e *entry, base, size int64)
	// If not nil, the bytes of a .safetensors file before the elements, which are valid until the header was read.
	header []byte
	// If set, the file gets no index: names that repeat are not found, and File.Tensor finds no tensor. Only for .safetensors.
	unindexed bool
}

// check checks the options.
func (o OpenOptions) check() error {
	at := fault{format: "tensorfile", call: "Open"}
	if o.InflateLimit < 0 {
		return at.errorf(core.ErrInvalid, "a limit of %d bytes for a tensor that is inflated: it must not be negative, and 0 is %d", o.InflateLimit, int64(defaultInflateLimit))
	}
	return checkVoids(o.VoidAs, at)
}

// defaultInflateLimit is enough for common arrays, and protects against decompression bombs.
const defaultInflateLimit = 4 << 30

func (o OpenOptions) inflateLimit() int64 { return cmp.Or(o.InflateLimit, defaultInflateLimit) }

// WriteOptions are the options of [Write] and [WriteFile]. The zero value is the default.
type WriteOptions struct {
	// Compress compresses the members of an .npz file with DEFLATE. For the other formats, which
	// have no compression, Write returns ErrNotSupported.
	Compress bool

	// Metadata, if not nil, is the metadata of a .safetensors file, which are keys with texts. For the
	// other formats, which have no metadata, Write returns ErrNotSupported.
	Metadata map[string]string

	// Budget bounds the bytes of the buffers through which elements come from devices whose memory
	// the host cannot access; 0 is 64 MiB. Write returns ErrInvalid for less than 128 KiB.
	Budget int64
}

// writing is how files are written.
type writing struct {
	WriteOptions
	fetch *fetcher // of Save, which closes it; nil if Write makes one
}
