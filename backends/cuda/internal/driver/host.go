//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

extern void dlxCUDAHostTurn(uintptr_t);

static void dlx_host_turn(void *n) { dlxCUDAHostTurn((uintptr_t)n); }

static CUresult dlx_launch_host(uintptr_t context, uintptr_t stream, uintptr_t turn) {
	DLX_RELAXED(context, cuLaunchHostFunc((CUstream)stream, dlx_host_turn, (void *)turn));
}
*/
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

var turns = cudalike.NewTurns("cuda")

func (c context) HostTurn(stream uintptr, work func()) cudalike.Status {
	n := turns.Add(c.ID(), work)
	s := answer("cuLaunchHostFunc", C.dlx_launch_host(C.uintptr_t(c), C.uintptr_t(stream), C.uintptr_t(n)))
	if !s.OK() {
		turns.Drop(n)
	}
	return s
}

//export dlxCUDAHostTurn
func dlxCUDAHostTurn(n C.uintptr_t) { turns.Run(uintptr(n)) }

func (c context) RunsTurn() bool { return turns.Running(c.ID()) }

func (c context) ForgetTurns() { turns.Forget(c.ID()) }
