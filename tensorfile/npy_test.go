package tensorfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestNPYAccepts(t *testing.T) {
	two := []byte{1, 0, 2, 0}
	tests := []struct {
		rule    string
		file    []byte
		dtype   core.DType
		shape   []int64
		strides []int64
	}{
		{"the header that NumPy writes", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", two...), core.TypeInt16, []int64{2}, []int64{1}},
		{"keys in any order", npy("{'shape': (2,), 'fortran_order': False, 'descr': '<u2'}", two...), core.TypeUint16, []int64{2}, []int64{1}},
		{"double quotes and no spaces", npy(`{"descr":"<f2","fortran_order":False,"shape":(2,)}`, two...), core.TypeFloat16, []int64{2}, []int64{1}},
		{"the suffix L of Python 2", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2L,), }", two...), core.TypeInt16, []int64{2}, []int64{1}},
		{"no comma behind the last of several extents", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1)}", two...), core.TypeInt16, []int64{2, 1}, []int64{1, 1}},
		{"a comma behind the last of several extents", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1,)}", two...), core.TypeInt16, []int64{2, 1}, []int64{1, 1}},
		{"an empty tuple is 0-d", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", two...), core.TypeInt32, []int64{}, []int64{}},
		{"column-major becomes strides", npy("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2), }", two...), core.TypeBool, []int64{2, 2}, []int64{1, 2}},
		{"no elements, no data", npy("{'descr': '<c16', 'fortran_order': True, 'shape': (0, 9223372036854775807, 4), }"), core.TypeComplex128, []int64{0, 1<<63 - 1, 4}, nil},
		{"a name of ml_dtypes", npy("{'descr': 'bfloat16', 'fortran_order': False, 'shape': (2,), }", two...), core.TypeBFloat16, []int64{2}, []int64{1}},
		{"a name of a float8", npy("{'descr': 'float8_e5m2', 'fortran_order': False, 'shape': (4,), }", two...), core.TypeFloat8E5M2, []int64{4}, []int64{1}},
		{"a name of NumPy", npy("{'descr': 'float32', 'fortran_order': False, 'shape': (), }", two...), core.TypeFloat32, []int64{}, []int64{}},
		{"a byte has no order, whatever is said", npy("{'descr': '>i1', 'fortran_order': False, 'shape': (4,), }", two...), core.TypeInt8, []int64{4}, []int64{1}},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			f := must[*tensorfile.File](t)(tensorfile.Parse(test.file, "folder/x.npy", tensorfile.OpenOptions{}))
			x := must[*core.Tensor](t)(f.Tensor("x"))
			if x.DType() != test.dtype || !slices.Equal(x.Shape(), test.shape) {
				t.Errorf("got %v", x)
			}
			if test.strides != nil && !slices.Equal(x.Layout().Strides(), test.strides) {
				t.Errorf("strides %v, want %v", x.Layout().Strides(), test.strides)
			}
			if !x.ReadOnly() || x.DeviceID() != core.CPU || x.Device() != nil {
				t.Errorf("%v: want a read-only tensor on the host of no opened device", x)
			}
		})
	}
}

func TestNPYRefuses(t *testing.T) {
	dict := func(descr, order, shape string) []byte {
		return npy("{'descr': "+descr+", 'fortran_order': "+order+", 'shape': "+shape+", }", 1, 2, 3, 4)
	}
	good := dict("'<i4'", "False", "(1,)")
	patched := func(at int, b ...byte) []byte {
		file := slices.Clone(good)
		copy(file[at:], b)
		return file
	}
	tests := []struct {
		rule  string
		file  []byte
		want  error
		field string
	}{
		{"empty file", nil, core.ErrLayout, "magic string"},
		{"other magic", patched(0, 'P', 'K'), core.ErrInvalid, "magic string"},
		{"version 4.0", patched(6, 4), core.ErrVersion, "format version is 4.0"},
		{"version 1.1", patched(7, 1), core.ErrVersion, "format version is 1.1"},
		{"header length beyond the file", patched(8, 0xff, 0x7f), core.ErrLayout, "header has 32767 bytes"},
		{"header length inside the dictionary", patched(8, 20, 0), core.ErrInvalid, "a string with an end"},
		{"header length short of the newline", patched(8, byte(len(good)-4-10-1)), core.ErrInvalid, "newline"},
		{"huge header length", append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), good[10:]...), core.ErrLayout, "header length is 4294967295"},

		{"bfloat16 of ml_dtypes", dict("'<V2'", "False", "(2,)"), core.ErrNotSupported, "bfloat16"},
		{"raw void", dict("'|V1'", "False", "(4,)"), core.ErrNotSupported, "descr"},
		{"float8 of ml_dtypes", dict("'<f1'", "False", "(4,)"), core.ErrNotSupported, "float8"},
		{"the name of a type of less than a byte", dict("'int4'", "False", "(4,)"), core.ErrNotSupported, "whole bytes"},
		{"the name of a type that NumPy lacks", dict("'float32x2'", "False", "(4,)"), core.ErrDType, "name of a type"},
		{"data of a named type cut short", dict("'bfloat16'", "False", "(3,)"), core.ErrLayout, "shape [3] of bfloat16 takes 6 bytes"},
		{"objects", dict("'|O'", "False", "(1,)"), core.ErrNotSupported, "pickle"},
		{"strings", dict("'<U1'", "False", "(1,)"), core.ErrNotSupported, "strings"},
		{"byte strings", dict("'|S4'", "False", "(1,)"), core.ErrNotSupported, "strings"},
		{"dates", dict("'<M8[ns]'", "False", "(1,)"), core.ErrNotSupported, "dates"},
		{"long double", dict("'<f16'", "False", "(1,)"), core.ErrNotSupported, "long double"},
		{"structures", dict("[('a', '<i4')]", "False", "(1,)"), core.ErrNotSupported, "structures"},
		{"subarrays", dict("('<i4', (2,))", "False", "(1,)"), core.ErrNotSupported, "structures"},
		{"unknown kind", dict("'<q4'", "False", "(1,)"), core.ErrDType, "descr"},
		{"unknown width", dict("'<i3'", "False", "(1,)"), core.ErrDType, "descr"},
		{"no byte order", dict("'i4'", "False", "(1,)"), core.ErrDType, "byte order"},
		{"no byte order for several bytes", dict("'|i4'", "False", "(1,)"), core.ErrDType, "byte order"},
		{"empty descr", dict("''", "False", "(1,)"), core.ErrDType, "descr"},
		{"descr is no string", dict("4", "False", "(1,)"), core.ErrInvalid, "descr"},
		{"escape in a string", dict(`'\x3ci4'`, "False", "(1,)"), core.ErrInvalid, "escapes"},
		{"not ASCII", dict("'<i\xff'", "False", "(1,)"), core.ErrInvalid, "ASCII"},
		{"string without end", npy("{'descr': '<i4"), core.ErrInvalid, "a string with an end"},
		{"string prefix", dict("b'<i4'", "False", "(1,)"), core.ErrInvalid, "descr"},

		{"order is a number", dict("'<i4'", "0", "(1,)"), core.ErrInvalid, "fortran_order"},
		{"order in lower case", dict("'<i4'", "false", "(1,)"), core.ErrInvalid, "fortran_order"},

		{"negative extent", dict("'<i4'", "False", "(1, -1)"), core.ErrLayout, "shape[1] is negative"},
		{"extent beyond int64", dict("'<i4'", "False", "(1, 9223372036854775808)"), core.ErrLayout, "shape[1] is"},
		{"product beyond int64", dict("'<i4'", "False", "(4294967296, 4294967296)"), core.ErrLayout, "shape"},
		{"column-major product beyond int64", dict("'<i4'", "True", "(4294967296, 4294967296)"), core.ErrLayout, "shape"},
		{"bytes beyond int64", dict("'<i4'", "False", "(4611686018427387904,)"), core.ErrLayout, "overflows"},
		{"more axes than a tensor has", dict("'<i4'", "False", "("+strings.Repeat("1,", 65)+")"), core.ErrLayout, "shape"},
		{"number in parentheses", dict("'<i4'", "False", "(1)"), core.ErrInvalid, "tuple"},
		{"list instead of tuple", dict("'<i4'", "False", "[1]"), core.ErrInvalid, "shape"},
		{"only a comma", dict("'<i4'", "False", "(,)"), core.ErrInvalid, "shape[0]"},
		{"leading zero", dict("'<i4'", "False", "(01,)"), core.ErrInvalid, "shape[0]"},
		{"fraction", dict("'<i4'", "False", "(1.0,)"), core.ErrInvalid, "shape"},
		{"expression", dict("'<i4'", "False", "(1+0,)"), core.ErrInvalid, "shape"},
		{"nested tuple", dict("'<i4'", "False", "("+strings.Repeat("(", 9000)), core.ErrInvalid, "shape[0]"},

		{"no dictionary", npy("('<i4', False, (1,))"), core.ErrInvalid, "header"},
		{"missing key", npy("{'descr': '<i4', 'shape': (1,)}"), core.ErrInvalid, "fortran_order"},
		{"key twice", npy("{'descr': '<i4', 'descr': '<i4'}"), core.ErrInvalid, `"descr" is there twice`},
		{"unknown key", npy("{'descr': '<i4', 'order': False}"), core.ErrInvalid, `"order" is unknown`},
		{"no colon", npy("{'descr' '<i4'}"), core.ErrInvalid, "descr"},
		{"text behind the dictionary", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} + {}"), core.ErrInvalid, "padding"},
		{"NUL behind the dictionary", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}\x00"), core.ErrInvalid, "padding"},

		{"data cut short", good[:len(good)-1], core.ErrLayout, "data: shape [1] of int32 takes 4 bytes, but 3 follow the header: it has 131 bytes and should have 132"},
		{"shape larger than the data", dict("'<i4'", "False", "(1000000000000,)"), core.ErrLayout, "data"},
		{"bytes behind the array", append(slices.Clone(good), 0), core.ErrLayout, "1 bytes follow the array"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := tensorfile.Parse(test.file, "x.npy", tensorfile.OpenOptions{})
			checkError(t, err, tensorfile.NPY, test.want, test.field)
		})
	}
}
