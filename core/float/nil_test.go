package float_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
)

func TestNilArguments(t *testing.T) {
	const pure = "it takes numbers only"
	coretest.CheckNils(t, map[string]any{
		"ToFloat16": float.ToFloat16, "FromFloat16": float.FromFloat16, "ToBFloat16": float.ToBFloat16, "FromBFloat16": float.FromBFloat16,
		"NewFloat16": pure, "NewBFloat16": pure, "NewFloat8E3M4": pure, "NewFloat8E4M3": pure, "NewFloat8E4M3B11FNUZ": pure, "NewFloat8E4M3FN": pure,
		"NewFloat8E4M3FNUZ": pure, "NewFloat8E5M2": pure, "NewFloat8E5M2FNUZ": pure, "NewFloat8E8M0FNU": pure,
	}, []float32{1, 2}, []float.Float16{1}, []float.BFloat16{1})
}
