package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/inventory"
)

// memoryKind is a kind of memory of the source.
type memoryKind string

// The kinds of memory.
const (
	anyMemory   memoryKind = "any" // plain memory, and memory that the destination can share
	plainMemory memoryKind = "plain"
	hostVisible memoryKind = "host_visible"
	exportable  memoryKind = "export"
)

// plan tries the moves between all devices of --from and --to.
func (a *app) plan(ctx context.Context, f planFlags) (result planResult, err error) {
	if err := a.checkBuilt(slices.Concat(f.from, f.to)...); err != nil {
		return planResult{}, err
	}
	s := survey{registry: a.registry, opened: make(map[core.DeviceID]core.Device)}
	defer func() { err = firstError(err, s.close()) }()
	result = planResult{Bytes: int64(f.bytes), Copy: f.policy, Pairs: []pairResult{}}
	from, to := f.from, f.to
	if len(from) == 0 || len(to) == 0 {
		var there []core.DeviceID
		there, result.Missing = s.openAll(ctx)
		if len(from) == 0 {
			from = there
		}
		if len(to) == 0 {
			to = there
		}
	}
	for _, id := range from {
		src, err := s.open(ctx, id)
		if err != nil {
			return planResult{}, err
		}
		for _, id := range to {
			dst, err := s.open(ctx, id)
			if err != nil {
				return planResult{}, err
			}
			pair := pairResult{From: src.ID(), To: dst.ID()}
			for _, m := range f.memory.options(src, dst) {
				pair.Ways = append(pair.Ways, m.try(ctx, src, dst, f))
			}
			result.Pairs = append(result.Pairs, pair)
		}
	}
	result.single = len(f.from) == 1 && len(f.to) == 1
	return result, nil
}

// survey holds the devices that plan has opened.
type survey struct {
	registry *core.Registry
	opened   map[core.DeviceID]core.Device
}

// open opens a device, or returns it if it is open.
func (s *survey) open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	if d, ok := s.opened[id]; ok {
		return d, nil
	}
	d, err := s.registry.Open(ctx, id)
	if err == nil {
		s.opened[id] = d
	}
	return d, err
}

// openAll opens all devices. It also returns the backends and devices that are not available.
func (s *survey) openAll(ctx context.Context) (there []core.DeviceID, absent []absentResult) {
	for _, b := range inventory.List(ctx, s.registry) {
		if reason := cmp.Or(b.Reason, b.Error); reason != "" {
			absent = append(absent, absentResult{b.Name, reason})
		}
		for _, d := range b.Devices {
			if _, err := s.open(ctx, d.ID); err != nil {
				absent = append(absent, absentResult{d.ID.String(), err.Error()})
				continue
			}
			there = append(there, d.ID)
		}
	}
	return there, absent
}

func (s *survey) close() error {
	var errs []error
	for _, d := range s.opened {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// sourceMemory is a kind of memory with the options to allocate it.
type sourceMemory struct {
	kind memoryKind
	core.AllocOptions
}

// options returns the kinds of memory of src to try for a move to dst.
func (k memoryKind) options(src, dst core.Device) []sourceMemory {
	plain := sourceMemory{kind: plainMemory}
	switch k {
	case hostVisible:
		return []sourceMemory{{hostVisible, core.AllocOptions{HostVisible: true}}}
	case exportable:
		return []sourceMemory{{exportable, core.AllocOptions{Export: exportType(src, dst)}}}
	case plainMemory:
		return []sourceMemory{plain}
	}
	switch shared := exchange.AllocFor(src, dst); {
	case shared.Export != 0:
		return []sourceMemory{plain, {exportable, shared}}
	case shared.HostVisible:
		return []sourceMemory{plain, {hostVisible, shared}}
	default:
		return []sourceMemory{plain}
	}
}

// exportType returns a handle type that src exports, if possible one that dst imports. It returns
// 0 if src exports none.
func exportType(src, dst core.Device) core.HandleType {
	e, ok := core.As[core.MemoryExporter](src)
	if !ok || len(e.ExportTypes()) == 0 {
		return 0
	}
	if i, ok := core.As[core.MemoryImporter](dst); ok {
		for _, t := range e.ExportTypes() {
			if slices.Contains(i.ImportTypes(), t) {
				return t
			}
		}
	}
	return e.ExportTypes()[0]
}

// try moves a tensor in memory of this kind and returns the way. Only a real move shows the
// errors of drivers.
func (m sourceMemory) try(ctx context.Context, src, dst core.Device, f planFlags) wayResult {
	w := wayResult{Memory: m.kind}
	if m.kind == exportable {
		if m.Export == 0 {
			w.Reason = src.ID().String() + " cannot export memory"
			return w
		}
		w.Handle = m.Export.String()
	}
	t, err := core.Empty(ctx, src, core.TypeUint8, []int64{int64(f.bytes)}, m.AllocOptions)
	if err != nil {
		w.fail(err, src, f)
		return w
	}
	defer t.Close()
	moved, report, err := exchange.To(ctx, t, dst, exchange.Options{Copy: f.policy.Exchange()})
	var none *exchange.NoWayError
	switch {
	case errors.As(err, &none): // the report says why
	case err != nil:
		w.fail(err, dst, f)
		return w
	default:
		defer moved.Close()
		if err := moved.WaitReady(ctx); err != nil {
			w.Reason = err.Error()
			return w
		}
	}
	w.Route = &routeResult{
		Mechanism:   report.Mechanism.String(),
		BytesCopied: report.BytesCopied,
		Steps:       report.Steps(),
		Refused:     move.Refusals(report.Refused()),
		explanation: report.String(),
	}
	return w
}

// fail records err as the reason why nothing could be tried on a device.
func (v *wayResult) fail(err error, device core.Device, f planFlags) {
	if errors.Is(err, core.ErrOutOfMemory) {
		err = fmt.Errorf("%s cannot be allocated on %v: %w", exactBytes(int64(f.bytes)), device.ID(), err)
		v.noRoom = err
	}
	v.Reason = err.Error()
}
