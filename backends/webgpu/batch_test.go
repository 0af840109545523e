//go:build webgpu && linux && cgo

package webgpu

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// rows makes tensors of these sizes, of the device and of the host. Those of the host have contents that differ, also from those of another seed.
func rows(t *testing.T, d core.Device, seed byte, sizes ...int64) (device, host []*core.Tensor, contents [][]byte) {
	t.Helper()
	for i, n := range sizes {
		x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{n}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		contents = append(contents, bytes.Repeat([]byte{byte(i + 1), byte(i >> 8), byte(i), seed}, int(n/4)))
		device = append(device, x)
		host = append(host, coretest.Keep(t)(core.FromSlice(bytes.Clone(contents[i]))))
	}
	return device, host, contents
}

// openFaulty opens a device whose calls can be made to fail, and closes it after the tensors of the test.
func openFaulty(t *testing.T) *device {
	t.Helper()
	closeDevice(t, open(t))
	installFaults()
	d := open(t)
	t.Cleanup(func() { closeDevice(t, d) })
	return d.(*device)
}

// submits is the index of wgpuQueueSubmitForIndex.
func submits() int { return slices.Index(faults.Calls(), "wgpuQueueSubmitForIndex") }

// However many copies a batch has, they are one submission for each piece, and all bytes arrive.
func TestABatchIsOneSubmission(t *testing.T) {
	many := func(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }
	for _, c := range []struct {
		name   string
		sizes  []int64
		atMost int64
	}{
		{"small", many(1000, 4<<10), 1},
		{"sizes that do not fill the staging memory", append(many(9, 60<<10), 4, smallCopy, smallCopy+4, 8), 1},
		{"more than a piece", append(many(5, 5<<20), 100, piece, 100), 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openFaulty(t)
			there, here, contents := rows(t, d, 1, c.sizes...)
			others, back, _ := rows(t, d, 2, c.sizes...)
			for _, x := range []struct {
				what     string
				dst, src []*core.Tensor
			}{{"uploads", there, here}, {"copies within the device", others, there}, {"downloads", back, others}} {
				faults.Arm(submits(), c.atMost+1, false)
				err := d.CopyBatch(t.Context(), nil, x.dst, x.src)
				if faults.Disarm(submits()) || err != nil {
					t.Fatalf("%s: more than %d submissions, or an error: %v", x.what, c.atMost, err)
				}
			}
			for i, x := range back {
				got, err := core.ToSlice[byte](t.Context(), x)
				if err != nil || !bytes.Equal(got, contents[i]) {
					t.Errorf("tensor %d came back with other bytes, error %v", i, err)
				}
			}
		})
	}
}

// If the submission of a batch fails, each of its tensors reports that, and a later copy works.
func TestAllTensorsOfABatchReportAFailure(t *testing.T) {
	d := openFaulty(t)
	there, here, contents := rows(t, d, 1, slices.Repeat([]int64{4 << 10}, 20)...)
	others, back, old := rows(t, d, 2, slices.Repeat([]int64{4 << 10}, 20)...)
	for _, x := range []struct {
		what     string
		dst, src []*core.Tensor
	}{{"uploads", there, here}, {"copies within the device", others, there}, {"downloads", back, others}} {
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		faults.Arm(submits(), 1, false)
		err = d.CopyBatch(t.Context(), s, x.dst, x.src)
		failed := s.Synchronize(t.Context())
		if !faults.Disarm(submits()) || err != nil {
			t.Fatalf("%s: nothing was submitted, or an error: %v", x.what, err)
		}
		for i := range x.dst {
			var typed *core.Error
			if err := x.dst[i].WaitReady(t.Context()); !errors.As(err, &typed) || typed.Call != "wgpuQueueSubmitForIndex" {
				t.Errorf("%s: dst[%d]: error %v", x.what, i, err)
			}
		}
		if failed == nil {
			t.Errorf("%s: Synchronize reports no error", x.what)
		}
		_ = s.Close()
		for i, y := range x.dst { // the call that was made to fail has submitted all the same
			if x.what != "downloads" {
				if err := d.Copy(t.Context(), nil, y, coretest.Keep(t)(core.FromSlice(bytes.Clone(old[i])))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := d.CopyBatch(t.Context(), nil, x.dst, x.src); err != nil {
			t.Errorf("%s: again: %v", x.what, err)
		}
	}
	for i, x := range back {
		got, err := core.ToSlice[byte](t.Context(), x)
		if err != nil || !bytes.Equal(got, contents[i]) {
			t.Errorf("tensor %d came back with other bytes, error %v", i, err)
		}
	}
}
