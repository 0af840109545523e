//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Data messages that break the rules end the connection, which drops what it has.
func TestHostileData(t *testing.T) {
	d := host(t)
	x := make([]byte, 3*pieceBytes)
	address := func(t *testing.T) uintptr {
		p, err := core.FromSlice(x)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		a, _ := p.Address()
		return a
	}
	small := appendMeta(nil, &meta{dtype: core.TypeUint8, shape: []int64{10}})
	large := appendMeta(nil, &meta{dtype: core.TypeUint8, shape: []int64{3 * pieceBytes}})
	huge := appendMeta(nil, &meta{dtype: core.TypeUint8, shape: []int64{1 << 40}})
	type message struct {
		data
		rest  []byte
		bytes int64
	}
	for name, messages := range map[string][]message{
		"unknown kind":               {{data{kind: 77}, nil, 0}},
		"no description":             {{data{kind: kindTensor, id: 1}, nil, 10}},
		"torn description":           {{data{kind: kindTensor, id: 1}, small[:len(small)-1], 10}},
		"too few bytes":              {{data{kind: kindTensor, id: 1}, small, 9}},
		"too many bytes":             {{data{kind: kindTensor, id: 1}, small, 11}},
		"wrong index":                {{data{kind: kindTensor, id: 1, index: 1}, small, 10}},
		"number 0":                   {{data{kind: kindTensor, id: 0}, small, 10}},
		"a far number":               {{data{kind: kindTensor, id: 5}, small, 10}},
		"twice":                      {{data{kind: kindTensor, id: 1}, small, 10}, {data{kind: kindTensor, id: 1}, small, 10}},
		"more than the limit":        {{data{kind: kindTensor, id: 1}, huge, 10}},
		"a wrong piece":              {{data{kind: kindTensor, id: 1}, large, pieceBytes}, {data{kind: kindPiece, id: 1, index: 1}, nil, 10}},
		"a piece twice":              {{data{kind: kindTensor, id: 1}, large, pieceBytes}, {data{kind: kindPiece, id: 1, index: 0}, nil, pieceBytes}},
		"a piece too many":           {{data{kind: kindTensor, id: 1}, large, pieceBytes}, {data{kind: kindPiece, id: 1, index: 3}, nil, pieceBytes}},
		"a piece of an eager tensor": {{data{kind: kindTensor, id: 1}, small, 10}, {data{kind: kindPiece, id: 1, index: 1}, nil, 10}},
		"credit for nothing":         {{data{kind: kindCredit, id: 1}, nil, 0}},
		"credit with bytes":          {{data{kind: kindCredit, id: 0}, nil, 1}},
		"credit with more":           {{data{kind: kindCredit, id: 0}, []byte{1}, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, Options{Limits: Limits{Tensors: 4, Bytes: 1 << 30}})
			for _, m := range messages {
				header := append(appendData(nil, &a.peer.token, m.data), m.rest...)
				if err := a.worker.Send(header, address(t), m.bytes, m.bytes > 8192, func(error) {}); err != nil {
					t.Fatal(err)
				}
			}
			<-b.Done()
			var typed *ConnError
			if err := b.Err(); !errors.As(err, &typed) || !errors.Is(err, core.ErrInvalid) {
				t.Errorf("the connection ended with %v", err)
			}
			<-a.Done() // it is told
			if err := a.Err(); !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrClosed) {
				t.Errorf("the hostile side ended with %v", err)
			}
			_ = b.Close()
			if s := b.Stats(); s.Waiting != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
	t.Run("a short header", func(t *testing.T) {
		a, b := connect(t, Options{})
		if err := a.worker.Send(a.peer.token[:], 0, 0, false, func(error) {}); err != nil {
			t.Fatal(err)
		}
		if <-b.Done(); !errors.Is(b.Err(), core.ErrInvalid) {
			t.Errorf("the connection ended with %v", b.Err())
		}
	})
	t.Run("another token", func(t *testing.T) { // of somebody else, so the connection goes on
		a, b := connect(t, Options{})
		var wrong [tokenSize]byte
		for _, header := range [][]byte{appendData(nil, &wrong, data{kind: 77}), {1}, bytes.Repeat([]byte{1}, 1000)} {
			if err := a.worker.Send(header, 0, 0, false, func(error) {}); err != nil {
				t.Fatal(err)
			}
		}
		y := row(t, 10, 1)
		z, _, _ := pass(t, a, b, y, d)
		wantEqual(t, y, z)
		if s := b.Stats(); s.Dropped != 3 {
			t.Errorf("stats %+v", s)
		}
	})
	t.Run("a flood with another token", func(t *testing.T) { // more than the peer may send
		a, b := connect(t, Options{Limits: Limits{Tensors: 1, Requests: 1}})
		const n = 20_000
		for range n {
			if err := a.worker.Send(make([]byte, dataSize), 0, 0, false, func(error) {}); err != nil {
				t.Fatal(err)
			}
		}
		y := row(t, 10, 1)
		z, _, _ := pass(t, a, b, y, d)
		wantEqual(t, y, z)
		if s := b.Stats(); s.Dropped != n {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestHostileControl(t *testing.T) {
	for name, say := range map[string]func(*Conn) error{
		"unknown kind": func(a *Conn) error { return a.tell(t.Context(), 77, func(b []byte) []byte { return b }) },
		"a second hello": func(a *Conn) error {
			return a.tell(t.Context(), controlHello, func(b []byte) []byte { return appendHello(b, exampleHello()) })
		},
		"a long ping": func(a *Conn) error {
			return a.tell(t.Context(), controlPing, func(b []byte) []byte { return append(b, 1) })
		},
		"a short sync": func(a *Conn) error {
			return a.tell(t.Context(), controlSync, func(b []byte) []byte { return append(b, 1) })
		},
		"a long goodbye": func(a *Conn) error {
			return a.tell(t.Context(), controlGoodbye, func(b []byte) []byte { return append(b, make([]byte, 1000)...) })
		},
		"tensors that were not sent": func(a *Conn) error {
			return a.tell(t.Context(), controlGoodbye, func(b []byte) []byte { return appendGoodbye(b, goodbye{received: 1}) })
		},
		"more tensors than are permitted": func(a *Conn) error {
			return a.tell(t.Context(), controlGoodbye, func(b []byte) []byte { return appendGoodbye(b, goodbye{sent: 65}) })
		},
		"a long message": func(a *Conn) error {
			_, err := a.socket.Write([]byte("DLXR\x01\x00\x04\x00\xff\xff\xff\xff"))
			return err
		},
		"no message": func(a *Conn) error { _, err := a.socket.Write(make([]byte, 100)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, Options{})
			if err := say(a); err != nil {
				t.Fatal(err)
			}
			<-b.Done()
			if err := b.Err(); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
	a, b := connect(t, Options{})
	if _, err := a.socket.Write([]byte("DLXR\x02\x00\x04\x00\x0c\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	<-a.Done()
	if !errors.Is(b.Err(), core.ErrVersion) || !errors.Is(a.Err(), core.ErrVersion) {
		t.Errorf("another version ends a connection with %v and %v", b.Err(), a.Err())
	}
}
