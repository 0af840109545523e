package strictjson_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/strictjson"
)

type inner struct {
	Case string `json:"case"`
	Next *inner `json:"next,omitempty"`
}

type embedded struct {
	Deep int `json:"deep"`
	Name int `json:"hidden"`
}

type everything struct {
	embedded
	Name   string            `json:"name"`
	Plain  int               // without a tag
	Out    int               `json:"-"`
	List   []inner           `json:"list"`
	Two    [2]inner          `json:"two"`
	Byname map[string]inner  `json:"by_name"`
	Texts  map[string]string `json:"texts"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
}

func TestKeysAreExactAndUnique(t *testing.T) {
	for text, want := range map[string]struct{ key, known string }{ // empty for a text that is sound
		`{}`:                                {},
		` { "name" : "x" , "list" : [ ] } `: {},
		`{"name":"x","deep":1,"Plain":2,"unknown":{"NAME":1,"name":2},"Out":1}`:   {},
		`{"list":[{"case":"a"},{"case":"a","next":{"case":"b","next":null}}]}`:    {},
		`{"by_name":{"a":{"case":"x"},"A":{"case":"y"}},"texts":{"b":"","B":""}}`: {},
		`{"raw":{"a":1,"a":2},"any":{"a":1,"A":2}}`:                               {},
		`{"name":"\"{","texts":{"a\\":"]","b\"":"}"}}`:                            {},
		`null`:                                    {},
		`{"name":"x","name":"y"}`:                 {"name", "name"},
		`{"name":"x","NAME":"y"}`:                 {"NAME", "name"},
		`{"Name":"x"}`:                            {"Name", "name"},
		`{"plain":1}`:                             {"plain", "Plain"},
		`{"DEEP":1}`:                              {"DEEP", "deep"},
		`{"Hidden":1}`:                            {"Hidden", "hidden"},
		"{\"li\u017ft\":[]}":                      {"li\u017ft", "list"}, // a letter that encoding/json takes for an s
		`{"list":[{"case":"a"},{"Case":"a"}]}`:    {"Case", "case"},
		`{"list":[{"next":{"next":{"CASE":1}}}]}`: {"CASE", "case"},
		`{"two":[{},{"Case":""}]}`:                {"Case", "case"},
		`{"by_name":{"x":{"Case":""}}}`:           {"Case", "case"},
		`{"texts":{"a":"","\u0061":""}}`:          {"a", "a"},
		`{"any":[[{"a":1,"b":[1,{}],"a":2}]]}`:    {"a", "a"},
		`{"unknown":{"a":1,"a":2}}`:               {"a", "a"},
	} {
		var got, expected everything
		err := strictjson.Unmarshal([]byte(text), &got)
		var wrong *strictjson.KeyError
		if want.key == "" {
			if plain := json.Unmarshal([]byte(text), &expected); err != nil || plain != nil || !reflect.DeepEqual(got, expected) {
				t.Errorf("%s: %v, %+v; encoding/json: %v, %+v", text, err, got, plain, expected)
			}
			continue
		}
		if !errors.As(err, &wrong) || wrong.Key != want.key || wrong.Known != want.known || !strings.HasPrefix(text[wrong.Offset:], `"`) {
			t.Errorf("%s: %v, want an error for %q and %q", text, err, want.key, want.known)
		}
		if !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: it was read nevertheless: %+v", text, got)
		}
	}
}

// A pointer in an interface is read into, as encoding/json does.
func TestAPointerInAnInterface(t *testing.T) {
	var in inner
	e := everything{Any: &in}
	var wrong *strictjson.KeyError
	if err := strictjson.Unmarshal([]byte(`{"any":{"Case":"x"}}`), &e); !errors.As(err, &wrong) || in.Case != "" {
		t.Errorf("%v, %+v", err, in)
	}
	if err := strictjson.Unmarshal([]byte(`{"any":{"case":"x"}}`), &e); err != nil || in.Case != "x" {
		t.Errorf("%v, %+v", err, in)
	}
}

func TestUnknownKeys(t *testing.T) {
	var v inner
	for text, sound := range map[string]bool{`{"case":"x"}`: true, `{"other":1}`: false, `{"Case":"x"}`: false, `{"case":"x"} {}`: false, `{`: false} {
		if err := strictjson.UnmarshalKnown([]byte(text), &v); (err == nil) != sound {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDecoder(t *testing.T) {
	d := strictjson.NewDecoder(strings.NewReader(`{"case":"a"}{"case":"b"} {"CASE":"c"} {"case":`))
	for _, want := range []string{"a", "b"} {
		var v inner
		if err := d.Decode(&v); err != nil || v.Case != want {
			t.Errorf("%v, %+v, want %q", err, v, want)
		}
	}
	var v inner
	var wrong *strictjson.KeyError
	if err := d.Decode(&v); !errors.As(err, &wrong) {
		t.Errorf("%v, %+v", err, v)
	}
	if err := d.Decode(&v); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want %v", err, io.ErrUnexpectedEOF)
	}
	if err := strictjson.NewDecoder(strings.NewReader(" ")).Decode(&v); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want %v", err, io.EOF)
	}
}

// A text that is sound is read as by encoding/json; a malformed one is an error of both.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`{"name":"x","list":[{"case":"a"}]}`, `{"a":1,"a":2}`, `[1,"\"",{}]`, `0`, `{"x":{"Name":[true , null]}}`, `"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want everything
		plain := json.Unmarshal(text, &want)
		err := strictjson.Unmarshal(text, &got)
		var wrong *strictjson.KeyError
		switch {
		case errors.As(err, &wrong):
			if wrong.Error() == "" || wrong.Offset >= len(text) || text[wrong.Offset] != '"' {
				t.Errorf("%+v", wrong)
			}
		case (err == nil) != (plain == nil):
			t.Errorf("%v; encoding/json: %v", err, plain)
		case !reflect.DeepEqual(got, want):
			t.Errorf("%+v; encoding/json: %+v", got, want)
		}
	})
}

// Everything in this module that reads JSON does so by this package. tensorfile has a scanner of its own, and passes
// single strings to encoding/json.
func TestNothingElseReadsJSON(t *testing.T) {
	root := filepath.Join("..", "..")
	allowed := map[string]bool{filepath.Join("internal", "strictjson", "strictjson.go"): true, filepath.Join("tensorfile", "json.go"): true}
	reads := regexp.MustCompile(`\bjson\.(Unmarshal|NewDecoder)\(`)
	read := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != ".":
			return filepath.SkipDir // tools and caches
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || allowed[name]:
			return nil
		}
		text, err := os.ReadFile(path)
		read++
		if reads.Match(text) {
			t.Errorf("%s reads JSON by encoding/json: use package strictjson", name)
		}
		return err
	})
	if err != nil || read < 500 {
		t.Errorf("%d files, %v", read, err)
	}
}
