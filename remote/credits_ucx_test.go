//go:build ucx && linux && cgo

package remote

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// Several calls of Receive end at the same time. The peer, which may be an older version, is told growing numbers of tensors.
func TestCreditsDoNotOvertakeEachOther(t *testing.T) {
	d := host(t)
	n := uint64(coretest.Times(5_000, 20_000, 200_000))
	l, err := Listen("127.0.0.1:0", Options{Insecure: true, KeepAlive: maxAlive, Limits: Limits{Tensors: 2}}) // the peer shows no sign of life
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	credits := make(chan uint64, n)
	w, err := ucx.NewWorker(1000, ucx.Handler{
		Arrived: func(m *ucx.Message) bool {
			if d, _ := readData(m.Header); d.kind == kindCredit {
				credits <- d.id
			}
			return false
		},
		Broken: func(error) {}, Dropped: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	mine := exampleHello()
	mine.alive, mine.header, mine.address = defaultAlive, w.MaxHeader(), w.Address()
	(&hostile{socket, t}).say(controlHello, appendHello(nil, mine))
	_, payload, err := readControl(socket, make([]byte, usualControl))
	if err != nil {
		t.Fatal(err)
	}
	peer, err := readHello(payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Connect(peer.address); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	var receivers sync.WaitGroup
	for range 4 {
		receivers.Go(func() {
			for {
				y, _, err := c.Receive(ctx, d)
				if err != nil {
					return
				}
				_ = y.Close()
			}
		})
	}
	described := appendMeta(nil, &meta{dtype: core.TypeUint8, shape: []int64{0}})
	for sent, received := uint64(0), uint64(0); received < n; {
		for ; sent < min(received+2, n); sent++ {
			header := append(appendData(nil, &peer.token, data{kind: kindTensor, id: sent + 1}), described...)
			if err := w.Send(header, 0, 0, false, func(error) {}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case now := <-credits:
			if now <= received {
				t.Fatalf("the peer was told of %d tensors, and then of %d", received, now)
			}
			received = now
		case <-c.Done():
			t.Fatal(c.Err())
		}
	}
	enough()
	receivers.Wait()
}

// An older version may say a smaller number after a larger one.
func TestACreditThatWasOvertaken(t *testing.T) {
	a, b := connect(t, Options{})
	for range 2 {
		if _, err := a.Send(t.Context(), row(t, 8, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []uint64{2, 1} {
		if err := b.worker.Send(appendData(nil, &b.peer.token, data{kind: kindCredit, id: n}), 0, 0, false, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	x := row(t, 100, 3)
	y, _, _ := pass(t, b, a, x, host(t)) // after the credits
	wantEqual(t, x, y)
	if err := a.WaitReceived(t.Context()); err != nil {
		t.Error(err)
	}
}
