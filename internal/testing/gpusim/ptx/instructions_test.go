//go:build linux && cgo

package ptx_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// calculated runs body with a, b and c in %rd0 to 2, %r0 to 2, %rs0 to 2 and (not 0) %p0 to 2, and
// gives what it leaves in register 9 of the kind that it names last.
func calculated(t *testing.T, body string, in ...uint64) uint64 {
	t.Helper()
	var b strings.Builder
	memory := make([]byte, 32)
	for i := range 3 {
		if i < len(in) {
			binary.LittleEndian.PutUint64(memory[8*i:], in[i])
		}
		fmt.Fprintf(&b, "ld.global.u64 %%rd%[1]d, [%%rd10+%[2]d]; cvt.u32.u64 %%r%[1]d, %%rd%[1]d; cvt.u16.u64 %%rs%[1]d, %%rd%[1]d; setp.ne.u64 %%p%[1]d, %%rd%[1]d, 0;\n", i, 8*i)
	}
	b.WriteString(body)
	switch {
	case strings.Contains(body, "%rd9"):
	case strings.Contains(body, "%r9"):
		b.WriteString("\ncvt.u64.u32 %rd9, %r9;")
	case strings.Contains(body, "%rs9"):
		b.WriteString("\ncvt.u64.u16 %rd9, %rs9;")
	default:
		b.WriteString("\nselp.u64 %rd9, 1, 0, %p9;")
	}
	b.WriteString("\nst.global.u64 [%rd10+24], %rd9;\nret;")
	_, f := load(t, kernel(b.String()))
	if err := run(f, one, one, memory); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(memory[24:])
}

// minus is the bits of -n.
func minus(n uint64, bits int) uint64 { return -n & (1<<bits - 1) }

const top32, top64 = 1 << 31, 1 << 63

// instructions are what calculated takes, with what the PTX ISA says of them.
var instructions = []struct {
	body string
	in   []uint64
	want uint64
}{
	{"mov.u32 %r9, %r0;", []uint64{7}, 7},
	{"mov.b64 %rd9, -2;", nil, 1<<64 - 2},
	{"mov.u32 %r9, 0x1F;", nil, 31},
	{"mov.u32 %r9, 017;", nil, 15},
	{"mov.u32 %r9, 0b101;", nil, 5},
	{"mov.u32 %r9, 4294967295U;", nil, 1<<32 - 1},
	{"mov.f32 %r9, 0f3F800000;", nil, 0x3F800000},
	{"mov.f64 %rd9, 0d3FF0000000000000;", nil, 0x3FF0000000000000},
	{"mov.pred %p9, %p0;", []uint64{1}, 1},
	{"mov.u32 %r9, tile;", nil, 0},
	{"mov.b64 %rd9, {%r0, %r1};", []uint64{1, 2}, 2<<32 | 1},
	{"mov.b64 {%r9, %r8}, %rd0;", []uint64{2<<32 | 1}, 1},
	{"mov.b64 {%r8, %r9}, %rd0;", []uint64{2<<32 | 1}, 2},
	{"mov.b64 {%rs1, %rs2, %rs9, %rs3}, %rd0;", []uint64{3 << 32}, 3},
	{"mov.b32 %r9, {%rs0, %rs1};", []uint64{1, 2}, 2<<16 | 1},
	{"add.s32 %r9, %r0, %r1;", []uint64{1<<32 - 1, 2}, 1},
	{"add.s16 %rs9, %rs0, -1;", []uint64{0}, 0xFFFF},
	{"sub.s64 %rd9, %rd0, %rd1;", []uint64{1, 2}, 1<<64 - 1},
	{"mul.lo.s32 %r9, %r0, %r1;", []uint64{1 << 16, 1<<16 + 1}, 1 << 16},
	{"mul.hi.u32 %r9, %r0, %r1;", []uint64{1<<32 - 1, 1<<32 - 1}, 1<<32 - 2},
	{"mul.hi.s32 %r9, %r0, %r1;", []uint64{1<<32 - 1, 2}, 1<<32 - 1},
	{"mul.hi.u64 %rd9, %rd0, %rd1;", []uint64{top64, 4}, 2},
	{"mul.hi.s64 %rd9, %rd0, %rd1;", []uint64{top64, 4}, 1<<64 - 2},
	{"mul.wide.u32 %rd9, %r0, %r1;", []uint64{1<<32 - 1, 2}, 1<<33 - 2},
	{"mul.wide.s32 %rd9, %r0, %r1;", []uint64{1<<32 - 1, 2}, 1<<64 - 2},
	{"mul.wide.u16 %r9, %rs0, 65535;", []uint64{65535}, 65535 * 65535},
	{"mad.lo.s32 %r9, %r0, %r1, %r2;", []uint64{3, 5, minus(1, 32)}, 14},
	{"mad.hi.u32 %r9, %r0, %r1, %r2;", []uint64{top32, 4, 5}, 7},
	{"mad.wide.s32 %rd9, %r0, %r1, %rd2;", []uint64{minus(3, 32), 5, 1}, 1<<64 - 14},
	{"div.u32 %r9, %r0, %r1;", []uint64{top32, 3}, top32 / 3},
	{"div.s32 %r9, %r0, %r1;", []uint64{minus(7, 32), 2}, minus(3, 32)},
	{"div.s32 %r9, %r0, %r1;", []uint64{top32, minus(1, 32)}, top32},
	{"div.s64 %rd9, %rd0, %rd1;", []uint64{top64, 1<<64 - 1}, top64},
	{"div.u32 %r9, %r0, %r1;", []uint64{1, 0}, 1<<32 - 1},
	{"rem.u32 %r9, %r0, %r1;", []uint64{7, 4}, 3},
	{"rem.s32 %r9, %r0, %r1;", []uint64{minus(7, 32), 4}, minus(3, 32)},
	{"rem.s32 %r9, %r0, %r1;", []uint64{top32, minus(1, 32)}, 0},
	{"rem.u32 %r9, %r0, %r1;", []uint64{7, 0}, 7},
	{"min.s32 %r9, %r0, %r1;", []uint64{minus(1, 32), 2}, minus(1, 32)},
	{"min.u32 %r9, %r0, %r1;", []uint64{minus(1, 32), 2}, 2},
	{"max.s16 %rs9, %rs0, %rs1;", []uint64{minus(1, 16), 2}, 2},
	{"max.u64 %rd9, %rd0, %rd1;", []uint64{1<<64 - 1, 2}, 1<<64 - 1},
	{"abs.s32 %r9, %r0;", []uint64{minus(5, 32)}, 5},
	{"neg.s64 %rd9, %rd0;", []uint64{5}, 1<<64 - 5},
	{"and.b32 %r9, %r0, 6;", []uint64{12}, 4},
	{"or.b64 %rd9, %rd0, %rd1;", []uint64{12, 3}, 15},
	{"xor.b16 %rs9, %rs0, %rs1;", []uint64{12, 6}, 10},
	{"not.b32 %r9, %r0;", []uint64{1}, 1<<32 - 2},
	{"cnot.b32 %r9, %r0;", []uint64{0}, 1},
	{"and.pred %p9, %p0, %p1;", []uint64{1, 0}, 0},
	{"or.pred %p9, %p0, %p1;", []uint64{1, 0}, 1},
	{"xor.pred %p9, %p0, %p1;", []uint64{1, 1}, 0},
	{"not.pred %p9, %p0;", []uint64{0}, 1},
	{"shl.b32 %r9, %r0, 31;", []uint64{3}, top32},
	{"shl.b32 %r9, %r0, %r1;", []uint64{3, 32}, 0},
	{"shl.b64 %rd9, %rd0, %r1;", []uint64{3, 4}, 48},
	{"shr.u32 %r9, %r0, 1;", []uint64{top32}, 1 << 30},
	{"shr.s32 %r9, %r0, 1;", []uint64{top32}, 3 << 30},
	{"shr.s32 %r9, %r0, 99;", []uint64{top32}, 1<<32 - 1},
	{"shr.u64 %rd9, %rd0, 64;", []uint64{1<<64 - 1}, 0},
	{"shr.s16 %rs9, %rs0, 4;", []uint64{0x8000}, 0xF800},
	{"shf.l.wrap.b32 %r9, %r0, %r1, 8;", []uint64{0x11223344, 0xAABBCCDD}, 0xBBCCDD11},
	{"shf.r.wrap.b32 %r9, %r0, %r1, 40;", []uint64{0x11223344, 0xAABBCCDD}, 0xDD112233},
	{"bfe.u32 %r9, %r0, 4, 8;", []uint64{0xABCDE}, 0xCD},
	{"bfe.s32 %r9, %r0, 4, 8;", []uint64{0xABCDE}, 0xFFFFFFCD},
	{"bfe.s32 %r9, %r0, 24, 99;", []uint64{0x80000000}, 0xFFFFFF80},
	{"bfe.u32 %r9, %r0, 32, 1;", []uint64{1<<32 - 1}, 0},
	{"bfe.s32 %r9, %r0, 40, 1;", []uint64{1<<32 - 1}, 1<<32 - 1},
	{"bfe.s32 %r9, %r0, 3, 0;", []uint64{1<<32 - 1}, 0},
	{"bfe.u64 %rd9, %rd0, 60, 64;", []uint64{0xF << 60}, 0xF},
	{"bfe.s64 %rd9, %rd0, 0, 255;", []uint64{1<<64 - 3}, 1<<64 - 3},
	{"bfi.b32 %r9, %r0, %r1, 8, 4;", []uint64{0xFF, 0xA0000}, 0xA0F00},
	{"bfi.b32 %r9, %r0, %r1, 32, 4;", []uint64{0xFF, 5}, 5},
	{"bfi.b64 %rd9, %rd0, %rd1, 60, 99;", []uint64{0xFF, 5}, 0xF<<60 | 5},
	{"popc.b32 %r9, %r0;", []uint64{0xF0F}, 8},
	{"popc.b64 %r9, %rd0;", []uint64{1<<64 - 1}, 64},
	{"clz.b32 %r9, %r0;", []uint64{1}, 31},
	{"clz.b32 %r9, %r0;", []uint64{0}, 32},
	{"clz.b64 %r9, %rd0;", []uint64{1}, 63},
	{"brev.b32 %r9, %r0;", []uint64{1}, top32},
	{"prmt.b32 %r9, %r0, %r1, 0x7041;", []uint64{0x33221180, 0x77665544}, 0x77804411},
	{"prmt.b32 %r9, %r0, %r1, 0x8888;", []uint64{0x80, 0}, 1<<32 - 1},
	{"lop3.b32 %r9, %r0, %r1, %r2, 0x96;", []uint64{0xF, 0x3C, 0xFF}, 0xF ^ 0x3C ^ 0xFF},
	{"selp.b32 %r9, %r0, %r1, %p2;", []uint64{1, 2, 1}, 1},
	{"selp.f64 %rd9, %rd0, %rd1, %p2;", []uint64{1, 2, 0}, 2},
	{"setp.eq.s32 %p9, %r0, %r1;", []uint64{5, 5}, 1},
	{"setp.ne.b64 %p9, %rd0, 5;", []uint64{5}, 0},
	{"setp.lt.s32 %p9, %r0, %r1;", []uint64{minus(1, 32), 0}, 1},
	{"setp.lt.u32 %p9, %r0, %r1;", []uint64{minus(1, 32), 0}, 0},
	{"setp.le.s64 %p9, %rd0, %rd1;", []uint64{3, 3}, 1},
	{"setp.gt.s16 %p9, %rs0, %rs1;", []uint64{0x8000, 0x7FFF}, 0},
	{"setp.ge.u16 %p9, %rs0, %rs1;", []uint64{0x8000, 0x7FFF}, 1},
	{"setp.hi.u32 %p9, %r0, %r1;", []uint64{2, 1}, 1},
	{"cvt.u64.u32 %rd9, %r0;", []uint64{minus(1, 32)}, 1<<32 - 1},
	{"cvt.s64.s32 %rd9, %r0;", []uint64{minus(1, 32)}, 1<<64 - 1},
	{"cvt.u32.u64 %r9, %rd0;", []uint64{1<<40 | 3}, 3},
	{"cvt.s32.s8 %r9, %r0;", []uint64{0x1FF}, 1<<32 - 1},
	{"cvt.u32.u8 %r9, %rd0;", []uint64{0x1FF}, 255},
	{"cvt.s8.s32 %r9, %r0;", []uint64{0x180}, minus(128, 32)},
	{"add.rn.f32 %r9, %r0, %r1;", []uint64{0x3F800000, 0x33800000}, 0x3F800000}, // 1 + 2^-24, to even
	{"add.rn.f32 %r9, %r0, %r1;", []uint64{0x3F800001, 0x33800000}, 0x3F800002},
	{"add.rn.f32 %r9, %r0, %r1;", []uint64{0x7F800000, 0xFF800000}, 0x7FFFFFFF},
	{"mul.rn.f32 %r9, %r0, 0f40400000;", []uint64{0x3EAAAAAB}, 0x3F800000},      // a third, rounded, times 3
	{"mul.rn.f32 %r9, %r0, %r1;", []uint64{0x00800000, 0x3F000000}, 0x00400000}, // subnormal
	{"min.f32 %r9, %r0, %r1;", []uint64{0xBF800000, 0x3F800000}, 0xBF800000},
	{"min.f32 %r9, %r0, %r1;", []uint64{0x00000000, 0x80000000}, 0x80000000},
	{"min.f32 %r9, %r0, %r1;", []uint64{0x7FC00000, 0x3F800000}, 0x3F800000},
	{"max.f32 %r9, %r0, %r1;", []uint64{0x3F800000, 0xBF800000}, 0x3F800000},
	{"max.f32 %r9, %r0, %r1;", []uint64{0x80000000, 0x00000000}, 0x00000000},
	{"max.f32 %r9, %r0, %r1;", []uint64{0xBF800000, 0x7FC00000}, 0xBF800000},
	{"cvt.rn.f32.s32 %r9, %r0;", []uint64{minus(16777217, 32)}, 0xCB800000},
	{"cvt.rzi.s32.f32 %r9, %r0;", []uint64{0xC0600000}, minus(3, 32)}, // -3.5
	{"cvt.rzi.s32.f32 %r9, %r0;", []uint64{0x4F000000}, 1<<31 - 1},
	{"cvt.rzi.s32.f32 %r9, %r0;", []uint64{0xFF800000}, top32},
	{"cvt.rzi.s32.f32 %r9, %r0;", []uint64{0x7FC00000}, 0},
	{"@%p0 mov.u32 %r8, 3; @!%p0 mov.u32 %r8, 4; mov.u32 %r9, %r8;", []uint64{1}, 3},
	{"@%p0 mov.u32 %r8, 3; @!%p0 mov.u32 %r8, 4; mov.u32 %r9, %r8;", []uint64{0}, 4},
	{"mov.u32 %r9, 0; again: add.u32 %r9, %r9, 2; setp.lt.u32 %p1, %r9, 9; @%p1 bra again;", nil, 10},
	{"mov.u32 %r9, 1; bra.uni past; mov.u32 %r9, 2; past:", nil, 1},
	{"st.shared.u32 [tile+4], %r0; ld.shared.u32 %r9, [tile+4];", []uint64{9}, 9},
	{"mov.u64 %rd3, tile; st.shared.u64 [%rd3+8], %rd0; ld.shared.s8 %r9, [%rd3+9];", []uint64{0x8000}, minus(128, 32)},
	{"mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3; st.u32 [%rd3], %r0; ld.shared.u32 %r9, [tile];", []uint64{9}, 9},
	{"mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3; cvta.to.shared.u64 %rd4, %rd3; st.shared.u32 [%rd4], 5; ld.u32 %r9, [%rd3];", nil, 5},
	{"st.shared.v4.u32 [tile], {%r0, %r1, %r2, 8}; ld.shared.v2.u32 {%r8, %r9}, [tile+8];", []uint64{1, 2, 3}, 8},
	{"cvta.to.global.u64 %rd3, %rd10; ld.global.nc.u8 %rs9, [%rd3+1];", []uint64{0xAB00}, 0xAB},
	{"ld.volatile.global.s16 %r9, [%rd10];", []uint64{0x8000}, 0xFFFF8000},
	{"add.s64 %rd3, %rd10, 8; ld.global.ca.b32 %r9, [%rd3+-8];", []uint64{77}, 77},
	{"st.global.wt.u8 [%rd10], %rd1; ld.u64 %rd9, [%rd10];", []uint64{0x1111, 0x2222}, 0x1122},
	{"st.global.v2.b64 [%rd10], {%rd1, 4}; ld.global.v2.u64 {%rd8, %rd9}, [%rd10];", []uint64{1, 2}, 4},
}

func TestInstructions(t *testing.T) {
	for _, c := range instructions {
		t.Run(c.body, func(t *testing.T) {
			if got := calculated(t, c.body, c.in...); got != c.want {
				t.Errorf("%#x of %#x, want %#x", got, c.in, c.want)
			}
		})
	}
}
