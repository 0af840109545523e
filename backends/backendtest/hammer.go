package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/dlx-go/dlx/core"
)

var hammerCases = []Case{
	{
		Name: "hammer/memory",
		Rule: "core.Device: safe for concurrent use; many goroutines allocate, use and free memory, and none changes the memory of another",
		run:  caseHammerMemory,
	},
	{
		Name: "hammer/streams",
		Rule: "core.Device: safe for concurrent use; many goroutines with streams of their own",
		run:  caseHammerStreams,
	},
	{
		Name: "hammer/one-stream",
		Rule: "core.Stream: safe for concurrent use; many goroutines enqueue on one, record and wait",
		run:  caseHammerOneStream,
	},
	{
		Name: "hammer/one-source",
		Rule: "core.Tensor: methods may be called concurrently; many goroutines read one tensor",
		run:  caseHammerOneSource,
	},
	{
		Name:  "hammer/map-host",
		Rule:  "core.HostMapper: safe for concurrent use; many goroutines map host memory of their own",
		Needs: core.CapMapHost,
		run:   caseHammerMapHost,
	},
	{
		Name:  "hammer/host-view",
		Rule:  "core.HostViewer: safe for concurrent use; many goroutines view device memory of their own",
		Needs: core.CapHostView,
		run:   caseHammerHostView,
	},
	{
		Name:  "hammer/export-memory",
		Rule:  "core.MemoryExporter, core.MemoryImporter: safe for concurrent use; many goroutines export one memory and import it",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseHammerExport,
	},
	{
		Name: "hammer/close",
		Rule: "core.Tensor.Close: idempotent, from many goroutines too; the memory is freed once",
		run:  caseHammerClose,
	},
}

const (
	hammerWorkers = 8
	hammerRounds  = 25
)

// hammer runs work in many goroutines at once and many times in each. It must
// not end the test.
func (e *env) hammer(work func(worker, round int) error) {
	e.Helper()
	var group sync.WaitGroup
	failed := make([]error, hammerWorkers)
	for w := range hammerWorkers {
		group.Go(func() {
			for r := 0; r < hammerRounds && failed[w] == nil; r++ {
				if err := work(w, r); err != nil {
					failed[w] = fmt.Errorf("goroutine %d, round %d: %w", w, r, err)
				}
			}
		})
	}
	e.check(e.finish(e.start(func() error {
		group.Wait()
		return errors.Join(failed...)
	})), "many goroutines at once")
}

// travel sends bytes to the device, through a second tensor there, and back, on a
// stream or, if that is nil, one by one.
func (e *env) travel(s core.Stream, content []byte) error {
	n := []int64{int64(len(content))}
	back := make([]byte, len(content))
	tensors := make([]*core.Tensor, 4)
	defer func() {
		for _, t := range tensors {
			if t != nil {
				_ = t.Close()
			}
		}
	}()
	var err error
	for i, open := range []func() (*core.Tensor, error){
		func() (*core.Tensor, error) { return core.FromSlice(content) },
		func() (*core.Tensor, error) {
			return core.Empty(e.ctx, e.dev, core.TypeUint8, n, core.AllocOptions{Stream: s})
		},
		func() (*core.Tensor, error) { return core.Empty(e.ctx, e.dev, core.TypeUint8, n, core.AllocOptions{}) },
		func() (*core.Tensor, error) { return core.FromSlice(back) },
	} {
		if tensors[i], err = open(); err != nil {
			return err
		}
	}
	for i := range 3 {
		if err := e.dev.Copy(e.ctx, s, tensors[i+1], tensors[i]); err != nil {
			return err
		}
	}
	if err := tensors[3].WaitReady(e.ctx); err != nil {
		return err
	}
	if !bytes.Equal(back, content) {
		return fmt.Errorf("what came back from the device: %s", difference(back, content))
	}
	return nil
}

// load is what a round of a goroutine sends, different from all others.
func load(worker, round int) []byte {
	p := bytes.Repeat([]byte{byte(worker), byte(round), 0x5a}, 1+(worker*37+round*101)%2000)
	return p[:len(p)-round%3]
}

func caseHammerMemory(e *env) {
	e.hammer(func(w, r int) error { return e.travel(nil, load(w, r)) })
}

func caseHammerStreams(e *env) {
	e.hammer(func(w, r int) error {
		s, err := e.dev.NewStream(e.ctx)
		if err != nil {
			return err
		}
		return errors.Join(e.travel(s, load(w, r)), s.Synchronize(e.ctx), s.Close())
	})
}

func caseHammerOneStream(e *env) {
	s := e.stream()
	e.hammer(func(w, r int) error {
		if err := e.travel(s, load(w, r)); err != nil {
			return err
		}
		ev, err := s.Record()
		if err != nil {
			return err
		}
		return errors.Join(ev.Wait(e.ctx), s.Synchronize(e.ctx))
	})
}

func caseHammerOneSource(e *env) {
	content := e.pattern(3000)
	src := e.upload(content)
	e.hammer(func(w, r int) error {
		part, err := src.Slice(0, int64(w*300), int64(w*300+500), 1)
		if err != nil {
			return err
		}
		defer func() { _ = part.Close() }()
		return e.read(part, content[w*300:][:500])
	})
}

// read copies a tensor of the device to the host and compares it. It does not end the test.
func (e *env) read(t *core.Tensor, want []byte) error {
	got := make([]byte, len(want))
	host, err := core.FromSlice(got)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	if err := e.dev.Copy(e.ctx, nil, host, t); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("what was read: %s", difference(got, want))
	}
	return nil
}

// readMemory is read for memory, which it frees.
func (e *env) readMemory(m core.Memory, want []byte) error {
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		m.Free()
		return err
	}
	defer func() { _ = t.Close() }()
	return e.read(t, want)
}

func caseHammerMapHost(e *env) {
	mapper := as[core.HostMapper](e)
	var buffers [hammerWorkers]*core.Buffer
	var hosts [hammerWorkers][]byte
	for w := range buffers {
		memory, host := e.mappable(mapper.HostAlignment(), 3000)
		copy(host, e.pattern(int64(len(host))))
		_, buffers[w], _ = e.hostBuffer(memory)
		hosts[w] = host
	}
	e.hammer(func(w, r int) error {
		m, err := mapper.MapHost(e.ctx, buffers[w])
		if err != nil {
			return err
		}
		return e.readMemory(m, hosts[w])
	})
}

func caseHammerHostView(e *env) {
	viewer := as[core.HostViewer](e)
	e.hammer(func(w, r int) error {
		content := load(w, r)
		t, err := core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{int64(len(content))}, core.AllocOptions{HostVisible: true})
		if err != nil {
			return err
		}
		defer func() { _ = t.Close() }()
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		m, err := viewer.HostView(e.ctx, b)
		if err != nil {
			return err
		}
		defer m.Free()
		copy(bytesAt(m.Handle, m.Size), content)
		return e.read(t, content)
	})
}

func caseHammerExport(e *env) {
	e.eachExport(func(t *core.Tensor, content []byte, m core.ExternalMemory) {
		h := m.Handle.Type()
		_ = e.importMemory(m).Close()
		b, err := t.Buffer()
		e.check(err, "Buffer")
		e.hammer(func(w, r int) error {
			x, err := as[core.MemoryExporter](e).ExportMemory(b, h)
			if err != nil {
				return err
			}
			defer x.Close()
			imported, err := as[core.MemoryImporter](e).ImportMemory(e.ctx, x)
			if err != nil {
				return err
			}
			return e.readMemory(imported, content)
		})
	})
}

func caseHammerClose(e *env) {
	s := e.stream()
	for range hammerRounds {
		src, freed := e.watched(e.pattern(100))
		e.copy(s, e.bytes(100), src)
		var group sync.WaitGroup
		for range hammerWorkers {
			group.Go(func() { _ = src.Close() })
		}
		group.Wait()
		e.synchronize(s)
		if e.wantFreedOnce(freed, "memory that many closed at once"); e.Failed() {
			return // each round would wait as long for what does not come
		}
	}
}
