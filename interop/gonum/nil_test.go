package gonum

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"FromDense": FromDense, "FromCDense": FromCDense, "FromVecDense": FromVecDense, "FromGeneral": FromGeneral[blas64.General],
		"FromVector": FromVector[blas32.Vector], "CopyMatrix": CopyMatrix, "ToMatrix": ToMatrix, "ToDense": ToDense, "ToCDense": ToCDense,
		"ToVecDense": ToVecDense, "ToGeneral": ToGeneral[blas32.General], "ToVector": ToVector[blas64.Vector], "CopyDense": CopyDense,
	},
		(*mat.Dense)(nil), (*mat.VecDense)(nil), (*mat.SymDense)(nil), (*mat.TriDense)(nil), (*mat.DiagDense)(nil), (*mat.BandDense)(nil), (*view)(nil),
		new(mat.Dense), new(mat.VecDense), new(mat.SymDense), new(mat.TriDense), new(mat.DiagDense), new(mat.BandDense), new(view),
		mat.Transpose{}, mat.TransposeVec{})
}
