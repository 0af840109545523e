package opened

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// importer is a device that opens memory by calling open.
type importer struct {
	core.Device
	open func() (core.Memory, error)
}

func (d *importer) ID() core.DeviceID { return core.DeviceID{Type: core.DeviceExt} }

func (d *importer) Properties() core.Properties {
	return core.Properties{Capabilities: core.CapImportMemory}
}

func (d *importer) ImportTypes() []core.HandleType { return []core.HandleType{core.HandleIPC} }

func (d *importer) ImportMemory(context.Context, core.ExternalMemory) (core.Memory, error) {
	return d.open()
}

// onceWaiting is a context that calls f when it is waited for. If it is waited for again, it has ended.
type onceWaiting struct {
	context.Context
	f     func()
	calls int
	ended chan struct{}
}

func (c *onceWaiting) Done() <-chan struct{} {
	if c.calls++; c.calls > 1 {
		return c.ended
	}
	c.f()
	return nil
}

func (c *onceWaiting) Err() error { return context.Canceled }

func TestAPanicLeavesNothingToWaitFor(t *testing.T) {
	for _, call := range []struct {
		name string
		make func(t *testing.T, c *Cache, open func() (core.Memory, error)) func(context.Context) error
	}{
		{"Acquire", func(t *testing.T, c *Cache, open func() (core.Memory, error)) func(context.Context) error {
			x, err := core.FromSlice([]int8{1, 2, 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = x.Close() })
			root, err := x.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, _, err := c.Acquire(ctx, Key{Root: root, Size: 3}, nil, func(context.Context) (core.Memory, error) { return open() })
				return err
			}
		}},
		{"Open", func(t *testing.T, c *Cache, open func() (core.Memory, error)) func(context.Context) error {
			h, err := backendkit.NewIPCHandle(core.VendorAMD, []byte{1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = h.Close() })
			d := &importer{open: open}
			return func(ctx context.Context) error {
				_, err := c.Open(ctx, d, core.ExternalMemory{Handle: h, Size: 3, Length: 3}, core.Spec{DType: core.TypeInt8, Shape: []int64{3}})
				return err
			}
		}},
	} {
		t.Run(call.name, func(t *testing.T) {
			entered, waited, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			close(ended)
			var first sync.Once
			open := call.make(t, New(), func() (core.Memory, error) {
				first.Do(func() {
					close(entered)
					<-waited
					panic("as asked")
				})
				return core.Memory{}, core.ErrOutOfMemory
			})
			panicked := make(chan any)
			go func() {
				defer func() { panicked <- recover() }()
				_ = open(t.Context())
			}()
			<-entered
			err := open(&onceWaiting{Context: t.Context(), f: func() { close(waited) }, ended: ended})
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("a caller that waited for the one that panicked: %v", err)
			}
			if <-panicked == nil {
				t.Error("the caller whose device panicked does not learn of that")
			}
			err = open(&onceWaiting{Context: t.Context(), f: func() {}, ended: ended})
			if !errors.Is(err, core.ErrOutOfMemory) {
				t.Errorf("a later caller does not open the memory again: %v", err)
			}
		})
	}
}
