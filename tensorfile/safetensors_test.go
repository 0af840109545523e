package tensorfile_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestSafetensorsAccepts(t *testing.T) {
	const half = `"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8]}`
	tests := []struct {
		rule   string
		header string
		bytes  int
		names  []string // in the order of the data
	}{
		{"no tensors", `{}`, 0, []string{}},
		{"spaces as padding", `{}      `, 0, []string{}},
		{"white space between tokens", "{ \"a\" :\n{\"shape\"\t: [ 4 ] , \"dtype\":\"U8\",\r\"data_offsets\":[0, 4]}}", 4, []string{"a"}},
		{"tensors in another order than their data", `{` + half + `,"a":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}}`, 8, []string{"a", "b"}},
		{"tensors without elements", `{"a":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},"c":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1, []string{"a", "c"}},
		{"a scalar", `{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`, 8, []string{"a"}},
		{"escapes and an empty name", `{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u00fc\ud83d\ude00\ufffd":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, []string{"", "ü😀\uFFFD"}},
		{"six-bit elements that fill bytes", `{"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}`, 3, []string{"a"}},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			f := must[*tensorfile.File](t)(tensorfile.Parse(withHeader(test.header, make([]byte, test.bytes)...), "x.safetensors", tensorfile.OpenOptions{}))
			names := []string{}
			for _, info := range f.Tensors() {
				names = append(names, info.Name)
				x := must[*core.Tensor](t)(f.Tensor(info.Name))
				if x.DType() != info.DType || !slices.Equal(x.Shape(), info.Shape) || x.NumBytes() != info.Bytes {
					t.Errorf("got %v for %+v", x, info)
				}
			}
			if !slices.Equal(names, test.names) {
				t.Errorf("names %q, want %q", names, test.names)
			}
		})
	}
}

func TestSafetensorsRefuses(t *testing.T) {
	one := func(value string) []byte { return withHeader(`{"x":`+value+`}`, 1, 2, 3, 4) }
	two := func(a, b string) []byte {
		return withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":`+a+`},"b":{"dtype":"U8","shape":[2],"data_offsets":`+b+`}}`, 1, 2, 3, 4)
	}
	const good = `{"dtype":"U8","shape":[4],"data_offsets":[0,4]}`
	tests := []struct {
		rule  string
		file  []byte
		want  error
		field string
	}{
		{"empty file", nil, core.ErrLayout, "header length"},
		{"header length beyond the file", []byte("\x09\x00\x00\x00\x00\x00\x00\x00{}"), core.ErrLayout, "header has 9 bytes"},
		{"header length beyond the format's limit", []byte("\x01\xe1\xf5\x05\x00\x00\x00\x00{}"), core.ErrLayout, "header length is 100000001"},
		{"header length beyond int64", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), core.ErrLayout, "header length is 18446744073709551615"},
		{"empty header", make([]byte, 8), core.ErrInvalid, "begin with '{'"},
		{"space before the header", withHeader(" {}"), core.ErrInvalid, "begin with '{'"},
		{"header is an array", withHeader("[]"), core.ErrInvalid, "begin with '{'"},
		{"not UTF-8", withHeader("{\"\xff\":{}}"), core.ErrInvalid, "UTF-8"},
		{"header without end", withHeader(`{"x":` + good), core.ErrInvalid, "header"},
		{"text behind the header", withHeader(`{"x":`+good+`}{}`, 1, 2, 3, 4), core.ErrInvalid, "padding"},
		{"NUL behind the header", withHeader("{}\x00"), core.ErrInvalid, "padding"},
		{"comma behind the last key", withHeader(`{"x":`+good+`,}`, 1, 2, 3, 4), core.ErrInvalid, "header"},
		{"control character in a name", withHeader("{\"\x01\":{}}"), core.ErrInvalid, "a valid string"},
		{"half a surrogate pair in a name", withHeader(`{"\ud800":{}}`), core.ErrInvalid, "a valid string"},
		{"name without end", withHeader(`{"x\"`), core.ErrInvalid, "a string with an end"},
		{"tensor twice", withHeader(`{"x":`+good+`,"x":`+good+`}`, 1, 2, 3, 4), core.ErrInvalid, `"x" is there twice`},
		{"tensor twice by an escape", withHeader(`{"x":`+good+`,"\u0078":`+good+`}`, 1, 2, 3, 4), core.ErrInvalid, `"x" is there twice`},

		{"tensor is no object", one(`[]`), core.ErrInvalid, `tensor "x"`},
		{"deep nesting of arrays", one(strings.Repeat("[", 1<<20)), core.ErrInvalid, `tensor "x"`},
		{"deep nesting of objects", one(strings.Repeat(`{"dtype":`, 1<<18)), core.ErrInvalid, `tensor "x": dtype`},
		{"deep nesting in a shape", one(`{"shape":` + strings.Repeat("[", 1<<20)), core.ErrInvalid, `tensor "x": shape[0]`},
		{"unknown key", one(`{"dtype":"U8","shape":[4],"data_offsets":[0,4],"device":{}}`), core.ErrInvalid, `tensor "x": key "device"`},
		{"key twice", one(`{"dtype":"U8","dtype":"U8"}`), core.ErrInvalid, `tensor "x": value: key "dtype" is there twice`},
		{"no dtype", one(`{"shape":[4],"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": dtype`},
		{"no shape", one(`{"dtype":"U8","data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape`},
		{"no offsets", one(`{"dtype":"U8","shape":[4]}`), core.ErrInvalid, `tensor "x": data_offsets`},
		{"three offsets", one(`{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}`), core.ErrInvalid, `tensor "x": data_offsets`},
		{"dtype is a number", one(`{"dtype":8}`), core.ErrInvalid, `tensor "x": dtype`},
		{"unknown dtype", one(`{"dtype":"F128","shape":[4],"data_offsets":[0,4]}`), core.ErrDType, `tensor "x": dtype is "F128"`},
		{"dtype in lower case", one(`{"dtype":"u8","shape":[4],"data_offsets":[0,4]}`), core.ErrDType, `tensor "x": dtype`},

		{"shape is null", one(`{"dtype":"U8","shape":null,"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape`},
		{"negative extent", one(`{"dtype":"U8","shape":[4,-1],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape[1] is negative`},
		{"fraction as extent", one(`{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape`},
		{"exponent as extent", one(`{"dtype":"U8","shape":[4e0],"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape`},
		{"text as extent", one(`{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape[0]`},
		{"comma behind the last extent", one(`{"dtype":"U8","shape":[4,],"data_offsets":[0,4]}`), core.ErrInvalid, `tensor "x": shape[1]`},
		{"extent beyond int64", one(`{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape[0]`},
		{"product beyond int64", one(`{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape`},
		{"bytes beyond int64", one(`{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape`},
		{"more axes than a tensor has", one(`{"dtype":"U8","shape":[` + strings.Repeat("1,", 64) + `1],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape`},
		{"packed elements that end inside a byte", one(`{"dtype":"F4","shape":[7],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": shape`},

		{"size differs from the offsets", one(`{"dtype":"U8","shape":[3],"data_offsets":[0,4]}`), core.ErrLayout, `tensor "x": data_offsets span 4`},
		{"end before begin", one(`{"dtype":"U8","shape":[4],"data_offsets":[4,0]}`), core.ErrLayout, `tensor "x": data_offsets end at 0`},
		{"negative offset", one(`{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}`), core.ErrLayout, `tensor "x": data_offsets[0] is negative`},
		{"offsets beyond the file", one(`{"dtype":"U8","shape":[5],"data_offsets":[0,5]}`), core.ErrLayout, `tensor "x": data_offsets end at 5`},
		{"offsets close to the largest int64", one(`{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}`), core.ErrLayout, `tensor "x": data_offsets begin`},
		{"offset beyond int64", one(`{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}`), core.ErrLayout, `tensor "x": data_offsets[1]`},
		{"hole before the first tensor", two("[1,3]", "[3,5]"), core.ErrLayout, `tensor "a": data_offsets begin at 1`},
		{"hole between tensors", two("[0,2]", "[3,5]"), core.ErrLayout, `tensor "b": data_offsets begin at 3`},
		{"overlap", two("[0,2]", "[1,3]"), core.ErrLayout, `tensor "b": data_offsets begin at 1`},
		{"the same bytes twice", two("[0,2]", "[0,2]"), core.ErrLayout, `tensor "b": data_offsets begin at 0`},
		{"bytes behind the last tensor", withHeader(`{"x":`+good+`}`, 1, 2, 3, 4, 5), core.ErrLayout, "data_offsets end at 4, but 5 bytes"},
		{"data cut short", withHeader(`{"x":`+good+`}`, 1, 2, 3), core.ErrLayout, `tensor "x": data_offsets end at 4`},

		{"metadata is no object", withHeader(`{"__metadata__":[]}`), core.ErrInvalid, "__metadata__"},
		{"metadata of a number", withHeader(`{"__metadata__":{"k":1}}`), core.ErrInvalid, `__metadata__."k"`},
		{"metadata of an object", withHeader(`{"__metadata__":{"k":{}}}`), core.ErrInvalid, `__metadata__."k"`},
		{"metadata key twice", withHeader(`{"__metadata__":{"k":"","k":""}}`), core.ErrInvalid, `__metadata__: key "k"`},
		{"metadata twice", withHeader(`{"__metadata__":{},"__metadata__":{}}`), core.ErrInvalid, `"__metadata__" is there twice`},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := tensorfile.Parse(test.file, "x.safetensors", tensorfile.OpenOptions{})
			checkError(t, err, tensorfile.Safetensors, test.want, test.field)
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error repeats the file: %d bytes", len(err.Error()))
			}
		})
	}
}

func TestSafetensorsMetadata(t *testing.T) {
	f := must[*tensorfile.File](t)(tensorfile.Open(realPath("digits.safetensors"), tensorfile.OpenOptions{}))
	want := map[string]string{"source": "scikit-learn digits"}
	got := f.Metadata()
	if !maps.Equal(got, want) {
		t.Errorf("metadata %v, want %v", got, want)
	}
	clear(got)
	if !maps.Equal(f.Metadata(), want) {
		t.Error("the caller's copy is the file's map")
	}
}
