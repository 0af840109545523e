package tensorfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"reflect"

	"github.com/dlx-go/dlx/core"
)

// ReadOptions are the options of [Read]. The zero value reads all tensors as they are. Fields that LoadOptions has, too,
// mean the same.
type ReadOptions struct {
	Only     []string
	Slices   []Slice // the bytes of other parts are read and dropped
	DType    core.DType
	VoidAs   []core.DType
	RowMajor bool
	Checksum Checksum
	Progress func(done, total int64)
	// Budget bounds the bytes of the buffers through which elements go on their way to the device; 0 is 64 MiB. The
	// text of the header does not count.
	Budget int64
	// MaxBytes bounds the bytes of all elements of the message, for which memory is allocated before they arrive; 0 is
	// 4 GiB. A message that says that it has more is refused after its header.
	MaxBytes int64
}

// Read reads one message from r, which is the content of a .safetensors or an .npy file, and takes its tensors to the
// memory of a device. It reads exactly the message, so that messages can follow each other in a pipe or a connection,
// among other data. [Write] writes messages. If r ends before the message begins, Read returns io.EOF.
//
// The caller closes the result. The device stays open at least as long. Tensors on the host are writable and belong to the
// device. Allocations are shared as by [Load]. The tensor of an .npy message has the name "". The bytes go to the device
// in pieces: the device copies one while the next is read.
//
// If ctx ends, Read returns its error even if r blocks. If r has a method SetReadDeadline, as connections do, Read sets its
// read deadline for that, and removes it before it returns. The method must work. Otherwise the call of r.Read that was
// going on may still take bytes from r. Only close r then.
//
// Read returns the errors of [Load] and [Open] for headers, options and devices, and
//
//   - ErrInvalid if r fails or ends inside the message. errors.Is also finds the error of r, which is io.ErrUnexpectedEOF
//     if r ends;
//   - ErrOutOfMemory if the elements have more than ReadOptions.MaxBytes bytes;
//   - ErrNotSupported if r does not begin with such a message. An .npz cannot be read, since its directory is at its end.
//
// If Read fails, nothing stays open, and how much of r was read is not known.
func Read(ctx context.Context, r io.Reader, device core.Device, options ReadOptions) (*Loaded, error) {
	result, err := read(ctx, r, device, options)
	return result, calledBy("Read", err)
}

// calledBy returns an error of Load as one of the call that uses its parts.
func calledBy(call string, err error) error {
	e, ok := err.(*core.Error) //nolint:errorlint // only the outermost error has the call
	if !ok || e.Call != loading.call {
		return err
	}
	with := *e
	with.Call = call
	return &with
}

// nothing reports whether an interface holds nothing, or a pointer that is nil.
func nothing(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// bounceSize is the size in bytes of the buffer of a stream. It fits into the cache of a processor.
const bounceSize = 256 << 10

// maxHead is at least as large as everything before the elements of a message.
const maxHead = lengthSize + maxJSON

// read is Read, with the errors of Load.
func read(ctx context.Context, r io.Reader, device core.Device, options ReadOptions) (*Loaded, error) {
	o := LoadOptions{
		Only: options.Only, Slices: options.Slices, DType: options.DType, VoidAs: options.VoidAs, RowMajor: options.RowMajor,
		Checksum: options.Checksum, Progress: options.Progress, Budget: options.Budget, Threads: 1,
	}
	if nothing(r) {
		return nil, loading.errorf(core.ErrInvalid, "the reader is nil")
	}
	limit := options.MaxBytes
	switch {
	case limit == 0:
		limit = defaultInflateLimit
	case limit < 0:
		return nil, loading.errorf(core.ErrInvalid, "at most %d bytes of elements: it must be at least 1", limit)
	case limit > math.MaxInt64-maxHead:
		limit = math.MaxInt64 - maxHead // no position in the message overflows
	}
	l, err := newLoader(device, o)
	if err != nil {
		return nil, err
	}
	room := min(l.options.Budget/8, bounceSize)
	l.options.Budget -= room
	l.setSizes()
	s := newStream(ctx, r, room)
	defer s.close()
	return l.do(ctx, func(*runner) error {
		f, err := s.header(limit, l.options.VoidAs)
		if err != nil {
			return err
		}
		l.shards = append(l.shards, &shard{
			stream: s, file: f, report: LoadedFile{Bytes: s.end, Cached: -1, Read: ReadStream, Reason: "a message is read as it arrives"},
		})
		return nil
	})
}

// header reads the header of the message, and sets where it ends.
func (s *stream) header(limit int64, voids []core.DType) (*File, error) {
	var begin [lengthSize]byte // as long as the magic string and the version of an .npy file
	if n := s.fill(begin[:]); n == 0 && s.ended {
		return nil, io.EOF
	} else if n < len(begin) {
		return nil, s.short("a message begins with %d bytes, but it ends after %d of them", len(begin), n)
	}
	f := &File{share: &share{}}
	var err error
	if bytes.HasPrefix(begin[:], []byte(npyMagic)) {
		f.format = NPY
		f.entries, err = s.npyHeader(begin[:], limit, voids)
	} else {
		f.format = Safetensors
		f.entries, f.metadata, err = s.safetensorsHeader(begin[:], limit)
	}
	if err != nil {
		return nil, err
	}
	f.index.entries, s.entries = f.entries, f.entries
	if name, repeats := f.index.build(); repeats {
		return nil, repeatedTensor(name, fault{format: f.format, call: loading.call})
	}
	return f, nil
}

// npyHeader reads the header of an .npy message, of which begin was read.
func (s *stream) npyHeader(begin []byte, limit int64, voids []core.DType) ([]entry, error) {
	at := fault{format: NPY, call: loading.call}
	text, size, err := readNPYText(io.MultiReader(bytes.NewReader(begin), s), at)
	if err != nil {
		if s.err != nil {
			err = s.short("the header of the array is not all there: the message ends after %d bytes", s.pos)
		}
		return nil, err
	}
	h, err := newNPYHeader(text, size, voids, at)
	if err != nil {
		return nil, err
	}
	return []entry{h.entry("")}, s.endAfter(size, h.bytes, limit, at)
}

// safetensorsHeader reads the header of a .safetensors message, of which begin was read.
func (s *stream) safetensorsHeader(begin []byte, limit int64) ([]entry, map[string]string, error) {
	at := fault{format: Safetensors, call: loading.call}
	if bytes.HasPrefix(begin, []byte(zipLocalMark)) || bytes.HasPrefix(begin, []byte(zipEndMark)) {
		return nil, nil, at.errorf(core.ErrNotSupported, "the message is a ZIP archive, whose directory is at its end: save it to a file, and use Load")
	}
	length := binary.LittleEndian.Uint64(begin)
	if err := checkLength(length, at); err != nil {
		if is := foreign("", begin); is != "" {
			err = at.errorf(core.ErrNotSupported, "the message is %s", is)
		}
		return nil, nil, err
	}
	text, err := s.take(int(length), "the header")
	if err != nil {
		return nil, nil, err
	}
	h, err := parseText(text, at, nil)
	if err != nil {
		return nil, nil, err
	}
	size := h.end()
	if err := s.endAfter(s.pos, size, limit, at); err != nil {
		return nil, nil, err
	}
	return h.tensors, h.metadata, h.settle(s.pos, size, at)
}

// endAfter sets the end of a message that has size bytes of elements after base bytes, unless they are too many.
func (s *stream) endAfter(base, size, limit int64, at fault) error {
	if size > limit {
		return at.errorf(core.ErrOutOfMemory, "the elements have %d bytes, and ReadOptions.MaxBytes allows %d: raise it if the sender is trusted", size, limit)
	}
	s.end = base + size
	return nil
}
