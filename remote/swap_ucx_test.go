//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Two sides that exchange rows at once, each from memory that the other one overwrites, do not wait for each other.
func TestTwoPutsAtOnce(t *testing.T) {
	ctx, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	d := host(t)
	t.Run("one process", func(t *testing.T) {
		a, b := connect(t, Options{})
		other := make(chan error, 1)
		go func() { other <- swap(ctx, b, d, 1) }()
		if err := errors.Join(swap(ctx, a, d, 0), <-other); err != nil {
			t.Error(err)
		}
	})
	t.Run("two processes", func(t *testing.T) {
		t.Setenv(swapVariable, "1")
		l, err := Listen("127.0.0.1:0", Options{Insecure: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := child(t, l)
		c, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := errors.Join(swap(ctx, c, d, 0), c.WaitReceived(ctx)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := p.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
}

// swapVariable makes the other process that of TestTwoPutsAtOnce.
const swapVariable = "DLX_REMOTE_SWAP"

// swapPeer is side 1 of swap in a process of its own.
func swapPeer(address string) {
	ctx, enough := context.WithTimeout(context.Background(), time.Minute)
	defer enough()
	err := func() error {
		d, err := cpu.New().Open(ctx, core.CPU)
		if err != nil {
			return err
		}
		c, err := Dial(ctx, address, Options{Insecure: true})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := swap(ctx, c, d, 1); err != nil {
			return err
		}
		<-c.Done() // the other side needs the last message
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// swap offers two rows, and overwrites the second row of the other side with the first one, as that side does at the same time.
func swap(ctx context.Context, c *Conn, d core.Device, side uint64) error {
	const n, rounds = 100_000, 40
	memory := make([]byte, 2*n)
	x, err := core.FromSlice(memory, 2, n)
	if err != nil {
		return err
	}
	defer x.Close()
	first, err := x.Slice(0, 0, 1, 1)
	if err != nil {
		return err
	}
	defer first.Close()
	f, err := c.Offer(x, OfferOptions{Writable: true, Name: "rows"})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := rendezvous(ctx, c, d); err != nil {
		return err
	}
	offers, err := c.List(ctx)
	if err != nil {
		return err
	}
	for i := range uint64(rounds) {
		copy(memory, coretest.Pattern(n, 2*i+side))
		r, err := c.PutRows(ctx, offers[0].Descriptor, 1, first)
		if err != nil {
			return fmt.Errorf("side %d, round %d: %w", side, i, err)
		}
		if r.BytesCopied != n || !strings.Contains(r.Reason, "offers as writable") {
			return fmt.Errorf("the report is\n%v", r)
		}
		if err := rendezvous(ctx, c, d); err != nil {
			return err
		}
		if err := x.WaitIdle(ctx); err != nil {
			return err
		}
		if !bytes.Equal(memory[n:], coretest.Pattern(n, 2*i+1-side)) {
			return fmt.Errorf("side %d has other elements after round %d", side, i)
		}
		if err := rendezvous(ctx, c, d); err != nil {
			return err
		}
	}
	return nil
}

// rendezvous waits for the other side.
func rendezvous(ctx context.Context, c *Conn, d core.Device) error {
	x, err := core.FromSlice([]byte{1})
	if err != nil {
		return err
	}
	defer x.Close()
	if _, err := c.Send(ctx, x); err != nil {
		return err
	}
	y, _, err := c.Receive(ctx, d)
	if err != nil {
		return err
	}
	return y.Close()
}
