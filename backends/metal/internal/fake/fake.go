// Package fake is a Metal for tests, on every platform: it implements driver.Driver over host memory. It keeps the rules
// that package driver states, reports code that breaks them, and is as unhelpful as they allow: command buffers run late,
// overlap where Metal orders nothing, and are completed in any order; objects die as soon as nobody owns them. Nothing
// that it measures says anything of a GPU.
package fake

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// Config says what machine the fake is.
type Config struct {
	Seed    uint64
	Unified bool          // the GPUs share the host's memory
	Devices int           // GPUs; 0 means two
	Delay   time.Duration // the longest pause before each step of a command buffer; 0 means 50 us
	Memory  uint64        // bytes of each GPU; 0 means 1 GiB
	Threads uint32        // maxTotalThreadsPerThreadgroup; 0 means 1024
	// InOrder completes the command buffers of a queue in their order. Apple does not promise that; code relies on it.
	InOrder bool
	// Watchdog is how long a command buffer may wait for an event; 0 means two minutes, longer than any test.
	Watchdog time.Duration
}

// Driver is the fake.
type Driver struct {
	config   Config
	serial   bool       // one thread runs all handlers
	handling sync.Mutex // held meanwhile

	mu       sync.Mutex
	changed  sync.Cond // anything that somebody may wait for has changed
	rng      *rand.Rand
	last     driver.ID
	objects  map[driver.ID]*object
	devices  []driver.ID
	pools    map[uint64][][]driver.ID // autorelease pools by goroutine, the innermost last
	handlers int                      // that are running or will
	misuse   []string
	calls    map[string]int
	faults   map[string]*fault
	blocked  int // times that a full queue has kept a caller waiting
}

var _ driver.Driver = (*Driver)(nil)

// fault is what a call fails with.
type fault struct {
	nth  int // call from now on
	code int
}

// kind is the class of an object.
type kind string

const (
	device   kind = "MTLDevice"
	buffer   kind = "MTLBuffer"
	queue    kind = "MTLCommandQueue"
	commands kind = "MTLCommandBuffer"
	blit     kind = "MTLBlitCommandEncoder"
	compute  kind = "MTLComputeCommandEncoder"
	event    kind = "MTLSharedEvent"
	library  kind = "MTLLibrary"
	function kind = "MTLFunction"
	pipeline kind = "MTLComputePipelineState"
)

// object is an Objective-C object. Driver.mu guards it.
type object struct {
	id      driver.ID
	kind    kind
	refs    int
	device  driver.ID
	retains []driver.ID // released with the object
	name    string      // of a function or pipeline, the source of a library

	// MTLBuffer
	memory  []byte // of the device; nil for memory of the caller
	address uintptr
	length  uint64
	storage driver.Options
	// deallocated is called with Driver.mu held: it must not wait.
	deallocated func()

	// MTLCommandQueue
	room      int
	open      int // command buffers that are not completed or deallocated
	committed []*commandBuffer

	commandBuffer *commandBuffer // of command buffers and encoders
	encoder       *encoder

	// MTLSharedEvent
	value    uint64
	promised uint64 // the largest value whose signal is committed

	allocated uint64 // of a device
}

// New makes a machine.
func New(c Config) *Driver {
	set := func(n *uint64, value uint64) {
		if *n == 0 {
			*n = value
		}
	}
	set(&c.Memory, 1<<30)
	if c.Devices == 0 {
		c.Devices = 2
	}
	if c.Delay == 0 {
		c.Delay = 50 * time.Microsecond
	}
	if c.Threads == 0 {
		c.Threads = 1024
	}
	if c.Watchdog == 0 {
		c.Watchdog = 2 * time.Minute
	}
	d := &Driver{
		config: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), last: 0x7f0000000000,
		objects: make(map[driver.ID]*object), pools: make(map[uint64][][]driver.ID),
		calls: make(map[string]int), faults: make(map[string]*fault),
	}
	d.changed.L = &d.mu
	d.serial = d.rng.IntN(2) == 0
	for i := range c.Devices {
		d.devices = append(d.devices, d.make(device, 0).id)
		d.objects[d.devices[i]].name = fmt.Sprintf("dlx simulated Metal GPU %d", i)
	}
	return d
}

// Fail makes the nth call from now on of a method fail, where 1 is the next; 0 cancels that. A method that returns an object
// returns nil, with an error if it returns errors. The command buffer of a Commit is not carried out: code is that of its
// MTLCommandBufferError.
func (d *Driver) Fail(method string, nth, code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.faults, method)
	if nth > 0 {
		d.faults[method] = &fault{nth, code}
	}
}

// Calls returns how often each method that can fail was called.
func (d *Driver) Calls() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.calls)
}

// Blocked returns how often CommandBuffer has waited because a queue was full.
func (d *Driver) Blocked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.blocked
}

// Live returns the number of objects that exist, by class, without the GPUs, and of owners of GPUs beyond the first.
func (d *Driver) Live() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	live := make(map[string]int)
	for _, o := range d.objects {
		switch {
		case o.kind != device:
			live[string(o.kind)]++
		case o.refs > 1:
			live["owner of a GPU"] += o.refs - 1
		}
	}
	return live
}

// called counts a call of a method that can fail, and returns its error if it is to fail now. d.mu is held.
func (d *Driver) called(method string) *driver.Error {
	d.calls[method]++
	f := d.faults[method]
	if f == nil {
		return nil
	}
	if f.nth--; f.nth > 0 {
		return nil
	}
	delete(d.faults, method)
	return &driver.Error{Domain: driver.CommandBufferDomain, Code: f.code, Text: "a simulated failure"}
}

// Check waits until no handler runs, and returns what was done wrong, and the objects that are left.
func (d *Driver) Check() (misuse []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.handlers > 0 {
		d.changed.Wait()
	}
	misuse = append(misuse, d.misuse...)
	for _, o := range d.objects {
		if o.kind != device {
			misuse = append(misuse, fmt.Sprintf("%v is left with %d owners", o, o.refs))
		} else if o.refs != 1 {
			misuse = append(misuse, fmt.Sprintf("%v has %d owners too many", o, o.refs-1))
		}
	}
	return misuse
}

func (o *object) String() string { return fmt.Sprintf("%s %#x", o.kind, uintptr(o.id)) }

// report notes a broken rule, with the place that broke it. d.mu is held.
func (d *Driver) report(format string, args ...any) {
	if len(d.misuse) > 20 {
		return
	}
	var pcs [12]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	text := fmt.Sprintf(format, args...)
	for {
		f, more := frames.Next()
		text += fmt.Sprintf("\n\t%s:%d", f.Function, f.Line)
		if !more {
			break
		}
	}
	d.misuse = append(d.misuse, text)
}

// make makes an object with one owner. d.mu is held.
func (d *Driver) make(k kind, of driver.ID, retains ...driver.ID) *object {
	d.last += 0x20 // never the same number again
	o := &object{id: d.last, kind: k, refs: 1, device: of}
	d.objects[o.id] = o
	for _, id := range retains {
		d.retain(id, k)
		o.retains = append(o.retains, id)
	}
	return o
}

// get returns an object. For one that is dead or of another kind, it reports that and returns an object that does no
// harm. d.mu is held.
func (d *Driver) get(id driver.ID, kinds ...kind) *object {
	o := d.objects[id]
	if o == nil {
		d.report("%v %#x is used, and does not exist (any more)", kinds, uintptr(id))
		return &object{kind: kinds[0], commandBuffer: newCommandBuffer(), encoder: new(encoder)}
	}
	for _, k := range kinds {
		if o.kind == k {
			return o
		}
	}
	d.report("%v is used as a %v", o, kinds)
	return &object{kind: kinds[0], commandBuffer: newCommandBuffer(), encoder: new(encoder)}
}

// Retain implements driver.Driver.
func (d *Driver) Retain(id driver.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retain(id, "object")
}

func (d *Driver) retain(id driver.ID, by kind) {
	if o := d.objects[id]; o != nil {
		o.refs++
		return
	}
	d.report("%#x is retained by an %s, and does not exist (any more)", uintptr(id), by)
}

// Release implements driver.Driver.
func (d *Driver) Release(id driver.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release(id)
}

func (d *Driver) release(id driver.ID) {
	o := d.objects[id]
	if o == nil {
		d.report("%#x is released, and does not exist (any more)", uintptr(id))
		return
	}
	if o.refs--; o.refs > 0 {
		return
	}
	delete(d.objects, id)
	switch o.kind {
	case buffer:
		d.objects[o.device].allocated -= o.length
		for i := range o.memory { // what is read later is wrong
			o.memory[i] = 0xdd
		}
		if o.deallocated != nil {
			o.deallocated()
		}
	case commands:
		d.abandon(o)
	case blit, compute:
		if !o.encoder.ended {
			d.report("%v is deallocated before endEncoding", o)
		}
	case queue:
		if len(o.committed) > 0 {
			d.report("%v is deallocated with %d command buffers that are not completed", o, len(o.committed))
		}
	case event:
		d.changed.Broadcast()
	case device:
		d.report("%v is released more often than it was retained", o)
	}
	for _, id := range o.retains {
		d.release(id)
	}
}

// goroutine returns the number of the calling goroutine, which stands for its thread.
func goroutine() uint64 {
	var room [64]byte
	text := bytes.TrimPrefix(room[:runtime.Stack(room[:], false)], []byte("goroutine "))
	text, _, _ = bytes.Cut(text, []byte(" "))
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		panic(err) // the format of stacks has changed
	}
	return n
}

// Pool implements driver.Driver.
func (d *Driver) Pool(f func()) {
	g := goroutine()
	d.mu.Lock()
	d.pools[g] = append(d.pools[g], nil)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		all := d.pools[g]
		for _, id := range all[len(all)-1] {
			d.release(id)
		}
		if d.pools[g] = all[:len(all)-1]; len(all) == 1 {
			delete(d.pools, g)
		}
	}()
	f()
}

// autorelease gives an owner of the object to the pool of the thread. d.mu is held.
func (d *Driver) autorelease(o *object) driver.ID {
	g := goroutine()
	all := d.pools[g]
	if len(all) == 0 {
		d.report("%v is autoreleased on a thread without a pool", o)
		return o.id
	}
	all[len(all)-1] = append(all[len(all)-1], o.id)
	return o.id
}

// Conforms implements driver.Driver. It is false for an object that was deallocated.
func (d *Driver) Conforms(id driver.ID, p driver.Protocol) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.objects[id]
	return o != nil && string(o.kind) == string(p)
}

// CopyDevices implements driver.Driver.
func (d *Driver) CopyDevices() []driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.called("CopyDevices") != nil {
		return nil
	}
	for _, id := range d.devices {
		d.retain(id, "array")
	}
	return append([]driver.ID(nil), d.devices...)
}

// Describe implements driver.Driver.
func (d *Driver) Describe(id driver.ID) driver.DeviceInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.DeviceInfo{
		Name: d.get(id, device).name, RegistryID: uint64(id), Unified: d.config.Unified, WorkingSet: d.config.Memory,
		MaxBufferLength: d.config.Memory / 2, MaxThreads: [3]uint32{1024, 1024, 1024}, System: "simulation",
		PageSize: int64(os.Getpagesize()),
	}
}

// AllocatedSize implements driver.Driver.
func (d *Driver) AllocatedSize(id driver.ID) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.get(id, device).allocated
}

// NewBuffer implements driver.Driver. New memory has random contents.
func (d *Driver) NewBuffer(of driver.ID, length uint64, options driver.Options) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.get(of, device)
	if options != driver.StorageShared && options != driver.StoragePrivate {
		d.report("newBufferWithLength: with options %#x", uint64(options))
	}
	if d.called("NewBuffer") != nil || length == 0 || length > d.config.Memory/2 || g.allocated+length > d.config.Memory {
		return 0
	}
	g.allocated += length
	o := d.make(buffer, of)
	o.length, o.storage = length, options
	page := uint64(os.Getpagesize())
	o.memory = make([]byte, length+page)
	o.address = (uintptr(unsafe.Pointer(unsafe.SliceData(o.memory))) + uintptr(page) - 1) &^ uintptr(page-1)
	fill := byte(d.rng.Uint32())
	for i := range o.memory {
		o.memory[i] = fill
	}
	return o.id
}

// NewBufferNoCopy implements driver.Driver.
func (d *Driver) NewBufferNoCopy(of driver.ID, address uintptr, length uint64, options driver.Options, deallocated func()) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, page := d.get(of, device), uint64(os.Getpagesize())
	if options != driver.StorageShared || uint64(address)%page != 0 || length%page != 0 || address == 0 {
		d.report("newBufferWithBytesNoCopy: of %d bytes at %#x with options %#x", length, address, uint64(options))
	}
	if d.called("NewBufferNoCopy") != nil || length == 0 || length > d.config.Memory/2 {
		return 0
	}
	g.allocated += length
	o := d.make(buffer, of)
	o.length, o.storage, o.address, o.deallocated = length, options, address, deallocated
	return o.id
}

// Buffer implements driver.Driver.
func (d *Driver) Buffer(id driver.ID) driver.BufferInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.get(id, buffer)
	info := driver.BufferInfo{Device: o.device, Length: o.length, Storage: o.storage}
	if o.storage != driver.StoragePrivate {
		info.Contents = o.address
	}
	return info
}

// NewCommandQueue implements driver.Driver.
func (d *Driver) NewCommandQueue(of driver.ID, room int) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(of, device)
	if room < 1 {
		d.report("newCommandQueueWithMaxCommandBufferCount:%d", room)
	}
	if d.called("NewCommandQueue") != nil {
		return 0
	}
	o := d.make(queue, of)
	o.room = room
	return o.id
}

// QueueDevice implements driver.Driver.
func (d *Driver) QueueDevice(id driver.ID) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.get(id, queue).device
}

// NewSharedEvent implements driver.Driver.
func (d *Driver) NewSharedEvent(of driver.ID) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(of, device)
	if d.called("NewSharedEvent") != nil {
		return 0
	}
	return d.make(event, of).id
}

// Value implements driver.Driver. When the caller sees the value, the GPU may have set a larger one.
func (d *Driver) Value(id driver.ID) uint64 {
	defer d.pause()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.get(id, event).value
}

// SetValue implements driver.Driver.
func (d *Driver) SetValue(id driver.ID, value uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setValue(d.get(id, event), value)
}

func (d *Driver) setValue(o *object, value uint64) {
	if value <= o.value {
		d.report("the value of %v falls from %d to %d", o, o.value, value)
	}
	o.value = value
	o.promised = max(o.promised, value)
	d.changed.Broadcast()
}

// WaitValue implements driver.Driver.
func (d *Driver) WaitValue(id driver.ID, value uint64, atMost time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.get(id, event)
	return d.await(atMost, func() bool { return o.value >= value })
}

// await waits until reached is true, which it returns, or for a time. The caller holds mu, as does every call of reached.
func (d *Driver) await(atMost time.Duration, reached func() bool) bool {
	over := false
	defer time.AfterFunc(atMost, func() {
		d.mu.Lock() // or the broadcast might come after a look at over, and before the Wait that it must end
		defer d.mu.Unlock()
		over = true
		d.changed.Broadcast()
	}).Stop()
	for !reached() && !over {
		d.changed.Wait()
	}
	return reached()
}

// NewLibrary implements driver.Driver. It compiles nothing: what a function does, its name says. A library has each function
// whose name is a word of the source.
func (d *Driver) NewLibrary(of driver.ID, source string) (driver.ID, *driver.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(of, device)
	if err := d.called("NewLibrary"); err != nil {
		return 0, err
	}
	if source == "" {
		return 0, &driver.Error{Domain: "MTLLibraryErrorDomain", Code: 3, Text: "there is no source"}
	}
	o := d.make(library, of)
	o.name = source
	return o.id, nil
}

// NewFunction implements driver.Driver.
func (d *Driver) NewFunction(id driver.ID, name string) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.get(id, library)
	if d.called("NewFunction") != nil || !regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(l.name) {
		return 0
	}
	o := d.make(function, l.device, id)
	o.name = name
	return o.id
}

// NewPipeline implements driver.Driver.
func (d *Driver) NewPipeline(of, id driver.ID) (driver.ID, driver.PipelineInfo, *driver.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(of, device)
	f := d.get(id, function)
	if err := d.called("NewPipeline"); err != nil {
		return 0, driver.PipelineInfo{}, err
	}
	o := d.make(pipeline, of)
	o.name = f.name
	return o.id, driver.PipelineInfo{MaxThreads: d.config.Threads}, nil
}
