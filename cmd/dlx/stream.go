package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
)

// streamed is a result whose JSON is long. It is written piece by piece: encoding/json would keep the whole text twice.
type streamed interface {
	// writeJSON writes what encoding/json would write for the result.
	writeJSON(j *jsonWriter)
}

// jsonWriter writes indented JSON as encoding/json does. It keeps the first error.
type jsonWriter struct {
	w      *bufio.Writer
	indent []byte // a newline, and the blanks before the next key or element
	empty  bool   // whether nothing is in the object or list so far
	piece  bytes.Buffer
	encode *json.Encoder // writes to piece
	err    error
}

func newJSONWriter(w *bufio.Writer) *jsonWriter {
	j := &jsonWriter{w: w, indent: []byte{'\n'}}
	j.encode = json.NewEncoder(&j.piece)
	j.encode.SetEscapeHTML(false)
	return j
}

// put writes a text, in which it escapes what could disturb a terminal.
func (j *jsonWriter) put(text []byte) {
	if j.err == nil {
		_, j.err = escaping{j.w, jsonEscape}.Write(text)
	}
}

// value writes a value.
func (j *jsonWriter) value(v any) {
	if s, ok := v.(streamed); ok {
		s.writeJSON(j)
		return
	}
	j.piece.Reset()
	j.encode.SetIndent(string(j.indent[1:]), "  ")
	if err := j.encode.Encode(v); err != nil && j.err == nil {
		j.err = err
	}
	j.put(joinNumbers(bytes.TrimSuffix(j.piece.Bytes(), []byte{'\n'})))
}

// inside writes what content writes between an opening and a closing bracket.
func (j *jsonWriter) inside(open, end byte, content func()) {
	j.put([]byte{open})
	j.indent, j.empty = append(j.indent, "  "...), true
	content()
	j.indent = j.indent[:len(j.indent)-2]
	if !j.empty {
		j.put(j.indent)
	}
	j.put([]byte{end})
	j.empty = false
}

// next begins the next field or element.
func (j *jsonWriter) next() {
	if !j.empty {
		j.put([]byte{','})
	}
	j.empty = false
	j.put(j.indent)
}

// object writes an object, whose fields content writes.
func (j *jsonWriter) object(content func()) { j.inside('{', '}', content) }

// field writes a field of an object. Its name is a plain word.
func (j *jsonWriter) field(name string, v any) {
	j.next()
	j.put([]byte(`"` + name + `": `))
	j.value(v)
}

// list is a list whose elements are written one after another.
type list[T any] []T

func (l list[T]) writeJSON(j *jsonWriter) {
	j.inside('[', ']', func() {
		for i := range l {
			j.next()
			j.value(&l[i])
		}
	})
}

// writeDocument writes a document as indented JSON, with each array of numbers on one line.
func writeDocument(w io.Writer, d document) error {
	buffered := bufio.NewWriter(w)
	j := newJSONWriter(buffered)
	j.value(d)
	j.put([]byte{'\n'})
	if j.err != nil {
		return j.err
	}
	return buffered.Flush()
}

func (d document) writeJSON(j *jsonWriter) {
	j.object(func() {
		j.field("schema", d.Schema)
		j.field("command", d.Command)
		if d.Result != nil {
			j.field("result", d.Result)
		}
		if d.Error != nil {
			j.field("error", d.Error)
		}
	})
}

var (
	// Strings of JSON have no line breaks, so that this finds nothing in strings.
	indentedNumbers = regexp.MustCompile(`\[\n *(?:[-+.0-9eE]+,\n *)*[-+.0-9eE]+\n *\]`)
	lineBreak       = regexp.MustCompile(`\n *`)
)

// joinNumbers puts each array of numbers in indented JSON on one line. A report of dlx bench has thousands of samples.
func joinNumbers(text []byte) []byte {
	return indentedNumbers.ReplaceAllFunc(text, func(array []byte) []byte {
		numbers := bytes.TrimSpace(array[1 : len(array)-1])
		return slices.Concat([]byte("["), lineBreak.ReplaceAll(numbers, []byte(" ")), []byte("]"))
	})
}
