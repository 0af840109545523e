//go:build !cgo || windows

package dlpack_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

func TestEverythingSaysThatItNeedsC(t *testing.T) {
	tensor, err := core.FromSlice([]int32{1})
	if err != nil {
		t.Fatal(err)
	}
	defer tensor.Close()
	check := func(call string, err error) {
		if !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%s: %v", call, err)
		}
	}
	_, err = dlpack.Export(tensor)
	check("Export", err)
	_, err = dlpack.ExportCopied(tensor)
	check("ExportCopied", err)
	_, err = dlpack.ExportLegacy(tensor)
	check("ExportLegacy", err)
	_, err = dlpack.Import(new(dlpack.ManagedTensorVersioned), dlpack.ImportOptions{Size: 1})
	check("Import", err)
	check("Read", new(dlpack.Description).Read(new(dlpack.ManagedTensorVersioned), dlpack.ImportOptions{}))
	_, err = dlpack.Elements[float32](new(dlpack.Description))
	check("Elements", err)
	_, err = dlpack.ImportLegacy(new(dlpack.ManagedTensor), dlpack.ImportOptions{})
	check("ImportLegacy", err)
	producer, err := dlpack.NewProducer(new(dlpack.ExchangeAPI))
	check("NewProducer", err)
	_, err = producer.Allocate(core.CPU, core.TypeInt8)
	check("Allocate", err)
	_, err = producer.CurrentWorkStream(core.CPU)
	check("CurrentWorkStream", err)
	if dlpack.Table() != nil {
		t.Error("a table of C functions cannot be there")
	}
	dlpack.Flush()
	dlpack.Delete(nil)
	dlpack.DeleteLegacy(nil)
}
