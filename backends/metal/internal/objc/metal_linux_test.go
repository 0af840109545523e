//go:build amd64 || arm64

package objc

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// fakeMetal is testdata/metal.c, which stands for Metal and for the Objective-C runtime: its functions get arguments and
// return results as the C compiler of this processor passes them. It proves nothing about Metal itself.
type fakeMetal struct {
	*Metal
	live   uintptr // function: the number of objects
	listed *int64  // how many devices MTLCopyAllDevices returns
}

var open = sync.OnceValues(func() (*fakeMetal, error) {
	folder, err := os.MkdirTemp("", "metal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	cc := strings.Fields(os.Getenv("CC"))
	if len(cc) == 0 {
		cc = []string{"cc"}
	}
	path := filepath.Join(folder, "libmetal.so")
	cc = append(cc, "-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-o", path, "testdata/metal.c")
	if out, err := exec.Command(cc[0], cc[1:]...).CombinedOutput(); err != nil {
		return nil, &exec.Error{Name: strings.Join(cc, " ") + "\n" + string(out), Err: err}
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	lookup := func(name string) (uintptr, error) { return purego.Dlsym(library, name) }
	s := &fakeMetal{Metal: &Metal{system: "macOS of metal.c"}}
	makeBlock, _ := lookup("block_make")
	releaseBlock, _ := lookup("block_release")
	if s.live, err = lookup("live_objects"); err != nil {
		return nil, err
	}
	listed, err := lookup("listed")
	if err != nil {
		return nil, err
	}
	s.listed = *(**int64)(unsafe.Pointer(&listed))
	// As with purego's blocks, there is one function of C for all blocks, and a map of what they call.
	var blocks sync.Map
	invoke := purego.NewCallback(func(block, commands uintptr) uintptr {
		f, _ := blocks.LoadAndDelete(block)
		f.(func(driver.ID))(driver.ID(commands))
		return 0
	})
	s.newBlock = func(f func(driver.ID)) (uintptr, func()) {
		block := call(makeBlock, invoke)
		blocks.Store(block, f)
		return block, func() { call(releaseBlock, block) }
	}
	return s, s.load(lookup)
})

// opened returns the fake. Every object must be released when the test ends.
func opened(t *testing.T) *fakeMetal {
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	before := call(s.live)
	t.Cleanup(func() {
		deadline := time.Now().Add(time.Minute) // the thread that completes a command buffer releases it last
		for call(s.live) != before && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if live := call(s.live); live != before {
			t.Errorf("%d objects are left", live-before)
		}
	})
	return s
}

func (s *fakeMetal) buffer(t *testing.T, device driver.ID, n uint64) (id driver.ID, contents []byte) {
	id = s.NewBuffer(device, n, driver.StorageShared)
	if id == 0 {
		t.Fatal("no buffer")
	}
	t.Cleanup(func() { s.Release(id) })
	address := s.Buffer(id).Contents
	return id, unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// submit commits what encode encodes, and returns the error of the work.
func (s *fakeMetal) submit(device driver.ID, encode func(commands driver.ID)) *driver.Error {
	queue := s.NewCommandQueue(device, 64)
	defer s.Release(queue)
	done := make(chan *driver.Error, 1)
	s.Pool(func() {
		commands := s.CommandBuffer(queue)
		encode(commands)
		s.Commit(commands, func(err *driver.Error) { done <- err })
	})
	return <-done
}

func TestDevices(t *testing.T) {
	s := opened(t)
	devices := s.CopyDevices()
	if len(devices) != 2 {
		t.Fatalf("%d devices", len(devices))
	}
	want := driver.DeviceInfo{
		Name: "first", RegistryID: 0x1234567890abcdef, Unified: true, WorkingSet: 1 << 40, MaxBufferLength: 1 << 20,
		MaxThreads: [3]uint32{1024, 512, 1<<32 - 1}, System: "macOS of metal.c", PageSize: int64(os.Getpagesize()),
	}
	if got := s.Describe(devices[0]); got != want {
		t.Errorf("the first device is %+v; want %+v", got, want)
	}
	want.Name, want.Unified = "sécond", false
	if got := s.Describe(devices[1]); got != want {
		t.Errorf("the second device is %+v; want %+v", got, want)
	}
	if n := s.AllocatedSize(devices[0]); n != 77 {
		t.Errorf("%d bytes are allocated", n)
	}
	*s.listed = 0
	hidden := s.CopyDevices()
	*s.listed = 2
	if len(hidden) != 1 || hidden[0] != devices[1] {
		t.Fatalf("without a list the devices are %v; want the default device, %v", hidden, devices[1])
	}
	for _, d := range append(devices, hidden...) {
		s.Release(d) // the fake ends the process if d was not an owner
	}
}

func TestBuffers(t *testing.T) {
	s := opened(t)
	device := s.CopyDevices()[0]
	private := s.NewBuffer(device, 100, driver.StoragePrivate)
	if got, want := s.Buffer(private), (driver.BufferInfo{Device: device, Length: 100, Storage: driver.StoragePrivate}); got != want {
		t.Errorf("the private buffer is %+v; want %+v", got, want)
	}
	s.Retain(private)
	s.Release(private)
	if !s.Conforms(private, driver.ProtocolBuffer) || s.Conforms(private, driver.ProtocolQueue) || s.Conforms(0, driver.ProtocolBuffer) {
		t.Error("a buffer does not conform to what it is")
	}
	s.Release(private)
	for _, n := range []uint64{0, 1<<20 + 1, 1 << 63} { // the fake ends the process if it is asked
		if b := s.NewBuffer(device, n, driver.StorageShared); b != 0 {
			t.Errorf("a buffer of %d bytes", n)
		}
	}
	memory := make([]byte, 3*4096)
	pinner := runtime.Pinner{}
	pinner.Pin(&memory[0])
	defer pinner.Unpin()
	start := (uintptr(unsafe.Pointer(&memory[0])) + 4095) &^ 4095
	deallocated := 0
	host := s.NewBufferNoCopy(device, start, 4096, driver.StorageShared, func() { deallocated++ })
	if got, want := s.Buffer(host), (driver.BufferInfo{Device: device, Length: 4096, Contents: start}); got != want {
		t.Errorf("the buffer of host memory is %+v; want %+v", got, want)
	}
	s.Retain(host)
	s.Release(host)
	if deallocated != 0 {
		t.Error("the deallocator was called, and the buffer has an owner")
	}
	s.Release(host)
	if b := s.NewBufferNoCopy(device, start+1, 4096, driver.StorageShared, func() { deallocated++ }); b != 0 {
		t.Error("Metal refuses the memory, and there is a buffer")
	}
	if deallocated != 1 {
		t.Errorf("the deallocator was called %d times", deallocated)
	}
	if q := s.NewCommandQueue(device, 63); q != 0 {
		t.Error("the number of command buffers was not passed")
	}
}

func TestCopies(t *testing.T) {
	s := opened(t)
	device := s.CopyDevices()[1]
	from, in := s.buffer(t, device, 64)
	to, out := s.buffer(t, device, 64)
	for i := range in {
		in[i] = byte(i + 1)
	}
	want := append(append(make([]byte, 4), in[16:36]...), make([]byte, 40)...)
	event := s.NewSharedEvent(device)
	defer s.Release(event)
	if err := s.submit(device, func(commands driver.ID) {
		s.SetValue(event, 1<<40+1)
		s.EncodeWait(commands, event, 1<<40)
		blit := s.BlitEncoder(commands)
		s.CopyBuffer(blit, to, 4, from, 16, 20)
		s.EndEncoding(blit)
		s.EncodeSignal(commands, event, 1<<41)
	}); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(out, want) {
		t.Errorf("the copy is %v; want %v", out, want)
	}
	if v := s.Value(event); v != 1<<41 {
		t.Errorf("the event has the value %#x", v)
	}
	for _, c := range []struct {
		value  uint64
		atMost time.Duration
		want   bool
	}{{1 << 41, 0, true}, {1<<41 + 1, 0, false}, {1<<41 + 1, 11*time.Millisecond + 1, true}, {1<<41 + 1, -time.Hour, false}, {1<<41 + 1, 1<<63 - 1, false}} {
		if got := s.WaitValue(event, c.value, c.atMost); got != c.want {
			t.Errorf("WaitValue(%#x, %v) is %v", c.value, c.atMost, got)
		}
	}
	queue := s.NewCommandQueue(device, 64)
	defer s.Release(queue)
	if s.QueueDevice(queue) != device {
		t.Error("the device of the queue is another one")
	}
}

// pipeline makes the pipeline of a function.
func (s *fakeMetal) pipeline(device driver.ID, source, name string) (driver.ID, driver.PipelineInfo, *driver.Error) {
	library, err := s.NewLibrary(device, source)
	if err != nil {
		return 0, driver.PipelineInfo{}, err
	}
	defer s.Release(library)
	function := s.NewFunction(library, name)
	if function == 0 {
		return 0, driver.PipelineInfo{}, &driver.Error{Text: "no function"}
	}
	defer s.Release(function)
	return s.NewPipeline(device, function)
}

func TestKernels(t *testing.T) {
	s := opened(t)
	device := s.CopyDevices()[0]
	pipeline, info, failed := s.pipeline(device, "kernel ", "kernel")
	if failed != nil || info.MaxThreads != 768 {
		t.Fatalf("the pipeline is %+v, and its error %v", info, failed)
	}
	defer s.Release(pipeline)
	to, out := s.buffer(t, device, 128)
	constants := []byte("constants")
	if err := s.submit(device, func(commands driver.ID) {
		compute := s.ComputeEncoder(commands)
		s.SetPipeline(compute, pipeline)
		s.SetBuffer(compute, to, 16, 7)
		s.SetBytes(compute, constants, 9)
		s.Dispatch(compute, [3]uint32{1, 2, 1<<32 - 1}, [3]uint32{4, 5, 6})
		s.EndEncoding(compute)
	}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 16, 128)
	for _, n := range []uint64{1, 2, 1<<32 - 1, 4, 5, 6, 7<<8 | 9} {
		want = binary.LittleEndian.AppendUint64(want, n)
	}
	if want = append(want, constants...); !bytes.Equal(out[:len(want)], want) {
		t.Errorf("the kernel got %v; want %v", out[:len(want)], want)
	}
}

func TestErrors(t *testing.T) {
	s := opened(t)
	device := s.CopyDevices()[0]
	for _, c := range []struct {
		source, name string
		want         driver.Error
	}{
		{"wrong", "", driver.Error{Domain: "MTLLibraryErrorDomain", Code: 3, Text: "the source is wrong"}},
		{"kernel", "other", driver.Error{Text: "no function"}},
		{"refused", "refused", driver.Error{Domain: "CompilerErrorDomain", Code: -2, Text: "refused"}},
	} {
		if p, _, err := s.pipeline(device, c.source, c.name); p != 0 || err == nil || *err != c.want {
			t.Errorf("%q: %v, %+v; want %+v", c.source, p, err, c.want)
		}
	}
	if err := s.failure(0); err == nil || err.Text == "" {
		t.Error("Metal fails without an error, and that is none")
	}
	pipeline, _, _ := s.pipeline(device, "faulty", "faulty")
	defer s.Release(pipeline)
	to, _ := s.buffer(t, device, 128)
	err := s.submit(device, func(commands driver.ID) {
		compute := s.ComputeEncoder(commands)
		s.SetPipeline(compute, pipeline)
		s.SetBuffer(compute, to, 0, 0)
		s.Dispatch(compute, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1})
		s.EndEncoding(compute)
	})
	if want := (driver.Error{Domain: driver.CommandBufferDomain, Code: driver.ErrPageFault, Text: "a page fault"}); err == nil || *err != want {
		t.Errorf("the error of the work is %+v; want %+v", err, want)
	}
}

// TestGoroutines calls Metal from many goroutines at once, while others grow their stacks and collect garbage.
func TestGoroutines(t *testing.T) {
	s := opened(t)
	device := s.CopyDevices()[0]
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			from, in := s.buffer(t, device, 256)
			to, out := s.buffer(t, device, 256)
			for i := range 20 {
				in[i] = byte(g + i + 1)
				if err := s.submit(device, func(commands driver.ID) {
					blit := s.BlitEncoder(commands)
					s.CopyBuffer(blit, to, 0, from, 0, 256)
					s.EndEncoding(blit)
				}); err != nil || !bytes.Equal(in, out) {
					t.Errorf("goroutine %d, copy %d: %v", g, i, err)
				}
				if _, _, err := s.pipeline(device, "wrong", ""); err == nil {
					t.Error("no error")
				}
			}
		})
	}
	for range 20 {
		runtime.GC()
	}
	all.Wait()
}

// TestMissing: a library without one of the functions is refused.
func TestMissing(t *testing.T) {
	if err := new(Metal).load(func(name string) (uintptr, error) { return purego.Dlsym(0, "no such function") }); err == nil {
		t.Error("all functions were found where there are none")
	}
}
