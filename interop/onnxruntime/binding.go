//go:build cgo && unix

package onnxruntime

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
	ort "github.com/yalue/onnxruntime_go"
)

// Binding connects the inputs and outputs of a session to tensors, on the host or on a device, and runs the session.
// Nothing is copied if the session takes its inputs where they lie. The binding keeps the bound tensors open. It is
// safe for concurrent use; its runs follow one another.
type Binding struct {
	lib     *Library
	session *ort.DynamicAdvancedSession

	mu      sync.Mutex
	io      *ort.IoBinding // nil after Close
	inputs  map[string]*Value
	outputs []output // in the order in which they were bound first
}

// output is an output that is bound to a tensor, or that ONNX Runtime allocates.
type output struct {
	name  string
	value *Value        // nil if ONNX Runtime allocates it
	place core.DeviceID // where ONNX Runtime allocates it
	ready *core.Tensor  // what the last run allocated
}

// Bind makes a binding for a session, which may have been made without names of inputs and outputs. The caller closes
// the binding before it destroys the session.
func (l *Library) Bind(session *ort.DynamicAdvancedSession) (*Binding, error) {
	if session == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "Bind", "the session is nil")
	}
	if err := l.retain(); err != nil {
		return nil, err
	}
	io, err := session.CreateIoBinding()
	if err != nil {
		l.release()
		return nil, failed("CreateIoBinding", err)
	}
	liveBindings.Add(1)
	return &Binding{lib: l, session: session, io: io, inputs: make(map[string]*Value)}, nil
}

// failed makes an error of one of onnxruntime_go, which has only a text.
func failed(call string, err error) error {
	return &core.Error{Backend: apiName, Call: call, Detail: err.Error(), Err: core.ErrInvalid}
}

// BindInput binds t to an input, in place of what was bound before. The caller may close t. BindInput does not wait for
// work on t; Run does. It fails as Library.Input does, and with core.ErrInvalid if ONNX Runtime refuses the name.
func (b *Binding) BindInput(name string, t *core.Tensor) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check("BindInput"); err != nil {
		return err
	}
	v, err := b.lib.value(t)
	if err != nil {
		return err
	}
	if err := b.io.BindInput(name, v); err != nil {
		_ = v.Destroy() // always nil
		return failed("BindInput", err)
	}
	if old := b.inputs[name]; old != nil {
		_ = old.Destroy() // always nil
	}
	b.inputs[name] = v
	return nil
}

// BindOutput makes the session write an output into t, in place of what was bound before. The caller may close t.
// BindOutput fails as BindInput does, and with core.ErrReadOnly if t is read-only.
func (b *Binding) BindOutput(name string, t *core.Tensor) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check("BindOutput"); err != nil {
		return err
	}
	if err := writable(t); err != nil {
		return err
	}
	v, err := b.lib.value(t)
	if err != nil {
		return err
	}
	if err := b.io.BindOutput(name, v); err != nil {
		_ = v.Destroy() // always nil
		return failed("BindOutput", err)
	}
	b.setOutput(output{name: name, value: v})
	return nil
}

// AllocateOutput makes ONNX Runtime allocate an output at a place, for outputs whose shape is not known before the run.
// It returns core.ErrNotSupported for places that ONNX Runtime does not know.
func (b *Binding) AllocateOutput(name string, place core.DeviceID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check("AllocateOutput"); err != nil {
		return err
	}
	info, err := b.lib.memoryInfo(place)
	if err != nil {
		return err
	}
	if err := b.lib.table.bindOutputTo(b.io, name, info); err != nil {
		return err
	}
	b.setOutput(output{name: name, place: place})
	return nil
}

func (b *Binding) check(call string) error {
	if b.io == nil {
		return core.Errorf(core.ErrClosed, apiName, call, "the binding was closed")
	}
	return nil
}

func (b *Binding) setOutput(o output) {
	i := slices.IndexFunc(b.outputs, func(old output) bool { return old.name == o.name })
	if i < 0 {
		b.outputs = append(b.outputs, o)
		return
	}
	b.outputs[i].close()
	b.outputs[i] = o
}

func (o *output) close() {
	if o.value != nil {
		_ = o.value.Destroy() // always nil
	}
	o.ready.Close()
	o.value, o.ready = nil, nil
}

// Run runs the session on what is bound, in order with all other work on the bound tensors, and returns when ONNX
// Runtime has finished. If s is nil, Run first blocks until the last writes to the inputs and all work on the outputs
// are done, or returns ctx's error. Otherwise s must be the stream on which the session computes (see StreamOptions).
// The stream then waits for the work on tensors in memory of devices, and Run only blocks for those on the host.
//
// Run returns the error of an earlier write to an input; core.ErrNotSupported if no session computes on s; and
// core.ErrInvalid if the session fails. The contents of the outputs are then not defined.
func (b *Binding) Run(ctx context.Context, s core.Stream) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check("Run"); err != nil {
		return err
	}
	if s != nil {
		if _, err := StreamOptions(s); err != nil {
			return err
		}
	}
	var host, device uses
	add := func(t *core.Tensor, writes bool) {
		u := &device
		if s == nil || t.DeviceID().Type.HostAccessible() { // its copy to the device may begin before the stream gets there
			u = &host
		}
		if writes {
			u.writes = append(u.writes, t)
		} else {
			u.reads = append(u.reads, t)
		}
	}
	for _, v := range b.inputs {
		add(v.tensor, false)
	}
	for _, o := range b.outputs {
		if o.value != nil {
			add(o.value.tensor, true)
		}
	}
	return stream.Do(ctx, host.writes, host.reads, func() error {
		if s == nil {
			return b.run()
		}
		return stream.Submit(ctx, s, device.writes, device.reads, b.run)
	})
}

// uses are the tensors that a run writes and reads.
type uses struct{ writes, reads []*core.Tensor }

func (b *Binding) run() error {
	for i := range b.outputs {
		o := &b.outputs[i]
		if o.value != nil {
			continue
		}
		o.ready.Close()
		o.ready = nil
		// ONNX Runtime would write into the memory of the last run, which may still be in use.
		info, err := b.lib.memoryInfo(o.place)
		if err == nil {
			err = b.lib.table.bindOutputTo(b.io, o.name, info)
		}
		if err != nil {
			return err
		}
	}
	if err := b.session.RunWithBinding(b.io); err != nil {
		return failed("RunWithBinding", err)
	}
	return b.collect()
}

// collect makes tensors of the outputs that ONNX Runtime has allocated.
func (b *Binding) collect() (err error) {
	if !slices.ContainsFunc(b.outputs, func(o output) bool { return o.value == nil }) {
		return nil
	}
	values, err := b.lib.table.boundOutputs(b.io)
	if err != nil {
		return err
	}
	for i, handle := range values {
		if i < len(b.outputs) && b.outputs[i].value == nil && handle != nil && err == nil {
			if b.outputs[i].ready, err = b.lib.wrap(handle, func() { b.lib.table.releaseValue(handle) }); err == nil {
				continue // the tensor owns the value
			}
		}
		if handle != nil {
			b.lib.table.releaseValue(handle)
		}
	}
	if err == nil && len(values) != len(b.outputs) {
		err = core.Errorf(core.ErrInvalid, apiName, "GetBoundOutputValues", "%d values for %d outputs", len(values), len(b.outputs))
	}
	return err
}

// Output returns an output of the last run. The caller closes it. What a later run allocates is other memory; what was
// bound with BindOutput is overwritten. Output returns core.ErrInvalid if there is no such output, or no run has
// allocated it.
func (b *Binding) Output(name string) (*core.Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check("Output"); err != nil {
		return nil, err
	}
	for _, o := range b.outputs {
		switch {
		case o.name != name:
		case o.value != nil:
			return o.value.Tensor()
		case o.ready != nil:
			return o.ready.Share()
		}
	}
	return nil, core.Errorf(core.ErrInvalid, apiName, "Output", "no output %q: bind it and run the session", name)
}

// Close lets go of the bound tensors. Outputs that the program has taken stay open. It always returns nil; closing a
// closed binding does nothing.
func (b *Binding) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.io == nil {
		return nil
	}
	_ = b.io.Destroy() // always nil
	b.io = nil
	for _, v := range b.inputs {
		_ = v.Destroy() // always nil
	}
	for i := range b.outputs {
		b.outputs[i].close()
	}
	b.inputs, b.outputs = nil, nil
	b.lib.release()
	liveBindings.Add(-1)
	return nil
}
