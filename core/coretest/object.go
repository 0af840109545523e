package coretest

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// object is the memory that a handle of an opaque device stands for.
type object struct {
	device  *Device
	address uintptr // on the host
	size    int64
	keep    []byte          // keeps the memory alive; nil if an Owner does
	visible bool            // HostView accepts it
	export  core.HandleType // it can be exported as this type; 0 if it cannot
}

// objects are the objects of a backend, by handle. The zero value has none.
type objects struct {
	mu   sync.Mutex
	last uintptr
	list map[uintptr]object
}

// add returns the handle of a new object.
func (o *objects) add(x object) uintptr {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = make(map[uintptr]object)
	}
	o.last++
	o.list[o.last] = x
	return o.last
}

// find returns the object of a handle.
func (o *objects) find(handle uintptr) (object, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x, ok := o.list[handle]
	return x, ok
}

// remove removes the object of a handle.
func (o *objects) remove(handle uintptr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.list, handle)
}

// drop removes the objects of a device.
func (o *objects) drop(d *Device) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for handle, x := range o.list {
		if x.device == d {
			delete(o.list, handle)
		}
	}
}

// locate returns the address of the first element of a tensor. On an opaque device, it finds
// the address by handle and offset.
func (b *Backend) locate(t *core.Tensor) (uintptr, error) {
	if !t.DeviceID().Type.OpaqueHandle() {
		return t.Address()
	}
	buffer, err := t.Buffer()
	if err != nil {
		return 0, err
	}
	x, ok := b.objects.find(buffer.Memory().Handle)
	if !ok && !t.IsEmpty() {
		return 0, b.errorf(core.ErrInvalid, "Copy", "%#x is not a handle of this backend", buffer.Memory().Handle)
	}
	return x.address + uintptr(t.Offset()), nil
}

// shared is the number of blocks in an object, if they are small.
const shared = 4

// blockOfObject returns a new block. Several blocks share one object, so that a handle
// identifies a block only together with its offset. d.mu is held.
func (d *Device) blockOfObject(k kind) block {
	p := &d.pool
	if p.rest == nil {
		p.rest, p.made = make(map[kind]block), make(map[uintptr]int64)
	}
	b := p.rest[k]
	if len(b.bytes) == 0 {
		size := k.class
		if size <= 1<<16 {
			size *= shared
		}
		b = block{bytes: aligned(size), kind: k}
		b.handle = d.backend.objects.add(object{device: d, address: addressOf(b.bytes), size: size, keep: b.bytes, visible: k.visible})
		p.made[b.handle] = size
	}
	rest := b
	rest.bytes, rest.offset = b.bytes[k.class:], b.offset+k.class
	p.rest[k] = rest
	b.bytes = b.bytes[:k.class:k.class]
	return b
}

// drop drops a block. With the last block of an object, it removes the object. d.mu is held.
func (d *Device) drop(b block) {
	p := &d.pool
	if p.made[b.handle] -= int64(len(b.bytes)); p.made[b.handle] == 0 {
		delete(p.made, b.handle)
		d.backend.objects.remove(b.handle)
	}
}
