//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// Metal is Apple's Metal.
type Metal struct {
	functions
	selectors [methodCount]uintptr
	protocols map[driver.Protocol]uintptr // those that the runtime does not know are missing
	nsString  driver.ID                   // the class, which lives as long as the process
	system    string

	// newBlock makes a block that calls f with its first argument. The caller owns the block, and releases it by the function.
	newBlock func(f func(commands driver.ID)) (block uintptr, release func())
}

var _ driver.Driver = (*Metal)(nil)

// load finds all functions, selectors and classes. It owns nothing that must be released.
func (m *Metal) load(lookup func(name string) (uintptr, error)) error {
	if err := m.find(lookup); err != nil {
		return err
	}
	for i := range methods {
		m.selectors[i] = m.named(m.registerName, methods[i].Selector)
	}
	m.protocols = map[driver.Protocol]uintptr{}
	for _, p := range []driver.Protocol{driver.ProtocolBuffer, driver.ProtocolQueue, driver.ProtocolSharedEvent} {
		if found := m.named(m.getProtocol, string(p)); found != 0 {
			m.protocols[p] = found
		}
	}
	if m.nsString = driver.ID(m.named(m.getClass, "NSString")); m.nsString == 0 {
		return errors.New("the Objective-C runtime has no class NSString")
	}
	return nil
}

// Pool implements [driver.Driver].
func (m *Metal) Pool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := call(m.pushPool)
	defer call(m.popPool, pool)
	f()
}

// pooled returns the result of f, which is called with a pool for what Metal autoreleases on the way.
func pooled[T any](m *Metal, f func() T) (result T) {
	m.Pool(func() { result = f() })
	return result
}

// Retain implements [driver.Driver].
func (m *Metal) Retain(object driver.ID) { call(m.retain, uintptr(object)) }

// Release implements [driver.Driver]. What Metal autoreleases when it deallocates the object needs a pool.
func (m *Metal) Release(object driver.ID) {
	m.Pool(func() { call(m.release, uintptr(object)) })
}

// Conforms implements [driver.Driver].
func (m *Metal) Conforms(object driver.ID, p driver.Protocol) bool {
	protocol := m.protocols[p]
	return object != 0 && protocol != 0 && isTrue(m.message(object, conformsToProtocol, protocol))
}

// CopyDevices implements [driver.Driver]. In a sandbox the list may be empty although there is a default device
// (iree-org/iree, issue 24834), which is the only device then.
func (m *Metal) CopyDevices() (devices []driver.ID) {
	m.Pool(func() {
		list := driver.ID(call(m.copyDevices))
		for i := range m.message(list, arrayCount) { // 0 if there is no list
			device := m.message(list, objectAtIndex, i)
			devices = append(devices, driver.ID(call(m.retain, device)))
		}
		call(m.release, uintptr(list))
		if len(devices) == 0 {
			if device := driver.ID(call(m.createDevice)); device != 0 {
				devices = append(devices, device)
			}
		}
	})
	return devices
}

// Describe implements [driver.Driver].
func (m *Metal) Describe(device driver.ID) (info driver.DeviceInfo) {
	m.Pool(func() {
		threads := m.sendSize(device, m.selectors[maxThreadsPerThreadgroup])
		info = driver.DeviceInfo{
			Name:            m.text(m.message(device, deviceName)),
			RegistryID:      uint64(m.message(device, registryID)),
			Unified:         isTrue(m.message(device, hasUnifiedMemory)),
			WorkingSet:      uint64(m.message(device, workingSetSize)),
			MaxBufferLength: uint64(m.message(device, maxBufferLength)),
			MaxThreads:      [3]uint32{clamp(threads.width), clamp(threads.height), clamp(threads.depth)},
			System:          m.system,
			PageSize:        int64(os.Getpagesize()),
		}
	})
	return info
}

// AllocatedSize implements [driver.Driver].
func (m *Metal) AllocatedSize(device driver.ID) uint64 {
	return pooled(m, func() uint64 { return uint64(m.message(device, currentAllocatedSize)) })
}

// NewBuffer implements [driver.Driver].
func (m *Metal) NewBuffer(device driver.ID, length uint64, options driver.Options) driver.ID {
	return pooled(m, func() driver.ID {
		if !m.canAllocate(device, length) {
			return 0
		}
		return driver.ID(m.message(device, newBuffer, uintptr(length), uintptr(options)))
	})
}

// NewBufferNoCopy implements [driver.Driver]. The buffer copies the block, and releases it after it has called it. The
// block has two arguments, the address and the length; both are known here.
func (m *Metal) NewBufferNoCopy(device driver.ID, address uintptr, length uint64, options driver.Options, deallocated func()) driver.ID {
	return pooled(m, func() driver.ID {
		if !m.canAllocate(device, length) {
			return 0
		}
		block, release := m.newBlock(func(driver.ID) { deallocated() })
		defer release()
		return driver.ID(m.message(device, newBufferNoCopy, address, uintptr(length), uintptr(options), block))
	})
}

// canAllocate reports whether a buffer may have the length. Metal's validation layer ends the process for others.
func (m *Metal) canAllocate(device driver.ID, length uint64) bool {
	return length != 0 && length <= uint64(m.message(device, maxBufferLength))
}

// Buffer implements [driver.Driver].
func (m *Metal) Buffer(buffer driver.ID) (info driver.BufferInfo) {
	m.Pool(func() {
		info = driver.BufferInfo{
			Device:  driver.ID(m.message(buffer, resourceDevice)),
			Length:  uint64(m.message(buffer, bufferLength)),
			Storage: driver.Options(m.message(buffer, storageMode)) << 4,
		}
		if info.Storage != driver.StoragePrivate {
			info.Contents = m.message(buffer, bufferContents)
		}
	})
	return info
}

// NewCommandQueue implements [driver.Driver].
func (m *Metal) NewCommandQueue(device driver.ID, maxCommandBuffers int) driver.ID {
	return pooled(m, func() driver.ID { return driver.ID(m.message(device, newCommandQueue, uintptr(maxCommandBuffers))) })
}

// QueueDevice implements [driver.Driver].
func (m *Metal) QueueDevice(queue driver.ID) driver.ID {
	return pooled(m, func() driver.ID { return driver.ID(m.message(queue, queueDevice)) })
}

// CommandBuffer implements [driver.Driver]. The caller's pool keeps the result.
func (m *Metal) CommandBuffer(queue driver.ID) driver.ID {
	return driver.ID(m.message(queue, commandBuffer))
}

// EncodeWait implements [driver.Driver].
func (m *Metal) EncodeWait(commands, event driver.ID, value uint64) {
	m.message(commands, encodeWait, uintptr(event), uintptr(value))
}

// EncodeSignal implements [driver.Driver].
func (m *Metal) EncodeSignal(commands, event driver.ID, value uint64) {
	m.message(commands, encodeSignal, uintptr(event), uintptr(value))
}

// BlitEncoder implements [driver.Driver]. The caller's pool keeps the result.
func (m *Metal) BlitEncoder(commands driver.ID) driver.ID {
	return driver.ID(m.message(commands, blitEncoder))
}

// ComputeEncoder implements [driver.Driver]. The caller's pool keeps the result.
func (m *Metal) ComputeEncoder(commands driver.ID) driver.ID {
	return driver.ID(m.message(commands, computeEncoder))
}

// EndEncoding implements [driver.Driver].
func (m *Metal) EndEncoding(encoder driver.ID) { m.message(encoder, endEncoding) }

// CopyBuffer implements [driver.Driver].
func (m *Metal) CopyBuffer(blit driver.ID, dst driver.ID, dstOffset uint64, src driver.ID, srcOffset, size uint64) {
	m.message(blit, copyBuffer, uintptr(src), uintptr(srcOffset), uintptr(dst), uintptr(dstOffset), uintptr(size))
}

// SetPipeline implements [driver.Driver].
func (m *Metal) SetPipeline(compute, pipeline driver.ID) {
	m.message(compute, setPipeline, uintptr(pipeline))
}

// SetBuffer implements [driver.Driver].
func (m *Metal) SetBuffer(compute, buffer driver.ID, offset uint64, index int) {
	m.message(compute, setBuffer, uintptr(buffer), uintptr(offset), uintptr(index))
}

// SetBytes implements [driver.Driver].
func (m *Metal) SetBytes(compute driver.ID, data []byte, index int) {
	m.message(compute, setBytes, uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(index))
}

// Dispatch implements [driver.Driver].
func (m *Metal) Dispatch(compute driver.ID, groups, threads [3]uint32) {
	m.sendDispatch(compute, sizeOf(groups), sizeOf(threads))
}

// Commit implements [driver.Driver]. The command buffer retains the block until it has called it, and with it done.
func (m *Metal) Commit(commands driver.ID, done func(err *driver.Error)) {
	block, release := m.newBlock(func(completed driver.ID) {
		done(pooled(m, func() *driver.Error {
			if m.message(completed, commandBufferStatus) != statusError {
				return nil
			}
			return m.failure(m.message(completed, commandBufferError))
		}))
	})
	defer release()
	m.Pool(func() {
		m.message(commands, addCompletedHandler, block)
		m.message(commands, commit)
	})
}

// NewSharedEvent implements [driver.Driver].
func (m *Metal) NewSharedEvent(device driver.ID) driver.ID {
	return pooled(m, func() driver.ID { return driver.ID(m.message(device, newSharedEvent)) })
}

// Value implements [driver.Driver].
func (m *Metal) Value(event driver.ID) uint64 {
	return pooled(m, func() uint64 { return uint64(m.message(event, signaledValue)) })
}

// SetValue implements [driver.Driver].
func (m *Metal) SetValue(event driver.ID, value uint64) {
	m.Pool(func() { m.message(event, setSignaledValue, uintptr(value)) })
}

// WaitValue implements [driver.Driver]. Programs of Go 1.25 need macOS 12, which has the method. A part of a millisecond
// counts as one.
func (m *Metal) WaitValue(event driver.ID, value uint64, atMost time.Duration) bool {
	milliseconds := max(0, atMost/time.Millisecond)
	if atMost%time.Millisecond > 0 {
		milliseconds++
	}
	return pooled(m, func() bool { return isTrue(m.message(event, waitValue, uintptr(value), uintptr(milliseconds))) })
}

// NewLibrary implements [driver.Driver]. Without options Metal takes the newest language of the system, which is MSL 2.4
// on macOS 12.
func (m *Metal) NewLibrary(device driver.ID, source string) (library driver.ID, err *driver.Error) {
	m.Pool(func() {
		text := m.string(source)
		if text == 0 { // Metal ends the process
			err = &driver.Error{Text: "the source is not UTF-8"}
			return
		}
		var failure uintptr
		library = driver.ID(m.message(device, newLibrary, text, 0, uintptr(unsafe.Pointer(&failure))))
		if library == 0 { // with a library there may be warnings
			err = m.failure(failure)
		}
	})
	return library, err
}

// NewFunction implements [driver.Driver].
func (m *Metal) NewFunction(library driver.ID, name string) driver.ID {
	return pooled(m, func() driver.ID {
		text := m.string(name)
		if text == 0 { // no function has such a name
			return 0
		}
		return driver.ID(m.message(library, newFunction, text))
	})
}

// NewPipeline implements [driver.Driver].
func (m *Metal) NewPipeline(device, function driver.ID) (pipeline driver.ID, info driver.PipelineInfo, err *driver.Error) {
	m.Pool(func() {
		var failure uintptr
		pipeline = driver.ID(m.message(device, newPipeline, uintptr(function), uintptr(unsafe.Pointer(&failure))))
		if pipeline == 0 {
			err = m.failure(failure)
			return
		}
		info.MaxThreads = clamp(m.message(pipeline, maxTotalThreads))
	})
	return pipeline, info, err
}

// failure reads an NSError. Metal may fail without one.
func (m *Metal) failure(object uintptr) *driver.Error {
	if object == 0 {
		return &driver.Error{Text: "Metal does not say why"}
	}
	e := driver.ID(object)
	return &driver.Error{
		Domain: m.text(m.message(e, errorDomain)),
		Code:   int(m.message(e, errorCode)),
		Text:   m.text(m.message(e, errorDescription)),
	}
}

// string returns an NSString of UTF-8, which the caller's pool keeps. It is nil if s is not UTF-8.
func (m *Metal) string(s string) uintptr {
	return m.message(m.nsString, stringWithCString, uintptr(unsafe.Pointer(cString(s))), encodingUTF8)
}

// text copies an NSString.
func (m *Metal) text(object uintptr) string {
	if object == 0 {
		return ""
	}
	return goString(m.message(driver.ID(object), utf8String))
}

// cString copies a string up to its first 0.
func cString(s string) *byte {
	b, _, _ := bytes.Cut([]byte(s), []byte{0})
	return unsafe.SliceData(append(b[:len(b):len(b)], 0))
}

func clamp(n uintptr) uint32 { return uint32(min(n, math.MaxUint32)) }

func sizeOf(n [3]uint32) *size { return &size{uintptr(n[0]), uintptr(n[1]), uintptr(n[2])} }
