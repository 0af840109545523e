//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// functions are the functions of C that this package calls, by their names.
type functions struct {
	copyDevices  uintptr // MTLCopyAllDevices
	createDevice uintptr // MTLCreateSystemDefaultDevice
	send         uintptr // objc_msgSend
	registerName uintptr // sel_registerName
	getClass     uintptr // objc_getClass
	getProtocol  uintptr // objc_getProtocol
	retain       uintptr // objc_retain
	release      uintptr // objc_release
	pushPool     uintptr // objc_autoreleasePoolPush
	popPool      uintptr // objc_autoreleasePoolPop

	// sendSize sends a message whose result is an MTLSize. Where such a result is returned depends on the processor.
	sendSize func(object driver.ID, selector uintptr) size
}

// size is an MTLSize.
type size struct{ width, height, depth uintptr }

// find finds every function by its name. lookup returns the address of a function.
func (f *functions) find(lookup func(name string) (uintptr, error)) error {
	sendSize := f.send
	for _, x := range []struct {
		address *uintptr
		name    string
	}{
		{&f.copyDevices, "MTLCopyAllDevices"},
		{&f.createDevice, "MTLCreateSystemDefaultDevice"},
		{&f.send, "objc_msgSend"},
		{&sendSize, sendSizeName()},
		{&f.registerName, "sel_registerName"},
		{&f.getClass, "objc_getClass"},
		{&f.getProtocol, "objc_getProtocol"},
		{&f.retain, "objc_retain"},
		{&f.release, "objc_release"},
		{&f.pushPool, "objc_autoreleasePoolPush"},
		{&f.popPool, "objc_autoreleasePoolPop"},
	} {
		address, err := lookup(x.name)
		if err != nil {
			return err
		}
		*x.address = address
	}
	purego.RegisterFunc(&f.sendSize, sendSize)
	return nil
}

// sendSizeName is the function for messages whose result is a struct of more than 16 bytes. On amd64 such a result has
// a hidden first argument, which objc_msgSend would take for the object.
func sendSizeName() string {
	if runtime.GOARCH == "amd64" {
		return "objc_msgSend_stret"
	}
	return "objc_msgSend"
}

// message sends a message with all arguments of the method, which are integers, objects, pointers and blocks. A pointer
// is converted to uintptr in the call, so that its memory stays in place until message returns. Of a result that is
// smaller than a register only the low bits count; see isTrue.
//
//go:uintptrescapes
func (m *Metal) message(object driver.ID, selector method, arguments ...uintptr) uintptr {
	all := [7]uintptr{uintptr(object), m.selectors[selector]}
	copy(all[2:], arguments)
	result, _, _ := purego.SyscallN(m.send, all[:]...)
	return result
}

// isTrue converts a BOOL, which is one byte of the result.
func isTrue(result uintptr) bool { return result&0xff != 0 }

// sendDispatch sends a message with two arguments of type MTLSize. A struct of 24 bytes is passed by a pointer to a
// copy on arm64 (Procedure Call Standard for the Arm 64-bit Architecture, rule B.4), and on the stack on amd64
// (System V ABI, section 3.2.3, class MEMORY), after the six registers for integers, of which the message needs two.
func (m *Metal) sendDispatch(object driver.ID, groups, threads *size) {
	if runtime.GOARCH == "arm64" {
		m.message(object, dispatch, uintptr(unsafe.Pointer(groups)), uintptr(unsafe.Pointer(threads)))
		return
	}
	purego.SyscallN(m.send, uintptr(object), m.selectors[dispatch], 0, 0, 0, 0,
		groups.width, groups.height, groups.depth, threads.width, threads.height, threads.depth)
}

// call calls a function of C that is not a method.
//
//go:uintptrescapes
func call(function uintptr, arguments ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(function, arguments...)
	return result
}

// named calls a function of C whose argument is a name.
func (f *functions) named(function uintptr, name string) uintptr {
	return call(function, uintptr(unsafe.Pointer(cString(name))))
}

// goString copies a string of C.
func goString(p uintptr) string {
	if p == 0 {
		return ""
	}
	return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&p))) // p is not memory of Go
}
