package tensorfile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlx-go/dlx/core"
)

// jsonBlank are the characters that may separate the tokens of JSON.
const jsonBlank = " \t\r\n"

// object reads a JSON object whose keys do not repeat. It calls value to read the value of
// each key.
func (s *scanner) object(field string, value func(key string) error) error {
	var seen keys
	_, err := s.list("{}", false, field, func(int) error {
		text, err := s.key(field)
		if err != nil {
			return err
		}
		key := string(text)
		if seen.add(key) {
			return s.repeated(field, text)
		}
		return value(key)
	})
	return err
}

// key reads the key of an object and the colon after it. The result may be a part of the text.
func (s *scanner) key(field string) ([]byte, error) {
	key, err := s.jsonText(field)
	if err == nil && !s.accept(':') {
		err = s.expected("':'", quote(string(key)))
	}
	return key, err
}

// repeated returns the error for a key that was there before.
func (s *scanner) repeated(field string, key []byte) error {
	return s.at.errorf(core.ErrInvalid, "%s: key %s is there twice", field, quote(string(key)))
}

// keys is a set of keys. Most objects have few of them, which need no map.
type keys struct {
	few  [4]string
	n    int
	more map[string]struct{}
}

// add adds a key, and reports whether it was there.
func (k *keys) add(key string) bool {
	if k.more == nil {
		if slices.Contains(k.few[:k.n], key) {
			return true
		}
		if k.n < len(k.few) {
			k.few[k.n] = key
			k.n++
			return false
		}
		k.more = make(map[string]struct{})
		for _, few := range k.few {
			k.more[few] = struct{}{}
		}
	}
	before := len(k.more)
	k.more[key] = struct{}{}
	return len(k.more) == before
}

// jsonString reads a string.
func (s *scanner) jsonString(field string) (string, error) {
	text, err := s.jsonText(field)
	return string(text), err
}

// jsonText reads a string. The result may be a part of the text.
func (s *scanner) jsonText(field string) ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.expected("a string", field)
	}
	// Most strings have only ASCII characters and no escapes, and stand for themselves.
	rest := s.text[s.pos+1:]
	if n := bytes.IndexByte(rest, '"'); n >= 0 && plainASCII(rest[:n]) {
		s.pos += n + 2
		return rest[:n], nil
	}
	for i := s.pos + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '"':
			raw := s.text[s.pos : i+1]
			var v string
			if !utf8.Valid(raw) || json.Unmarshal(raw, &v) != nil || losesText(string(raw), v) {
				return nil, s.expected("a valid string", field)
			}
			s.pos = i + 1
			return []byte(v), nil
		}
	}
	return nil, s.expected("a string with an end", field)
}

// losesText reports whether decoding a JSON string has replaced an invalid escape by U+FFFD. An
// escape is invalid if it is only half of a surrogate pair.
func losesText(raw, decoded string) bool {
	const replacement, escaped = "\uFFFD", `\ufffd`
	return strings.Contains(raw, `\u`) &&
		strings.Count(decoded, replacement) > strings.Count(raw, replacement)+strings.Count(strings.ToLower(raw), escaped)
}
