//go:build vulkan && linux && cgo

package gpucopy_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core/coretest"
)

// kernelLine is that of a kernel in a text.
var kernelLine = regexp.MustCompile(`(?m)^KERNEL\((\w+), .*\n`)

// allMSL returns a text with all kernels.
func allMSL() string {
	text := gpucopy.Shader{Word: 1}.MSL()
	for _, s := range gpucopy.Shaders() {
		if s != (gpucopy.Shader{Word: 1}) {
			text += kernelLine.FindString(s.MSL())
		}
	}
	return text
}

// A text for Metal has one kernel, and there is none for a packed shader.
func TestMSLHasTheKernelOfItsShader(t *testing.T) {
	for _, s := range append(gpucopy.Shaders(), gpucopy.Shader{}, gpucopy.Shader{Word: 16, Tiled: true}) {
		found := kernelLine.FindAllStringSubmatch(s.MSL(), -1)
		switch {
		case s.Packed || s.SPIRV() == nil:
			if s.MSL() != "" {
				t.Errorf("%v: Metal has no such shader", s)
			}
		case len(found) != 1 || found[0][1] != s.String():
			t.Errorf("the text of %v has the kernels %q", s, found)
		}
	}
}

func clang(t *testing.T) string {
	t.Helper()
	const name = "clang-15"
	if _, err := exec.LookPath(name); err != nil {
		coretest.NeedDriver(t, err.Error(), name)
	}
	return name
}

func compileMSL(t *testing.T, text func(gpucopy.Shader) string) *gpucopytest.Host {
	t.Helper()
	h, err := gpucopytest.CompileMSL(t.TempDir(), clang(t), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// As far as clang can tell, Metal's compiler takes the texts.
func TestMSLHasWhatMetalHas(t *testing.T) {
	if err := gpucopytest.CheckMSL(t.TempDir(), clang(t), allMSL()); err != nil {
		t.Error(err)
	}
}

// The texts for Metal, compiled for the host.
func TestMSLMovesTheSameElements(t *testing.T) {
	checkUnpacked(t, compileMSL(t, gpucopy.Shader.MSL), gpucopy.MetalLimits())
}

// A barrier that is missing shows: the test above would find it.
func TestMSLWithoutBarriersMovesOthers(t *testing.T) {
	checkNeedsBarriers(t, compileMSL(t, func(s gpucopy.Shader) string {
		if s != transposeByTiles.Shader {
			return ""
		}
		return strings.ReplaceAll(s.MSL(), "threadgroup_barrier(mem_flags::mem_threadgroup)", "")
	}))
}

// What Metal's compiler refuses would be found without it.
func TestWhatMetalLacksIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"int f(int *p) { return *p; }", "without an address space"},
		{"int f(thread int &x) { int &y = x; return y; }", "address space"},
		{"int f(thread int &x) { return *(int *)&x; }", "without an address space"},
		{"template <typename T> int f(T *x) { return *x; } int g(thread int *p) { return f(p); }", "without an address space"},
		{"struct S { int *p; };", "without an address space"},
		{"using P = int *;", "without an address space"},
		{"thread int *f(thread int *p) { return p; } int *g() { return 0; }", "without an address space"},
		{"int f(int *p) { return *p; } int g(device int *p) { return f(p); }", "no matching function"},
		{"int f(thread int *p) { return *p; } int g(threadgroup int *p) { return f((thread int *)p); }", "mismatching address spaces"},
		{"struct S { int a; int get() const { return a; } }; int f(constant S &s) { return s.get(); }", "initialize object parameter"},
		{"struct S { int a; thread int &at() { return a; } };", "changes address space"}, // as MSL 4.1 does
		{"int f() { threadgroup int x[4]; return x[0]; }", "local address space"},
		{"int f() { static int x; return x++; }", "constant address space"},
		{"int x;", "constant address space"},
		{"double f(double x) { return x; }", "double"},
		{"unsigned f(unsigned long long x) { return unsigned(x); }", "long long"},
		{"int f(int x) { return int((long long)x); }", "long long"},
		{"int f(int x) { auto g = [&](int y) { return x + y; }; return g(1); }", "a lambda"},
		{"struct A { int x; }; struct B : A {};", "a base class"},
		{"struct A { virtual int f(); };", "virtual"},
		{"int f(int x) { if (x) goto out; x++; out: return x; }", "goto"},
		{"int f() { try { return 1; } catch (...) { return 2; } }", "exceptions"},
		{"void f() { delete (thread int *)0; }", "not supported"},
		{"bool f() { return noexcept(1); }", "noexcept"},
		{"struct A { int x; }; void f(thread A *a) { typeid(*a); }", "typeid"},
		{"int f() { register int x = 1; return x; }", "register"},
		{"int f() { thread_local int x; return x; }", "thread_local"},
		{"typedef int (*function)(int);", "pointers to functions"},
		{"int f(int x) { if constexpr (sizeof(int) == 4) return 1; else return x; }", "C++17"},
		{"uint f(uint a, int b) { return min(a, b); }", "ambiguous"},
	} {
		text := "#include <metal_stdlib>\nusing namespace metal;\n" + c.text + "\n"
		if err := gpucopytest.CheckMSL(t.TempDir(), clang(t), text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\nis refused with %v; want an error with %q", c.text, err, c.want)
		}
	}
}

// Without any of its address spaces, the text is refused: so none is missing, and the check sees each.
func TestEachAddressSpaceIsNeeded(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compiles the text once for each address space in it")
	text := allMSL()
	prelude := strings.Index(text, "struct Constants {")
	found := regexp.MustCompile(`\b(GLOBAL|CONSTANT|SHARED|LOCAL) `).FindAllStringIndex(text[prelude:], -1)
	if len(found) < 40 {
		t.Fatalf("the text has %d address spaces", len(found))
	}
	for _, at := range found {
		less := text[:prelude+at[0]] + text[prelude+at[1]:]
		if err := gpucopytest.CheckMSL(t.TempDir(), clang(t), less); err == nil {
			line, _, _ := strings.Cut(less[strings.LastIndex(less[:prelude+at[0]], "\n")+1:], "\n")
			t.Errorf("%s\nis accepted", strings.TrimSpace(line))
		}
	}
}
