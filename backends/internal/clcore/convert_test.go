//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The mappings of two parts of a page are two cl_mem over that page, which no kernel gets together.
func TestConversionBetweenMappingsOfOnePage(t *testing.T) {
	needDriver(t, OpenCL)
	table := driver.Table()
	kept := slices.Clone(table)
	defer copy(table, kept)
	for _, v := range []variant{variants[1], variants[3]} { // those that map
		t.Run(v.name, func(t *testing.T) {
			d, err := v.open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			copy(table, kept)
			faults.WatchLaunches(table)
			defer copy(table, kept)
			convertWithinAPage(t, d)
			if all, overlapping := faults.Launches(); all == 0 || overlapping != 0 {
				t.Errorf("%d of %d kernels got two cl_mem over the same pages, want none of at least one", overlapping, all)
			}
		})
	}
}

// convertWithinAPage converts between mappings of two parts of a page, without a stream and on one.
func convertWithinAPage(t *testing.T, d core.Device) {
	t.Helper()
	page := int64(os.Getpagesize())
	keep := coretest.Keep(t)
	room := coretest.Pattern(int(2*page), 3)
	all := keep(core.FromSlice(room))
	address, err := all.Address()
	if err != nil {
		t.Fatal(err)
	}
	start := (page - int64(address)%page) % page
	mapped := func(first, size int64, spec core.Spec) *core.Tensor {
		t.Helper()
		part := keep(core.Wrap(core.Memory{ID: core.CPU, Handle: address + uintptr(start+first), Size: size},
			core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
		b, err := part.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		mapper, ok := core.As[core.HostMapper](d)
		if !ok {
			t.Fatal("the device maps no memory of the host")
		}
		m, err := mapper.MapHost(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return keep(wrap(m, spec))
	}
	src := mapped(0, 600, core.Spec{DType: core.TypeUint8, Shape: []int64{20, 30}})
	dst := mapped(600, 2400, core.Spec{DType: core.TypeFloat32, Shape: []int64{30, 20}})
	turned := keep(src.Transpose())
	flat := keep(dst.Reshape(20, 30))
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scaling := core.Scaling{Scale: []float32{0.5}, Offset: []float32{3}}
	for _, on := range []core.Stream{nil, s} {
		for _, c := range []struct{ dst, src *core.Tensor }{{dst, turned}, {flat, src}} {
			before := slices.Clone(room)
			if err := d.(core.Converter).ConvertOn(t.Context(), on, c.dst, c.src, scaling); err != nil {
				t.Fatal(err)
			}
			if err := c.dst.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			bytes := before[start:]
			for i := range 600 {
				from := i
				if c.src == turned {
					from = i%20*30 + i/20
				}
				binary.LittleEndian.PutUint32(bytes[600+4*i:], math.Float32bits(float32(bytes[from])*0.5+3)) // exact
			}
			if !slices.Equal(room, before) {
				t.Errorf("%v from %v: the memory has other bytes than the elements converted", c.dst, c.src)
			}
		}
	}
}
