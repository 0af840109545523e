package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"unsafe"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/flight"
)

// serve is the process at the other end. It prints the address of the bare connection and those of a server for each
// size of batches and of windows, and ends with its input.
func serve(bytes string) (err error) {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	d, err := openCPU(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	t, err := newTensor(ctx, d, n)
	if err != nil {
		return err
	}
	defer t.Close()
	data, err := core.Values[float32](t)
	if err != nil {
		return err
	}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.Close()
	go answer(bare, asBytes(data))
	fmt.Println(bare.Addr())
	var servers []flight.ServerOptions
	for _, batch := range (&settings{bytes: n}).batches() {
		servers = append(servers, flight.ServerOptions{BatchBytes: batch})
	}
	for _, window := range windows {
		servers = append(servers, flight.ServerOptions{BatchBytes: usualBatch, Window: window})
	}
	for _, o := range servers {
		o.Insecure, o.Device = true, d
		s, err := flight.NewServer(o)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.Offer("tensor", t); err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() {
			if err := s.Serve(l); err != nil {
				fmt.Fprintln(os.Stderr, "speed: server:", err)
			}
		}()
		fmt.Println(l.Addr())
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// answer writes all of data for each byte that arrives.
func answer(l net.Listener, data []byte) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(c, one); err != nil {
			return
		}
		if _, err := c.Write(data); err != nil {
			return
		}
	}
}

func openCPU(ctx context.Context) (core.Device, error) { return cpu.New().Open(ctx, core.CPU) }

// newTensor returns a tensor with n bytes, whose pages are in memory.
func newTensor(ctx context.Context, d core.Device, n int64) (*core.Tensor, error) {
	t, err := core.Empty(ctx, d, core.TypeFloat32, []int64{n / rowBytes, rowElements}, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	return t, core.Fill(ctx, t, float32(1.5))
}

// asBytes returns the memory of elements.
func asBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
