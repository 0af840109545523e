package triton

import "github.com/dlx-go/dlx/core"

// backend is the first part of error texts.
const backend = "triton"

// datatypes are the names of the protocol. BYTES has none: its elements have no common size.
var datatypes = map[string]core.DType{
	"BOOL": core.TypeBool,
	"INT8": core.TypeInt8, "INT16": core.TypeInt16, "INT32": core.TypeInt32, "INT64": core.TypeInt64,
	"UINT8": core.TypeUint8, "UINT16": core.TypeUint16, "UINT32": core.TypeUint32, "UINT64": core.TypeUint64,
	"FP16": core.TypeFloat16, "BF16": core.TypeBFloat16, "FP32": core.TypeFloat32, "FP64": core.TypeFloat64,
}

var datatypeNames = func() map[core.DType]string {
	names := make(map[core.DType]string, len(datatypes))
	for name, t := range datatypes {
		names[t] = name
	}
	return names
}()

// datatypeOf returns the protocol's name of an element type.
func datatypeOf(call, input string, t core.DType) (string, error) {
	name, ok := datatypeNames[t]
	if !ok {
		return "", core.Errorf(core.ErrDType, backend, call, "input %q has elements of %v, for which the protocol has no name: convert the tensor with AsType", input, t)
	}
	return name, nil
}

// dtypeOf returns the element type that a server names.
func dtypeOf(call, output, name string) (core.DType, error) {
	if t, ok := datatypes[name]; ok {
		return t, nil
	}
	if name == "BYTES" {
		return core.DType{}, core.Errorf(core.ErrDType, backend, call, "output %q has elements of BYTES, which are strings of any length: no tensor has such elements", output)
	}
	return core.DType{}, core.Errorf(core.ErrDType, backend, call, "the server says that output %q has elements of %.40q, which is no type of the protocol", output, name)
}
