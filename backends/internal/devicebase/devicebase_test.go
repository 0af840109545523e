package devicebase_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// device is the least that a backend adds to a [devicebase.Device].
type device struct {
	devicebase.Device
	finished int
	fails    error
}

func (d *device) Alloc(context.Context, int64, core.AllocOptions) (core.Memory, error) {
	return core.Memory{}, d.Errorf(core.ErrNotSupported, "Alloc", "there is no memory")
}

func (d *device) NewStream(ctx context.Context) (core.Stream, error) { return d.NewQueue(ctx) }

func (d *device) Copy(context.Context, core.Stream, *core.Tensor, *core.Tensor) error { return nil }

func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		d.finished++
		d.Closed.Store(d.fails == nil)
		return d.fails
	})
}

var _ core.Device = (*device)(nil)

func open(t *testing.T) *device {
	d := new(device)
	d.Init(d, core.Properties{ID: core.DeviceID{Type: core.DeviceExt}, Capabilities: core.CapHostView})
	t.Cleanup(func() {
		d.fails = nil
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestAShutDeviceIsFinishedOnce(t *testing.T) {
	d := open(t)
	d.fails = errors.New("the driver is busy")
	if err := d.Close(); !errors.Is(err, d.fails) {
		t.Errorf("a finish that fails: %v", err)
	}
	if err := d.IsOpen("Alloc"); err != nil {
		t.Errorf("a device that could not be closed: %v", err)
	}
	d.fails = nil
	if err := errors.Join(d.Close(), d.Close()); err != nil || d.finished != 2 {
		t.Errorf("Close: %v; finish was called %d times", err, d.finished)
	}
	if _, err := d.NewStream(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("NewStream of a closed device: %v", err)
	}
}

func TestWhatIsOpenKeepsADeviceOpen(t *testing.T) {
	core.TraceOpen(true)
	defer core.TraceOpen(false)
	d := open(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.Mu.Lock()
	var order []string
	m := d.HandOut(core.Memory{ID: d.ID(), Size: 1}, func() { order = append(order, "locked") }, func() {
		d.Mu.Lock() // is not held
		defer d.Mu.Unlock()
		order = append(order, "after")
		if n := d.Memories; n != 1 {
			t.Errorf("%d memories are open before the last is given back", n)
		}
	})
	d.Mu.Unlock()
	if err := d.Close(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "1 stream and 1 memory on") {
		t.Errorf("Close with a stream and memory open: %v", err)
	} else if n := strings.Count(err.Error(), "TestWhatIsOpenKeepsADeviceOpen"); n != 1 {
		t.Errorf("the error names the opener of %d streams: %v", n, err)
	}
	m.Free()
	m.Free()
	if strings.Join(order, ",") != "locked,after" {
		t.Errorf("memory was freed by %v", order)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestMemoryIsFreedAfterItsWork(t *testing.T) {
	d := open(t)
	d.Mu.Lock()
	freed := make(chan struct{})
	m := d.HandOut(core.Memory{ID: d.ID(), Size: 1}, nil, func() { close(freed) })
	d.Mu.Unlock()
	e := stream.NewEvent()
	m.Owner.(backendkit.OrderedOwner).FreeAfter([]core.Event{e})
	select {
	case <-freed:
		t.Error("memory was freed before its work was done")
	default:
	}
	e.Complete(nil)
	<-freed
}

func TestAViewKeepsItsBuffer(t *testing.T) {
	d := open(t)
	d.Mu.Lock()
	m := d.HandOut(core.Memory{ID: d.ID(), Handle: 64, Offset: 8, Size: 1}, nil, nil)
	d.Mu.Unlock()
	x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{1}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	address := func(m core.Memory) (uintptr, error) { return 1024, nil }
	view, err := d.View(t.Context(), b, address)
	if err != nil || view.Handle != 1032 || view.Size != 1 {
		t.Errorf("%+v, %v", view, err)
	}
	_ = x.Close()
	view.Free()
	view.Free()
	for name, b := range map[string]*core.Buffer{"closed": b, "nil": nil} {
		if _, err := d.View(t.Context(), b, address); err == nil {
			t.Errorf("a buffer that is %s is viewed", name)
		}
	}
	if _, err := d.Map(t.Context(), nil, nil, nil); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("MapHost without the capability: %v", err)
	}
}

func TestALentStreamKeepsTheDriver(t *testing.T) {
	d := open(t)
	var l devicebase.Lending[int]
	made := 0
	borrow := func() int {
		q, err := l.Borrow(&d.Device, func() (int, error) { made++; return made, nil })
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	a, b := borrow(), borrow()
	l.GiveBack(&d.Device, a)
	if c := borrow(); c != a || made != 2 {
		t.Errorf("stream %d of %d was lent again, want %d", c, made, a)
	}
	l.GiveBack(&d.Device, a)
	go l.GiveBack(&d.Device, b)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if all := l.All(&d.Device); len(all) != 2 {
		t.Errorf("the streams are %v", all)
	}
}
