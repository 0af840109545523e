package parts

import (
	"context"
	"math/bits"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// Pattern is n bytes that differ from those of another seed.
func Pattern(n int64, seed uint64) []byte {
	p := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(bits.RotateLeft64(x, 11))
	}
	return p
}

// ItemsOf are n elements of so many bits, each in a whole number of bytes whose other
// bits are 0.
func ItemsOf(n, width int64, seed uint64) []byte {
	item := (width + 7) / 8
	p := Pattern(n*item, seed)
	if width%8 != 0 {
		for i := item - 1; i < int64(len(p)); i += item {
			p[i] &= 1<<(width%8) - 1
		}
	}
	return p
}

// Items are elements for a tensor; see [ItemsOf].
func Items(t *core.Tensor, seed uint64) []byte {
	width := t.DType().ElementBits()
	if t.Padded() && t.DType().SubByte() {
		width = 8 * int64(t.DType().Lanes)
	}
	return ItemsOf(t.NumElements(), width, seed)
}

// Reexport gives a tensor out by DLPack 1.x and takes it again.
func Reexport(t *core.Tensor) (*core.Tensor, error) {
	m, err := dlpack.Export(t)
	if err != nil {
		return nil, err
	}
	return dlpack.Import(m, dlpack.ImportOptions{})
}

// ReexportLegacy is [Reexport] by DLPack 0.x.
func ReexportLegacy(t *core.Tensor) (*core.Tensor, error) {
	m, err := dlpack.ExportLegacy(t)
	if err != nil {
		return nil, err
	}
	return dlpack.ImportLegacy(m, dlpack.ImportOptions{})
}

func openHost(ctx context.Context) (core.Device, error) { return cpu.New().Open(ctx, core.CPU) }
