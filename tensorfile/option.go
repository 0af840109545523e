package tensorfile

import (
	"maps"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// OpenOption is an option of [Open] and [Parse].
type OpenOption func(*openOptions)

type openOptions struct {
	inflateLimit int64
	unaligned    bool
	checksums    bool
	voids        []core.DType // of the elements of raw void
	// If not nil, each is called for each tensor of a .safetensors header as soon as it is read, before the tensors are
	// checked against each other. Its offset counts from byte base of the file, after which there are size bytes.
	each func(e *entry, base, size int64)
	// If not nil, the bytes of a .safetensors file before the elements, which are valid until the header was read.
	header []byte
}

// defaultInflateLimit is enough for common arrays, and protects against decompression bombs.
const defaultInflateLimit = 4 << 30

func newOpenOptions(opts []OpenOption) openOptions {
	o := openOptions{inflateLimit: defaultInflateLimit}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return o
}

// InflateLimit sets the largest number of bytes that one compressed tensor may inflate to.
// The default is 4 GiB.
func InflateLimit(bytes int64) OpenOption {
	return func(o *openOptions) { o.inflateLimit = bytes }
}

// Unaligned makes [File.Tensor] return a tensor in place even if its memory is not aligned
// for the element type, as in archives that NumPy wrote. Such a tensor can be copied, but
// [core.Values] returns ErrLayout for it.
func Unaligned() OpenOption {
	return func(o *openOptions) { o.unaligned = true }
}

// VerifyChecksums makes each call of [File.Tensor] verify the checksum of a tensor that is in
// place in an .npz file, which reads the whole tensor. For a tensor of an .npz file that is
// copied or inflated, the checksum is always verified. The other formats have no checksums.
func VerifyChecksums() OpenOption {
	return func(o *openOptions) { o.checksums = true }
}

// VoidAs names the types of the elements that .npy and .npz files store as raw void, such as '<V2', '|V1' and '<f1'. NumPy
// writes the types of ml_dtypes so, and their names are lost. An array of raw void has the first of the types with its
// size; without one of that size, it is refused. Open returns ErrInvalid for a type whose numbers are not whole bytes.
func VoidAs(types ...core.DType) OpenOption {
	types = slices.Clone(types)
	return func(o *openOptions) { o.voids = types }
}

// WriteOption is an option of [Write] and [WriteFile].
type WriteOption func(*writeOptions)

type writeOptions struct {
	compress bool
	metadata map[string]string
	budget   int64
	fetch    *fetcher // of Save, which closes it; nil if Write makes one
}

func newWriteOptions(opts []WriteOption) writeOptions {
	var o writeOptions
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return o
}

// Compress compresses the members of an .npz file with DEFLATE. For the other formats, which
// have no compression, Write returns ErrNotSupported.
func Compress() WriteOption {
	return func(o *writeOptions) { o.compress = true }
}

// Metadata sets the metadata of a .safetensors file, which are keys with texts. The map is
// copied. For the other formats, which have no metadata, Write returns ErrNotSupported.
func Metadata(text map[string]string) WriteOption {
	text = maps.Clone(text)
	return func(o *writeOptions) { o.metadata = text }
}

// Budget bounds the bytes of the buffers through which elements come from devices whose memory
// the host cannot access. The default is 64 MiB. Write returns ErrInvalid for less than 128 KiB.
func Budget(bytes int64) WriteOption {
	return func(o *writeOptions) { o.budget = bytes }
}
