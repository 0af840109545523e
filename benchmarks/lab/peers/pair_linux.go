package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// pair is this process and another one of the same program, which share memory of the host and are connected by a socket.
// Its owner closes it.
type pair struct {
	host    core.Device
	other   *exec.Cmd
	socket  *net.UnixConn
	shared  *ring // nil until a measurement needs it
	source  *core.Tensor
	counter uint64
	small   bool // few messages, to test that it works
}

// few is n, or a part of it in tests.
func (p *pair) few(n int) int {
	if p.small {
		return min(n, 10)
	}
	return n
}

// order is what this process tells the other one to do, and reply its answer.
type order struct {
	Do    string `json:"do"`
	N     int    `json:"n,omitempty"`
	Size  int64  `json:"size,omitempty"`
	First uint64 `json:"first,omitempty"` // the number of the first message
	Keep  bool   `json:"keep,omitempty"`
}

type reply struct {
	Error string `json:"error,omitempty"`
}

// pairFD is the descriptor of the socket in the other process.
const pairFD = 3

func newPair(ctx context.Context, b *bench) (p *pair, err error) {
	p = &pair{small: b.small}
	defer func() {
		if err != nil {
			p.close()
			p = nil
		}
	}()
	if p.host, err = b.registry.Open(ctx, core.CPU); err != nil {
		return p, err
	}
	program, err := os.Executable()
	if err != nil {
		return p, err
	}
	// Messages of this kind of socket keep their bounds.
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return p, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	if p.socket, err = connect(fds[0]); err != nil {
		return p, err
	}
	p.other = exec.CommandContext(ctx, program, pairFlag)
	p.other.Env = append(os.Environ(), pairVariable+"=1")
	p.other.ExtraFiles = []*os.File{theirs}
	p.other.Stderr = b.log
	if err = p.other.Start(); err != nil {
		p.other = nil
	}
	return p, err
}

// connect makes a connection of a descriptor, which it closes.
func connect(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// close ends the other process, and gives back the memory.
func (p *pair) close() {
	p.dropRing()
	if p.source != nil {
		_ = p.source.Close()
	}
	if p.socket != nil {
		_ = p.socket.Close() // the other process ends with it
	}
	if p.other != nil {
		_ = p.other.Wait()
	}
	if p.host != nil {
		_ = p.host.Close()
	}
}

// tell sends an order and waits for the reply.
func (p *pair) tell(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := p.socket.Write(text); err != nil {
		return err
	}
	return p.answer()
}

func (p *pair) answer() error {
	if err := p.socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	n, err := p.socket.Read(buffer)
	if err != nil {
		return fmt.Errorf("the other process does not answer: %w", err)
	}
	var r reply
	if err := strictjson.Unmarshal(buffer[:n], &r); err != nil {
		return fmt.Errorf("the other process answers %q: %w", buffer[:n], err)
	}
	if r.Error != "" {
		return errors.New("the other process: " + r.Error)
	}
	return nil
}

// ring is shared memory: a page with two words, which say how many messages were written and how many were read, and two
// places for messages.
type ring struct {
	tensor *core.Tensor
	words  []uint64
	places [2]*core.Tensor
	size   int64
}

const (
	pageBytes          = 4096
	written, wereRead  = 0, 64 // words, in cache lines of their own
	wordBytes, ringLen = 8, 2
)

func ringBytes(size int64) int64 { return pageBytes + ringLen*size }

// newRing takes t, also on failure.
func newRing(t *core.Tensor, size int64) (r *ring, err error) {
	r = &ring{tensor: t, size: size}
	defer func() {
		if err != nil {
			r.close()
			r = nil
		}
	}()
	if r.words, err = core.Mutable[uint64](t); err != nil {
		return r, err
	}
	for i := range r.places {
		from := (pageBytes + int64(i)*size) / wordBytes
		if r.places[i], err = t.Slice(0, from, from+size/wordBytes, 1); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *ring) close() {
	for _, t := range append(r.places[:], r.tensor) {
		if t != nil {
			_ = t.Close()
		}
	}
}

// await polls a word until it is at least value, or the other process is given up.
func (r *ring) await(word int, value uint64) error {
	var began time.Time
	for spins := 1; atomic.LoadUint64(&r.words[word]) < value; spins++ {
		if spins%(1<<20) != 0 {
			continue
		}
		if began.IsZero() {
			began = time.Now()
		} else if time.Since(began) > patience { // it has ended
			return fmt.Errorf("the other process did not come to message %d", value)
		}
	}
	return nil
}

// share allocates memory for messages of so many bytes, and has the other process open it.
func (p *pair) share(ctx context.Context, size int64) error {
	if p.shared != nil && p.shared.size == size {
		return nil
	}
	p.dropRing()
	t, err := p.exportable(ctx, ringBytes(size))
	if err != nil {
		return err
	}
	if p.shared, err = newRing(t, size); err != nil {
		return err
	}
	p.counter = 0
	if p.source != nil {
		_ = p.source.Close()
	}
	if p.source, err = core.Empty(ctx, p.host, core.TypeUint64, []int64{size / wordBytes}, core.AllocOptions{}); err != nil {
		return err
	}
	content, err := core.Mutable[uint64](p.source)
	if err != nil {
		return err
	}
	for i := range content {
		content[i] = uint64(i)
	}
	return p.send(t, order{Do: "ring", Size: size})
}

func (p *pair) dropRing() {
	if p.shared != nil {
		p.shared.close()
		p.shared = nil
	}
}

func (p *pair) exportable(ctx context.Context, bytes int64) (*core.Tensor, error) {
	return core.Empty(ctx, p.host, core.TypeUint64, []int64{bytes / wordBytes}, core.AllocOptions{Export: core.HandleMemFD})
}

// send has the other process do something with the memory of a tensor, and waits until it is done.
func (p *pair) send(t *core.Tensor, o order) error {
	buffer, err := t.Buffer()
	if err != nil {
		return err
	}
	m, err := p.host.(core.MemoryExporter).ExportMemory(buffer, core.HandleMemFD)
	if err != nil {
		return err
	}
	defer m.Close() // the other process has a duplicate
	data, fds, err := m.MarshalWithFDs()
	if err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := p.socket.Write(text); err != nil {
		return err
	}
	if _, _, err := p.socket.WriteMsgUnix(data, syscall.UnixRights(fds...), nil); err != nil {
		return err
	}
	return p.answer()
}

// wordLatency returns the microseconds that a message of a word takes one way, if both processes poll: half of the
// median of the round trips, as ucx_perftest counts.
func (p *pair) wordLatency(ctx context.Context, _ int64) (float64, error) {
	if err := p.share(ctx, pageBytes); err != nil {
		return 0, err
	}
	return p.oneWay(p.few(20000), "poll", func() error {
		p.counter++
		atomic.StoreUint64(&p.shared.words[written], p.counter)
		return p.shared.await(wereRead, p.counter)
	})
}

// oneWay returns half of the median of n round trips, in microseconds.
func (p *pair) oneWay(n int, do string, roundTrip func() error) (float64, error) {
	trips := make([]float64, n)
	_, err := p.timed(n, order{Do: do, N: n}, func() error {
		for i := range trips {
			start := time.Now()
			if err := roundTrip(); err != nil {
				return err
			}
			trips[i] = float64(time.Since(start)) / 2e3
		}
		return nil
	})
	return median(trips), err
}

// timed gives the order, and returns the microseconds of each of n parts of f.
func (p *pair) timed(n int, o order, f func() error) (float64, error) {
	o.First = p.counter + 1
	if err := p.tell(o); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	each := float64(time.Since(start)) / float64(n) / 1e3
	return each, p.answer()
}

// socketLatency returns the microseconds that 8 bytes take one way over the socket, with both processes asleep between
// messages.
func (p *pair) socketLatency(context.Context, int64) (float64, error) {
	message := make([]byte, wordBytes)
	return p.oneWay(p.few(5000), "echo", func() error {
		if _, err := p.socket.Write(message); err != nil {
			return err
		}
		_, err := p.socket.Read(message)
		return err
	})
}

// inPlace returns the GB/s of messages that this process copies into one of two places, and that the other process
// has where they are.
func (p *pair) inPlace(ctx context.Context, size int64) (float64, error) {
	return p.messages(ctx, size, "take")
}

// copiedOut is inPlace, and the other process copies each message into memory of its own.
func (p *pair) copiedOut(ctx context.Context, size int64) (float64, error) {
	return p.messages(ctx, size, "copy")
}

func (p *pair) messages(ctx context.Context, size int64, do string) (float64, error) {
	if err := p.share(ctx, size); err != nil {
		return 0, err
	}
	n := p.few(messagesOf(size))
	each, err := p.timed(n, order{Do: do, N: n, Size: size}, func() error {
		for range n {
			p.counter++
			if p.counter > ringLen { // the place is free when the message before in it was read
				if err := p.shared.await(wereRead, p.counter-ringLen); err != nil {
					return err
				}
			}
			if err := p.host.Copy(ctx, nil, p.shared.places[p.counter%ringLen], p.source); err != nil {
				return err
			}
			atomic.StoreUint64(&p.shared.words[written], p.counter)
		}
		return p.shared.await(wereRead, p.counter)
	})
	return float64(size) / each / 1e3, err
}

// openCold returns the microseconds from the export of new memory until the other process has opened it and read of it.
// Its allocation, and the close, are off the clock.
func (p *pair) openCold(ctx context.Context, size int64) (float64, error) {
	n := p.few(20)
	var sum time.Duration
	for range n {
		t, err := p.exportable(ctx, size)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		err = p.send(t, order{Do: "open", Size: size, Keep: true})
		sum += time.Since(start)
		_ = t.Close()
		if err = errors.Join(err, p.tell(order{Do: "close"})); err != nil {
			return 0, err
		}
	}
	return float64(sum) / float64(n) / 1e3, nil
}

// openWarm is openCold of memory that the other process has open.
func (p *pair) openWarm(ctx context.Context, size int64) (float64, error) {
	n := p.few(200)
	t, err := p.exportable(ctx, size)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	if err := p.send(t, order{Do: "open", Size: size, Keep: true}); err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := p.send(t, order{Do: "open", Size: size}); err != nil {
			return 0, err
		}
	}
	each := float64(time.Since(start)) / float64(n) / 1e3
	return each, p.tell(order{Do: "close"})
}
