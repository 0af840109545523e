package tensorfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
)

// jsonTensor is a tensor in the header; the order of its fields is the file's.
type jsonTensor struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeSafetensors writes the header, padded to 8 bytes, and the elements: those
// with the widest alignment first, so that all are aligned.
func writeSafetensors(w io.Writer, sources []*source, metadata map[string]string, at fault) error {
	slices.SortFunc(sources, func(a, b *source) int {
		return cmp.Or(cmp.Compare(safetensorsIndex(b.dtype), safetensorsIndex(a.dtype)), cmp.Compare(a.name, b.name))
	})
	object := newHeaderWriter()
	if metadata != nil {
		if err := checkMetadata(metadata, at); err != nil {
			return err
		}
		object.add(metadataName, metadata)
	}
	end := int64(0)
	for _, s := range sources {
		at := at.in("tensor", s.name)
		if err := checkName(Safetensors, s.name, at); err != nil {
			return err
		}
		known, err := safetensorsRank(s.dtype, at)
		if err != nil {
			return err
		}
		size, err := packedSize(s.dtype, s.layout, at)
		if err != nil {
			return err
		}
		shape := append([]int64{}, s.layout.Shape()...) // [] for a scalar, not null
		object.add(s.name, jsonTensor{safetensorsTypes[known].name, shape, [2]int64{end, end + size}})
		end += size
	}
	text := object.finish()
	if len(text) > lengthSize+maxJSON {
		return at.errorf(core.ErrInvalid, "header has %d bytes; the format allows %d", len(text)-lengthSize, maxJSON)
	}
	_, err := w.Write(text)
	for _, s := range sources {
		if err == nil {
			err = s.write(w, s.layout)
		}
	}
	if err != nil {
		return at.errorf(because(core.ErrInvalid, err), "writing failed")
	}
	return nil
}

// safetensorsIndex is the place of an element type in safetensorsTypes, -1 if it has none.
func safetensorsIndex(dtype core.DType) int {
	return slices.IndexFunc(safetensorsTypes, func(t safetensorsType) bool { return t.dtype == dtype })
}

// safetensorsRank is safetensorsIndex of an element type that can be written.
func safetensorsRank(dtype core.DType, at fault) (int, error) {
	i := safetensorsIndex(dtype)
	if i < 0 {
		return i, at.errorf(core.ErrNotSupported, "the format has no element type %v", dtype)
	}
	return i, checkOrder(dtype, nativeOrder, at)
}

// checkSafetensors refuses an element type or a shape that cannot be written.
func checkSafetensors(t Info, at fault) error {
	if _, err := safetensorsRank(t.DType, at); err != nil {
		return err
	}
	l, err := at.layout(t.Shape, false)
	if err == nil {
		_, err = packedSize(t.DType, l, at)
	}
	return err
}

// checkMetadata refuses text that JSON cannot carry unchanged.
func checkMetadata(metadata map[string]string, at fault) error {
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return at.errorf(core.ErrInvalid, "metadata %s is not UTF-8", quote(key))
		}
	}
	return nil
}

// headerWriter builds the JSON object in the order in which its members are added.
type headerWriter struct{ text bytes.Buffer }

// newHeaderWriter leaves room for the length and begins the object.
func newHeaderWriter() *headerWriter {
	h := new(headerWriter)
	h.text.Write(make([]byte, lengthSize))
	h.text.WriteByte('{')
	return h
}

// add appends a member.
func (h *headerWriter) add(key string, value any) {
	if h.text.Len() > lengthSize+len("{") {
		h.text.WriteByte(',')
	}
	h.json(key)
	h.text.WriteByte(':')
	h.json(value)
}

// json appends a value as the reference implementation would, without a newline
// and without the escapes that HTML needs.
func (h *headerWriter) json(value any) {
	e := json.NewEncoder(&h.text)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // strings and numbers into memory: nothing that can fail
	h.text.Truncate(h.text.Len() - len("\n"))
}

// finish closes and pads the object and puts its length in front.
func (h *headerWriter) finish() []byte {
	h.text.WriteByte('}')
	for h.text.Len()%lengthSize != 0 {
		h.text.WriteByte(' ')
	}
	b := h.text.Bytes()
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lengthSize))
	return b
}
