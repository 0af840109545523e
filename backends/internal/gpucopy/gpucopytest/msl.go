//go:build linux && cgo

package gpucopytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// mslFlags make clang a compiler of what Metal's language has in common with C++ for OpenCL.
var mslFlags = []string{"-x", "cl", "-cl-std=clc++2021", "-cl-no-stdinc", "-cl-single-precision-constant", "-Ihost", "-Wno-unknown-attributes"}

// withoutExtras leaves out of OpenCL what MSL lacks: 64-bit floats and variables outside of functions. It also leaves out the
// generic address space, as MSL did before 4.1.
var withoutExtras = []string{"-Xclang", "-cl-ext=-all"}

// CompileMSL compiles the texts of gpucopy.Shader.MSL for the host, by clang, but for those that are "". The caller closes the result.
func CompileMSL(folder, clang string, text func(gpucopy.Shader) string) (*Host, error) {
	texts := make(map[string]string)
	for _, s := range gpucopy.Shaders() {
		if source := text(s); source != "" {
			texts[s.String()] = source
		}
	}
	return compileMSL(folder, clang, texts)
}

// CompileConverterMSL compiles a text like gpuconvert.MSL in the same way.
func CompileConverterMSL(folder, clang, text string) (*Host, error) {
	return compileMSL(folder, clang, map[string]string{gpuconvert.Kernel: text})
}

// compileMSL compiles texts by the names of their kernels.
func compileMSL(folder, clang string, texts map[string]string) (*Host, error) {
	if err := os.CopyFS(folder, host); err != nil {
		return nil, err
	}
	var objects []string
	for kernel, source := range texts {
		name, expanded := kernel+".metal", kernel+".cl"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o600); err != nil {
			return nil, err
		}
		if err := run(folder, clang, slices.Concat(mslFlags, []string{"-E", "-P", "-o", expanded, name})...); err != nil {
			return nil, err
		}
		path := filepath.Join(folder, expanded)
		made, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		call, err := caller(kernel, string(made))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, append(made, call...), 0o600); err != nil {
			return nil, err
		}
		if err := run(folder, clang, slices.Concat(mslFlags, withoutExtras, []string{"-O1", "-fPIC", "-c", expanded})...); err != nil {
			return nil, err
		}
		objects = append(objects, kernel+".o")
	}
	return open(folder, objects...)
}

// signature is the function of a text after the preprocessor, and parameter one of its parameters.
var (
	signature = regexp.MustCompile(`(?m)^__kernel void (\w+)\((.*?)\) \{`)
	parameter = regexp.MustCompile(`^(.*?)([&*]?)\w+ \[\[(.*)\]\]$`)
)

// caller returns a function that calls that of a text. The attributes of the parameters say what each is.
func caller(kernel, text string) (string, error) {
	m := signature.FindStringSubmatch(text)
	if m == nil || m[1] != kernel {
		return "", fmt.Errorf("%s: no function of this name in its text", kernel)
	}
	given := map[string]string{
		"buffer(0)": "dst", "buffer(1)": "src", "buffer(2)": "constants",
		"threadgroup_position_in_grid":   "(uint3)(dlx_block(0), dlx_block(1), dlx_block(2))",
		"thread_position_in_threadgroup": "(uint3)(dlx_thread(), 0, 0)",
		"threadgroups_per_grid":          "(uint3)(dlx_grid(0), dlx_grid(1), dlx_grid(2))",
	}
	var arguments []string
	for p := range strings.SplitSeq(m[2], ", ") {
		m := parameter.FindStringSubmatch(p)
		if m == nil || given[m[3]] == "" {
			return "", fmt.Errorf("%s: the parameter %q", kernel, p)
		}
		a := given[m[3]]
		switch m[2] {
		case "*":
			a = fmt.Sprintf("(%s *)%s", m[1], a)
		case "&":
			a = fmt.Sprintf("*(%s *)%s", m[1], a)
		}
		arguments = append(arguments, a)
	}
	return fmt.Sprintf("extern \"C\" void run_%v(__global void *dst, const __global void *src, __constant void *constants) { %v(%s); }\n",
		kernel, kernel, strings.Join(arguments, ", ")), nil
}

// CheckMSL reports what Metal's compiler would refuse in a text, as far as clang can tell: what C++14 or C++ for OpenCL lacks, a
// conversion between address spaces, a pointer or a reference without an address space, and what the Metal Shading Language
// Specification excludes from C++14, but for recursion. The text is compiled once with a pointer "this" to memory of the thread, as
// in MSL before 4.1, and once with one to memory of any kind, as in MSL 4.1.
func CheckMSL(folder, clang, text string) error {
	if err := os.CopyFS(folder, host); err != nil {
		return err
	}
	const name = "text.metal"
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		return err
	}
	check := slices.Concat(mslFlags, []string{"-Wpre-c++17-compat", "-Werror", "-fsyntax-only", name})
	if err := run(folder, clang, slices.Concat(withoutExtras, check)...); err != nil {
		return err
	}
	c := exec.Command(clang, append([]string{"-Xclang", "-ast-dump=json"}, check...)...)
	c.Dir = folder
	var stderr bytes.Buffer
	c.Stderr = &stderr
	dump, err := c.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	var root node
	if err := strictjson.Unmarshal(dump, &root); err != nil {
		return err
	}
	return root.check()
}

// node is one of clang's syntax tree.
type node struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	IsImplicit bool   `json:"isImplicit"`
	Type       struct {
		QualType string `json:"qualType"`
	} `json:"type"`
	Bases []json.RawMessage `json:"bases"`
	Inner []node            `json:"inner"`
}

// lacks are kinds of nodes that MSL lacks. Clang itself refuses virtual functions, exceptions, new, delete, type identification,
// register and thread_local.
var lacks = map[string]string{"LambdaExpr": "a lambda", "GotoStmt": "goto", "CXXNoexceptExpr": "the operator noexcept"}

var (
	// written are the nodes whose type the text gives.
	written = regexp.MustCompile("^((Var|ParmVar|Field|Typedef|TypeAlias|Function|CXXMethod)Decl|" +
		"(CStyle|CXXStatic|CXXReinterpret|CXXConst)CastExpr)$")
	// indirection is what a pointer or a reference has after the type that it leads to.
	indirection  = regexp.MustCompile("[*&]")
	addressSpace = regexp.MustCompile(`__(global|constant|local|private)\b`)
)

// check reports what Metal lacks in a node and in those below it.
func (n *node) check() error {
	if n.IsImplicit {
		return nil
	}
	what, is := lacks[n.Kind]
	switch {
	case is:
	case len(n.Bases) > 0:
		what = "a base class"
	case strings.Contains(n.Type.QualType, "long long"):
		what = "long long"
	case written.MatchString(n.Kind) && !n.leadsToKnown():
		what = "a pointer or a reference without an address space"
	}
	if what != "" {
		return fmt.Errorf("the text has %s, which Metal lacks: %s %s %s", what, n.Kind, n.Name, n.Type.QualType)
	}
	var errs []error
	for i := range n.Inner {
		errs = append(errs, n.Inner[i].check())
	}
	return errors.Join(errs...)
}

// leadsToKnown reports whether there is an address space before each indirection in the type. Where the text has none, clang
// writes __generic, or, in a template, nothing.
func (n *node) leadsToKnown() bool {
	t := n.Type.QualType
	if n.Kind == "FunctionDecl" || n.Kind == "CXXMethodDecl" { // the parameters are nodes themselves
		t, _, _ = strings.Cut(t, "(")
	}
	targets := indirection.Split(t, -1)
	return !slices.ContainsFunc(targets[:len(targets)-1], func(target string) bool { return !addressSpace.MatchString(target) })
}
