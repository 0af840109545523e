package fake

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert/gpuconverttest"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// Dispatch implements driver.Driver.
func (d *Driver) Dispatch(id driver.ID, groups, threads [3]uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.encoding(id, compute)
	dst, src := e.buffers[0], e.buffers[1]
	size := uint64(threads[0]) * uint64(threads[1]) * uint64(threads[2])
	switch {
	case e.pipeline == nil || dst.object == nil || src.object == nil:
		d.report("dispatchThreadgroups: without a pipeline or buffers")
		return
	case uint64(groups[0])*uint64(groups[1])*uint64(groups[2]) == 0 || size == 0 || size > uint64(d.config.Threads):
		d.report("dispatchThreadgroups:%v threadsPerThreadgroup:%v", groups, threads)
		return
	}
	launch := gather
	if e.pipeline.name == gpuconvert.Kernel {
		launch = convert
	}
	work, err := launch(e.pipeline.name, threads, e.bytes, dst, src)
	if err != nil {
		d.report("%v", err)
		return
	}
	e.use(d, dst.object, true)
	e.use(d, src.object, false)
	e.works = append(e.works, work)
}

// fits reports whether elements of size bytes lie in a buffer, from the lowest to the highest, behind its offset.
func (b binding) fits(low, high int64, size uint64) bool {
	return low >= 0 && b.object.inside(b.offset, uint64(high+1)*size)
}

// address is where a kernel finds the buffer.
func (b binding) address() uintptr { return b.object.address + uintptr(b.offset) }

// gather returns the work of a kernel of package gpucopy. It fails if the kernel leaves its buffers.
func gather(name string, threads [3]uint32, constants []byte, dst, src binding) (func(), error) {
	var word uint64
	_, _ = fmt.Sscanf(name, "gather%d", &word)
	var k gpucopy.Constants
	switch {
	case word == 0 || len(constants) != int(unsafe.Sizeof(k)):
		return nil, fmt.Errorf("the function %s got %d bytes of constants", name, len(constants))
	case threads != [3]uint32{gpucopy.GroupSize, 1, 1}:
		return nil, fmt.Errorf("the kernels need threadgroups of %d threads, not of %v", gpucopy.GroupSize, threads)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), constants)
	low, high := reach(k.DstFirst, k.DstStep[:], k.N[:])
	srcLow, srcHigh := reach(k.SrcFirst, k.SrcStep[:], k.N[:])
	if !dst.fits(low, high, word) || !src.fits(srcLow, srcHigh, word) {
		return nil, fmt.Errorf("the kernel leaves its buffers: words %d to %d of %v, %d to %d of %v", low, high, dst.object, srcLow, srcHigh, src.object)
	}
	return func() { gatherWords(k, word, dst, src) }, nil
}

// convert returns the work of the kernel of package gpuconvert, as gather does.
func convert(name string, threads [3]uint32, constants []byte, dst, src binding) (func(), error) {
	var k gpuconvert.Constants
	switch {
	case len(constants) != int(unsafe.Sizeof(k)):
		return nil, fmt.Errorf("the function %s got %d bytes of constants", name, len(constants))
	case threads != [3]uint32{gpuconvert.GroupSize, 1, 1}:
		return nil, fmt.Errorf("the kernel needs threadgroups of %d threads, not of %v", gpuconvert.GroupSize, threads)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), constants)
	to, from, ok := k.Types()
	if !ok || k.Channels == 0 || k.Channels > gpuconvert.MaxChannels {
		return nil, fmt.Errorf("the function %s got the constants %+v", name, k)
	}
	n := append([]uint32{k.Channels}, k.N[:]...)
	low, high := reach(k.DstFirst, append([]int32{k.ChannelDst}, k.DstStep[:]...), n)
	srcLow, srcHigh := reach(k.SrcFirst, append([]int32{k.ChannelSrc}, k.SrcStep[:]...), n)
	if !dst.fits(low, high, uint64(to.Bits)/8) || !src.fits(srcLow, srcHigh, uint64(from.Bits)/8) {
		return nil, fmt.Errorf("the kernel leaves its buffers: elements %d to %d of %v, %d to %d of %v", low, high, dst.object, srcLow, srcHigh, src.object)
	}
	return func() {
		if err := gpuconverttest.Run(k, dst.address(), src.address()); err != nil {
			panic(err) // the constants were checked
		}
	}, nil
}

// reach returns the lowest and the highest word that a kernel uses on one side.
func reach(first int32, steps []int32, n []uint32) (low, high int64) {
	low, high = int64(first), int64(first)
	for i, s := range steps {
		if n[i] == 0 {
			return math.MinInt64, 0
		}
		if far := int64(s) * int64(n[i]-1); far < 0 {
			low += far
		} else {
			high += far
		}
	}
	return low, high
}

// gatherWords does what the kernel does, word by word.
func gatherWords(k gpucopy.Constants, word uint64, dst, src binding) {
	var at [gpucopy.MaxAxes]uint32
	to, from := int64(k.DstFirst), int64(k.SrcFirst)
	for {
		copy(dst.object.bytesAt(dst.offset+uint64(to)*word, word), src.object.bytesAt(src.offset+uint64(from)*word, word))
		i := 0
		for ; i < len(at); i++ {
			at[i]++
			to, from = to+int64(k.DstStep[i]), from+int64(k.SrcStep[i])
			if at[i] < k.N[i] {
				break
			}
			to, from = to-int64(k.DstStep[i])*int64(k.N[i]), from-int64(k.SrcStep[i])*int64(k.N[i])
			at[i] = 0
		}
		if i == len(at) {
			return
		}
	}
}
