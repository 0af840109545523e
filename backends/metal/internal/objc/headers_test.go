package objc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// source is a package that carries Apple's headers in another language.
type source struct {
	methods   map[string]Method   // by type and selector, such as "MTLBuffer length"
	owned     map[string]bool     // whether the caller owns the result of a method; nil if the source does not say
	enums     map[string]string   // type of C that an enumeration is
	constants map[string]uint64   // values
	functions map[string]int      // numbers of arguments
	structs   map[string][]string // types of the fields
}

// TestHeaders compares what this package declares with metal-cpp, which Apple publishes, and with the crates of objc2,
// which are made from the headers of Apple's SDK. scripts/metal-headers.sh fetches both.
func TestHeaders(t *testing.T) {
	folder := os.Getenv("DLX_METAL_HEADERS")
	if folder == "" {
		t.Skip("DLX_METAL_HEADERS is not set: make test-metal fetches the headers")
	}
	for _, s := range []struct {
		name  string
		read  func(testing.TB, string) *source
		lacks []string // what this source does not carry
	}{
		{"metal-cpp", readMetalCpp, []string{
			"NSObject conformsToProtocol:", "objc_msgSend", "objc_msgSend_stret", "sel_registerName", "objc_getClass",
			"objc_getProtocol", "objc_retain", "objc_release", "objc_autoreleasePoolPush", "objc_autoreleasePoolPop",
		}},
		{"objc2", readCrates, []string{"NSObject conformsToProtocol:"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(folder, s.name)); err != nil {
				t.Skip("not fetched: scripts/metal-headers.sh says why")
			}
			compare(t, s.read(t, filepath.Join(folder, s.name)), s.lacks)
		})
	}
}

// compare fails for every declaration that s has otherwise, or has not and should have.
func compare(t *testing.T, s *source, lacks []string) {
	check := func(name string, found bool, got, want any) {
		switch missing := slices.Contains(lacks, name); {
		case found == missing:
			t.Errorf("%s: found is %v", name, found)
		case found && fmt.Sprint(got) != fmt.Sprint(want):
			t.Errorf("%s is %v; this package declares %v", name, got, want)
		}
	}
	for _, m := range methods {
		name := m.Type + " " + m.Selector
		got, found := s.methods[name]
		check(name, found, got.Result+" ("+got.Arguments+")", m.Result+" ("+m.Arguments+")")
		if s.owned != nil && found {
			check(name+": ownership", true, s.owned[name], m.Owned())
		}
		for _, kind := range strings.Fields(m.Result + " " + m.Arguments) {
			if strings.HasPrefix(kind, "MTL") && kind != "MTLSize" || kind == "NSStringEncoding" {
				got, found := s.enums[kind]
				check(kind, found, got, "NSUInteger")
			}
		}
	}
	for name, want := range constants {
		got, found := s.constants[name]
		check(name, found, got, want)
	}
	for name, want := range map[string]int{
		"MTLCopyAllDevices": 0, "MTLCreateSystemDefaultDevice": 0, "objc_msgSend": 0, "objc_msgSend_stret": 0, "sel_registerName": 1, "objc_getClass": 1,
		"objc_getProtocol": 1, "objc_retain": 1, "objc_release": 1, "objc_autoreleasePoolPush": 0, "objc_autoreleasePoolPop": 1,
	} {
		got, found := s.functions[name]
		check(name, found, got, want)
	}
	check("MTLSize", true, s.structs["MTLSize"], []string{"NSUInteger", "NSUInteger", "NSUInteger"})
	t.Logf("%d methods, %d enumerations and %d constants in the source; %d methods and %d constants declared here",
		len(s.methods), len(s.enums), len(s.constants), len(methods), len(constants))
}

// constants are the values that dlx uses, by their names in the headers.
var constants = map[string]uint64{
	"MTLStorageModeShared":                 uint64(driver.StorageShared) >> 4,
	"MTLStorageModeManaged":                uint64(driver.StorageManaged) >> 4,
	"MTLStorageModePrivate":                uint64(driver.StoragePrivate) >> 4,
	"MTLResourceStorageModeShared":         uint64(driver.StorageShared),
	"MTLResourceStorageModeManaged":        uint64(driver.StorageManaged),
	"MTLResourceStorageModePrivate":        uint64(driver.StoragePrivate),
	"MTLCommandBufferErrorInternal":        driver.ErrInternal,
	"MTLCommandBufferErrorTimeout":         driver.ErrTimeout,
	"MTLCommandBufferErrorPageFault":       driver.ErrPageFault,
	"MTLCommandBufferErrorAccessRevoked":   driver.ErrAccessRevoked,
	"MTLCommandBufferErrorNotPermitted":    driver.ErrNotPermitted,
	"MTLCommandBufferErrorOutOfMemory":     driver.ErrOutOfMemory,
	"MTLCommandBufferErrorInvalidResource": driver.ErrInvalidResource,
	"MTLCommandBufferErrorMemoryless":      driver.ErrMemoryless,
	"MTLCommandBufferErrorDeviceRemoved":   driver.ErrDeviceRemoved,
	"MTLCommandBufferErrorStackOverflow":   driver.ErrStackOverflow,
	"MTLCommandBufferStatusError":          statusError,
	"NSUTF8StringEncoding":                 encodingUTF8,
}

// TestDeclarations checks the table itself: a selector has as many colons as the method has arguments, and no method
// is newer than the oldest macOS that Go runs on.
func TestDeclarations(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range methods {
		name := m.Type + " " + m.Selector
		if seen[name] || m.Type == "" {
			t.Errorf("%q is declared twice, or an index has no method", name)
		}
		seen[name] = true
		if n := len(strings.Fields(m.Arguments)); n != strings.Count(m.Selector, ":") || n > 5 {
			t.Errorf("%s has %d arguments", name, n)
		}
		if since, err := strconv.ParseFloat(m.Since, 64); err != nil || since > 12 {
			t.Errorf("%s is in macOS from %s on; Go needs macOS 12", name, m.Since)
		}
		if m.Owned() != strings.HasPrefix(m.Selector, "new") {
			t.Errorf("%s: Owned is %v", name, m.Owned())
		}
	}
}

// The rest reads the two sources. Each expression finds declarations in the one style that its source is written in.

var (
	rustComment  = regexp.MustCompile(`(?m)^\s*//.*$`)
	rustOwner    = regexp.MustCompile(`(?m)^\s*(?:pub unsafe trait (\w+)|impl(?:<[^>]*>)? (\w+)(?:<[^>]*>)? \{)`)
	rustMethod   = regexp.MustCompile(`#\[unsafe\(method\(([^)]+)\)\)\]\s*#\[unsafe\(method_family = (\w+)\)\]\s*(?:#\[[^\n]*\]\s*)*(?:pub )?(?:unsafe )?fn \w+\(([^;{]*?)\)(?:\s*->\s*([^;{]+?))?;`)
	rustEnum     = regexp.MustCompile(`pub struct (\w+)\(pub (\w+)\);`)
	rustAlias    = regexp.MustCompile(`pub type (\w+)\s*=\s*([^;]+);`)
	rustConstant = regexp.MustCompile(`#\[doc\(alias = "(\w+)"\)\]\s*(?:#\[deprecated\]\s*)?(?:pub )?const \w+(?:: Self)? = (?:Self\()?([^;]+?)\)?;`)
	rustGlobal   = regexp.MustCompile(`pub const (\w+): \w+ = (\d+);`)
	rustStruct   = regexp.MustCompile(`(?s)pub struct (\w+) \{(.*?)\n\}`)
	rustField    = regexp.MustCompile(`pub \w+: (\w+),`)
	rustFunction = regexp.MustCompile(`fn (\w+)\(([^)]*)\)(?: -> [^;]+)?;`)
)

func readCrates(t testing.TB, folder string) *source {
	s := newSource()
	s.owned = map[string]bool{}
	blocks := map[string]bool{} // types of handlers
	var texts []string
	for _, glob := range []string{"objc2/src/ffi/*.rs", "objc2-foundation/src/generated/*.rs", "objc2-metal/src/*.rs", "objc2-metal/src/generated/*.rs"} {
		texts = append(texts, read(t, filepath.Join(folder, glob))...)
	}
	for i := range texts {
		texts[i] = rustComment.ReplaceAllString(texts[i], "")
		for _, m := range rustAlias.FindAllStringSubmatch(texts[i], -1) {
			blocks[m[1]] = strings.Contains(m[2], "DynBlock")
			s.enums[m[1]] = m[2]
		}
	}
	kind := func(rust string) string {
		rust = strings.Join(strings.Fields(rust), " ")
		switch {
		case strings.Contains(rust, "DynBlock") || blocks[rust]:
			return "block"
		case rust == "":
			return "void"
		case rust == "bool":
			return "BOOL"
		case rust == "u64":
			return "uint64_t"
		case strings.Contains(rust, "c_void") || strings.Contains(rust, "c_char"):
			return "pointer"
		case strings.ContainsAny(rust, "&<"):
			return "id"
		}
		return rust
	}
	for _, text := range texts {
		owners := rustOwner.FindAllStringSubmatchIndex(text, -1)
		for _, at := range rustMethod.FindAllStringSubmatchIndex(text, -1) {
			var m Method
			for _, o := range owners {
				if o[0] < at[0] {
					m.Type = group(text, o, 1) + group(text, o, 2)
				}
			}
			m.Selector = group(text, at, 1)
			m.Result = kind(group(text, at, 4))
			var arguments []string
			for argument := range splitArguments(group(text, at, 3)) {
				if name, rust, found := strings.Cut(argument, ":"); found && strings.TrimSpace(name) != "this" {
					arguments = append(arguments, kind(rust))
				}
			}
			if cut, found := strings.CutSuffix(m.Selector, ":_"); found { // the error is the result
				m.Selector = cut + ":"
				arguments = append(arguments, "error")
			}
			m.Arguments = strings.Join(arguments, " ")
			s.methods[m.Type+" "+m.Selector] = m
			s.owned[m.Type+" "+m.Selector] = slices.Contains([]string{"alloc", "copy", "mutableCopy", "new"}, group(text, at, 2))
		}
		for _, m := range rustEnum.FindAllStringSubmatch(text, -1) {
			s.enums[m[1]] = m[2]
		}
		for _, m := range rustConstant.FindAllStringSubmatch(text, -1) {
			s.constant(m[1], m[2])
		}
		for _, m := range rustGlobal.FindAllStringSubmatch(text, -1) {
			s.constant(m[1], m[2])
		}
		for _, m := range rustStruct.FindAllStringSubmatch(text, -1) {
			for _, field := range rustField.FindAllStringSubmatch(m[2], -1) {
				s.structs[m[1]] = append(s.structs[m[1]], field[1])
			}
		}
		for _, m := range rustFunction.FindAllStringSubmatch(text, -1) {
			s.functions[m[1]] = strings.Count(m[2], ":")
		}
	}
	// Resource options are written as storage modes, shifted by 4.
	for _, mode := range []string{"Shared", "Managed", "Private"} {
		written := "MTLStorageMode::" + mode + ".0<<MTLResourceStorageModeShift"
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "const StorageMode"+mode+" = "+written) }) {
			t.Errorf("MTLResourceStorageMode%s is not %s", mode, written)
		}
		s.constants["MTLResourceStorageMode"+mode] = s.constants["MTLStorageMode"+mode] << s.constants["MTLResourceStorageModeShift"]
	}
	return s
}

var (
	cppSelector = regexp.MustCompile(`_(?:MTL|NS)_PRIVATE_DEF_SEL\((\w+),\s*"([^"]+)"\)`)
	cppMethod   = regexp.MustCompile(`_(?:MTL|NS)_INLINE ([^;{}()]+?)\s*\b(MTL|NS)::(\w+)::\w+\(([^{}]*)\)(?: const)?\s*\{([^}]*)\}`)
	cppSends    = regexp.MustCompile(`sendMessage<[^;]*_PRIVATE_SEL\((\w+)\)`)
	cppEnum     = regexp.MustCompile(`_(MTL|NS)_(?:ENUM|OPTIONS)\(NS::(\w+), (\w+)\) \{([^}]*)\}`)
	nsEnum      = regexp.MustCompile(`_(NS)_(?:ENUM|OPTIONS)\(NS::(\w+), (\w+)\)\s*\{([^}]*)\}`)
	cppValue    = regexp.MustCompile(`(\w+) = ([^,]+),`)
	cppFunction = regexp.MustCompile(`extern "C" [\w:*]+\s+(\w+)\(([^)]*)\);`)
	cppStruct   = regexp.MustCompile(`(?s)struct (\w+)\s*\{(.*?)\n\}`)
	cppField    = regexp.MustCompile(`(?m)^\s*NS::(\w+) \w+;`)
)

func readMetalCpp(t testing.TB, folder string) *source {
	s := newSource()
	texts := append(read(t, filepath.Join(folder, "Foundation/*.hpp")), read(t, filepath.Join(folder, "Metal/*.hpp"))...)
	selectors, handlers := map[string]string{}, map[string]bool{}
	for _, text := range texts {
		for _, m := range cppSelector.FindAllStringSubmatch(text, -1) {
			selectors[m[1]] = m[2]
		}
		for _, m := range regexp.MustCompile(`using (\w+) = void \(\^\)`).FindAllStringSubmatch(text, -1) {
			handlers[m[1]] = true
		}
	}
	kind := func(cpp, space string) string {
		cpp = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(cpp), "const "))
		name := strings.TrimPrefix(strings.TrimPrefix(cpp, "MTL::"), "NS::")
		switch {
		case strings.Contains(cpp, "^") || handlers[name]:
			return "block"
		case strings.HasSuffix(cpp, "**"):
			return "error"
		case cpp == "void*" || cpp == "char*":
			return "pointer"
		case strings.HasSuffix(cpp, "*"):
			return "id"
		case cpp == "bool":
			return "BOOL"
		case cpp == "void":
			return cpp
		case strings.HasSuffix(cpp, "uint64_t"):
			return "uint64_t"
		case name == "ErrorDomain": // using ErrorDomain = class String*
			return "id"
		case name == "UInteger" || name == "Integer" || strings.HasPrefix(cpp, "NS::"):
			return "NS" + name
		}
		return space + name
	}
	for _, text := range texts {
		text = strings.ReplaceAll(text, "template <class _Object>\n", "")
		for _, m := range cppMethod.FindAllStringSubmatch(text, -1) {
			sends := cppSends.FindStringSubmatch(m[5])
			if sends == nil || selectors[sends[1]] == "" {
				continue
			}
			var arguments []string
			for argument := range splitArguments(m[4]) {
				if i := strings.LastIndexAny(argument, " *"); !strings.Contains(argument, "^") && i > 0 {
					argument = argument[:i+1]
				}
				arguments = append(arguments, kind(argument, m[2]))
			}
			method := Method{Type: m[2] + m[3], Selector: selectors[sends[1]], Result: kind(m[1], m[2]), Arguments: strings.Join(arguments, " ")}
			s.methods[method.Type+" "+method.Selector] = method
		}
		for _, m := range append(cppEnum.FindAllStringSubmatch(text, -1), nsEnum.FindAllStringSubmatch(text, -1)...) {
			s.enums[m[1]+m[3]] = "NS" + m[2]
			for _, v := range cppValue.FindAllStringSubmatch(m[4], -1) {
				s.constant("NS"+strings.TrimPrefix(v[1], "NS"), v[2])
				s.constant("MTL"+v[1], v[2])
			}
		}
		for _, m := range cppFunction.FindAllStringSubmatch(text, -1) {
			s.functions[m[1]] = strings.Count(m[2], ",") + min(1, len(m[2]))
		}
		for _, m := range cppStruct.FindAllStringSubmatch(text, -1) {
			for _, field := range cppField.FindAllStringSubmatch(m[2], -1) {
				s.structs["MTL"+m[1]] = append(s.structs["MTL"+m[1]], "NS"+field[1])
			}
		}
	}
	return s
}

func newSource() *source {
	return &source{
		methods: map[string]Method{}, enums: map[string]string{}, constants: map[string]uint64{}, functions: map[string]int{},
		structs: map[string][]string{},
	}
}

// constant keeps a number, which may be written as a shift.
func (s *source) constant(name, value string) {
	base, shift, _ := strings.Cut(value, "<<")
	n, err := strconv.ParseUint(strings.TrimSpace(base), 0, 64)
	if err != nil {
		return
	}
	by, _ := strconv.Atoi(strings.TrimSpace(shift))
	s.constants[name] = n << by
}

// splitArguments yields the arguments of a declaration.
func splitArguments(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		depth, start := 0, 0
		for i, c := range list + "," {
			switch c {
			case '(', '<', '[':
				depth++
			case ')', '>', ']':
				depth--
			case ',':
				if depth == 0 {
					if argument := strings.TrimSpace(list[start:i]); argument != "" && !yield(argument) {
						return
					}
					start = i + 1
				}
			}
		}
	}
}

func group(text string, at []int, n int) string {
	if at[2*n] < 0 {
		return ""
	}
	return text[at[2*n]:at[2*n+1]]
}

// read returns the contents of the files, of which there is at least one.
func read(t testing.TB, glob string) (texts []string) {
	paths, err := filepath.Glob(glob)
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no files %s", glob)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}
