//go:build linux && cgo

package ptx_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

// accessText is a kernel in which thread t reads 4 bytes at 4 t step, by way of shared memory.
const accessText = `.version 6.0
.target sm_50
.address_size 64
.shared .align 4 .b8 room[16384];
.visible .entry k(.param .u64 from, .param .u32 step)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [from];
	ld.param.u32 %r1, [step];
	mov.u32 %r2, %tid.x;
	mul.lo.u32 %r3, %r2, %r1;
	shl.b32 %r3, %r3, 2;
	cvt.u64.u32 %rd2, %r3;
	add.u64 %rd3, %rd1, %rd2;
	ld.global.u32 %r4, [%rd3];
	mov.u32 %r5, room;
	add.u32 %r5, %r5, %r3;
	st.shared.u32 [%r5], %r4;
	ret;
}
`

// Neighbours that access neighbouring words need one transaction for a warp; a step needs as many as it
// spreads them.
func TestTransactions(t *testing.T) {
	m, err := ptx.Load(accessText)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f, err := m.Function("k")
	if err != nil {
		t.Fatal(err)
	}
	memory := ptx.Memory{Address: 0x1000, Bytes: make([]byte, 16384)}
	for _, c := range []struct {
		step           uint32
		global, shared int // of two warps
	}{{0, 2, 2}, {1, 2, 2}, {2, 4, 4}, {3, 6, 2}, {32, 64, 64}, {33, 64, 2}} {
		from, step := binary.LittleEndian.AppendUint64(nil, memory.Address), binary.LittleEndian.AppendUint32(nil, c.step)
		accesses, err := f.Trace([3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}, []ptx.Memory{memory}, from, step)
		if err != nil {
			t.Fatal(err)
		}
		if len(accesses) != 2*64 {
			t.Fatalf("%d accesses", len(accesses))
		}
		for _, a := range accesses {
			if a.Block != 0 || a.Thread > 63 || a.Bytes != 4 || a.Write != a.Shared || a.Write != (a.Line == 19) {
				t.Errorf("%+v", a)
			}
		}
		if global, shared := ptx.Transactions(accesses); global != c.global || shared != c.shared {
			t.Errorf("step %d: %d and %d transactions, want %d and %d", c.step, global, shared, c.global, c.shared)
		}
	}
	// A fault ends the trace, and the next launch is not traced.
	bad, step := binary.LittleEndian.AppendUint64(nil, 0), binary.LittleEndian.AppendUint32(nil, 1)
	if accesses, err := f.Trace([3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}, []ptx.Memory{memory}, bad, step); !errors.Is(err, ptx.ErrBadAccess) || accesses != nil {
		t.Errorf("%d accesses, %v", len(accesses), err)
	}
}
