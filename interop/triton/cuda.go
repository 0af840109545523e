package triton

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"

	"github.com/dlx-go/dlx/core"
)

const (
	// cardUnit is the smallest region of CUDA's memory: the driver makes several smaller allocations from one block, and a
	// handle opens the whole block.
	cardUnit = 2 << 20
	// cudaHandleSize is the size of cudaIpcMemHandle_t.
	cudaHandleSize = 64
)

// cardBlock is memory of a CUDA device that was exported by an interprocess handle. It owns the memory.
type cardBlock struct {
	name    string
	address uintptr
	size    int64 // of the allocation that the handle stands for
	handle  []byte
	number  int64 // of the device, as the server numbers it

	memory   *core.Tensor
	exporter core.MemoryExporter
}

// newCardBlock allocates size bytes and exports them. The caller closes the block.
func newCardBlock(ctx context.Context, d core.Device, size int64) (*cardBlock, error) {
	const call = "EmptyOn"
	exporter, ok := core.As[core.MemoryExporter](d)
	if !ok || d.ID().Type != core.DeviceCUDA {
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "the server opens memory of CUDA devices by their interprocess handles, and %v exports none", d.ID())
	}
	memory, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{Export: core.HandleIPC})
	if err != nil {
		return nil, err
	}
	c := &cardBlock{number: int64(d.ID().Index), memory: memory, exporter: exporter}
	if err := c.export(call); err != nil {
		c.close(true)
		return nil, err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	c.name = prefixOfCard + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(random[:])
	return c, nil
}

// prefixOfCard begins the names of regions of CUDA's memory.
const prefixOfCard = "dlx-triton-cuda-"

// export fills in what the server needs.
func (c *cardBlock) export(call string) error {
	buffer, err := c.memory.Buffer()
	if err != nil {
		return err
	}
	x, err := c.exporter.ExportMemory(buffer, core.HandleIPC)
	if err != nil {
		return err
	}
	defer x.Close()
	if c.handle, err = x.Handle.Payload(); err != nil {
		return err
	}
	if x.Handle.Vendor() != core.VendorNVIDIA || len(c.handle) != cudaHandleSize || x.Offset != 0 {
		return core.Errorf(core.ErrNotSupported, backend, call,
			"the handle is %v with %d bytes at offset %d of its allocation, and the server takes those of CUDA with %d bytes at offset 0", x.Handle, len(c.handle), x.Offset, cudaHandleSize)
	}
	c.size = x.Size
	c.address, err = c.memory.Address()
	return err
}

// close frees the memory. If the server may still have it open, the memory stays allocated until its device is closed.
func (c *cardBlock) close(unused bool) {
	if buffer, err := c.memory.Buffer(); err == nil && unused {
		_ = c.exporter.EndExport(buffer)
	}
	c.memory.Close()
}
