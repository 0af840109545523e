package coretest

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// object is what a handle of an opaque device stands for.
type object struct {
	device  *Device
	address uintptr // of the host
	size    int64
	keep    []byte          // what lies there, unless somebody else keeps it
	visible bool            // HostView shows it
	export  core.HandleType // what it was allocated for
}

// objects are those of a backend, by handle. The zero value has none.
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

// remove forgets a handle.
func (o *objects) remove(handle uintptr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.list, handle)
}

// drop forgets the handles of a device.
func (o *objects) drop(d *Device) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for handle, x := range o.list {
		if x.device == d {
			delete(o.list, handle)
		}
	}
}

// locate finds the first element of a tensor: by its address or, where that lies
// on an opaque device, by handle and offset.
func (b *Backend) locate(t *core.Tensor) (uintptr, error) {
	if !t.ID().Type.OpaqueHandle() {
		return t.Address()
	}
	buffer, err := t.Buffer()
	if err != nil {
		return 0, err
	}
	x, ok := b.objects.find(buffer.Memory().Handle)
	if !ok && !t.IsEmpty() {
		return 0, b.errorf(core.ErrInvalid, "Copy", "%#x is no handle of this backend", buffer.Memory().Handle)
	}
	return x.address + uintptr(t.Offset()), nil
}

// shared is how many blocks an object has, as long as they are small.
const shared = 4

// blockOfObject cuts a block of an object which it shares with others, so that a
// handle without its offset says nothing. d.mu is held.
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

// drop forgets a block of an object, and with the last one the object. d.mu is held.
func (d *Device) drop(b block) {
	p := &d.pool
	if p.made[b.handle] -= int64(len(b.bytes)); p.made[b.handle] == 0 {
		delete(p.made, b.handle)
		d.backend.objects.remove(b.handle)
	}
}
