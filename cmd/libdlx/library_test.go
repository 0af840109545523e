package main

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/coretest"
)

// libraryVariable is an environment variable. It names the folder in which scripts/build-libdlx.sh built the library.
const libraryVariable = "DLX_LIBDLX"

// library is a built library, and a folder for what tests make.
type library struct{ dir, work string }

// built returns the library, or skips the test.
func built(t *testing.T) library {
	t.Helper()
	dir := os.Getenv(libraryVariable)
	if dir == "" {
		t.Skipf("%s is not set: make test-libdlx builds the library, and sets it", libraryVariable)
	}
	return library{dir, t.TempDir()}
}

// compiler returns the command of the C or C++ compiler, with its flags, as Go uses it.
func compiler(t *testing.T, variable string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", variable).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

var strict = []string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"}

// compile builds a program with the library, and returns its path.
func (l library) compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	language := "CC"
	if filepath.Ext(source) == ".cpp" {
		language = "CXX"
	} else if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "-std=") }) {
		flags = append(flags, "-std=c11")
	}
	program := filepath.Join(t.TempDir(), "program")
	args := slices.Concat(compiler(t, language), strict, flags,
		[]string{"-I" + l.dir, "-isystem", os.Getenv("DLX_DLPACK_INCLUDE"), source, "-o", program,
			"-L" + l.dir, "-ldlx", "-Wl,-rpath," + l.dir, "-pthread"})
	run(t, nil, args[0], args[1:]...)
	return program
}

// run runs a program, which must succeed, and returns what it prints. env is added to the environment.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a call that hangs is one of the defects to find
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The library exports the functions of the header, and nothing else.
func TestSymbols(t *testing.T) {
	l := built(t)
	var want []string
	for _, f := range readHeader(t).functions {
		want = append(want, f.name)
	}
	slices.Sort(want)
	file, err := elf.Open(filepath.Join(l.dir, "libdlx.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && s.Section != elf.SHN_ABS { // the name of the version is absolute
			got = append(got, s.Name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the library exports\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Go's variable of 8 bytes lies in the block that the C library has for all libraries that a program opens late. In
	// glibc that block has some 1.6 KiB.
	for _, p := range file.Progs {
		if p.Type == elf.PT_TLS && p.Memsz > 64 {
			t.Errorf("the library has %d bytes of thread-local variables: programs that open it by dlopen may have no room", p.Memsz)
		}
	}
	if name, err := file.DynString(elf.DT_SONAME); err != nil || len(name) != 1 || name[0] != "libdlx.so.0" {
		t.Errorf("the library has the name %q, %v", name, err)
	}
}

// What pkg-config says is enough to compile with.
func TestPkgConfig(t *testing.T) {
	l := built(t)
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("pkg-config is not installed")
	}
	flags := strings.Fields(run(t, []string{"PKG_CONFIG_PATH=" + l.dir}, "pkg-config", "--cflags", "--libs", "dlx"))
	program := filepath.Join(l.work, "program")
	args := append(compiler(t, "CC"), "../../examples/c/main.c", "-o", program)
	args = append(append(args, flags...), "-Wl,-rpath,"+l.dir)
	run(t, nil, args[0], args[1:]...)
	if out := run(t, nil, program, "cpu"); !strings.Contains(out, "cpu -> cpu -> cpu: verified") {
		t.Errorf("the program printed %q", out)
	}
}

// The programs of testdata check everything themselves.
func TestPrograms(t *testing.T) {
	l := built(t)
	for name, args := range map[string][]string{
		"misuse":  {l.work},
		"share":   {l.work},
		"threads": nil,
		"fork":    nil,
	} {
		t.Run(name, func(t *testing.T) { run(t, nil, l.compile(t, "testdata/"+name+".c"), args...) })
	}
	for _, order := range []string{"-DDLX_FIRST", "-DDLPACK_FIRST"} {
		t.Run("dlpack"+order, func(t *testing.T) { run(t, nil, l.compile(t, "testdata/dlpack.c", order)) })
		t.Run("header"+order, func(t *testing.T) { run(t, nil, l.compile(t, "testdata/header.cpp", "-std=c++17", order)) })
	}
	t.Run("signals", func(t *testing.T) {
		source := filepath.Join(l.work, "signals")
		args := slices.Concat(compiler(t, "CC"), strict, []string{"testdata/signals.c", "-o", source, "-ldl"})
		run(t, nil, args[0], args[1:]...)
		// SIGBUS, SIGFPE, SIGSEGV, SIGPIPE and SIGURG, on all processors that dlx runs on.
		if out := run(t, nil, source, filepath.Join(l.dir, "libdlx.so.0")); out != "7 8 11 13 23 \n" {
			t.Errorf("the library handles the signals %s", out)
		}
	})
}

// Connections to other machines, and what a library says that cannot make them.
func TestRemote(t *testing.T) {
	l := built(t)
	program := l.compile(t, "testdata/remote.c")
	if !withUCX() {
		run(t, nil, program, "built without UCX")
		return
	}
	run(t, nil, program, "ucx")
	run(t, []string{"DLX_UCX_LIBRARY=/nonexistent/libucp.so"}, program, "/nonexistent/libucp.so")
}

// The same programs under the address sanitizer, which also finds what the library does not give back: managed tensors of
// the programs whose deleter nobody called.
func TestSanitized(t *testing.T) {
	l := built(t)
	const sanitizer = "-fsanitize=address"
	probe := filepath.Join(l.work, "probe.c")
	if err := os.WriteFile(probe, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	probing := append(compiler(t, "CC"), sanitizer, probe, "-o", filepath.Join(l.work, "probe"))
	if out, err := exec.Command(probing[0], probing[1:]...).CombinedOutput(); err != nil {
		t.Skipf("the C compiler has no address sanitizer: %s", out)
	}
	// The sanitizer does not see pointers in the memory of Go, such as those to the structs that exports reuse.
	known := filepath.Join(l.work, "known")
	if err := os.WriteFile(known, []byte("leak:libdlx.so\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append([]string{"ASAN_OPTIONS=use_sigaltstack=0:detect_leaks=1", "LSAN_OPTIONS=print_suppressions=0:suppressions=" + known}, withoutDrivers...)
	run(t, env, l.compile(t, "testdata/dlpack.c", sanitizer))
	run(t, env, l.compile(t, "testdata/misuse.c", sanitizer), l.work)
	run(t, env, l.compile(t, "testdata/share.c", sanitizer), l.work)
	if withUCX() {
		run(t, env, l.compile(t, "testdata/remote.c", sanitizer), "ucx")
	}
}

// withUCX reports whether the library was built with package remote.
func withUCX() bool { return slices.Contains(strings.Split(os.Getenv("TAGS"), ","), "ucx") }

// withoutDrivers is an environment in which no driver is found.
var withoutDrivers = []string{"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent", "OCL_ICD_VENDORS=/nonexistent",
	"__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent", "DLX_CUDA_LIBRARY=/nonexistent", "DLX_HIP_LIBRARY=/nonexistent", "DLX_WEBGPU_LIBRARY=/nonexistent"}

// withDrivers are the backends that have a device in the tests, if they are in the build.
var withDrivers = []string{"cuda", "gl", "oneapi", "opencl", "rocm", "vulkan", "webgpu"}

func TestDevices(t *testing.T) {
	l := built(t)
	program := l.compile(t, "testdata/devices.c")
	t.Run("without drivers", func(t *testing.T) {
		if out := run(t, withoutDrivers, program); out != "cpu\n" {
			t.Errorf("the devices are %q", out)
		}
	})
	t.Run("with drivers", func(t *testing.T) {
		if os.Getenv("DLX_WITHOUT_DRIVERS") == "1" {
			t.Skip("DLX_WITHOUT_DRIVERS is 1")
		}
		wanted := []string{"cpu"}
		for _, tag := range strings.Split(os.Getenv("TAGS"), ",") {
			if slices.Contains(withDrivers, tag) && !coretest.MayLack(tag+":") {
				wanted = append(wanted, tag+":0")
			}
		}
		out := run(t, nil, program, wanted...)
		for _, id := range wanted {
			if !strings.Contains(out, id+"\n") {
				t.Errorf("%s was not tested: %s", id, out)
			}
		}
	})
}

// The program in docs/libdlx.md works as it is printed there.
func TestGuide(t *testing.T) {
	l := built(t)
	page, err := os.ReadFile("../../docs/libdlx.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(page), "```c\n")
	program, _, ended := strings.Cut(program, "```")
	if !found || !ended {
		t.Fatal("the page has no program in C")
	}
	source := filepath.Join(l.work, "guide.c")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, nil, l.compile(t, source)); !strings.HasPrefix(out, "24 bytes at 0x") {
		t.Errorf("the program printed %q", out)
	}
}

// The examples of C and Rust move a tensor to another device and back.
func TestExamples(t *testing.T) {
	l := built(t)
	c := l.compile(t, "../../examples/c/main.c", "-std=c99")
	rust := func(t *testing.T) string {
		if out, err := exec.Command("cargo", "--version").CombinedOutput(); err != nil { // rustup's needs a toolchain, for example
			t.Skipf("cargo is not installed, or does not run: %v: %s", err, out)
		}
		run(t, []string{"CARGO_TARGET_DIR=" + l.work, "DLX_LIB_DIR=" + l.dir}, "cargo", "build", "--quiet", "--offline", "--locked", "--manifest-path", "../../examples/rust/Cargo.toml")
		return filepath.Join(l.work, "debug", "round-trip")
	}
	for name, program := range map[string]func(*testing.T) string{"c": func(*testing.T) string { return c }, "rust": rust} {
		t.Run(name, func(t *testing.T) {
			path := program(t)
			for _, args := range [][]string{nil, {"cpu"}} { // the first device that is not the CPU, if there is one
				if out := run(t, nil, path, args...); !strings.Contains(out, " -> cpu: verified\n") {
					t.Errorf("the program printed %q", out)
				}
			}
		})
	}
}

// docs/share.md shows the main functions of two examples, which pass a tensor without a copy.
func TestShareExamples(t *testing.T) {
	l := built(t)
	page, err := os.ReadFile("../../docs/share.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := make(map[string]string)
	for _, name := range []string{"receive", "send"} {
		path := "../../examples/c/" + name + ".c"
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(source), "int main(")
		if code == "" || !strings.Contains(string(page), "```c\nint main("+code+"```") {
			t.Errorf("docs/share.md does not show %s as it is", path)
		}
		programs[name] = l.compile(t, path, "-std=c99")
	}
	socket := filepath.Join(l.work, "socket")
	received := make(chan string)
	go func() {
		out, err := exec.CommandContext(t.Context(), programs["receive"], socket).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		received <- string(out)
	}()
	for { // until it listens, or has failed
		select {
		case out := <-received:
			t.Fatal(out)
		default:
		}
		if listens(t, socket) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if out := run(t, nil, programs["send"], socket); out != "sent: 0 bytes copied\n" {
		t.Errorf("send prints %q", out)
	}
	if out := <-received; out != "received: 0 bytes copied: float32[1080 1920] begins with 42\n" {
		t.Errorf("receive prints %q", out)
	}
}

// listens reports whether a process listens at a socket: the file is there before it does.
func listens(t *testing.T, socket string) bool {
	t.Helper()
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 8 && fields[7] == socket && fields[3] == "00010000" { // __SO_ACCEPTCON
			return true
		}
	}
	return false
}
