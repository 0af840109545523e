package tensorfile

import "maps"

// OpenOption changes how [Open] and [Parse] work.
type OpenOption func(*openOptions)

type openOptions struct {
	inflateLimit int64
	unaligned    bool
	checksums    bool
}

// defaultInflateLimit holds arrays of usual size and keeps a bomb from taking the machine.
const defaultInflateLimit = 4 << 30

func newOpenOptions(opts []OpenOption) openOptions {
	o := openOptions{inflateLimit: defaultInflateLimit}
	for _, set := range opts {
		set(&o)
	}
	return o
}

// InflateLimit bounds the bytes that one compressed tensor may inflate to. The
// default is 4 GiB.
func InflateLimit(bytes int64) OpenOption {
	return func(o *openOptions) { o.inflateLimit = bytes }
}

// Unaligned makes [File.Tensor] return tensors in place also where their memory
// is not aligned for the element type, as in archives that NumPy wrote. Such
// tensors can be copied, but [core.Values] refuses them.
func Unaligned() OpenOption {
	return func(o *openOptions) { o.unaligned = true }
}

// VerifyChecksums makes [File.Tensor] compare a tensor that lies in place in an .npz with
// the checksum of its member, at each call, which reads the whole tensor. A tensor of an
// .npz that is copied or inflated is always compared. The other formats have no checksums.
func VerifyChecksums() OpenOption {
	return func(o *openOptions) { o.checksums = true }
}

// WriteOption changes what [Write] and [WriteFile] write.
type WriteOption func(*writeOptions)

type writeOptions struct {
	compress bool
	metadata map[string]string
}

func newWriteOptions(opts []WriteOption) writeOptions {
	var o writeOptions
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Compress deflates the members of an .npz. The other formats have no compression.
func Compress() WriteOption {
	return func(o *writeOptions) { o.compress = true }
}

// Metadata puts free text into a .safetensors. The other formats have no place
// for it. The map is copied.
func Metadata(text map[string]string) WriteOption {
	text = maps.Clone(text)
	return func(o *writeOptions) { o.metadata = text }
}
