//go:build gl && linux && cgo

package gl

import (
	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
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
	var list []dispatch
	for p := range gpucopy.Plan(c, j.device.limits()) {
		if p.Dst.Offset+p.Dst.Size > dst.size || p.Src.Offset+p.Src.Size > src.size {
			return false, nil // a shader reads and writes whole words, and the buffer's last is not whole
		}
		list = append(list, gather(p))
	}
	return true, j.dispatches(dst, src, list)
}

func (d *device) limits() gpucopy.Limits {
	return gpucopy.Limits{
		StorageRange:    d.info.blockSize,
		OffsetAlignment: d.info.blockAlign,
		Groups:          d.info.groups,
		Tiles:           !d.info.software,
	}
}

var gatherUniforms = []string{"dstFirst", "srcFirst", "planes", "wide", "along", "whole", "n", "dstStep", "srcStep"}

// gather returns the launch of a dispatch.
func gather(p gpucopy.Dispatch) dispatch {
	return dispatch{
		shader: shader{p.Shader.String(), p.Shader.GLSL, gatherUniforms},
		set: func(x *program) {
			k := &p.Constants
			x.setInt("dstFirst", k.DstFirst)
			x.setInt("srcFirst", k.SrcFirst)
			x.setUint("planes", k.Planes)
			x.setUint("wide", k.Wide)
			x.setUint("along", k.Along)
			x.setUint("whole", k.Whole)
			x.setUints("n", k.N[:])
			x.setInts("dstStep", k.DstStep[:])
			x.setInts("srcStep", k.SrcStep[:])
		},
		dst: window(p.Dst), src: window(p.Src), groups: p.Groups,
	}
}
