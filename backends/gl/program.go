//go:build gl && linux && cgo

package gl

import (
	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// shader is a compute shader that reads the buffer at binding 1 and writes the one at binding 0.
type shader struct {
	name     string // no two shaders have the same one
	source   func() string
	uniforms []string // that set sets
}

// dispatch is one launch of a shader. Windows are in bytes.
type dispatch struct {
	shader
	set      func(*program) // sets the uniforms
	dst, src window
	groups   [3]uint32
}

type window struct{ Offset, Size int64 }

// dispatch runs shaders on the context's thread, and restores the state of the context.
func (d *device) dispatch(dst, src *buffer, dispatches []dispatch) error {
	before := saveState()
	defer before.restore()
	for _, x := range dispatches {
		p, err := d.programs.program(x.shader)
		if err != nil {
			return err
		}
		gl.UseProgram(p.name)
		x.set(p)
		gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, 0, dst.name, int(x.dst.Offset), int(x.dst.Size))
		gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, 1, src.name, int(x.src.Offset), int(x.src.Size))
		p.dispatch(x.groups)
	}
	gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
	return nil
}

// dispatches issues launches, and waits until they are done.
func (j *job) dispatches(dst, src *buffer, list []dispatch) error {
	var failed error
	err := j.complete("glDispatchCompute", func() { failed = j.device.dispatch(dst, src, list) })
	if failed != nil {
		return failed
	}
	return err
}

// state is the state of a context that dispatch changes.
type state struct {
	program, buffer int32
	bound           [2]int32 // buffers, with their ranges, of which OpenGL can report 2 GiB
	first, size     [2]int32
}

func saveState() state {
	var s state
	gl.GetIntegerv(gl.CURRENT_PROGRAM, &s.program)
	gl.GetIntegerv(gl.SHADER_STORAGE_BUFFER_BINDING, &s.buffer)
	for i := range s.bound {
		gl.GetIntegeri_v(gl.SHADER_STORAGE_BUFFER_BINDING, uint32(i), &s.bound[i])
		gl.GetIntegeri_v(gl.SHADER_STORAGE_BUFFER_START, uint32(i), &s.first[i])
		gl.GetIntegeri_v(gl.SHADER_STORAGE_BUFFER_SIZE, uint32(i), &s.size[i])
	}
	return s
}

func (s *state) restore() {
	gl.UseProgram(uint32(s.program))
	for i, name := range s.bound {
		if s.size[i] == 0 { // nothing, or the whole buffer, even if its size changes
			gl.BindBufferBase(gl.SHADER_STORAGE_BUFFER, uint32(i), uint32(name))
		} else {
			gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, uint32(i), uint32(name), int(s.first[i]), int(s.size[i]))
		}
	}
	gl.BindBuffer(gl.SHADER_STORAGE_BUFFER, uint32(s.buffer))
}

// programs are the shaders that were compiled, by their names. Only the context's thread uses them.
type programs map[string]*program

// program is a compiled shader with the locations of its uniforms.
type program struct {
	name uint32
	at   map[string]int32
	ran  bool
}

// program returns a shader, and compiles it on first use.
func (p programs) program(s shader) (*program, error) {
	if known := p[s.name]; known != nil {
		return known, nil
	}
	defer dl.KeepHandlers()()
	source, free := gl.Strs(s.source() + "\x00")
	name := gl.CreateShaderProgramv(gl.COMPUTE_SHADER, 1, source)
	free()
	var linked int32
	if gl.GetProgramiv(name, gl.LINK_STATUS, &linked); linked == gl.FALSE {
		log := make([]byte, 4096)
		var n int32
		gl.GetProgramInfoLog(name, int32(len(log)), &n, &log[0])
		gl.DeleteProgram(name)
		return nil, core.Errorf(core.ErrNotSupported, "gl", "glCreateShaderProgramv", "the driver refuses %s: %s", s.name, log[:n])
	}
	known := &program{name: name, at: make(map[string]int32)}
	for _, u := range s.uniforms {
		known.at[u] = gl.GetUniformLocation(name, gl.Str(u+"\x00"))
	}
	p[s.name] = known
	return known, nil
}

// The functions that follow set a uniform of the program.

func (p *program) setInt(uniform string, x int32)   { gl.ProgramUniform1i(p.name, p.at[uniform], x) }
func (p *program) setUint(uniform string, x uint32) { gl.ProgramUniform1ui(p.name, p.at[uniform], x) }
func (p *program) setInts(uniform string, x []int32) {
	gl.ProgramUniform1iv(p.name, p.at[uniform], int32(len(x)), &x[0])
}
func (p *program) setUints(uniform string, x []uint32) {
	gl.ProgramUniform1uiv(p.name, p.at[uniform], int32(len(x)), &x[0])
}
func (p *program) setFloats(uniform string, x []float32) {
	gl.ProgramUniform1fv(p.name, p.at[uniform], int32(len(x)), &x[0])
}

// dispatch runs the program in use.
func (p *program) dispatch(groups [3]uint32) {
	if !p.ran { // some drivers compile now
		p.ran = true
		defer dl.KeepHandlers()()
	}
	gl.DispatchCompute(groups[0], groups[1], groups[2])
}

// destroy deletes the programs on the context's thread.
func (p programs) destroy() {
	for _, known := range p {
		gl.DeleteProgram(known.name)
	}
}
