//go:build rocm && linux && cgo

package gpucopy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core/coretest"
)

func compileHIP(t *testing.T, text string) *gpucopytest.Host {
	t.Helper()
	h, err := gpucopytest.CompileHIP(t.TempDir(), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// The text for HIP, compiled for the host.
func TestHIPMovesTheSameElements(t *testing.T) {
	checkUnpacked(t, compileHIP(t, gpucopy.HIP()), gpucopy.HIPLimits())
}

// A barrier that is missing shows: the test above would find it.
func TestHIPWithoutBarriersMovesOthers(t *testing.T) {
	text := strings.ReplaceAll(gpucopy.HIP(), "__syncthreads();", "")
	if text == gpucopy.HIP() {
		t.Fatal("no kernel has a barrier")
	}
	checkNeedsBarriers(t, compileHIP(t, text))
}

// codeCompiler is the version that the code objects were made with. Another one may make others.
const codeCompiler = "clang version 15.0.6"

// The code objects are what the text is compiled to.
func TestCodeObjectsAreMadeOfTheirText(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds of a compiler that is the same in every build")
	}
	for _, name := range []string{"clang-15", "ld.lld-15"} {
		if _, err := exec.LookPath(name); err != nil {
			coretest.NeedDriver(t, err.Error(), "clang-15 and lld-15")
		}
	}
	version, err := exec.Command("clang-15", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, version)
	}
	folder := t.TempDir()
	if out, err := exec.Command("go", "run", "generate_hip.go", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range gpucopy.CodeObjects() {
		made, err := os.ReadFile(filepath.Join(folder, c.Name()+".co"))
		switch {
		case err != nil:
			t.Error(err)
		case !strings.Contains(string(version), codeCompiler):
			t.Logf("%s was not compared: another compiler made it than\n%s", c.Name(), version)
			checkCodeObject(t, c.Name(), c.Arch, string(made))
		case string(made) != c.Image:
			t.Errorf("%s is not what the text is compiled to: run go generate", c.Name())
		}
	}
}

// hiprtc is a program that compiles its input for an architecture with the compiler of AMD's library.
const hiprtc = `
#include <dlfcn.h>
#include <stdio.h>
static char text[1 << 20], code[1 << 20];
int main(int argc, char **argv) {
	void *l = dlopen(argv[1], RTLD_NOW), *program;
	if (!l) { puts(dlerror()); return 2; }
	int (*create)(void **, const char *, const char *, int, const char **, const char **) = dlsym(l, "hiprtcCreateProgram");
	int (*compile)(void *, int, const char **) = dlsym(l, "hiprtcCompileProgram");
	int (*size)(void *, size_t *) = dlsym(l, "hiprtcGetCodeSize"), (*get)(void *, char *) = dlsym(l, "hiprtcGetCode");
	int (*log_size)(void *, size_t *) = dlsym(l, "hiprtcGetProgramLogSize"), (*log)(void *, char *) = dlsym(l, "hiprtcGetProgramLog");
	const char *options[] = {argv[2], "-std=c++17"};
	size_t n = 0;
	fread(text, 1, sizeof text - 1, stdin);
	if (create(&program, text, "gather.hip", 0, NULL, NULL) != 0) return 3;
	int result = compile(program, 2, options);
	if (result != 0) {
		if (log_size(program, &n) == 0 && n < sizeof code && log(program, code) == 0) puts(code);
		printf("hiprtcResult %d\n", result);
		return 1;
	}
	if (size(program, &n) != 0 || n > sizeof code || get(program, code) != 0) return 4;
	fwrite(code, 1, n, stdout);
	return 0;
}
`

// AMD's compiler takes the text, for an architecture that there is a code object for, and for one that there is none for. It needs no card.
func TestHIPRTCCompilesTheText(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	const library = "libamdhip64.so.5"
	program := filepath.Join(t.TempDir(), "hiprtc")
	cc := exec.Command("cc", "-w", "-x", "c", "-", "-o", program, "-ldl")
	cc.Stdin = strings.NewReader(hiprtc)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("ldconfig", "-p").Output(); err == nil && !strings.Contains(string(out), library) {
		coretest.NeedDriver(t, library+" is missing", "libamdhip64-5")
	}
	for _, arch := range []string{"gfx90a", "gfx1031"} {
		run := exec.Command(program, library, "--gpu-architecture="+arch)
		run.Stdin = strings.NewReader(gpucopy.HIP())
		image, err := run.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, image)
		}
		checkCodeObject(t, "hiprtc", arch, string(image))
	}
}
