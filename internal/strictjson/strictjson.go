// Package strictjson reads JSON as package encoding/json does, but takes the keys of objects exactly. That package ignores
// the case of keys, and takes the last of two equal ones, so that a text may mean something else than other programs read.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// KeyError is the error for a key that is there twice, or that differs from a known one in case only.
type KeyError struct {
	Offset int    // in bytes, of the key
	Key    string // as it is in the text
	Known  string // the key that it is taken for; Key itself if that is there twice
}

var _ error = (*KeyError)(nil)

// Error returns a text that says what is wrong.
func (e *KeyError) Error() string {
	if e.Key == e.Known {
		return fmt.Sprintf("byte %d: key %s is there twice", e.Offset, shorten(e.Key))
	}
	return fmt.Sprintf("byte %d: key %s is not known: write %q", e.Offset, shorten(e.Key), e.Known)
}

// shorten quotes the begin of a text, which may be of any length.
func shorten(text string) string {
	const longest = 64
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return fmt.Sprintf("%q", text)
}

// Unmarshal is like json.Unmarshal. It returns a *KeyError, too, and then has not changed v. It does not look into a
// json.RawMessage, nor into what has a method UnmarshalJSON: that is for whatever reads it.
func Unmarshal(text []byte, v any) error {
	if err := check(text, v); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// UnmarshalKnown is like Unmarshal, but keys that v has no field for are errors.
func UnmarshalKnown(text []byte, v any) error {
	if err := check(text, v); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text)) // nothing follows the value: check has seen to that
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// A Decoder reads one value after the other.
type Decoder struct{ values *json.Decoder }

// NewDecoder returns a decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{json.NewDecoder(r)} }

// Decode reads the next value, as Unmarshal does. It returns io.EOF if there is none. Of a *KeyError the offset counts from
// the begin of the value.
func (d *Decoder) Decode(v any) error {
	var text json.RawMessage
	if err := d.values.Decode(&text); err != nil {
		return err
	}
	return Unmarshal(text, v)
}

// check returns the error for keys, or for a malformed text.
func check(text []byte, v any) error {
	if !json.Valid(text) {
		var whole json.RawMessage
		return json.Unmarshal(text, &whole) // which says where
	}
	w := &walker{text: text}
	return w.value(reflect.ValueOf(v))
}

// walker goes through a text that is valid JSON, whose depth encoding/json limits.
type walker struct {
	text []byte
	pos  int
}

// peek skips blanks and returns the next byte.
func (w *walker) peek() byte {
	for strings.IndexByte(" \t\r\n", w.text[w.pos]) >= 0 {
		w.pos++
	}
	return w.text[w.pos]
}

// accept skips the next token if it is c, and reports whether it was.
func (w *walker) accept(c byte) bool {
	if w.peek() != c {
		return false
	}
	w.pos++
	return true
}

// value checks a value that is to become v. It also checks what nobody reads, for which v is the zero Value.
func (w *walker) value(v reflect.Value) error {
	v, own := target(v)
	switch first := w.peek(); {
	case own:
		w.skip()
	case first == '{':
		return w.object(v)
	case first == '[':
		return w.array(v)
	default:
		w.skip()
	}
	return nil
}

func (w *walker) array(v reflect.Value) error {
	var item reflect.Value
	if k := v.Kind(); k == reflect.Slice || k == reflect.Array {
		item = reflect.Zero(v.Type().Elem())
	}
	for w.pos++; !w.accept(']'); w.accept(',') {
		if err := w.value(item); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) object(v reflect.Value) error {
	known := make(map[string]reflect.Value)
	var item reflect.Value
	switch v.Kind() {
	case reflect.Struct:
		addFields(known, v)
	case reflect.Map:
		item = reflect.Zero(v.Type().Elem())
	}
	seen := make(map[string]bool)
	for w.pos++; !w.accept('}'); w.accept(',') {
		at := w.pos
		w.skip()
		var key string
		if err := json.Unmarshal(w.text[at:w.pos], &key); err != nil {
			return err
		}
		field, exact := known[key]
		switch {
		case seen[key]:
			return &KeyError{at, key, key}
		case exact:
		default:
			field = item
			for name := range known {
				if strings.EqualFold(name, key) {
					return &KeyError{at, key, name}
				}
			}
		}
		seen[key] = true
		w.accept(':')
		if err := w.value(field); err != nil {
			return err
		}
	}
	return nil
}

// skip goes to the end of a value, or of a key.
func (w *walker) skip() {
	w.peek()
	for depth := 0; ; w.pos++ {
		switch w.text[w.pos] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			for w.pos++; w.text[w.pos] != '"'; w.pos++ {
				if w.text[w.pos] == '\\' {
					w.pos++
				}
			}
		default: // of a number or a word, or between values
			if depth > 0 || w.pos+1 < len(w.text) && strings.IndexByte(",:]} \t\r\n", w.text[w.pos+1]) < 0 {
				continue
			}
		}
		if depth == 0 {
			w.pos++
			return
		}
	}
}

var reader = reflect.TypeFor[json.Unmarshaler]()

// target returns what encoding/json stores a value in that is to become v. own reports whether that reads its JSON itself.
func target(v reflect.Value) (_ reflect.Value, own bool) {
	for v.IsValid() {
		switch t := v.Type(); {
		case t.Implements(reader) || reflect.PointerTo(t).Implements(reader):
			return v, true
		case v.Kind() == reflect.Pointer && v.IsNil():
			v = reflect.Zero(t.Elem())
		case v.Kind() == reflect.Pointer, v.Kind() == reflect.Interface && v.Elem().Kind() == reflect.Pointer:
			v = v.Elem()
		case v.Kind() == reflect.Interface: // it becomes whatever the text has
			return reflect.Value{}, false
		default:
			return v, false
		}
	}
	return v, false
}

// addFields adds the fields of a struct by their keys.
func addFields(fields map[string]reflect.Value, v reflect.Value) {
	var embedded []reflect.Value
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if inner, _ := target(v.Field(i)); f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			embedded = append(embedded, inner)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, outer := fields[name]; !outer && tag != "-" && f.IsExported() {
			fields[name] = v.Field(i)
		}
	}
	for _, inner := range embedded { // whose fields those outside hide
		addFields(fields, inner)
	}
}
