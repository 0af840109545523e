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

// jsonTensor is a tensor in the header. Its fields are in the order of the file.
type jsonTensor struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeSafetensors writes the header, padded to 8 bytes, and the elements. The tensors with
// the largest alignment come first, so that all are aligned.
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

// safetensorsIndex returns the index of an element type in safetensorsTypes, -1 if it is not
// there.
func safetensorsIndex(dtype core.DType) int {
	return slices.IndexFunc(safetensorsTypes, func(t safetensorsType) bool { return t.dtype == dtype })
}

// safetensorsRank is safetensorsIndex, but returns an error for an element type that cannot be
// written.
func safetensorsRank(dtype core.DType, at fault) (int, error) {
	i := safetensorsIndex(dtype)
	if i < 0 {
		return i, at.errorf(core.ErrNotSupported, "the format has no element type %v", dtype)
	}
	return i, checkOrder(dtype, nativeOrder, at)
}

// checkSafetensors returns an error if a tensor of this type and shape cannot be written.
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

// checkMetadata returns an error for text that JSON cannot represent exactly.
func checkMetadata(metadata map[string]string, at fault) error {
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return at.errorf(core.ErrInvalid, "metadata %s is not UTF-8", quote(key))
		}
	}
	return nil
}

// headerWriter writes a JSON object. Its members are in the order in which they are added.
type headerWriter struct{ text bytes.Buffer }

// newHeaderWriter returns a writer that has begun the object, after room for the length.
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

// json appends a value as the reference implementation does, without a newline and without
// HTML escapes.
func (h *headerWriter) json(value any) {
	e := json.NewEncoder(&h.text)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // writing strings and numbers to memory cannot fail
	h.text.Truncate(h.text.Len() - len("\n"))
}

// finish ends and pads the object, sets its length, and returns the whole header.
func (h *headerWriter) finish() []byte {
	h.text.WriteByte('}')
	for h.text.Len()%lengthSize != 0 {
		h.text.WriteByte(' ')
	}
	b := h.text.Bytes()
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lengthSize))
	return b
}
