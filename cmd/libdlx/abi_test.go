package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write abi.txt")

// header is what a program that includes dlx.h depends on.
type header struct {
	constants []string
	structs   []structure
	functions []function
	callbacks []function
}

type structure struct {
	name   string
	fields [][2]string // the type, and the name
}

// function is a function with the types of its result and parameters.
type function struct{ name, signature string }

var (
	comments   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	defines    = regexp.MustCompile(`(?m)^#define (DLX_[A-Z_]+) \d+$`)
	enums      = regexp.MustCompile(`enum \{([^}]*)\}`)
	structs    = regexp.MustCompile(`typedef struct dlx_\w+ \{([^}]*)\} (dlx_\w+);`)
	fields     = regexp.MustCompile(`^(.*?)(\w+)((?:\[\w+\])?)$`)
	functions  = regexp.MustCompile(`DLX_API ([^;(]*?)(dlx_\w+)\(([^;]*)\);`)
	callbacks  = regexp.MustCompile(`typedef ([^;(]*?)\(\*(dlx_\w+)\)\(([^;]*)\);`)
	parameters = regexp.MustCompile(`(?:[^,(]|\([^)]*\))+`)
	// A name after a type; the name of a function pointer is inside of its type.
	parameter = regexp.MustCompile(`^(.*[ *])\w+$`)
)

func readHeader(t *testing.T) header {
	t.Helper()
	source, err := os.ReadFile("dlx.h")
	if err != nil {
		t.Fatal(err)
	}
	h := parseHeader(string(source))
	if len(h.constants) < 40 || len(h.structs) < 8 || len(h.functions) != strings.Count(string(source), "\nDLX_API ") {
		t.Fatalf("found %d constants, %d structs and %d functions in dlx.h: it is not written as the test reads it", len(h.constants), len(h.structs), len(h.functions))
	}
	return h
}

func parseHeader(source string) (h header) {
	source = comments.ReplaceAllString(source, " ")
	for _, m := range defines.FindAllStringSubmatch(source, -1) {
		h.constants = append(h.constants, m[1])
	}
	for _, m := range enums.FindAllStringSubmatch(source, -1) {
		for c := range strings.SplitSeq(m[1], ",") {
			name, _, _ := strings.Cut(c, "=")
			if name = strings.TrimSpace(name); name != "" {
				h.constants = append(h.constants, name)
			}
		}
	}
	for _, m := range structs.FindAllStringSubmatch(source, -1) {
		s := structure{name: m[2]}
		for f := range strings.SplitSeq(m[1], ";") {
			if parts := fields.FindStringSubmatch(oneSpace(f)); parts != nil {
				s.fields = append(s.fields, [2]string{oneSpace(parts[1] + parts[3]), parts[2]})
			}
		}
		h.structs = append(h.structs, s)
	}
	h.functions, h.callbacks = signatures(functions, source), signatures(callbacks, source)
	return h
}

// signatures returns what a pattern finds: the type of a result, a name, and parameters.
func signatures(pattern *regexp.Regexp, source string) (found []function) {
	for _, m := range pattern.FindAllStringSubmatch(source, -1) {
		var types []string
		for _, p := range parameters.FindAllString(oneSpace(m[3]), -1) {
			p = oneSpace(p)
			if named := parameter.FindStringSubmatch(p); named != nil && !strings.Contains(p, "(") {
				p = oneSpace(named[1])
			}
			types = append(types, p)
		}
		found = append(found, function{m[2], fmt.Sprintf("%s(%s)", oneSpace(m[1]), strings.Join(types, ", "))})
	}
	return found
}

// oneSpace puts one space between words, and none at the ends.
func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// abi returns the lines of abi.txt. A C compiler computes the values.
func (h header) abi(t *testing.T) []string {
	t.Helper()
	var program strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&program, "\tprintf("+format+");\n", args...) }
	program.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"dlx.h\"\nint main(void) {\n")
	for _, c := range h.constants {
		line(`"constant %s %%lld\n", (long long)%s`, c, c)
	}
	for _, s := range h.structs {
		line(`"struct %s size %%zu\n", sizeof(%s)`, s.name, s.name)
		for _, f := range s.fields {
			line(`"field %s.%s at %%zu size %%zu: %s\n", offsetof(%s, %s), sizeof(((%s *)0)->%s)`, s.name, f[1], f[0], s.name, f[1], s.name, f[1])
		}
	}
	for _, f := range h.functions {
		line(`"function %s: %s\n"`, f.name, f.signature)
	}
	for _, f := range h.callbacks {
		line(`"callback %s: %s\n"`, f.name, f.signature)
	}
	program.WriteString("\treturn 0;\n}\n")
	source := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := strings.TrimSuffix(source, ".c")
	args := slices.Concat(compiler(t, "CC"), strict, []string{"-std=c99", "-I.", source, "-o", binary})
	run(t, nil, args[0], args[1:]...)
	lines := strings.Split(strings.TrimSpace(run(t, nil, binary)), "\n")
	slices.Sort(lines)
	return lines
}

// number returns the value of a constant.
func number(t *testing.T, abi []string, name string) int {
	t.Helper()
	for _, line := range abi {
		if value, ok := strings.CutPrefix(line, "constant "+name+" "); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the list has no constant %s", name)
	return 0
}

// breaks returns what a change from one list to another breaks: the lines that are gone. Versions may change.
func breaks(before, after []string) (broken []string) {
	for _, line := range before {
		if !slices.Contains(after, line) && !strings.HasPrefix(line, "constant DLX_ABI_VERSION ") && !strings.HasPrefix(line, "constant DLX_VERSION_MINOR ") {
			broken = append(broken, line)
		}
	}
	return broken
}

const abiList = "abi.txt"

// TestABI compares the header with the committed list, and that with the list of the last tag. What is gone or has
// changed since then needs another DLX_ABI_VERSION, and what is new another DLX_VERSION_MINOR.
func TestABI(t *testing.T) {
	if os.Getenv(libraryVariable) == "" {
		t.Skipf("%s is not set: make test-libdlx sets it", libraryVariable)
	}
	now := readHeader(t).abi(t)
	if *update {
		if err := os.WriteFile(abiList, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(abiList)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSpace(string(committed)), "\n")
	for _, line := range breaks(listed, now) {
		t.Errorf("the header lacks: %s", line)
	}
	for _, line := range breaks(now, listed) {
		t.Errorf("abi.txt lacks: %s", line)
	}
	if t.Failed() || number(t, listed, "DLX_ABI_VERSION") != number(t, now, "DLX_ABI_VERSION") || number(t, listed, "DLX_VERSION_MINOR") != number(t, now, "DLX_VERSION_MINOR") {
		t.Fatal("abi.txt is not that of dlx.h: after a change that is meant, run the test with -update")
	}

	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
	if err != nil {
		t.Log("this checkout has no tag of a version: the header was compared with abi.txt only")
		return
	}
	name := strings.TrimSpace(string(tag))
	old, err := exec.Command("git", "show", name+":./"+abiList).Output()
	if err != nil {
		t.Logf("%s has no %s: the header was compared with the committed one only", name, abiList)
		return
	}
	compareABI(t, name, strings.Split(strings.TrimSpace(string(old)), "\n"), now)
}

func compareABI(t testing.TB, tag string, before, now []string) {
	t.Helper()
	version := func(lines []string, name string) string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "constant "+name+" ") })
		if i < 0 {
			t.Errorf("a list has no constant %s", name)
			return ""
		}
		return lines[i]
	}
	if version(before, "DLX_ABI_VERSION") != version(now, "DLX_ABI_VERSION") {
		return
	}
	for _, line := range breaks(before, now) {
		t.Errorf("%s had what is gone or changed now; raise DLX_ABI_VERSION: %s", tag, line)
	}
	if added := breaks(now, before); len(added) > 0 && version(before, "DLX_VERSION_MINOR") == version(now, "DLX_VERSION_MINOR") {
		t.Errorf("new since %s; raise DLX_VERSION_MINOR: %s", tag, strings.Join(added, "; "))
	}
}

// The comparison finds each kind of change.
func TestBreaks(t *testing.T) {
	const before = `
#define DLX_ABI_VERSION 0
/* DLX_API int dlx_no(void); */
typedef struct dlx_a { int32_t x; char text[4]; } dlx_a;
enum { DLX_ONE = 1, DLX_TWO, };
DLX_API dlx_status dlx_f(dlx_a *a, const char *const *names,
	void (*release)(void *context, int), int64_t n);
DLX_API const char *dlx_g(void);
typedef int32_t (*dlx_h)(void *context, int64_t n);
`
	h := parseHeader(before)
	if want := []function{
		{"dlx_f", "dlx_status(dlx_a *, const char *const *, void (*release)(void *context, int), int64_t)"},
		{"dlx_g", "const char *(void)"},
	}; !slices.Equal(h.functions, want) {
		t.Errorf("the functions are %q", h.functions)
	}
	if want := []function{{"dlx_h", "int32_t(void *, int64_t)"}}; !slices.Equal(h.callbacks, want) {
		t.Errorf("the callbacks are %q", h.callbacks)
	}
	if want := []string{"DLX_ABI_VERSION", "DLX_ONE", "DLX_TWO"}; !slices.Equal(h.constants, want) {
		t.Errorf("the constants are %q", h.constants)
	}
	if want := [][2]string{{"int32_t", "x"}, {"char [4]", "text"}}; len(h.structs) != 1 || !slices.Equal(h.structs[0].fields, want) {
		t.Errorf("the structs are %q", h.structs)
	}
	renamed := parseHeader(strings.ReplaceAll(before, "int64_t n)", "int64_t number)"))
	if !slices.Equal(renamed.functions, h.functions) {
		t.Error("the name of a parameter counts")
	}

	list := []string{"constant DLX_ABI_VERSION 0", "constant DLX_VERSION_MINOR 1", "function dlx_f: int(void)"}
	for _, test := range []struct {
		name   string
		now    []string
		failed bool
	}{
		{"no change", list, false},
		{"another signature", []string{list[0], "constant DLX_VERSION_MINOR 2", "function dlx_f: int(int)"}, true},
		{"gone", list[:2], true},
		{"gone, with another version", []string{"constant DLX_ABI_VERSION 1", list[1]}, false},
		{"new", append(slices.Clone(list), "function dlx_g: int(void)"), true},
		{"new, with another minor version", []string{list[0], "constant DLX_VERSION_MINOR 2", list[2], "function dlx_g: int(void)"}, false},
	} {
		r := &recorder{TB: t}
		compareABI(r, "v0", list, test.now)
		if r.failed != test.failed {
			t.Errorf("%s: failed is %t, want %t", test.name, r.failed, test.failed)
		}
	}
}

// recorder notes that a test would fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
