package parts

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Bytes is fresh memory of Go, which begins skip bytes into an object of its own and
// does not end with it.
func Bytes(skip, size int64) []byte { return make([]byte, skip+size+1)[skip : skip+size] }

// Page is fresh memory of Go that begins at a multiple of 4096 bytes.
func Page(size int64) []byte {
	const page = 4096
	b := make([]byte, size+page)
	skip := -uintptr(unsafe.Pointer(&b[0])) % page
	return b[skip:][:size]
}

// Over makes a tensor of Go's memory, by core.FromSlice.
func Over(b []byte, s core.Spec) (*core.Tensor, error) {
	raw, err := core.FromSlice(b)
	if err != nil {
		return nil, err
	}
	return retype(raw, s)
}

// Numbers is [Over] for float32, whose slices Go's allocator places by their own type.
func Numbers(fill []byte, shape []int64) (*core.Tensor, error) {
	s := make([]float32, len(fill)/4)
	if len(s) > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(fill)), fill)
	}
	return core.FromSlice(s, shape...)
}

// Wrap makes a tensor of memory, which it fills. It owns m, on failure too.
func Wrap(m core.Memory, err error, fill []byte, s core.Spec) (*core.Tensor, error) {
	if err != nil {
		return nil, err
	}
	if fill != nil {
		copy(unsafe.Slice((*byte)(pointer(m.Handle+uintptr(m.Offset))), m.Size), fill)
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		m.Free()
	}
	return t, err
}

// retype makes a tensor on the memory of raw, which it closes.
func retype(raw *core.Tensor, s core.Spec) (*core.Tensor, error) {
	defer raw.Close()
	b, err := raw.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, s)
}

// Alloc allocates memory of a device and fills it by a copy on a stream, which may be nil.
func Alloc(ctx context.Context, d core.Device, o core.AllocOptions, on core.Stream, fill []byte, s core.Spec) (*core.Tensor, error) {
	m, err := d.Alloc(ctx, int64(len(fill)), o)
	if err != nil {
		return nil, err
	}
	raw, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(fill))}})
	if err != nil {
		m.Free()
		return nil, err
	}
	from, err := core.FromSlice(fill)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	defer from.Close()
	if err := d.Copy(ctx, on, raw, from); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return retype(raw, s)
}

// Exported is a handle of a tensor's whole memory, which the caller owns.
func Exported(t *core.Tensor, h core.HandleType) (core.ExternalMemory, error) {
	b, err := t.Buffer()
	if err != nil {
		return core.ExternalMemory{}, err
	}
	e, ok := core.As[core.MemoryExporter](t.Device())
	if !ok {
		return core.ExternalMemory{}, core.Errorf(core.ErrNotSupported, "soak", "Exported", "%v exports nothing", t)
	}
	return e.ExportMemory(b, h)
}

// Imported is memory of a device by a handle, which it takes over, on failure too.
func Imported(ctx context.Context, d core.Device, x core.ExternalMemory) (core.Memory, error) {
	defer x.Close()
	i, ok := core.As[core.MemoryImporter](d)
	if !ok {
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "soak", "Imported", "%v imports nothing", d.ID())
	}
	return i.ImportMemory(ctx, x)
}

// EndExport says that nobody has a tensor's memory open by a handle any more, which was
// exported. Without that a device may keep it until it closes.
func EndExport(t *core.Tensor) error {
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	e, ok := core.As[core.MemoryExporter](t.Device())
	if !ok {
		return core.Errorf(core.ErrNotSupported, "soak", "EndExport", "%v exports nothing", t)
	}
	return e.EndExport(b)
}

// pointer turns an address of memory that is no object of Go's, or pinned, into a pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// Wrapped is [Wrap] for the results of what makes memory.
func Wrapped(m core.Memory, err error) func(fill []byte, s core.Spec) (*core.Tensor, error) {
	return func(fill []byte, s core.Spec) (*core.Tensor, error) { return Wrap(m, err, fill, s) }
}

// Memory is the Go memory that a tensor of [Over] stands on, from a byte of what its
// elements reach over on.
func Memory(t *core.Tensor, from, size int64) ([]byte, error) {
	e, err := elementsOf(t)
	if err != nil {
		return nil, err
	}
	low := int64(0)
	for i, extent := range e.shape {
		low += min((extent-1)*e.strides[i]*e.width/8, 0)
	}
	return unsafe.Slice((*byte)(pointer(e.first+uintptr(low+from))), size), nil
}

// Filled copies bytes into b, and returns b.
func Filled(b, with []byte) []byte {
	copy(b, with)
	return b
}
