//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"testing"

	"github.com/dlx-go/dlx/core"
)

// BenchmarkTimedStream compares streams with and without CL_QUEUE_PROFILING_ENABLE: 64 small copies and their end. The
// last one also makes two marks.
func BenchmarkTimedStream(b *testing.B) {
	needDriver(b, OpenCL)
	d, err := OpenCL.Backend().Open(b.Context(), core.DeviceID{Type: core.DeviceOpenCL})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	clock, ok := core.As[core.DeviceClock](d)
	if !ok {
		b.Skip("the device has no clock")
	}
	dst, err := core.Empty(b.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer dst.Close()
	src, err := core.Empty(b.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	for _, x := range []struct {
		name  string
		open  func() (core.Stream, error)
		marks int
	}{
		{"plain", func() (core.Stream, error) { return d.NewStream(b.Context()) }, 0},
		{"timed", func() (core.Stream, error) { return clock.NewTimedStream(b.Context()) }, 0},
		{"marked", func() (core.Stream, error) { return clock.NewTimedStream(b.Context()) }, 2},
	} {
		b.Run(x.name, func(b *testing.B) {
			s, err := x.open()
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				for i := range 64 {
					if i < x.marks {
						m, err := clock.Mark(s)
						if err != nil {
							b.Fatal(err)
						}
						if err := m.Close(); err != nil {
							b.Fatal(err)
						}
					}
					if err := d.Copy(b.Context(), s, dst, src); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Synchronize(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
