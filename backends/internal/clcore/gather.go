//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	_ "embed"
	"fmt"
	"math"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

//go:embed gather.cl
var gatherSource string

const (
	// groupSize is the size of all work groups, since some drivers compile a kernel again
	// for each size.
	groupSize = 64
	// maxWord is the largest word that the kernel moves, in bytes.
	maxWord = 16
)

// launch limits one launch of the kernel.
var launch = copyplan.Limits{Rank: 8, Count: 1 << 30, Reach: math.MaxInt64}

// wordTypes are the types of OpenCL C by the size of a word.
var wordTypes = map[int64]string{1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "ulong2"}

// gather is the kernel that copies between any layouts. It is compiled for each form on first use.
type gather struct {
	mu    sync.Mutex // held from the first argument to the launch too
	forms map[form]*program
}

// form is what the kernel is compiled for.
type form struct {
	word int64 // bytes
	axes int   // a power of two up to 8
}

// formOf is the smallest form for a copy in words. There are few forms, since a compiler may take long for
// each.
func formOf(c copyplan.Copy) form {
	f := form{c.Elem, 2}
	for f.axes < len(c.Axes) {
		f.axes *= 2
	}
	return f
}

// program is a kernel with what it was made of.
type program struct {
	program  driver.Program
	kernel   driver.Kernel
	launched bool // guarded by the mutex of the gather or converter
}

// compile makes the kernel for a form. g.mu is held.
func (g *gather) compile(d *device, f form) (*program, error) {
	if p := g.forms[f]; p != nil {
		return p, nil
	}
	p, err := compileProgram(d, fmt.Sprintf("#define WORD %s\n#define AXES %d\n%s", wordTypes[f.word], f.axes, gatherSource), "gather", "the kernel for strided copies")
	if err != nil {
		return nil, err
	}
	if g.forms == nil {
		g.forms = make(map[form]*program)
	}
	g.forms[f] = p
	return p, nil
}

// compileProgram makes the kernel of a source that has a name. what describes it in errors.
func compileProgram(d *device, source, name, what string) (*program, error) {
	made, s := driver.CreateProgram(d.context, source)
	if err := d.check(s, "clCreateProgramWithSource", "%s", what); err != nil {
		return nil, err
	}
	if s := driver.Build(made, d.handle); s != driver.Success {
		err := d.check(s, "clBuildProgram", "%s; the compiler says: %s", what, driver.BuildLog(made, d.handle))
		driver.ReleaseProgram(made)
		return nil, err
	}
	kernel, s := driver.CreateKernel(made, name)
	if err := d.check(s, "clCreateKernel", "%s", what); err != nil {
		driver.ReleaseProgram(made)
		return nil, err
	}
	return &program{program: made, kernel: kernel}, nil
}

// release releases the kernel and the program.
func (p *program) release() {
	driver.ReleaseKernel(p.kernel)
	driver.ReleaseProgram(p.program)
}

// release releases all kernels.
func (g *gather) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.forms {
		p.release()
	}
	clear(g.forms)
}

// enqueue launches the kernel on q for a copy in words that is within the limits of launch.
func (g *gather) enqueue(q *queue, dst, src driver.Mem, c copyplan.Copy) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, err := g.compile(q.device, formOf(c))
	if err != nil {
		return err
	}
	steps := [8]uint64{1, 1, 1, 1, 1, 1, 1, 1}
	var dstSteps, srcSteps [8]int64
	for i, a := range c.Axes {
		k := len(c.Axes) - 1 - i
		steps[k], dstSteps[k], srcSteps[k] = uint64(a.N), a.Dst/c.Elem, a.Src/c.Elem
	}
	k, count := p.kernel, c.Count()
	for _, s := range [...]driver.Status{
		q.device.setMem(k, 0, dst), q.device.setMem(k, 1, src),
		driver.SetArg(k, 2, uint64(c.Dst/c.Elem)), driver.SetArg(k, 3, uint64(c.Src/c.Elem)),
		driver.SetArg(k, 4, steps), driver.SetArg(k, 5, dstSteps), driver.SetArg(k, 6, srcSteps),
		driver.SetArg(k, 7, uint64(count)),
	} {
		if err := q.device.check(s, "clSetKernelArg", "the kernel for strided copies"); err != nil {
			return err
		}
	}
	if !p.launched { // some drivers compile now
		p.launched = true
		defer dl.KeepHandlers()()
	}
	s := driver.Launch(q.raw, k, (count+groupSize-1)/groupSize*groupSize, groupSize)
	if err := q.device.check(s, "clEnqueueNDRangeKernel", "a strided copy of %d words of %d bytes", count, c.Elem); err != nil {
		return err
	}
	return q.inOrder()
}

// setMem sets an argument of a kernel that is memory of the device.
func (d *device) setMem(k driver.Kernel, index int, m driver.Mem) driver.Status {
	if d.usm != nil {
		return d.usm.SetArg(k, index, uintptr(m))
	}
	return driver.SetArg(k, index, m)
}
