package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// other is what the other process of a pair holds.
type other struct {
	host   core.Device
	socket *net.UnixConn
	ring   *ring
	held   *core.Tensor // memory that was opened, and not closed yet
	own    *core.Tensor // where messages are copied to
}

// serveOther is the other process of a pair: it follows orders until the socket is closed.
func serveOther(ctx context.Context, b *bench, stderr io.Writer) int {
	socket, err := connect(pairFD)
	if err != nil {
		fmt.Fprintln(stderr, "this is the second process of a measurement, which starts it:", err)
		return 2
	}
	defer socket.Close()
	host, err := b.registry.Open(ctx, core.CPU)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	o := &other{host: host, socket: socket}
	defer o.close()
	buffer := make([]byte, 4096)
	for {
		n, err := socket.Read(buffer)
		if errors.Is(err, io.EOF) || n == 0 {
			return 0
		}
		var wanted order
		if err == nil {
			err = strictjson.Unmarshal(buffer[:n], &wanted)
		}
		if err == nil {
			err = o.follow(ctx, wanted)
		}
		if err = o.reply(err); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
	}
}

func (o *other) close() {
	o.drop()
	if o.own != nil {
		_ = o.own.Close()
	}
	if o.ring != nil {
		o.ring.close()
	}
	_ = o.host.Close()
}

func (o *other) drop() {
	if o.held != nil {
		_ = o.held.Close()
		o.held = nil
	}
}

func (o *other) reply(err error) error {
	var r reply
	if err != nil {
		r.Error = err.Error()
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = o.socket.Write(text)
	return err
}

func (o *other) follow(ctx context.Context, wanted order) error {
	switch wanted.Do {
	case "ring":
		return o.takeRing(ctx, wanted.Size)
	case "open":
		return o.openOnce(ctx, wanted)
	case "close":
		o.drop()
		return nil
	case "echo":
		return o.echo(wanted.N)
	case "poll", "take", "copy":
		if o.ring == nil {
			return errors.New("there is no ring yet")
		}
		if err := o.prepare(ctx, wanted); err != nil {
			return err
		}
		if err := o.reply(nil); err != nil { // ready
			return err
		}
		return o.readMessages(ctx, wanted)
	default:
		return fmt.Errorf("%q is no order", wanted.Do)
	}
}

// receive opens the memory of the message that follows, through the cache of openings that package exchange has.
func (o *other) receive(ctx context.Context, bytes int64) (*core.Tensor, error) {
	data, control := make([]byte, 512), make([]byte, 128)
	n, controls, _, _, err := o.socket.ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	var fds []int
	messages, err := syscall.ParseSocketControlMessage(control[:controls])
	for i := range messages {
		received, failed := syscall.ParseUnixRights(&messages[i])
		fds, err = append(fds, received...), errors.Join(err, failed)
	}
	var m core.ExternalMemory
	if err == nil {
		m, err = core.UnmarshalExternalMemory(data[:n], fds)
	}
	if err != nil { // the descriptors are still ours
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		return nil, err
	}
	defer m.Close() // does nothing after a success
	return exchange.Open(ctx, o.host, m, core.Spec{DType: core.TypeUint64, Shape: []int64{bytes / wordBytes}})
}

func (o *other) takeRing(ctx context.Context, size int64) error {
	if o.ring != nil {
		o.ring.close()
		o.ring = nil
	}
	t, err := o.receive(ctx, ringBytes(size))
	if err != nil {
		return err
	}
	o.ring, err = newRing(t, size)
	return err
}

func (o *other) openOnce(ctx context.Context, wanted order) error {
	t, err := o.receive(ctx, wanted.Size)
	if err != nil {
		return err
	}
	words, err := core.Mutable[uint64](t)
	if err == nil && atomic.LoadUint64(&words[0])|atomic.LoadUint64(&words[len(words)-1]) != 0 {
		err = errors.New("new memory is not zero")
	}
	if err == nil && wanted.Keep {
		o.drop()
		o.held = t
		return nil
	}
	return errors.Join(err, t.Close())
}

// echo answers messages of the socket, after it has said that it is ready.
func (o *other) echo(n int) error {
	if err := o.reply(nil); err != nil {
		return err
	}
	message := make([]byte, wordBytes)
	for range n {
		if _, err := o.socket.Read(message); err != nil {
			return err
		}
		if _, err := o.socket.Write(message); err != nil {
			return err
		}
	}
	return nil
}

// prepare allocates what messages are copied to, off the clock.
func (o *other) prepare(ctx context.Context, wanted order) error {
	if wanted.Do != "copy" || o.own != nil && o.own.NumBytes() == wanted.Size {
		return nil
	}
	if o.own != nil {
		_ = o.own.Close()
	}
	var err error
	if o.own, err = core.Empty(ctx, o.host, core.TypeUint64, []int64{wanted.Size / wordBytes}, core.AllocOptions{}); err != nil {
		o.own = nil
		return err
	}
	words, err := core.Mutable[uint64](o.own)
	clear(words) // pages that nobody has written to are slow at first
	return err
}

// readMessages takes the messages one after the other, and at the end checks the last one.
func (o *other) readMessages(ctx context.Context, wanted order) error {
	last := wanted.First + uint64(wanted.N) - 1
	for number := wanted.First; number <= last; number++ {
		if err := o.ring.await(written, number); err != nil {
			return err
		}
		if wanted.Do == "copy" {
			if err := o.host.Copy(ctx, nil, o.own, o.ring.places[number%ringLen]); err != nil {
				return err
			}
		}
		atomic.StoreUint64(&o.ring.words[wereRead], number)
	}
	if wanted.Do == "poll" {
		return nil
	}
	t := o.ring.places[last%ringLen]
	if wanted.Do == "copy" {
		t = o.own
	}
	words, err := core.Mutable[uint64](t)
	if err != nil {
		return err
	}
	for i, w := range words {
		if w != uint64(i) {
			return fmt.Errorf("word %d of the last message is %d", i, w)
		}
	}
	return nil
}
