package soak

import (
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// step is one line of a program. run does it on the tensors and on the model, and says
// what differs; errSkip is that it could not be done.
type step interface{ run(t *thread) error }

// makeTensor makes a tensor on memory of its own.
type makeTensor struct {
	v          int
	kind       Kind
	dev        int // for kinds of a device
	dtype      core.DType
	padded     bool
	readOnly   bool
	shape      []int64
	strides    []int64 // nil is row-major; others for kinds of other libraries
	skip       int64   // bytes from the memory's natural begin to the first
	size       int64   // bytes of the memory
	offset     int64   // bytes to the first element
	byteOffset int64   // of those, what DLPack's byte_offset says
	export     int     // which of the device's handle types
	stream     int
}

func (s *makeTensor) run(t *thread) error {
	d := t.dev(s.dev)
	if s.kind.ofDevice() && (d == nil || d.closed) {
		return errSkip
	}
	if s.kind == MemFD && !parts.HasMemFD || (s.kind == Malloc || s.kind == Foreign || s.kind == ForeignLegacy) && !parts.HasC {
		return errSkip
	}
	fill := pattern(s.size, t.seed+uint64(s.v))
	spec := core.Spec{DType: s.dtype, Shape: s.shape, Strides: s.strides, Offset: s.offset}
	if s.padded {
		spec.Flags |= core.FlagSubBytePadded
	}
	if s.readOnly {
		spec.Flags |= core.FlagReadOnly
	}
	p := place{
		mem: newMemory(s.kind, fill), dtype: s.dtype, padded: s.padded, readOnly: s.readOnly,
		bit: 8 * s.offset, shape: slices.Clone(s.shape), strides: s.strides,
	}
	if p.strides == nil {
		p.strides = rowMajor(s.shape)
	}
	data := fmt.Sprintf("parts.Pattern(%d, %d)", s.size, t.seed+uint64(s.v))
	specText := specCode(spec)
	var tensor *core.Tensor
	var err error
	w := wants{}
	option := "alloc"
	made := func(format string, args ...any) {
		t.say("t%d, err = %s", s.v, fmt.Sprintf(format, args...))
		t.say("check(err)")
	}
	switch s.kind {
	case GoBytes:
		b := parts.Bytes(s.skip, s.size)
		copy(b, fill)
		made("parts.Over(parts.Filled(parts.Bytes(%d, %d), %s), %s)", s.skip, s.size, data, specText)
		tensor, err = parts.Over(b, spec)
	case GoNumbers:
		made("parts.Numbers(%s, %#v)", data, s.shape)
		tensor, err = parts.Numbers(fill, s.shape)
	case GoPage:
		b := t.page[s.skip:][:s.size]
		copy(b, fill)
		made("parts.Over(parts.Filled(page[%d:][:%d], %s), %s)", s.skip, s.size, data, specText)
		tensor, err = parts.Over(b, spec)
	case Malloc:
		made("parts.Wrapped(parts.Malloc(%d, %d))(%s, %s)", s.skip, s.size, data, specText)
		tensor, err = parts.Wrapped(parts.Malloc(s.skip, s.size))(fill, spec)
	case File, FileReadOnly:
		made("parts.Wrapped(parts.Mapped(%d, %s, %v))(nil, %s)", s.skip, data, s.kind == File, specText)
		tensor, err = parts.Wrapped(parts.Mapped(s.skip, fill, s.kind == File))(nil, spec)
	case MemFD:
		tensor, err = s.memFD(t, p.mem, fill, data, spec, made)
	case Drawn:
		if !d.renderer {
			return errSkip
		}
		made("parts.Buffer(%s, %s, %s)", t.devName(d), data, specText)
		tensor, err = parts.Buffer(d.Device, fill, spec)
	case Foreign, ForeignLegacy:
		made("parts.Foreign(%v, %d, %d, %s, %s)", s.kind == ForeignLegacy, s.size, s.byteOffset, data, specText)
		tensor, err = parts.Foreign(s.kind == ForeignLegacy, s.size, s.byteOffset, fill, spec)
	default:
		o := core.AllocOptions{}
		switch s.kind {
		case Visible:
			o.HostVisible, option = true, "host_visible"
			if !d.has(core.CapHostView) {
				w.may = []error{core.ErrNotSupported}
			}
		case Exportable:
			e, ok := core.As[core.MemoryExporter](d.Device)
			if !ok || !d.has(core.CapExportMemory) || len(e.ExportTypes()) == 0 {
				return errSkip
			}
			o.Export, option = e.ExportTypes()[s.export%len(e.ExportTypes())], "export"
		case Pinned, Managed:
			if o.Type = d.pinnedType(); o.Type == 0 || s.kind == Managed && !d.managed() {
				return errSkip
			}
			if s.kind == Managed {
				o.Type, w.may = core.DeviceCUDAManaged, []error{core.ErrNotSupported}
			}
		}
		if s.kind == Exportable && s.size > 0 && s.size%2 == 0 && d.Device.ID().Type == core.DeviceVulkan {
			option = "rendered"
			made("parts.Rendered(ctx, %s, %s, %s, %s)", t.devName(d), allocCode(o, "nil"), data, specText)
			tensor, err = parts.Rendered(t.ctx, d.Device, o, fill, spec)
			break
		}
		on, name := t.on(s.stream, d)
		o.Stream = on
		made("parts.Alloc(ctx, %s, %s, %s, %s, %s)", t.devName(d), allocCode(o, name), name, data, specText)
		tensor, err = parts.Alloc(t.ctx, d.Device, o, on, fill, spec)
	}
	if !s.kind.ofDevice() {
		d = nil
	}
	t.cover(s.kind, "make", d, option)
	if e := t.check("make", err, w); e != nil || err != nil {
		return e
	}
	if on, _ := t.on(s.stream, d); on != nil {
		t.pass(s.stream, on, p.mem)
	}
	_, err = t.add(s.v, p, tensor, d, nil)
	return err
}

// memFD makes a tensor of memory of a memfd.
func (s *makeTensor) memFD(t *thread, m *memory, fill []byte, data string, spec core.Spec, made func(string, ...any)) (*core.Tensor, error) {
	m.fileName, m.told = fmt.Sprintf("x%d", s.v), s.export%2 == 0
	t.say("%s, err = parts.MemFD(%d, %s)", m.fileName, s.skip, data)
	t.say("check(err)")
	x, err := parts.MemFD(s.skip, fill)
	if err != nil {
		return nil, err
	}
	m.file = &x
	t.mu.Lock()
	t.files = append(t.files, x)
	t.mu.Unlock()
	made("parts.Wrapped(parts.MapFD(%s, %v))(nil, %s)", m.fileName, m.told, specCode(spec))
	return parts.Wrapped(parts.MapFD(x, m.told))(nil, spec)
}

// overlap makes a tensor of Go's memory that another tensor has, too: from an element
// of its first axis on.
type overlap struct {
	v, of int
	from  int64
}

func (s *overlap) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.mem.frozen || v.mem.kind > GoPage || v.mem.kind == GoNumbers || v.tensor.Device() != nil || len(v.shape) == 0 || v.shape[0] <= s.from || v.packed() {
		return errSkip
	}
	p := v.slice(0, s.from, v.shape[0], 1)
	low, high := p.reach()
	ml, _ := v.reach()
	if low >= high {
		return errSkip
	}
	b, err := parts.Memory(v.tensor, low-ml, high-low)
	if err != nil {
		return errSkip // not the host's
	}
	spec := p.spec(low)
	t.say("b%d, err = parts.Memory(t%d, %d, %d)", s.v, s.of, low-ml, high-low)
	t.say("check(err)")
	t.say("t%d, err = parts.Over(b%d, %s)", s.v, s.v, specCode(spec))
	t.say("check(err)")
	tensor, err := parts.Over(b, spec)
	t.cover(v.mem.kind, "overlap", nil, "alloc")
	if e := t.check("FromSlice", err, wants{}); e != nil || err != nil {
		return e
	}
	// Over memory of Go another tensor may come and go: it keeps it alive on its own.
	_, err = t.add(s.v, p, tensor, nil, v)
	if err == nil {
		t.vars[s.v].involved = nil
	}
	return err
}

// spec describes the place on memory whose first byte is low.
func (p *place) spec(low int64) core.Spec {
	s := core.Spec{DType: p.dtype, Shape: p.shape, Strides: p.strides, Offset: p.bit>>3 - low}
	if p.padded {
		s.Flags |= core.FlagSubBytePadded
	}
	if p.readOnly {
		s.Flags |= core.FlagReadOnly
	}
	return s
}

// viewKind is a way to make a view.
type viewKind int

const (
	viewShare viewKind = iota
	viewSlice
	viewReverse
	viewIndex
	viewTranspose
	viewReshape
	viewSqueeze
	viewExpand
	viewBroadcast
	viewReadOnly
	viewKinds
)

var viewNames = [viewKinds]string{"share", "slice", "reverse", "index", "transpose", "reshape", "squeeze", "expand", "broadcast", "read_only"}

// view makes a view of a tensor.
type view struct {
	v, of       int
	kind        viewKind
	axis        int
	start, stop int64
	step        int64
	shape       []int64
}

func (s *view) run(t *thread) error {
	v := t.open(s.of)
	if v == nil {
		return errSkip
	}
	p, err := v.clone(), error(nil)
	tensor := (*core.Tensor)(nil)
	w := wants{}
	made := func(format string, args ...any) {
		t.say("t%d, err = t%d.%s", s.v, s.of, fmt.Sprintf(format, args...))
		t.say("check(err)")
	}
	switch s.kind {
	case viewShare:
		made("Share()")
		tensor, err = v.tensor.Share()
	case viewReadOnly:
		p.readOnly = true
		made("AsReadOnly()")
		tensor, err = v.tensor.AsReadOnly()
	case viewSlice, viewReverse:
		p = v.slice(s.axis, s.start, s.stop, s.step)
		made("Slice(%d, %d, %d, %d)", s.axis, s.start, s.stop, s.step)
		tensor, err = v.tensor.Slice(s.axis, s.start, s.stop, s.step)
	case viewIndex:
		p = v.index(s.axis, s.start)
		made("Index(%d, %d)", s.axis, s.start)
		tensor, err = v.tensor.Index(s.axis, s.start)
	case viewTranspose:
		axes := make([]int, len(v.shape))
		for i := range axes {
			axes[i] = len(axes) - 1 - i
		}
		p = v.permute(axes)
		made("Transpose()")
		tensor, err = v.tensor.Transpose()
	case viewExpand:
		p = v.expand(s.axis)
		made("Expand(%d)", s.axis)
		tensor, err = v.tensor.Expand(s.axis)
	case viewBroadcast:
		p = v.broadcast(s.start)
		p.readOnly = p.readOnly || p.repeats() || v.repeats()
		made("Broadcast(%s)", list(p.shape))
		tensor, err = v.tensor.Broadcast(p.shape...)
	case viewReshape:
		made("Reshape(%s)", list(s.shape))
		if tensor, err = v.tensor.Reshape(s.shape...); err == nil {
			p.shape, p.strides = slices.Clone(s.shape), tensor.Layout().Strides()
		} else if !slices.Equal(v.strides, rowMajor(v.shape)) {
			w.may = []error{core.ErrLayout}
		}
	case viewSqueeze:
		made("Squeeze(%d)", s.axis)
		tensor, err = v.tensor.Squeeze(s.axis)
		p.shape, p.strides = slices.Delete(p.shape, s.axis, s.axis+1), slices.Delete(p.strides, s.axis, s.axis+1)
	}
	if p.bit%8 != 0 && p.elements() > 0 {
		w.must = []error{core.ErrLayout}
	} else if p.packed() {
		w.may = append(w.may, core.ErrLayout) // of a view without elements, too
	}
	t.cover(v.mem.kind, "view", v.dev, viewNames[s.kind])
	if e := t.check("view", err, w); e != nil || err != nil {
		return e
	}
	if s.kind == viewReshape && !sameBits(&v.place, &p) {
		return fmt.Errorf("the Reshape of strides %v to %v with strides %v orders elements anew", v.strides, p.shape, p.strides)
	}
	_, err = t.add(s.v, p, tensor, v.dev, v)
	return err
}

// sameBits reports whether two places are the same elements in the same order.
func sameBits(p, q *place) bool {
	var a, b []int64
	p.each(func(bit int64) { a = append(a, bit) })
	q.each(func(bit int64) { b = append(b, bit) })
	return slices.Equal(a, b)
}

// reexport gives a tensor out by DLPack and takes it again.
type reexport struct {
	v, of  int
	legacy bool
}

func (s *reexport) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.mem.frozen {
		return errSkip
	}
	w := wants{}
	switch {
	case s.legacy && v.readOnly:
		w.must = []error{core.ErrReadOnly}
	case s.legacy && v.padded:
		w.may = []error{core.ErrNotSupported, core.ErrDType}
	}
	if v.tensor.DeviceID().Type == core.DeviceGL || !parts.HasC {
		w.must = append(w.must, core.ErrNotSupported)
	}
	defer t.before(v)()
	var tensor *core.Tensor
	var err error
	if s.legacy {
		t.say("t%d, err = parts.ReexportLegacy(t%d)", s.v, s.of)
		var m *dlpack.ManagedTensor
		if m, err = dlpack.ExportLegacy(v.tensor); err == nil {
			tensor, err = dlpack.ImportLegacy(m, dlpack.ImportOptions{})
		}
	} else {
		t.say("t%d, err = parts.Reexport(t%d)", s.v, s.of)
		var m *dlpack.ManagedTensorVersioned
		if m, err = dlpack.Export(v.tensor); err == nil {
			tensor, err = dlpack.Import(m, dlpack.ImportOptions{})
		}
	}
	t.say("check(err)")
	t.cover(v.mem.kind, "reexport", v.dev, "dlpack")
	if e := t.check("Export and Import", err, w); e != nil || err != nil {
		return e
	}
	_, err = t.add(s.v, v.clone(), tensor, nil, v)
	return err
}

// share exports a tensor's memory by a handle and opens it on a device.
type share struct {
	v, of  int
	handle int
	dev    int
	open   bool // by exchange.Open
}

func (s *share) run(t *thread) error {
	v, d := t.open(s.of), t.dev(s.dev)
	if v == nil || v.mem.frozen || d == nil || d.closed || v.dev == nil || v.mem.kind != Exportable || v.bit%8 != 0 {
		return errSkip
	}
	e, ok := core.As[core.MemoryExporter](v.dev.Device)
	if !ok || len(e.ExportTypes()) == 0 {
		return errSkip
	}
	h := e.ExportTypes()[s.handle%len(e.ExportTypes())]
	t.say("x%d, err = parts.Exported(t%d, %d)", s.v, s.of, h)
	t.say("check(err)")
	x, err := parts.Exported(v.tensor, h)
	t.cover(v.mem.kind, "export", v.dev, h.String())
	// Which type it was allocated for, and whether this name for it can export, is not known here.
	if e := t.check("ExportMemory", err, wants{may: []error{core.ErrInvalid, core.ErrNotSupported, core.ErrDevice}}); e != nil || err != nil {
		return e
	}
	t.before(v) // what opens it may not wait for the work
	if err := parts.Wait(t.ctx, v.tensor); err != nil {
		_ = x.Close()
		return err
	}
	known := x.Backing() != nil // else nobody can tell that both are one memory
	spec := v.spec(0)
	var tensor *core.Tensor
	how := "import"
	if s.open {
		how = "open"
		t.say("t%d, err = exchange.Open(ctx, %s, x%d, %s)", s.v, t.devName(d), s.v, specCode(spec))
		tensor, err = exchange.Open(t.ctx, d.Device, x, spec)
		_ = x.Close()
	} else {
		t.say("t%d, err = parts.Wrapped(parts.Imported(ctx, %s, x%d))(nil, %s)", s.v, t.devName(d), s.v, specCode(spec))
		tensor, err = parts.Wrapped(parts.Imported(t.ctx, d.Device, x))(nil, spec)
	}
	t.say("check(err)")
	t.say("check(parts.EndExport(t%d))", s.of) // else a device may keep the memory until it closes
	if err := parts.EndExport(v.tensor); err != nil {
		return fmt.Errorf("EndExport: %w", err)
	}
	t.cover(v.mem.kind, "import", d, how)
	if e := t.check("ImportMemory", err, wants{may: []error{core.ErrNotSupported, core.ErrDevice, core.ErrInvalid}}); e != nil || err != nil {
		return e
	}
	_, err = t.add(s.v, v.clone(), tensor, d, v)
	if err == nil {
		t.dropInvolved(s.v, d)
		v.mem.hidden = v.mem.hidden || !known
	}
	return err
}

// dropInvolved has a tensor keep only one device open: memory that was exported does
// not need the device that made it.
func (t *thread) dropInvolved(i int, d *Device) {
	v := t.vars[i]
	for _, x := range v.involved {
		x.use(-1)
	}
	v.involved = []*Device{d}
	d.use(1)
}
