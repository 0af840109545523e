package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// TestPackagesNameTheirImports compares the last column of packages.md with the imports in the source.
func TestPackagesNameTheirImports(t *testing.T) {
	rows := packageRows(t)
	if len(rows) < 40 {
		t.Fatalf("packages.md has %d packages with a list of imports", len(rows))
	}
	for folder, listed := range rows {
		imports := importsBelow(t, folder, rows)
		for _, p := range slices.Sorted(maps.Keys(imports)) {
			if !slices.ContainsFunc(listed, func(name string) bool { return covers(name, p) }) {
				t.Errorf("%s imports %s, in %s, which packages.md does not list", folder, p, imports[p])
			}
		}
		for _, name := range listed {
			used := false
			for p := range imports {
				used = used || covers(name, p)
			}
			if !used {
				t.Errorf("packages.md says that %s imports %s, which it does not", folder, name)
			}
		}
	}
}

// packageRows returns the listed imports by folder. Packages that may import everything, and those that are not in Go,
// have no entry.
func packageRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("packages.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			continue
		}
		last := strings.TrimSuffix(cells[2], " |")
		var listed []string
		for _, m := range quoted.FindAllStringSubmatch(last, -1) {
			listed = append(listed, m[1])
		}
		if len(listed) == 0 && last != "nothing" || strings.Contains(last, "Python") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			if base, found := strings.CutSuffix(m[1], "/NAME"); found {
				for _, name := range []string{"cpu", "cuda", "rocm", "opencl", "oneapi", "vulkan", "gl", "metal", "webgpu"} {
					rows[base+"/"+name] = nil // checked together
				}
			}
			rows[m[1]] = listed
		}
	}
	for name := range rows {
		if base, last := path.Split(name); last == "NAME" {
			for _, of := range []string{"cpu", "cuda", "rocm", "opencl", "oneapi", "vulkan", "gl", "metal", "webgpu"} {
				delete(rows, base+of)
			}
		}
	}
	return rows
}

// importsBelow returns the packages of this module that a folder imports outside of tests, with one file for each.
// Folders with a row of their own do not belong to it.
func importsBelow(t *testing.T, folder string, rows map[string][]string) map[string]string {
	t.Helper()
	folders := []string{folder}
	if base, last := path.Split(folder); last == "NAME" {
		folders = nil
		for _, of := range []string{"cpu", "cuda", "rocm", "opencl", "oneapi", "vulkan", "gl", "metal", "webgpu"} {
			folders = append(folders, base+of)
		}
	}
	const module = "github.com/dlx-go/dlx/"
	imports := make(map[string]string)
	for _, root := range folders {
		err := filepath.WalkDir(filepath.Join("..", root), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
			if d.IsDir() {
				_, own := rows[name]
				if own && name != root || d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") && name != root { // used by tests only
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil || f.Name.Name == "main" && root != "cmd/libdlx" { // a generator, or a program of a test
				return err
			}
			for _, s := range f.Imports {
				p, inside := strings.CutPrefix(strings.Trim(s.Path.Value, `"`), module)
				_, own := rows[p]
				if inside && p != root && (own || !strings.HasPrefix(p, root+"/")) {
					imports[p] = name
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return imports
}

// covers reports whether an entry of the last column names a package. The entry of an internal folder, and one that
// ends in "...", name all packages below.
func covers(name, p string) bool {
	below, all := strings.CutSuffix(name, "/...")
	if all || path.Base(name) == "internal" {
		return strings.HasPrefix(p, below+"/")
	}
	return p == name
}
