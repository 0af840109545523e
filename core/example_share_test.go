//go:build unix

package core_test

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Memory of one device becomes memory of another one, which may belong to another API. A program gets the
// devices from backends/all.
func ExampleMemoryExporter() {
	backend := coretest.NewBackend(coretest.Options{Opaque: true, Submit: inOrder}) // a simulated one
	if err := shareMemory(context.Background(), backend); err != nil {
		fmt.Println(err)
	}
	// Output:
	// imported: the handle is "opaque_fd, empty"
	// the importer reads [1 2 3]
}

func shareMemory(ctx context.Context, backend core.Backend) error {
	id := core.DeviceID{Type: core.DeviceWebGPU} // the type of the simulated device
	exporter, err := backend.Open(ctx, id)
	if err != nil {
		return err
	}
	defer exporter.Close()
	importer, err := backend.Open(ctx, id)
	if err != nil {
		return err
	}
	defer importer.Close() // after the tensors that were made below

	// Memory must be allocated for export.
	t, err := core.Empty(ctx, exporter, core.TypeUint8, []int64{3}, core.AllocOptions{Export: core.HandleOpaqueFD})
	if err != nil {
		return err
	}
	defer t.Close()
	values, err := core.FromSlice([]uint8{1, 2, 3})
	if err != nil {
		return err
	}
	defer values.Close()
	if err := exporter.Copy(ctx, nil, t, values); err != nil {
		return err
	}

	// The caller of ExportMemory owns the handle. It may stay open: the memory outlives t, and each import
	// takes a duplicate.
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	exported, err := exporter.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		return err
	}
	defer exported.Close()
	x, err := exported.Duplicate()
	if err != nil {
		return err
	}
	defer x.Close() // does nothing after a successful import, which takes the handle

	m, err := importer.(core.MemoryImporter).ImportMemory(ctx, x)
	if err != nil {
		return err
	}
	fmt.Printf("imported: the handle is %q\n", x.Handle)
	imported, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{3}})
	if err != nil {
		m.Free() // Wrap has not taken the memory
		return err
	}
	defer imported.Close() // frees m, and with it the import

	read := make([]uint8, 3)
	host, err := core.FromSlice(read)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := importer.Copy(ctx, nil, host, imported); err != nil {
		return err
	}
	fmt.Printf("the importer reads %d\n", read)
	return nil
}
