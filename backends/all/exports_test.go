package all_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
)

// What uses a backend builds everywhere, and is told there what is missing.
func TestBackendsExportTheSameInEveryBuild(t *testing.T) {
	full := build.Default
	full.GOOS, full.GOARCH, full.CgoEnabled = "linux", "amd64", true
	withoutCgo, windows := full, full
	withoutCgo.CgoEnabled = false
	windows.GOOS, windows.CgoEnabled = "windows", false
	for _, tag := range all.Tags() {
		complete := full
		if tag == "metal" {
			complete.GOOS, complete.CgoEnabled = "darwin", false
		}
		want := exports(t, complete, tag, tag)
		if len(want) == 0 {
			t.Errorf("%s exports nothing", tag)
		}
		for name, c := range map[string]build.Context{"without cgo": withoutCgo, "windows": windows, "without the tag": full} {
			with := tag
			if name == "without the tag" {
				with = ""
			}
			got := exports(t, c, tag, with)
			for _, s := range slices.Sorted(maps.Keys(want)) {
				if !got[s] {
					t.Errorf("%s, %s: there is no %s", tag, name, s)
				}
			}
			for _, s := range slices.Sorted(maps.Keys(got)) {
				if !want[s] {
					t.Errorf("%s, %s: only there is a %s", tag, name, s)
				}
			}
		}
	}
}

// exports lists the exported declarations of a folder in a build with a tag, methods as "Type.Method".
func exports(t *testing.T, c build.Context, folder, tag string) map[string]bool {
	t.Helper()
	c.BuildTags = []string{tag}
	p, err := c.ImportDir(filepath.Join("..", folder), 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	add := func(receiver string, names ...*ast.Ident) {
		for _, n := range names {
			if n.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
				found[receiver+"."+n.Name] = true
			}
		}
	}
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(receiver(d), d.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add("", s.Name)
					case *ast.ValueSpec:
						add("", s.Names...)
					}
				}
			}
		}
	}
	return found
}

// receiver is the name of a method's type, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	e := d.Recv.List[0].Type
	if p, ok := e.(*ast.StarExpr); ok {
		e = p.X
	}
	return fmt.Sprint(e)
}
