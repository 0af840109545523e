package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// What is written piece by piece is what encoding/json writes, but for numbers on one line.
func TestStreamedJSONIsThatOfTheFields(t *testing.T) {
	tensor := tensorResult{tensorfile.Info{Name: "<a>", DType: core.TypeFloat32, Shape: []int64{2, 3}, Strides: []int64{3, 1}, Bytes: 24, InPlace: true}, "row-major"}
	scalar := tensorResult{tensorfile.Info{Name: "é\n", File: "x\\y", Shape: []int64{}, Strides: []int64{}}, "row-major"}
	member := tensorResult{tensorfile.Info{Name: "b", Reason: `"text"`}, ""}
	file := &inspectResult{File: "f", Format: "npz", Bytes: 7, Metadata: map[string]string{"k": "v&", "": "w"}, Tensors: list[tensorResult]{tensor, scalar, member}}
	empty := &inspectResult{File: "e", Tensors: list[tensorResult]{}}
	failed := newErrorResult(errors.New("failed"), true)
	for name, r := range map[string]any{
		"a file":       file,
		"no tensor":    empty,
		"files":        inspectList{list[fileResult]{{"f", file, nil}, {"g", nil, failed}, {"e", empty, nil}}},
		"no file":      inspectList{list[fileResult]{}},
		"not streamed": &convertResult{File: "f"},
		"nothing":      nil,
	} {
		for _, err := range []*errorResult{nil, failed} {
			d := document{Schema: schema, Command: "inspect", Result: r, Error: err}
			var got, want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetIndent("", "  ")
			e.SetEscapeHTML(false)
			if err := errors.Join(e.Encode(d), writeDocument(&got, d)); err != nil {
				t.Fatal(err)
			}
			if want := joinNumbers(want.Bytes()); !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: the document is\n%s\nand not\n%s", name, &got, want)
			}
		}
	}
}

// The text of a list has been written when its last elements are encoded.
func TestALongListIsStreamed(t *testing.T) {
	var out counted
	elements := make(list[noted], 1000)
	for i := range elements {
		elements[i].out = &out
	}
	if err := writeDocument(&out, document{Result: streamedList{elements}}); err != nil {
		t.Fatal(err)
	}
	if last := elements[len(elements)-1].before; last < out.n*9/10 {
		t.Errorf("%d of %d bytes had been written when the last element was encoded", last, out.n)
	}
	if err := writeDocument(io.MultiWriter(&out, failedWriter{}), document{Result: streamedList{elements}}); err == nil {
		t.Error("an error of a write is lost")
	}
}

type streamedList struct{ elements list[noted] }

func (s streamedList) writeJSON(j *jsonWriter) {
	j.object(func() { j.field("elements", s.elements) })
}

// noted is an element that notes how many bytes have been written before it.
type noted struct {
	out    *counted
	before int
}

func (w *noted) MarshalJSON() ([]byte, error) {
	w.before = w.out.n
	return json.Marshal(strings.Repeat("x", 100))
}

// counted counts bytes.
type counted struct{ n int }

func (c *counted) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

type failedWriter struct{}

func (failedWriter) Write([]byte) (int, error) { return 0, errors.New("planted") }
