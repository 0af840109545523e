//go:build cgo && unix

package interposer

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

static void call_fail(void *f, const char *name, int nth, int code) { ((void (*)(const char *, int, int))f)(name, nth, code); }
static void call_list(void *f, int live, char *text, size_t size) { ((void (*)(int, char *, size_t))f)(live, text, size); }
*/
import "C"

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"
)

// Interposer is the library, opened. It stays open until the process ends.
type Interposer struct {
	Path       string
	fail, list unsafe.Pointer
}

// Build compiles the library into a folder, before the library of ONNX Runtime at path, and opens it. source is the
// folder of this package.
func Build(source, folder, path string) (*Interposer, error) {
	header, err := output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go")
	if err != nil {
		return nil, err
	}
	compiler, err := output("go", "env", "CC")
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	library := filepath.Join(folder, "libinterposer.so")
	arguments := append(strings.Fields(compiler), "-std=gnu11", "-O1", "-Wall", "-Werror", "-Wno-unused-result", "-shared", "-fPIC",
		"-pthread", "-I"+header, "-DINTERPOSED="+strconv.Quote(path), "-o", library, filepath.Join(source, "library", "interposer.c"), "-ldl")
	if _, err := output(arguments[0], arguments[1:]...); err != nil {
		return nil, err
	}
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW)
	if handle == nil {
		return nil, fmt.Errorf("interposer: %s", C.GoString(C.dlerror()))
	}
	t := &Interposer{Path: library}
	for symbol, p := range map[string]*unsafe.Pointer{"interposer_fail": &t.fail, "interposer_list": &t.list} {
		name := C.CString(symbol)
		*p = C.dlsym(handle, name)
		C.free(unsafe.Pointer(name))
	}
	return t, nil
}

func output(name string, arguments ...string) (string, error) {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("interposer: %s: %w\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Fail makes the nth call of a function from now on fail with a code; 0 cancels that.
func (t *Interposer) Fail(call string, nth, code int) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	C.call_fail(t.fail, name, C.int(nth), C.int(code))
}

// Calls returns how often each function was called.
func (t *Interposer) Calls() map[string]int { return t.numbers(0) }

// Live returns how many objects are open, by kind.
func (t *Interposer) Live() map[string]int { return t.numbers(1) }

func (t *Interposer) numbers(live C.int) map[string]int {
	const room = 1 << 14
	text := (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(text))
	C.call_list(t.list, live, text, room)
	numbers := make(map[string]int)
	for line := range strings.Lines(C.GoString(text)) {
		at := strings.LastIndexByte(line, ' ')
		numbers[line[:at]], _ = strconv.Atoi(strings.TrimSpace(line[at:])) // the library writes a number
	}
	return numbers
}
