package coretest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// CheckNils calls the exported functions of a package with nil and zero arguments, and fails t if one panics or returns an
// error that is not typed, nor one of the standard library such as io.EOF. The test runs in the directory of the package. table has each exported function by its name, of a
// generic one an instance, or a text that says why it is left out. Any other value stands for its methods, which are called
// on it, except those with a text in the table, such as "Layout.Dim".
//
// An argument is nil or the zero value; for a pointer also one to a zero value. samples are further arguments for what
// they are assignable to: sound ones, so that the others are looked at, and nil pointers for interfaces. CheckNils closes
// or releases the results, and calls those that are functions without arguments.
func CheckNils(t *testing.T, table map[string]any, samples ...any) {
	t.Helper()
	for _, name := range exportedFunctions(t) {
		if table[name] == nil {
			t.Errorf("the table lacks %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		switch f := reflect.ValueOf(table[name]); {
		case f.Kind() == reflect.Func:
			callWithNils(t, name, f, samples)
		case f.Kind() != reflect.String:
			for i := range f.NumMethod() {
				if method := name + "." + f.Type().Method(i).Name; table[method] == nil {
					callWithNils(t, method, f.Method(i), samples)
				}
			}
		}
	}
}

// exportedFunctions returns the names of the exported functions of the package in the working directory.
func exportedFunctions(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				names = append(names, f.Name.Name)
			}
		}
	}
	if len(names) == 0 {
		t.Error("the package has no exported function")
	}
	return names
}

// callWithNils calls f with each combination of arguments.
func callWithNils(t *testing.T, name string, f reflect.Value, samples []any) {
	t.Helper()
	choices := [][]reflect.Value{}
	for i := range f.Type().NumIn() {
		choices = append(choices, choicesOf(t, f.Type().In(i), samples))
	}
	const most = 3000
	for at := range most {
		var args []reflect.Value
		for _, c := range choices {
			args = append(args, c[at%len(c)])
			at /= len(c)
		}
		if at > 0 {
			return // that were all combinations
		}
		callWithArgs(t, name, f, args)
	}
}

// choicesOf returns the arguments to try for a parameter.
func choicesOf(t *testing.T, of reflect.Type, samples []any) []reflect.Value {
	if of == reflect.TypeFor[context.Context]() {
		return []reflect.Value{reflect.ValueOf(t.Context())}
	}
	list := []reflect.Value{reflect.Zero(of)}
	if of.Kind() == reflect.Pointer {
		list = append(list, reflect.New(of.Elem()))
	}
	for _, s := range samples {
		if v := reflect.ValueOf(s); v.Type().AssignableTo(of) {
			list = append(list, v)
		}
	}
	if of.Kind() == reflect.Slice { // of what parameters may be, too
		for _, v := range choicesOf(t, of.Elem(), samples) {
			list = append(list, reflect.Append(reflect.Zero(of), v))
		}
	}
	return list
}

// callWithArgs calls f, and closes what it returns.
func callWithArgs(t *testing.T, name string, f reflect.Value, args []reflect.Value) {
	t.Helper()
	var texts []string
	for _, a := range args {
		texts = append(texts, fmt.Sprintf("%v", a.Type()))
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v\narguments: %s\n%s", name, r, strings.Join(texts, ", "), debug.Stack())
		}
	}()
	var results []reflect.Value
	if f.Type().IsVariadic() {
		results = f.CallSlice(args)
	} else {
		results = f.Call(args)
	}
	for _, r := range results {
		if !r.CanInterface() || r.Kind() >= reflect.Chan && r.Kind() <= reflect.Slice && r.IsNil() {
			continue
		}
		if r.Kind() == reflect.Struct { // whose methods may be those of its pointer
			p := reflect.New(r.Type())
			p.Elem().Set(r)
			r = p
		}
		var typed *core.Error
		switch v := r.Interface().(type) {
		case error:
			if !errors.As(v, &typed) && !errors.Is(v, context.Canceled) && !errors.Is(v, io.EOF) && !errors.Is(v, fs.ErrNotExist) && !errors.Is(v, os.ErrInvalid) {
				t.Errorf("%s returns the error %v, which has no type (arguments: %s)", name, v, strings.Join(texts, ", "))
			}
		case io.Closer:
			_ = v.Close()
		case interface{ Release() }:
			v.Release()
		case []*core.Tensor:
			for _, x := range v {
				x.Close()
			}
		case func():
			v()
		}
	}
}
