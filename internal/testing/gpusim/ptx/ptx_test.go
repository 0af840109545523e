//go:build linux && cgo

package ptx_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

const header = ".version 6.0\n.target sm_50\n.address_size 64\n"

// kernel is an entry "k" with registers of all kinds, and the address of its memory in %rd10.
func kernel(body string) string {
	return header + `.visible .entry k(.param .u64 k_memory)
{
	.reg .pred %p<10>;
	.reg .b16 %rs<12>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<12>;
	.shared .align 8 .b8 tile[128];
	ld.param.u64 %rd10, [k_memory];
` + body + "\n}\n"
}

func load(t testing.TB, text string) (*ptx.Module, ptx.Function) {
	t.Helper()
	m, err := ptx.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	f, err := m.Function("k")
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

const address = 0x7_0000_0000

// run runs a kernel on memory.
func run(f ptx.Function, grid, block [3]uint32, memory []byte) error {
	return f.Run(grid, block, []ptx.Memory{{Address: address, Bytes: memory}}, binary.LittleEndian.AppendUint64(nil, address))
}

var one = [3]uint32{1, 1, 1}

func TestWhatIsNotCoveredOrWrongIsAnError(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an instruction", kernel("add.f32 %r0, %r1, %r2;"), "line 12: the instruction add.f32 is not covered"},
		{"an instruction that there is not", kernel("frob;"), "the instruction frob"},
		{"a way of an instruction", kernel("add.sat.s32 %r0, %r1, %r2;"), "add.sat.s32"},
		{"an atomic", kernel("atom.global.add.u32 %r0, [%rd0], 1;"), "atom.global.add.u32"},
		{"a floating conversion", kernel("cvt.rn.f32.u64 %r0, %rd1;"), "cvt.rn.f32.u64"},
		{"local memory", kernel("ld.local.u32 %r0, [%rd0];"), "ld.local.u32"},
		{"a store of a parameter", kernel("st.param.u64 [k_memory], %rd0;"), "st.param.u64"},
		{"a barrier of some threads", kernel("bar.sync 0, 32;"), ", stands where ; should be"},
		{"a barrier that there is not", kernel("bar.sync 16;"), "barriers 0 to 15"},
		{"a register that there is not", kernel("mov.u32 %r0, %r12;"), "%r12"},
		{"a register with a zero before its number", kernel("mov.u32 %r0, %r01;"), "%r01"},
		{"a register too narrow", kernel("add.s64 %rd0, %rd1, %r0;"), "%r0 has 32 bits, the instruction takes 64"},
		{"a register too wide", kernel("add.s32 %r0, %r1, %rd0;"), "%rd0 has 64 bits"},
		{"a guard that is no predicate", kernel("@%r0 ret;"), "%r0 has 32 bits"},
		{"a store to a constant address in a register of 32 bits", kernel("st.global.u32 [%r0], 1;"), "takes 64"},
		{"a load past a parameter", kernel("ld.param.u64 %rd0, [k_memory+8];"), "goes past the parameter"},
		{"a load before a parameter", kernel("ld.param.u32 %r0, [k_memory+-4];"), "goes past the parameter"},
		{"a parameter by address", kernel("ld.param.u64 %rd0, [%rd1];"), "read by name"},
		{"a shared variable as device memory", kernel("ld.global.u32 %r0, [tile];"), "lies in shared memory"},
		{"a vector with too few words", kernel("ld.global.v4.u32 {%r0, %r1}, [%rd0];"), "stands where , should be"},
		{"a vector that is too wide", kernel("ld.global.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [%rd0];"), "ld.global.v4.u64"},
		{"a branch to nowhere", kernel("bra nowhere;"), "line 12: there is no label nowhere"},
		{"a label twice", kernel("a: a: ret;"), "a is declared twice"},
		{"registers twice", kernel(".reg .b32 %r<3>;"), "%r is declared twice"},
		{"too many registers", kernel(".reg .b32 %x<9000>;"), "too many registers"},
		{"too many registers together", kernel(".reg .b32 %x<5000>; .reg .b32 %y<5000>;"), "more than 8192"},
		{"too much shared memory", kernel(".shared .b8 much[50000];"), "49152 bytes"},
		{"an overflowing size", kernel(".shared .b64 much[0x2000000000000001];"), "49152 bytes"},
		{"an inner block", kernel("{ ret; }"), "the instruction {"},
		{"no semicolon", kernel("ret"), "} stands where ; should be"},
		{"an entry twice", kernel("ret;") + ".entry k() { ret; }", "k is defined twice"},
		{"an entry without end", header + ".entry k() { ret;", "the text ends"},
		{"a comment without end", header + "/* ", "a comment has no end"},
		{"a function", header + ".func f() { ret; }", ".func is not covered"},
		{"a global variable", header + ".global .u32 x;", ".global is not covered"},
		{"dynamic shared memory", header + ".extern .shared .b8 x[];", ".extern is not covered"},
		{"addresses of 32 bits", ".version 6.0\n.target sm_50\n.address_size 32\n", "64 bits"},
		{"a number beyond 64 bits", kernel("mov.u64 %rd0, 18446744073709551616;"), "beyond 64 bits"},
		{"a number that is none", kernel("mov.u64 %rd0, 12a;"), "12a is no number"},
		{"no module", "hello", "hello stands where .version should be"},
		{"nothing", "", "the text ends where .version should be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ptx.Load(c.text)
			if err == nil {
				m.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, want %q", err, c.want)
			}
		})
	}
}

func TestEveryThreadKnowsItsPlace(t *testing.T) {
	_, f := load(t, kernel(`
	// One byte for each thread of each block.
	mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
	mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
	mov.u32 %r1, %ntid.z; mov.u32 %r2, %tid.z; mad.lo.u32 %r0, %r0, %r1, %r2;
	mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
	mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
	cvt.u64.u32 %rd0, %r0; add.s64 %rd0, %rd10, %rd0;
	ld.global.u8 %r1, [%rd0]; add.u32 %r1, %r1, 1; st.global.u8 [%rd0], %r1;`))
	memory := make([]byte, 2*3*4*5*3*2)
	if err := run(f, [3]uint32{2, 3, 4}, [3]uint32{5, 3, 2}, memory); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.Compact(memory)); n != 1 || memory[0] != 1 {
		t.Errorf("not every thread ran once: %v", memory)
	}
}

// exchange has each thread give its number to the thread across the block.
const exchange = `
	mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; sub.u32 %r1, %r1, %r0; sub.u32 %r1, %r1, 1;
	mov.u64 %rd0, tile; cvt.u64.u32 %rd1, %r0; add.s64 %rd1, %rd0, %rd1; cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd0, %rd2;
	st.shared.u8 [%rd1], %r0;
	BARRIER
	ld.shared.u8 %r2, [%rd2];
	cvt.u64.u32 %rd3, %r0; add.s64 %rd3, %rd10, %rd3; st.global.u8 [%rd3], %r2;`

func TestABarrierOrdersTheThreadsOfABlock(t *testing.T) {
	block := [3]uint32{100, 1, 1}
	_, with := load(t, kernel(strings.Replace(exchange, "BARRIER", "bar.sync 0;", 1)))
	_, without := load(t, kernel(strings.Replace(exchange, "BARRIER", "", 1)))
	got, wrong := make([]byte, 100), make([]byte, 100)
	if err := run(with, one, block, got); err != nil {
		t.Fatal(err)
	}
	if err := run(without, one, block, wrong); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != byte(99-i) {
			t.Fatalf("thread %d read %d", i, got[i])
		}
	}
	if slices.Equal(got, wrong) {
		t.Error("a missing barrier does not show")
	}
}

func TestLaunchesFail(t *testing.T) {
	two := [3]uint32{2, 1, 1}
	for _, c := range []struct {
		name, body  string
		grid, block [3]uint32
		want        error
		text        string
	}{
		{"a read past the memory", "ld.global.u32 %r0, [%rd10+64];", one, one, ptx.ErrBadAccess, "line 12, ld.global.u32, thread (0, 0, 0) of block (0, 0, 0): 4 bytes at 0x700000040"},
		{"a read across the end", "add.s64 %rd10, %rd10, 63; ld.global.v2.u8 {%rs0, %rs1}, [%rd10+-1]; ld.global.u16 %rs0, [%rd10+1];", one, one, ptx.ErrBadAccess, "ld.global.u16"},
		{"a write before it", "st.global.u8 [%rd10+-1], 1;", one, one, ptx.ErrBadAccess, "1 bytes at 0x6ffffffff"},
		{"an address that wraps", "mov.u64 %rd0, -4; ld.global.u64 %rd1, [%rd0+4];", one, one, ptx.ErrBadAccess, "0x0"},
		{"shared memory past the end", "ld.shared.u64 %rd0, [tile+128];", one, one, ptx.ErrBadAccess, "memory of the block"},
		{"shared memory before the start", "ld.shared.u64 %rd0, [tile+-8];", one, one, ptx.ErrBadAccess, "memory of the block"},
		{"an address that is not aligned", "ld.global.v2.u32 {%r0, %r1}, [%rd10+4];", one, one, ptx.ErrMisaligned, "0x700000004 is no multiple of 8"},
		{"a trap", "mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 1; @%p0 trap;", two, one, ptx.ErrFailed, "block (1, 0, 0)"},
		{"a barrier that one thread misses", "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 1; @%p0 bar.sync 0;", one, two, ptx.ErrFailed, "line 12, bar.sync, thread (1, 0, 0)"},
		{"threads at two barriers", "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 1; @%p0 bar.sync 0; @!%p0 bar.sync 0;", one, two, ptx.ErrFailed, "barrier"},
		{"a loop without end", "again: bra again;", one, one, ptx.ErrEndless, "1000 branches"},
		{"no blocks", "", [3]uint32{1, 0, 1}, one, ptx.ErrBadLaunch, "1 x 0 x 1 blocks"},
		{"no threads", "", one, [3]uint32{}, ptx.ErrBadLaunch, "0 x 0 x 0 threads"},
		{"too many threads", "", one, [3]uint32{32, 33, 1}, ptx.ErrBadLaunch, "1 to 1024 threads"},
		{"threads beyond 32 bits", "", one, [3]uint32{1 << 31, 1 << 31, 4}, ptx.ErrBadLaunch, "1 to 1024 threads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, f := load(t, kernel(c.body))
			m.SetPatience(1000)
			err := run(f, c.grid, c.block, make([]byte, 64))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	_, f := load(t, kernel("st.global.u8 [%rd10], 1;"))
	memory := []ptx.Memory{{Address: address, Bytes: make([]byte, 8), ReadOnly: true}}
	if err := f.Run(one, one, memory, make([]byte, 8)); !errors.Is(err, ptx.ErrBadAccess) {
		t.Errorf("a null pointer: %v", err)
	}
	if err := f.Run(one, one, memory, binary.LittleEndian.AppendUint64(nil, address)); !errors.Is(err, ptx.ErrBadAccess) {
		t.Errorf("a write of what can only be read: %v", err)
	}
	if err := f.Run(one, one, memory, make([]byte, 4)); !errors.Is(err, ptx.ErrBadLaunch) {
		t.Errorf("a parameter of the wrong size: %v", err)
	}
}

func TestFunctionsSayWhatTheyTake(t *testing.T) {
	m, err := ptx.Load(header + `
.shared .align 4 .b8 both[12];
.visible .entry first(.param .u8 a, .param .align 16 .b8 b[112], .param .u64 .ptr .global .align 8 c)
.maxntid 16, 4, 1
.minnctapersm 2
{
	.shared .u64 own;
	.pragma "nounroll";
	ret;
}
.weak .entry second() { ret; }`)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	first, err := m.Function("first")
	if err != nil {
		t.Fatal(err)
	}
	if got := first.ParamSizes(); !slices.Equal(got, []int{1, 112, 8}) {
		t.Errorf("parameters of %v bytes", got)
	}
	if first.MaxThreads() != 64 || first.SharedSize() != 24 {
		t.Errorf("%d threads, %d bytes of shared memory", first.MaxThreads(), first.SharedSize())
	}
	if second, err := m.Function("second"); err != nil || second.MaxThreads() != 1024 || len(second.ParamSizes()) != 0 {
		t.Errorf("second: %v", err)
	}
	if _, err := m.Function("third"); err == nil {
		t.Error("there is a third function")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(kernel(exchange))
	for _, c := range instructions {
		f.Add(kernel(c.body))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ptx.Load(text)
		if err != nil {
			return
		}
		defer m.Close()
		m.SetPatience(1000)
		k, err := m.Function("k")
		if err != nil || !slices.Equal(k.ParamSizes(), []int{8}) {
			return
		}
		// Whatever it does, it ends, and touches nothing but its memory.
		_ = run(k, [3]uint32{2, 1, 1}, [3]uint32{3, 1, 1}, make([]byte, 64))
	})
}

func BenchmarkInstructions(b *testing.B) {
	const loops = 1 << 20
	_, f := load(b, kernel(fmt.Sprintf("mov.u32 %%r0, 0; mov.u32 %%r1, 0; again: mad.lo.s32 %%r1, %%r0, 3, %%r1; xor.b32 %%r1, %%r1, %%r0; add.u32 %%r0, %%r0, 1; setp.lt.u32 %%p0, %%r0, %d; @%%p0 bra again;", loops)))
	for b.Loop() {
		if err := run(f, one, one, make([]byte, 8)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(5*loops), "ns/instruction")
}
