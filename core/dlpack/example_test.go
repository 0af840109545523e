//go:build cgo && !windows

package dlpack_test

import (
	"fmt"
	"log"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// A tensor of a Go slice goes to a C library: what the library gets is an address.
func ExampleExport() {
	tensor, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer tensor.Close()

	m, err := dlpack.Export(tensor)
	if err != nil {
		log.Fatal(err)
	}
	address := uintptr(unsafe.Pointer(m)) // pass it to C; whoever has it calls the deleter
	fmt.Println(address != 0, m.Version.Major, m.Tensor.NDim, m.Tensor.DType.Bits)

	dlpack.Delete(m) // here no library took it
	// Output: true 1 2 32
}

// A struct that came from elsewhere becomes a tensor on the same memory.
func ExampleImport() {
	source, err := core.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	m, err := dlpack.Export(source) // stands for a struct of another library
	if err != nil {
		log.Fatal(err)
	}
	if err := source.Close(); err != nil {
		log.Fatal(err)
	}

	tensor, err := dlpack.Import(m, dlpack.ImportOptions{}) // takes m over, whatever happens
	if err != nil {
		log.Fatal(err)
	}
	defer tensor.Close() // calls m's deleter
	values, err := core.Values[int32](tensor)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor, values)
	// Output: int32[2 3] on cpu [1 2 3 4 5 6]
}

// A library calls memory of the host by a type of its own: VPI wraps memory of the host and of CUDA, and oneAPI allocates on the host, too. The
// program, which knows what the memory is, says so.
func ExampleImportOptions() {
	source, err := core.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	m, err := dlpack.Export(source) // stands for a struct of a library for oneAPI
	if err != nil {
		log.Fatal(err)
	}
	m.Tensor.Device.Type = int32(core.DeviceOneAPI)

	tensor, err := dlpack.Import(m, dlpack.ImportOptions{OnDevice: core.CPU})
	if err != nil {
		log.Fatal(err)
	}
	defer tensor.Close()
	values, err := core.Values[int32](tensor)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor, values) // exchange.To moves it to any device
	// Output: int32[2 3] on cpu [1 2 3 4 5 6]
}
