//go:build !purego && !race && !asan && !msan

#include "textflag.h"

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

// func vectorFromUint8(to *float32, low, high unsafe.Pointer, n, step, toStep int64, order *[16]uint8, scale, offset float32)
TEXT ·vectorFromUint8(SB), NOSPLIT, $0-64
	MOVQ to+0(FP), DI
	MOVQ low+8(FP), SI
	MOVQ high+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ step+32(FP), R8
	MOVQ toStep+40(FP), R9
	MOVQ order+48(FP), R10
	VBROADCASTI128 (R10), Y15
	VBROADCASTSS scale+56(FP), Y14
	VBROADCASTSS offset+60(FP), Y13
	SUBQ SI, DX // high is reached from low

two:
	CMPQ CX, $16
	JLT  one
	LEAQ (SI)(R8*1), R11
	LEAQ (DI)(R9*1), R12
	VMOVDQU (SI), X0
	VMOVDQU (R11), X1
	VINSERTI128 $1, (SI)(DX*1), Y0, Y0
	VINSERTI128 $1, (R11)(DX*1), Y1, Y1
	VPSHUFB Y15, Y0, Y0
	VPSHUFB Y15, Y1, Y1
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VMULPS Y14, Y0, Y0 // and not fused with the sum
	VMULPS Y14, Y1, Y1
	VADDPS Y13, Y0, Y0
	VADDPS Y13, Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (R12)
	LEAQ (R11)(R8*1), SI
	LEAQ (R12)(R9*1), DI
	SUBQ $16, CX
	JMP  two

one:
	TESTQ CX, CX
	JEQ  done
	VMOVDQU (SI), X0
	VINSERTI128 $1, (SI)(DX*1), Y0, Y0
	VPSHUFB Y15, Y0, Y0
	VCVTDQ2PS Y0, Y0
	VMULPS Y14, Y0, Y0
	VADDPS Y13, Y0, Y0
	VMOVUPS Y0, (DI)

done:
	VZEROUPPER
	RET
