//go:build cgo && !windows

package dlpack_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// FuzzImport reads a foreign struct out of the bytes, imports it in both forms,
// and re-exports what was taken. Whatever it says, nothing may crash or leak, and
// the deleter is called once.
func FuzzImport(f *testing.F) {
	f.Add([]byte{}, int64(-1))
	f.Add(seed(1, 0, 2, 2, 32, []int64{2, 3}, []int64{3, 1}), int64(24))
	f.Add(seed(2, 0, 2, 2, 32, []int64{2, 3}, nil), int64(24))
	f.Add(seed(1, 5, 2, 17, 4, []int64{-2, 1 << 62}, []int64{1 << 62, -1 << 63}), int64(0))
	f.Add(seed(1, 0, 1<<31-1, 6, 1, []int64{0}, nil), int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		fields := fieldsOf(data)
		for _, s := range bothStructs {
			p := s.new(fields)
			options := dlpack.ImportOptions{Size: size}
			var d dlpack.Description
			versioned := s.name == "versioned"
			var read error
			if versioned {
				read = d.Read(p.Versioned(), options)
			}
			tensor, err := s.take(p, options)
			if versioned {
				wantDescribed(t, &d, tensor, read, err)
			}
			if err == nil {
				reexport(t, tensor)
				closeTensor(t, tensor)
				dlpack.Flush()
			} else if typed := new(core.Error); !errors.As(err, &typed) {
				t.Errorf("untyped error %v", err)
			}
			want := map[bool]int{false: 1, true: 0}[fields.NoDeleter]
			// Flush gives up after a second, and a busy machine can stand still for longer.
			for end := time.Now().Add(20 * time.Second); p.Deleted() < want && time.Now().Before(end); dlpack.Flush() {
				time.Sleep(time.Millisecond)
			}
			if p.Deleted() != want {
				t.Errorf("%s: the deleter was called %d times, want %d; error: %v", s.name, p.Deleted(), want, err)
			}
			p.Free()
		}
	})
}

// reexport checks that an imported tensor survives an export and another import.
func reexport(t *testing.T, tensor *core.Tensor) {
	m, err := dlpack.Export(tensor)
	if err != nil {
		t.Errorf("%v was imported but cannot be exported: %v", tensor, err)
		return
	}
	again, err := dlpack.Import(m, dlpack.ImportOptions{})
	if err != nil {
		t.Errorf("%v was exported but cannot be imported: %v", tensor, err)
		return
	}
	defer closeTensor(t, again)
	if !again.Layout().Equal(tensor.Layout()) || again.DType() != tensor.DType() || again.DeviceID() != tensor.DeviceID() {
		t.Errorf("%v came back as %v", tensor, again)
	}
}

// seed is the inverse of fieldsOf.
func seed(major, flags uint64, ndim uint32, code, bits uint8, shape, strides []int64) []byte {
	b := []byte{code, bits, 1, 1, byte(len(shape)), byte(len(strides))}
	b = binary.LittleEndian.AppendUint32(b, ndim)
	b = binary.LittleEndian.AppendUint64(b, major)
	b = binary.LittleEndian.AppendUint64(b, flags)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, v := range append(append([]int64{}, shape...), strides...) {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// fieldsOf reads hostile fields; what is missing is 0. The struct may claim any
// ndim, but where it is one that is not refused at once, shape and strides have
// as many entries: the struct cannot tell how long they really are.
func fieldsOf(data []byte) hostile.Fields {
	next := func(n int) uint64 {
		var b [8]byte
		data = data[copy(b[:n], data):]
		return binary.LittleEndian.Uint64(b[:])
	}
	f := hostile.Fields{
		DType:  abi.DataType{Code: uint8(next(1)), Bits: uint8(next(1)), Lanes: uint16(next(1))},
		Device: abi.Device{Type: int32(int8(next(1)))},
	}
	hasShape, hasStrides := next(1), next(1)
	f.NDim = int32(next(4))
	f.Version = abi.Version{Major: uint32(next(8)), Minor: 3}
	f.Flags = next(8)
	f.ByteOffset = next(8)
	f.NoDeleter = hasShape&0x40 != 0
	if hasShape&0x80 == 0 {
		f.Data = memory()
	}
	room := min(max(int(f.NDim), 0), core.MaxRank)
	dims := func() []int64 {
		v := make([]int64, room)
		for i := range v {
			v[i] = int64(next(8))
		}
		return v
	}
	if hasShape&0x3f != 0 {
		f.Shape = dims()
	}
	if hasStrides != 0 {
		f.Strides = dims()
	}
	return f
}
