package tensorfile_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// lines are connections of several kinds, none of which has room for what is written.
var lines = map[string]func(tb testing.TB) (io.ReadCloser, io.WriteCloser){
	"connection": func(testing.TB) (io.ReadCloser, io.WriteCloser) { return net.Pipe() },
	"TCP": func(tb testing.TB) (io.ReadCloser, io.WriteCloser) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Skip(err)
		}
		defer func() { _ = l.Close() }()
		w, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		r, err := l.Accept()
		if err != nil {
			tb.Fatal(err)
		}
		return r, w
	},
	"pipe of Go": func(testing.TB) (io.ReadCloser, io.WriteCloser) { return io.Pipe() },
	"pipe of the system": func(tb testing.TB) (io.ReadCloser, io.WriteCloser) {
		r, w, err := os.Pipe()
		if err != nil {
			tb.Fatal(err)
		}
		return r, w
	},
}

// line opens a connection, and closes both ends at the end of the test.
func line(tb testing.TB, kind string) (io.ReadCloser, io.WriteCloser) {
	tb.Helper()
	r, w := lines[kind](tb)
	tb.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// A reader that has nothing more does not keep Read from ending with its context, wherever it is in the message.
func TestReadEndsWithItsContext(t *testing.T) {
	data := withHeader(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, 1, 2, 3)
	for kind := range lines {
		for _, to := range targets {
			for _, n := range []int{0, 5, 20, len(data) - 1} {
				d := to.open(t)
				r, w := line(t, kind)
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					if _, err := w.Write(data[:n]); err != nil {
						t.Error(err)
					}
					cancel()
				}()
				l, err := tensorfile.Read(ctx, r, d, tensorfile.ReadOptions{})
				if err == nil {
					_ = l.Close()
				}
				if err != context.Canceled {
					t.Errorf("%s, %s: after %d bytes: %v", kind, to.name, n, err)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := bytes.NewReader(data)
	if _, err := tensorfile.Read(ctx, r, openHost(t), tensorfile.ReadOptions{}); err != context.Canceled || r.Len() != len(data) {
		t.Errorf("with a context that has ended: %v, and %d bytes are left", err, r.Len())
	}
}

// late is a connection on which a context ends when the last byte was read.
type late struct {
	net.Conn
	left   int
	cancel func()
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.left -= n; l.left == 0 {
		l.cancel()
	}
	return n, err
}

// A connection goes on after the context has ended at the end of a message.
func TestReadLeavesNoDeadline(t *testing.T) {
	data := withHeader(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, 1, 2, 3)
	r, w := net.Pipe()
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 2 {
			if _, err := w.Write(data); err != nil {
				t.Error(err)
			}
		}
	}()
	l, err := tensorfile.Read(ctx, &late{r, len(data), cancel}, openHost(t), tensorfile.ReadOptions{})
	if err == nil {
		_ = l.Close()
	} else if err != context.Canceled {
		t.Fatal(err)
	}
	l, err = tensorfile.Read(t.Context(), r, openHost(t), tensorfile.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// A deadline that the caller has set stays as long as the context.
func TestReadKeepsTheDeadlineOfTheCaller(t *testing.T) {
	r, w := net.Pipe()
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	if err := r.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := tensorfile.Read(t.Context(), r, openHost(t), tensorfile.ReadOptions{})
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// A connection that takes nothing more does not keep Write from ending with its context.
func TestWriteEndsWithItsContext(t *testing.T) {
	x := filled(t, core.TypeUint8, 16<<20) // more than the system keeps
	for kind := range lines {
		if kind == "pipe of Go" {
			continue // it has no deadlines: closing it ends the call
		}
		r, w := line(t, kind)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
				t.Error(err)
			}
			cancel()
		}()
		if err := tensorfile.Write(ctx, w, tensorfile.Safetensors, []tensorfile.Named{{Name: "x", Tensor: x}}, tensorfile.WriteOptions{}); err != context.Canceled {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// What a device has goes through connections, byte by byte as Save writes it, and stays within the budget.
func TestTensorsGoThroughConnections(t *testing.T) {
	path := mixed(t, t.TempDir())
	for kind := range lines {
		for _, to := range targets {
			from, there := to.open(t), targets[2].open(t)
			l := load(t, path, from, tensorfile.LoadOptions{})
			var tensors []tensorfile.Named
			for name, x := range l.Tensors {
				tensors = append(tensors, tensorfile.Named{Name: name, Tensor: x})
			}
			r, w := line(t, kind)
			var sent bytes.Buffer
			done := make(chan error, 1)
			go func() {
				for range 2 {
					if err := tensorfile.Write(t.Context(), w, tensorfile.Safetensors, tensors, tensorfile.WriteOptions{Budget: 128 << 10}); err != nil {
						done <- err
					}
				}
				done <- w.Close()
			}()
			in := io.TeeReader(r, &sent)
			for range 2 {
				got, err := tensorfile.Read(t.Context(), in, there, tensorfile.ReadOptions{Budget: 128 << 10})
				if err != nil {
					t.Fatalf("%s, %s: %v", kind, to.name, err)
				}
				checkRead(t, path, there, got)
			}
			if _, err := tensorfile.Read(t.Context(), in, there, tensorfile.ReadOptions{}); err != io.EOF {
				t.Errorf("%s, %s: at the end: %v", kind, to.name, err)
			}
			if err := <-done; err != nil {
				t.Errorf("%s, %s: %v", kind, to.name, err)
			}
			if want := content(t, path); !bytes.Equal(sent.Bytes(), append(want, want...)) {
				t.Errorf("%s, %s: what was sent is not the file twice", kind, to.name)
			}
		}
	}
}

// What Write allocates of the device is within the budget.
func TestWriteStaysWithinTheBudget(t *testing.T) {
	d := targets[2].open(t)
	l := load(t, mixed(t, t.TempDir()), d, tensorfile.LoadOptions{})
	pool, ok := core.As[core.PoolController](d)
	if !ok {
		t.Fatal("the device does not tell what is allocated")
	}
	var tensors []tensorfile.Named
	for name, x := range l.Tensors {
		tensors = append(tensors, tensorfile.Named{Name: name, Tensor: x})
	}
	before, most := pool.PoolStats().Requested, int64(0)
	err := tensorfile.Write(t.Context(), writerFunc(func(p []byte) (int, error) {
		most = max(most, pool.PoolStats().Requested)
		return len(p), nil
	}), tensorfile.Safetensors, tensors, tensorfile.WriteOptions{Budget: 256 << 10})
	if used := most - before; err != nil || used <= 0 || used > 256<<10 || pool.PoolStats().Requested != before {
		t.Errorf("%d bytes of buffers, and a budget of %d; %v", used, 256<<10, err)
	}
	err = tensorfile.Write(t.Context(), io.Discard, tensorfile.Safetensors, tensors, tensorfile.WriteOptions{Budget: 1})
	checkError(t, err, tensorfile.Safetensors, core.ErrInvalid, "a budget of 1 bytes")
	short := writerFunc(func(p []byte) (int, error) { return len(p) / 2, nil })
	if err := tensorfile.Write(t.Context(), short, tensorfile.Safetensors, tensors, tensorfile.WriteOptions{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that drops bytes: %v", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
