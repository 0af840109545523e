package remote

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// stage is memory of the host that pieces go through.
type stage struct {
	bytes   *core.Tensor // nil before the first piece
	address uintptr
	results chan error // of the operation of UCX on it
	done    func(error)
	out     *outbound // of the pieces that leave it; nil before the first one
	busy    bool      // the operation goes on
}

// open allocates the memory, unless it has.
func (s *stage) open(ctx context.Context, d core.Device, size int64) (err error) {
	if s.bytes != nil {
		return nil
	}
	if s.bytes, err = hostMemory(ctx, d, size); err != nil {
		return err
	}
	s.results = make(chan error, 1)
	s.done = func(err error) { s.results <- err }
	s.address, err = s.bytes.Address()
	return err
}

// hostMemory allocates memory of the host, pinned if the device has such memory: then its copies need no other one.
func hostMemory(ctx context.Context, d core.Device, size int64) (*core.Tensor, error) {
	pinned := map[core.DeviceType]core.DeviceType{core.DeviceCUDA: core.DeviceCUDAHost, core.DeviceROCM: core.DeviceROCMHost}
	if t := pinned[d.ID().Type]; t != 0 {
		if x, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{Type: t}); err == nil {
			return x, nil
		}
	}
	return core.FromSlice(make([]byte, size))
}

// release frees the memory when UCX is done with it.
func (s *stage) release(c *Conn) {
	if s.bytes == nil {
		return
	}
	n, bytes := 0, s.bytes
	if s.busy {
		n = 1
	}
	drain(c, s.results, n, func() { _ = bytes.Close() })
	s.bytes, s.busy = nil, false
}

// wait waits for the operation of UCX on the memory.
func (s *stage) wait(ctx context.Context, c *Conn) error {
	if !s.busy {
		return nil
	}
	ended, err := c.result(ctx, s.results)
	s.busy = !ended
	return err
}

// part is a piece of a tensor: its number, its place and its size.
type part struct{ index, offset, size int64 }

// copyPart copies between a part of a device's memory and a stage.
func copyPart(ctx context.Context, device, stage *core.Tensor, p part, out bool) error {
	there, err := device.Slice(0, p.offset, p.offset+p.size, 1)
	if err != nil {
		return err
	}
	defer there.Close()
	here, err := stage.Slice(0, 0, p.size, 1)
	if err != nil {
		return err
	}
	defer here.Close()
	if out {
		return device.Device().Copy(ctx, nil, here, there)
	}
	return device.Device().Copy(ctx, nil, there, here)
}

// none is the mark of a piece: stages know themselves what has to be done before.
type none struct{}

// leaving is a tensor of a device on its way to the peer: while UCX sends one piece, the device copies the next one.
type leaving struct {
	conn   *Conn
	device *core.Tensor // the bytes
	size   int64        // of a stage
	send   func(p part, s *stage) error
	stages []*stage // that were opened
}

var _ staging.Steps[stage, part, none] = (*leaving)(nil)

// Fill implements [staging.Steps].
func (l *leaving) Fill(ctx context.Context, s *stage, p part, _ none) (none, error) {
	if s.bytes == nil {
		l.stages = append(l.stages, s)
	}
	if err := s.open(ctx, l.device.Device(), l.size); err != nil {
		return none{}, err
	}
	if err := s.wait(ctx, l.conn); err != nil {
		return none{}, err
	}
	return none{}, copyPart(ctx, l.device, s.bytes, p, true)
}

// Empty implements [staging.Steps].
func (l *leaving) Empty(_ context.Context, s *stage, p part, _ none) (none, error) {
	err := l.send(p, s)
	s.busy = err == nil
	return none{}, err
}

// coming is a tensor on its way to a device: while the device copies one piece, UCX receives the next one.
type coming struct {
	conn   *Conn
	in     *inbound
	device *core.Tensor // the bytes
	size   int64        // of a stage
}

var _ staging.Steps[stage, part, none] = (*coming)(nil)

// Fill implements [staging.Steps].
func (l *coming) Fill(ctx context.Context, s *stage, p part, _ none) (none, error) {
	if err := s.open(ctx, l.device.Device(), l.size); err != nil {
		return none{}, err
	}
	m, err := l.conn.nextPiece(ctx, l.in)
	if err != nil {
		return none{}, err
	}
	err = land(m, ucx.Host, s.address, p.size, s.done)
	s.busy = err == nil
	return none{}, err
}

// Empty implements [staging.Steps].
func (l *coming) Empty(ctx context.Context, s *stage, p part, _ none) (none, error) {
	if err := s.wait(ctx, l.conn); err != nil {
		return none{}, err
	}
	return none{}, copyPart(ctx, l.device, s.bytes, p, false)
}

// land brings a piece to an address in memory of a kind. Its result comes if land returns nil, at once if the bytes have come with the
// message.
func land(m *ucx.Message, memory ucx.Memory, address uintptr, size int64, done func(error)) error {
	err := m.ReceiveInto(memory, address, size, done)
	if err != nil {
		m.Drop()
	}
	return err
}
