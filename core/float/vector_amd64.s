//go:build !purego && !race && !asan && !msan

#include "textflag.h"

// The conversions convert 32 elements at a time, then 8 at a time. The last 8 overlap those
// before them if 8 does not divide n. They neither read nor write outside of the n elements.
//
// They depend on no mode that C code may have set in MXCSR: the rounding is part of the
// instruction, and VCVTPS2PH and VCVTPH2PS heed neither FTZ nor DAZ (a float32 that DAZ makes
// zero becomes zero anyway). All else is integer arithmetic, or a test for NaN.

// In all of them, DI is to, SI from, and CX n. AX is the index of the next element, BX the last
// one where 32 elements follow, DX the last where 8 do.

// BROADCAST sets all lanes of y, whose lower half is x, to a constant.
#define BROADCAST(constant, x, y) \
	MOVL constant, R8; \
	VMOVD R8, x;       \
	VPBROADCASTD x, y

// ARGUMENTS sets these registers.
#define ARGUMENTS \
	MOVQ to+0(FP), DI; \
	MOVQ from+8(FP), SI; \
	MOVQ n+16(FP), CX; \
	LEAQ -32(CX), BX; \
	LEAQ -8(CX), DX; \
	XORQ AX, AX

// LAST_EIGHT ends the function if nothing is left, and moves AX back if fewer than 8 elements are.
#define LAST_EIGHT \
	CMPQ AX, CX; \
	JEQ  done; \
	CMPQ AX, DX; \
	CMOVQGT DX, AX

// IF_NAN jumps if Y0 to Y3 have a NaN.
#define IF_NAN(label) \
	VCMPPS    $3, Y0, Y1, Y4; \
	VCMPPS    $3, Y2, Y3, Y5; \
	VORPS     Y4, Y5, Y4; \
	VMOVMSKPS Y4, R8; \
	TESTL     R8, R8; \
	JNZ       label

// func cpuid(leaf uint32) (a, b, c uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-20
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET

// func vectorToFloat16(to *uint16, from *float32, n int)
TEXT ·vectorToFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS

many:
	CMPQ AX, BX
	JGT  few
	VMOVUPS   (SI)(AX*4), Y0
	VMOVUPS   32(SI)(AX*4), Y1
	VMOVUPS   64(SI)(AX*4), Y2
	VMOVUPS   96(SI)(AX*4), Y3
	VCVTPS2PH $0, Y0, (DI)(AX*2)
	VCVTPS2PH $0, Y1, 16(DI)(AX*2)
	VCVTPS2PH $0, Y2, 32(DI)(AX*2)
	VCVTPS2PH $0, Y3, 48(DI)(AX*2)
	ADDQ $32, AX
	JMP  many

few:
	LAST_EIGHT
	VMOVUPS   (SI)(AX*4), Y0
	VCVTPS2PH $0, Y0, (DI)(AX*2)
	ADDQ $8, AX
	JMP  few

done:
	VZEROUPPER
	RET

// func vectorFromFloat16(to *float32, from *uint16, n int)
TEXT ·vectorFromFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS
	BROADCAST($0x7f800000, X15, Y15)

many:
	CMPQ AX, BX
	JGT  few
	VCVTPH2PS (SI)(AX*2), Y0
	VCVTPH2PS 16(SI)(AX*2), Y1
	VCVTPH2PS 32(SI)(AX*2), Y2
	VCVTPH2PS 48(SI)(AX*2), Y3

	// VCVTPH2PS makes each NaN quiet.
	IF_NAN(eight)
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	VMOVUPS Y2, 64(DI)(AX*4)
	VMOVUPS Y3, 96(DI)(AX*4)
	ADDQ $32, AX
	JMP  many

few:
	LAST_EIGHT

eight:
	VCVTPH2PS (SI)(AX*2), Y0
	VPMOVZXWD (SI)(AX*2), Y1

	// What NaN becomes: sign and payload move, and the sign fills a part of the exponent.
	VPSLLD    $16, Y1, Y1
	VPSRAD    $3, Y1, Y1
	VPOR      Y15, Y1, Y1
	VCMPPS    $3, Y0, Y0, Y2
	VBLENDVPS Y2, Y1, Y0, Y0
	VMOVUPS   Y0, (DI)(AX*4)
	ADDQ $8, AX
	JMP  many

done:
	VZEROUPPER
	RET

// func vectorToBFloat16(to *uint16, from *float32, n int)
TEXT ·vectorToBFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS
	BROADCAST($1, X15, Y15)
	BROADCAST($0x7fff, X14, Y14)
	BROADCAST($0x40, X13, Y13)

many:
	CMPQ AX, BX
	JGT  few
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS 32(SI)(AX*4), Y1
	VMOVUPS 64(SI)(AX*4), Y2
	VMOVUPS 96(SI)(AX*4), Y3
	IF_NAN(eight)

	// (b + 0x7fff + b>>16&1) >> 16
	VPSRLD $16, Y0, Y4
	VPSRLD $16, Y1, Y5
	VPSRLD $16, Y2, Y6
	VPSRLD $16, Y3, Y7
	VPAND  Y15, Y4, Y4
	VPAND  Y15, Y5, Y5
	VPAND  Y15, Y6, Y6
	VPAND  Y15, Y7, Y7
	VPADDD Y14, Y0, Y0
	VPADDD Y14, Y1, Y1
	VPADDD Y14, Y2, Y2
	VPADDD Y14, Y3, Y3
	VPADDD Y4, Y0, Y0
	VPADDD Y5, Y1, Y1
	VPADDD Y6, Y2, Y2
	VPADDD Y7, Y3, Y3
	VPSRLD $16, Y0, Y0
	VPSRLD $16, Y1, Y1
	VPSRLD $16, Y2, Y2
	VPSRLD $16, Y3, Y3

	// The pack interleaves the halves of its operands.
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPERMQ    $0xd8, Y0, Y0
	VPERMQ    $0xd8, Y2, Y2
	VMOVUPS   Y0, (DI)(AX*2)
	VMOVUPS   Y2, 32(DI)(AX*2)
	ADDQ $32, AX
	JMP  many

few:
	LAST_EIGHT

eight:
	VMOVUPS (SI)(AX*4), Y0
	VPSRLD  $16, Y0, Y1
	VPAND   Y15, Y1, Y2
	VPADDD  Y14, Y0, Y3
	VPADDD  Y2, Y3, Y3
	VPSRLD  $16, Y3, Y3
	VPOR    Y13, Y1, Y1             // what NaN becomes: cut off, and quiet
	VCMPPS  $3, Y0, Y0, Y4
	VBLENDVPS Y4, Y1, Y3, Y0
	VPACKUSDW Y0, Y0, Y0
	VPERMQ  $0xd8, Y0, Y0
	VMOVUPS X0, (DI)(AX*2)
	ADDQ $8, AX
	JMP  many

done:
	VZEROUPPER
	RET

// func vectorFromBFloat16(to *float32, from *uint16, n int)
TEXT ·vectorFromBFloat16(SB), NOSPLIT, $0-24
	ARGUMENTS

many:
	CMPQ AX, BX
	JGT  few
	VPMOVZXWD (SI)(AX*2), Y0
	VPMOVZXWD 16(SI)(AX*2), Y1
	VPMOVZXWD 32(SI)(AX*2), Y2
	VPMOVZXWD 48(SI)(AX*2), Y3
	VPSLLD  $16, Y0, Y0
	VPSLLD  $16, Y1, Y1
	VPSLLD  $16, Y2, Y2
	VPSLLD  $16, Y3, Y3
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	VMOVUPS Y2, 64(DI)(AX*4)
	VMOVUPS Y3, 96(DI)(AX*4)
	ADDQ $32, AX
	JMP  many

few:
	LAST_EIGHT
	VPMOVZXWD (SI)(AX*2), Y0
	VPSLLD  $16, Y0, Y0
	VMOVUPS Y0, (DI)(AX*4)
	ADDQ $8, AX
	JMP  few

done:
	VZEROUPPER
	RET
