//go:build ucx && linux && cgo

package remote

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// A list has the offers of the listener and of the connection that have names, in order, also if they take several messages.
func TestList(t *testing.T) {
	l, err := Listen("127.0.0.1:0", Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := Dial(t.Context(), l.Addr().String(), Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("an empty list is %v: %v", list, err)
	}
	x := row(t, 10, 1)
	offers := []interface {
		Offer(*core.Tensor, OfferOptions) (*Offer, error)
	}{l, a}
	var all []*Offer
	const n = 1500 // in several messages, each of more offers than one side has for it
	for i := range n {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("x", i%2*maxLabel/2))
		f, err := offers[i%7/6].Offer(x, OfferOptions{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if _, err := l.Offer(x, OfferOptions{}); err != nil { // has no name
		t.Fatal(err)
	}
	check := func(want []*Offer) {
		t.Helper()
		list, err := b.List(t.Context())
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d offers, want %d: %v", len(list), len(want), err)
		}
		for i, f := range want {
			if list[i].Name != f.name || string(list[i].Descriptor) != string(f.Descriptor()) {
				t.Fatalf("offer %d is %q, want %q", i, list[i].Name, f.name)
			}
		}
	}
	check(all)
	if _, err := l.Offer(x, OfferOptions{Name: "0"}); !errors.Is(err, core.ErrExists) {
		t.Errorf("the name twice: %v", err)
	}
	if _, err := l.Offer(x, OfferOptions{Name: strings.Repeat("x", maxLabel+1)}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a long name: %v", err)
	}
	for i := range n / 2 { // those that have ended are not listed, and their names are free
		_ = all[i].Close()
	}
	check(all[n/2:])
	again, err := l.Offer(x, OfferOptions{Name: "0"})
	if err != nil {
		t.Fatal(err)
	}
	check(append(all[n/2:], again))
	y, _, err := b.Fetch(t.Context(), again.Descriptor(), host(t))
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	wantEqual(t, x, y)

	b.peer.features = 0 // a peer of an older version
	_, listed := b.List(t.Context())
	_, summed := b.Checksum(t.Context(), again.Descriptor(), 0, -1)
	if !errors.Is(listed, core.ErrNotSupported) || !errors.Is(summed, core.ErrNotSupported) {
		t.Errorf("with an older peer: %v, %v", listed, summed)
	}
}

// The checksum that the owner of the elements computes is that of the fetched elements.
func TestChecksum(t *testing.T) {
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	const n = 2*pieceBytes + 102
	there := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{n}, core.AllocOptions{}))
	coretest.Put(t, d, there, coretest.Pattern(n, 1))
	matrix := keep(row(t, n, 1).Reshape(10, n/10))
	for name, c := range map[string]struct {
		offered     *core.Tensor
		writable    bool
		start, stop int64
		want        []byte
	}{
		"host":      {matrix, false, 0, -1, coretest.Pattern(n, 1)},
		"rows":      {matrix, false, 2, 9, coretest.Pattern(n, 1)[2*n/10 : 9*n/10]},
		"writable":  {matrix, true, 9, 10, coretest.Pattern(n, 1)[9*n/10:]},
		"strided":   {keep(keep(row(t, 6, 1).Reshape(2, 3)).Transpose()), false, 0, -1, transposed(coretest.Pattern(6, 1), 2, 3)},
		"device":    {there, false, 0, -1, coretest.Pattern(n, 1)},
		"a part":    {there, false, 50, n - 20, coretest.Pattern(n, 1)[50 : n-20]},
		"empty":     {keep(matrix.Slice(0, 5, 5, 1)), false, 0, -1, nil},
		"no rows":   {matrix, false, 3, 3, nil},
		"one value": {keep(row(t, 1, 1).Reshape()), false, 0, -1, coretest.Pattern(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := offer(t, a, c.offered, OfferOptions{Writable: c.writable})
			sum, err := b.Checksum(t.Context(), f.Descriptor(), c.start, c.stop)
			if err != nil || sum != sha256.Sum256(c.want) {
				t.Fatalf("checksum %x: %v", sum, err)
			}
			y, _, err := b.FetchRows(t.Context(), f.Descriptor(), c.start, c.stop, d)
			if err != nil {
				t.Fatal(err)
			}
			defer y.Close()
			if again, err := Sum(t.Context(), y); err != nil || again != sum {
				t.Errorf("the fetched elements have the checksum %x: %v", again, err)
			}
		})
	}
	f := offer(t, a, matrix, OfferOptions{})
	if _, err := b.Checksum(t.Context(), f.Descriptor(), 5, 11); !errors.Is(err, core.ErrLayout) {
		t.Errorf("rows that there are not: %v", err)
	}
	_ = f.Close()
	if _, err := b.Checksum(t.Context(), f.Descriptor(), 0, -1); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after the offer: %v", err)
	}
	if err := b.Err(); err != nil {
		t.Error(err)
	}
}

func transposed(b []byte, rows, columns int) (x []byte) {
	for c := range columns {
		for r := range rows {
			x = append(x, b[r*columns+c])
		}
	}
	return x
}

// Answers that break the rules end the connection of whoever asked.
func TestHostileLists(t *testing.T) {
	entry := exampleList()[8:]
	endless := append(le.AppendUint64(nil, 7), entry...)
	for name, answer := range map[string][]byte{
		"short": {1}, "a torn entry": append(make([]byte, 8), entry[:len(entry)-1]...), "three bytes": append(make([]byte, 8), 1, 2, 3),
		"no name": append(make([]byte, 8), 0, 0, 1, 0, 1), "no descriptor": append(make([]byte, 8), 1, 0, 0, 0, 'x'),
		"more of nothing": le.AppendUint64(nil, 1), "the same again": endless,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, Options{})
			stop := make(chan struct{})
			go func() { // answers all questions that may come
				defer close(stop)
				for id := uint64(1); id <= 2 && b.Err() == nil; id++ {
					for b.Err() == nil && !b.isAsking(id) {
						runtime.Gosched()
					}
					_ = a.tell(t.Context(), controlListed, func(b []byte) []byte { return append(le.AppendUint64(b, id), answer...) })
				}
			}()
			b.mu.Lock()
			b.peer.features = featureList
			b.mu.Unlock()
			a.own.mu.Lock() // the real answer does not come
			_, err := b.List(t.Context())
			a.own.mu.Unlock()
			<-stop
			if !errors.As(err, new(*ConnError)) || !errors.Is(err, core.ErrInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
	for name, say := range map[string]struct {
		k       control
		payload []byte
	}{
		"an answer to nothing": {controlListed, le.AppendUint64(nil, 1)},
		"an answer to 0":       {controlSummed, make([]byte, 40)},
		"a short answer":       {controlListed, make([]byte, 7)},
		"a short question":     {controlList, make([]byte, 15)},
		"a short request":      {controlSum, make([]byte, 47)},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, Options{})
			if err := a.tell(t.Context(), say.k, func(b []byte) []byte { return append(b, say.payload...) }); err != nil {
				t.Fatal(err)
			}
			<-b.Done()
			if err := b.Err(); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// A peer cannot fill the memory by its list.
func TestAListOfTooManyBytes(t *testing.T) {
	setFor(t, &maxListBytes, 2<<10)
	a, b := connect(t, Options{})
	for _, initial := range []string{"x", "y"} {
		if list, err := b.List(t.Context()); err != nil {
			t.Errorf("%d offers: %v", len(list), err)
		}
		offer(t, a, row(t, 1, 1), OfferOptions{Name: strings.Repeat(initial, maxLabel)})
	}
	if list, err := b.List(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("%d offers of %d bytes each: %v", len(list), maxLabel, err)
	}
	if err := b.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}
