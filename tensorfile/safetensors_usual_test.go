package tensorfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// usualHeaders are headers without blanks, and others that differ from them in one place.
var usualHeaders = []string{
	`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}}`,
	`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"a":{"dtype":"U8","shape":[],"data_offsets":[24,25]}}`,
	`{"__metadata__":{"k":"v"},"a":{"dtype":"BOOL","shape":[0,7],"data_offsets":[0,0]}}`,
	`{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},"b":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[2,5]}}`,
	`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`,
	`{"a":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[2,],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[,2],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[2 ],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,00]}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"dtype":"F32"}}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}x}`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} x`,
	`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`,
	`{"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"","shape":[2],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"F\u00332","shape":[2],"data_offsets":[0,8]}}`,
	`{"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}}`,
	`{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,9223372036854775808]}}`,
	`{"a":{"dtype":"U8","shape":[18446744073709551617],"data_offsets":[0,1]}}`,
	`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`,
	`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`,
	`{"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}`,
	`{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", core.MaxRank-1) + `1],"data_offsets":[0,1]}}`,
	`{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", core.MaxRank) + `1],"data_offsets":[0,1]}}`,
	`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`,
	"{\"a long name \u00fc with more than eight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	"{\"a long name \\u00fc with more than eight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	"{\"a long name \\\" with more than eight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	"{\"a name with \x1f a control\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	"{\"12345678\x7f\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
	"{\"1234567\x00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
}

var positions = regexp.MustCompile(`byte [0-9]+ of the header: expected .*, found .*`)

// plainly returns the text of an error without blanks and without what a blank moves.
func plainly(err error) string {
	return strings.ReplaceAll(positions.ReplaceAllString(err.Error(), ""), " ", "")
}

// kindOf returns the sentinel of an error.
func kindOf(err error) error {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// checkUsual fails the test unless the header gives the same tensors or the same error as with a blank in each tensor, which
// makes it another one than the usual writers make. texts says whether to compare the texts of errors, too.
func checkUsual(t *testing.T, header string, texts bool) {
	t.Helper()
	parse := func(header string) ([]tensorfile.Info, error) {
		data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		data = append(append(data, header...), make([]byte, 32)...)
		for size := len(data) - 32; ; size++ { // the number of bytes that the tensors take is not known here
			f, err := tensorfile.Parse(data[:size], "x.safetensors", tensorfile.OpenOptions{})
			if err == nil {
				infos := f.Tensors()
				for i := range infos {
					infos[i].Offset -= int64(8 + len(header))
					infos[i].InPlace = false
				}
				return infos, f.Close()
			}
			if size == len(data) || !strings.Contains(err.Error(), "bytes follow the header") {
				return nil, err
			}
		}
	}
	blanks := strings.ReplaceAll(header, `{"dtype":`, `{ "dtype":`)
	usual, err := parse(header + strings.Repeat(" ", len(blanks)-len(header))) // of the same length
	other, otherErr := parse(blanks)
	if (err == nil) != (otherErr == nil) || err != nil && (kindOf(err) != kindOf(otherErr) || texts && plainly(err) != plainly(otherErr)) {
		t.Errorf("%q: error %v, and with a blank %v", header, err, otherErr)
	}
	if !reflect.DeepEqual(usual, other) {
		t.Errorf("%q: tensors %+v, and with a blank %+v", header, usual, other)
	}
}

func TestUsualHeaders(t *testing.T) {
	for _, header := range usualHeaders {
		checkUsual(t, header, true)
	}
	// Each byte of a header is wrong once.
	for _, with := range []string{"", " ", "0", `"`, "]", "}", ",", "\x00"} {
		header := usualHeaders[0]
		for i := range header {
			checkUsual(t, header[:i]+with+header[i+1:], true)
			checkUsual(t, header[:i]+with+header[i:], true)
		}
	}
}

// FuzzUsualHeaders proves that headers of the usual writers are read as all others.
func FuzzUsualHeaders(f *testing.F) {
	for _, header := range usualHeaders {
		f.Add([]byte(header))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		if bytes.Contains(header, []byte(`{"dtype":`)) {
			checkUsual(t, string(header), false)
		}
	})
}

// Names are found among very many, and one that repeats is an error wherever it is.
func TestManyNames(t *testing.T) {
	for _, count := range []int{1, 2, 3, 4, 6, 7, 100, 3000, 50_000} {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, `,"model.%d.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
		}
		header := "{" + b.String()[1:]
		f := must[*tensorfile.File](t)(tensorfile.Parse(withHeader(header+"}"), "x.safetensors", tensorfile.OpenOptions{}))
		for i := range count {
			x, err := f.Tensor(fmt.Sprintf("model.%d.weight", i))
			if err != nil {
				t.Fatal(err)
			}
			_ = x.Close()
			if _, err := f.Tensor(fmt.Sprintf("model.%d.bias", i)); !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("a name that is not there: %v", err)
			}
		}
		twice := header + fmt.Sprintf(`,"model.%d.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, count/2)
		_, err := tensorfile.Parse(withHeader(twice), "x.safetensors", tensorfile.OpenOptions{})
		checkError(t, err, tensorfile.Safetensors, core.ErrInvalid, fmt.Sprintf(`tensor "model.%d.weight" is there twice`, count/2))
	}
}
