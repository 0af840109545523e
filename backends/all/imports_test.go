package all_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// common are the folders of backends that are no backends.
var common = []string{"all", "backendkit", "backendtest", "internal"}

// bindings are the packages of others that one backend has to itself.
var bindings = map[string]string{
	"gorgonia.org/cu":              "cuda",
	"github.com/go-gl/gl":          "gl",
	"github.com/vulkan-go/vulkan":  "vulkan",
	"github.com/ebitengine/purego": "metal",
}

// Crossing two APIs is exchange's work: no backend imports another one, nor its bindings,
// in tests either.
func TestNoBackendImportsAnother(t *testing.T) {
	const ours = "github.com/dlx-go/dlx/backends/"
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range folders {
		if !f.IsDir() || slices.Contains(common, f.Name()) {
			continue
		}
		seen++
		for file, imports := range importsBelow(t, filepath.Join("..", f.Name())) {
			for _, i := range imports {
				other := ""
				if rest, ok := strings.CutPrefix(i, ours); ok {
					other, _, _ = strings.Cut(rest, "/")
				}
				for library, backend := range bindings {
					if i == library || strings.HasPrefix(i, library+"/") {
						other = backend
					}
				}
				allowed := other == "" || other == f.Name() || other == "internal" || other == "backendkit" || other == "backendtest" && strings.HasSuffix(file, "_test.go")
				if !allowed {
					t.Errorf("%s imports %s", file, i)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d backends", seen)
	}
}

// importsBelow lists what the files of a folder import, by file, whatever they need to be built.
func importsBelow(t *testing.T, folder string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	if err := filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			text, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[name] = append(found[name], text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}
