package all_test

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go/ast"
)

// most is the number of tokens of a thin binding: a function that passes its arguments to one function of C.
const most = 100

// What is the same for CUDA and ROCm belongs into backends/internal/cudalike. A linter cannot tell: dupl of golangci-lint
// compares the files of one package only. As there, names and literals do not count.
func TestNothingIsCopiedBetweenCUDAAndROCm(t *testing.T) {
	cuda, rocm := parts(t, "../cuda"), parts(t, "../rocm")
	if len(cuda) == 0 || len(rocm) == 0 {
		t.Fatalf("%d and %d parts of functions have %d tokens", len(cuda), len(rocm), most)
	}
	reported := map[string]bool{}
	for p, at := range rocm {
		if from, ok := cuda[p]; ok && !reported[at] {
			reported[at] = true
			t.Errorf("%s has %d tokens of %s", at, most, from)
		}
	}
}

// parts returns where each sequence of that many tokens is, in the functions in a folder and the folders in it.
func parts(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				from, to := files.Position(f.Pos()).Offset, files.Position(f.End()).Offset
				kinds := tokens(source[from:to])
				for i := most; i <= len(kinds); i++ {
					found[kinds[i-most:i]] = path + ", " + f.Name.Name
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tokens returns the kinds of the tokens of a text, one byte for each.
func tokens(text []byte) string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	var kinds strings.Builder
	for {
		_, kind, _ := s.Scan()
		if kind == token.EOF {
			return kinds.String()
		}
		if kind != token.SEMICOLON {
			kinds.WriteByte(byte(kind))
		}
	}
}
