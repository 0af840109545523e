package hostmem_test

import (
	"math"
	"testing"

	"github.com/dlx-go/dlx/internal/hostmem"
)

func TestSizesThatNoMachineHas(t *testing.T) {
	for _, size := range []int64{1<<46 + 1, 1 << 60, math.MaxInt64} {
		if hostmem.Check(size) == nil {
			t.Errorf("%d bytes are there", size)
		}
		if data, err := hostmem.Map(size); err == nil {
			t.Errorf("%d bytes are mapped", len(data))
		}
	}
	for _, size := range []int64{-1, 0, 1, hostmem.Large} {
		if err := hostmem.Check(size); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestMappedMemory(t *testing.T) {
	data, err := hostmem.Map(hostmem.Large + 1)
	if err != nil {
		t.Fatal(err)
	}
	defer hostmem.Unmap(data)
	if len(data) != hostmem.Large+1 || data[0] != 0 || data[hostmem.Large] != 0 {
		t.Errorf("%d bytes, the first %d, the last %d", len(data), data[0], data[len(data)-1])
	}
	data[hostmem.Large] = 1
}
