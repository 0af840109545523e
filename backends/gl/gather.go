//go:build gl && linux && cgo

package gl

import (
	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

const (
	// Up to fewPieces, or from bigPiece bytes a piece, plain copies are as fast as a shader.
	fewPieces = 16
	bigPiece  = 4 << 10
)

// moves reports whether OpenGL is the right way to copy c: by plain copies, or by a shader on a GPU. On a
// processor, llvmpipe's shader takes ten times as long as the host.
func (d *device) moves(c copyplan.Copy) bool { return fewCopies(c) || !d.info.software }

func fewCopies(c copyplan.Copy) bool { return c.Count() <= fewPieces || c.Elem >= bigPiece }

// move copies between two buffers of the context. It reports false if it cannot.
func (j *job) move(dst, src *buffer, c copyplan.Copy) (moved bool, err error) {
	if fewCopies(c) {
		return true, j.complete("glCopyNamedBufferSubData", func() {
			for to, from := range c.Pieces() {
				gl.CopyNamedBufferSubData(src.name, dst.name, int(from), int(to), int(c.Elem))
			}
		})
	}
	var dispatches []gpucopy.Dispatch
	for p := range gpucopy.Plan(c, j.device.limits()) {
		if p.Dst.Offset+p.Dst.Size > dst.size || p.Src.Offset+p.Src.Size > src.size {
			return false, nil // a shader reads and writes whole words, and the buffer's last is not whole
		}
		dispatches = append(dispatches, p)
	}
	var failed error
	err = j.complete("glDispatchCompute", func() { failed = j.device.dispatch(dst, src, dispatches) })
	if failed != nil {
		err = failed
	}
	return true, err
}

func (d *device) limits() gpucopy.Limits {
	return gpucopy.Limits{
		StorageRange:    d.info.blockSize,
		OffsetAlignment: d.info.blockAlign,
		Groups:          d.info.groups,
		Tiles:           !d.info.software,
	}
}

// dispatch runs shaders on the context's thread, and restores the state of the context.
func (d *device) dispatch(dst, src *buffer, dispatches []gpucopy.Dispatch) error {
	before := saveState()
	defer before.restore()
	for _, p := range dispatches {
		program, err := d.programs.program(p.Shader)
		if err != nil {
			return err
		}
		gl.UseProgram(program.name)
		program.set(&p.Constants)
		gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, 0, dst.name, int(p.Dst.Offset), int(p.Dst.Size))
		gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, 1, src.name, int(p.Src.Offset), int(p.Src.Size))
		program.dispatch(p.Groups)
	}
	gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
	return nil
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

// programs are the shaders that were compiled. Only the context's thread uses them.
type programs map[gpucopy.Shader]*program

// program is a compiled shader with the locations of its uniforms.
type program struct {
	name                       uint32
	dstFirst, srcFirst         int32
	planes, wide, along, whole int32
	extents, dstSteps, srcStep int32
	ran                        bool
}

// program returns a shader, and compiles it on first use.
func (p programs) program(s gpucopy.Shader) (*program, error) {
	if known := p[s]; known != nil {
		return known, nil
	}
	defer dl.KeepHandlers()()
	source, free := gl.Strs(s.GLSL() + "\x00")
	name := gl.CreateShaderProgramv(gl.COMPUTE_SHADER, 1, source)
	free()
	var linked int32
	if gl.GetProgramiv(name, gl.LINK_STATUS, &linked); linked == gl.FALSE {
		log := make([]byte, 4096)
		var n int32
		gl.GetProgramInfoLog(name, int32(len(log)), &n, &log[0])
		gl.DeleteProgram(name)
		return nil, core.Errorf(core.ErrNotSupported, "gl", "glCreateShaderProgramv", "the driver refuses %v: %s", s, log[:n])
	}
	at := func(uniform string) int32 { return gl.GetUniformLocation(name, gl.Str(uniform+"\x00")) }
	known := &program{name, at("dstFirst"), at("srcFirst"), at("planes"), at("wide"), at("along"), at("whole"), at("n"), at("dstStep"), at("srcStep"), false}
	p[s] = known
	return known, nil
}

// set sets the uniforms of the program in use.
func (p *program) set(k *gpucopy.Constants) {
	gl.ProgramUniform1i(p.name, p.dstFirst, k.DstFirst)
	gl.ProgramUniform1i(p.name, p.srcFirst, k.SrcFirst)
	gl.ProgramUniform1ui(p.name, p.planes, k.Planes)
	gl.ProgramUniform1ui(p.name, p.wide, k.Wide)
	gl.ProgramUniform1ui(p.name, p.along, k.Along)
	gl.ProgramUniform1ui(p.name, p.whole, k.Whole)
	gl.ProgramUniform1uiv(p.name, p.extents, gpucopy.MaxAxes, &k.N[0])
	gl.ProgramUniform1iv(p.name, p.dstSteps, gpucopy.MaxAxes, &k.DstStep[0])
	gl.ProgramUniform1iv(p.name, p.srcStep, gpucopy.MaxAxes, &k.SrcStep[0])
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
