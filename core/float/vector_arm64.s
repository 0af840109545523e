//go:build !purego && !race && !asan && !msan

#include "textflag.h"

// What Go's assembler lacks, for V registers with numbers s (source) and d (destination).
#define FCVTN(s, d)    WORD $(0x0e216800 | (s)<<5 | (d))            // d.4h = s.4s
#define FCVTN2(s, d)   WORD $(0x4e216800 | (s)<<5 | (d))            // upper half of d.8h = s.4s
#define FCVTL(s, d)    WORD $(0x0e217800 | (s)<<5 | (d))            // d.4s = s.4h
#define FCVTL2(s, d)   WORD $(0x4e217800 | (s)<<5 | (d))            // d.4s = upper half of s.8h
#define ORDERED(s, d)  WORD $(0x4e20e400 | (s)<<16 | (s)<<5 | (d))  // FCMEQ d.4s = s.4s == s.4s: ones, NaN zeros

// The conversions convert 8 elements at a time. The last 8 overlap those before them if 8 does
// not divide n. They neither read nor write outside of the n elements.
//
// In all of them, R0 is to, R1 from, and R2 how many elements are left. The instructions obey
// FPCR, as it is in Go: rounding to the nearest, IEEE's format, and NaN with a payload.

// ARGUMENTS sets these registers.
#define ARGUMENTS \
	MOVD to+0(FP), R0; \
	MOVD from+8(FP), R1; \
	MOVD n+16(FP), R2

// NEXT_EIGHT goes to eight if 8 elements are left, and to done if none is. Otherwise it moves back until 8 are. from
// and to are the logarithms of the sizes of their elements.
#define NEXT_EIGHT(from, to) \
	CMP $8, R2; \
	BGE eight; \
	CBZ R2, done; \
	SUB $8, R2, R3; \
	ADD R3<<from, R1; \
	ADD R3<<to, R0; \
	MOVD $8, R2

// func vectorToFloat16(to *uint16, from *float32, n int)
TEXT ·vectorToFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS

loop:
	NEXT_EIGHT(2, 1)

eight:
	VLD1.P 32(R1), [V0.S4, V1.S4]
	FCVTN(0, 2)
	FCVTN2(1, 2)
	VST1.P [V2.H8], 16(R0)
	SUB $8, R2
	B   loop

done:
	RET

// func vectorFromFloat16(to *float32, from *uint16, n int)
TEXT ·vectorFromFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS
	MOVD $0xffbfffff, R3
	VDUP R3, V31.S4

loop:
	NEXT_EIGHT(1, 2)

eight:
	VLD1.P 16(R1), [V0.H8]
	FCVTL(0, 1)
	FCVTL2(0, 2)

	// FCVTL makes NaN quiet: restore that bit.
	VUSHLL  $13, V0.H4, V3.S4
	VUSHLL2 $13, V0.H8, V4.S4
	ORDERED(1, 5)
	ORDERED(2, 6)
	VORR V31.B16, V5.B16, V5.B16
	VORR V31.B16, V6.B16, V6.B16
	VBIF V5.B16, V3.B16, V1.B16
	VBIF V6.B16, V4.B16, V2.B16
	VST1.P [V1.S4, V2.S4], 32(R0)
	SUB $8, R2
	B   loop

done:
	RET

// func vectorToBFloat16(to *uint16, from *float32, n int)
TEXT ·vectorToBFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS
	MOVD $1, R3
	VDUP R3, V29.S4
	MOVD $0x7fff, R3
	VDUP R3, V30.S4
	MOVD $0x400000, R3
	VDUP R3, V31.S4

loop:
	NEXT_EIGHT(2, 1)

eight:
	VLD1.P 32(R1), [V0.S4, V1.S4]

	// b + 0x7fff + b>>16&1, of which the upper half is stored
	VUSHR $16, V0.S4, V2.S4
	VUSHR $16, V1.S4, V3.S4
	VAND  V29.B16, V2.B16, V2.B16
	VAND  V29.B16, V3.B16, V3.B16
	VADD  V30.S4, V0.S4, V4.S4
	VADD  V30.S4, V1.S4, V5.S4
	VADD  V2.S4, V4.S4, V4.S4
	VADD  V3.S4, V5.S4, V5.S4

	// What NaN becomes: cut off, and quiet.
	VORR V31.B16, V0.B16, V2.B16
	VORR V31.B16, V1.B16, V3.B16
	ORDERED(0, 6)
	ORDERED(1, 7)
	VBIF V6.B16, V2.B16, V4.B16
	VBIF V7.B16, V3.B16, V5.B16
	VUZP2  V5.H8, V4.H8, V4.H8
	VST1.P [V4.H8], 16(R0)
	SUB $8, R2
	B   loop

done:
	RET

// func vectorFromBFloat16(to *float32, from *uint16, n int)
TEXT ·vectorFromBFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS
	VEOR V31.B16, V31.B16, V31.B16

loop:
	NEXT_EIGHT(1, 2)

eight:
	VLD1.P 16(R1), [V0.H8]
	VZIP1  V0.H8, V31.H8, V1.H8
	VZIP2  V0.H8, V31.H8, V2.H8
	VST1.P [V1.S4, V2.S4], 32(R0)
	SUB $8, R2
	B   loop

done:
	RET
