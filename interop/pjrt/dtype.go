//go:build cgo && unix

package pjrt

import (
	"github.com/dlx-go/dlx/core"
	xladtypes "github.com/gomlx/compute/dtypes"
)

type xlaType = xladtypes.DType

// dtypes has the element types of PJRT that dlx has, too. Types of fewer than 8 bits are left out, since it depends on
// the plugin whether they are packed.
var dtypes = map[xlaType]core.DType{
	xladtypes.Bool:          core.TypeBool,
	xladtypes.Int8:          core.TypeInt8,
	xladtypes.Int16:         core.TypeInt16,
	xladtypes.Int32:         core.TypeInt32,
	xladtypes.Int64:         core.TypeInt64,
	xladtypes.Uint8:         core.TypeUint8,
	xladtypes.Uint16:        core.TypeUint16,
	xladtypes.Uint32:        core.TypeUint32,
	xladtypes.Uint64:        core.TypeUint64,
	xladtypes.Float16:       core.TypeFloat16,
	xladtypes.Float32:       core.TypeFloat32,
	xladtypes.Float64:       core.TypeFloat64,
	xladtypes.BFloat16:      core.TypeBFloat16,
	xladtypes.Complex64:     core.TypeComplex64,
	xladtypes.Complex128:    core.TypeComplex128,
	xladtypes.F8E5M2:        core.TypeFloat8E5M2,
	xladtypes.F8E4M3FN:      core.TypeFloat8E4M3FN,
	xladtypes.F8E4M3B11FNUZ: core.TypeFloat8E4M3B11FNUZ,
	xladtypes.F8E5M2FNUZ:    core.TypeFloat8E5M2FNUZ,
	xladtypes.F8E4M3FNUZ:    core.TypeFloat8E4M3FNUZ,
	xladtypes.F8E4M3:        core.TypeFloat8E4M3,
	xladtypes.F8E3M4:        core.TypeFloat8E3M4,
	xladtypes.F8E8M0FNU:     core.TypeFloat8E8M0FNU,
}

// elementTypes is the inverse of dtypes.
var elementTypes = func() map[core.DType]xlaType {
	types := make(map[core.DType]xlaType, len(dtypes))
	for theirs, ours := range dtypes {
		types[ours] = theirs
	}
	return types
}()
