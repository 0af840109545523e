//go:build amd64 || arm64

package objc

import (
	"strings"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// encodings are the type encodings of the Objective-C runtime, without the qualifiers of pointers.
var encodings = map[string][]string{
	"void": {"v"}, "id": {"@", "#"}, "BOOL": {"B", "c"}, "NSUInteger": {"Q"}, "NSInteger": {"q"}, "uint64_t": {"Q"},
	"pointer": {"^v", "*"}, "error": {"^@"}, "block": {"@?"}, "MTLSize": {"{?=QQQ}", "{MTLSize=QQQ}"},
}

// TestTheRuntimeHasTheDeclarations compares the table with the methods that the Objective-C runtime of this Mac knows.
func TestTheRuntimeHasTheDeclarations(t *testing.T) {
	if _, err := Open(); err != nil {
		t.Fatal(err)
	}
	var instanceMethod, classMethod func(class objc.Class, name objc.SEL) uintptr
	var typesOf func(method uintptr) string
	purego.RegisterLibFunc(&instanceMethod, purego.RTLD_DEFAULT, "class_getInstanceMethod")
	purego.RegisterLibFunc(&classMethod, purego.RTLD_DEFAULT, "class_getClassMethod")
	purego.RegisterLibFunc(&typesOf, purego.RTLD_DEFAULT, "method_getTypeEncoding")
	for _, m := range methods {
		types := ""
		if strings.HasPrefix(m.Type, "MTL") {
			if p := objc.GetProtocol(m.Type); p != nil {
				for _, d := range p.CopyMethodDescriptionList(true, true) {
					if d.Name() == m.Selector {
						types = d.Types()
					}
				}
			}
		} else {
			class, selector := objc.GetClass(m.Type), objc.RegisterName(m.Selector)
			method := instanceMethod(class, selector)
			if method == 0 {
				method = classMethod(class, selector)
			}
			if method != 0 {
				types = typesOf(method)
			}
		}
		if want := append([]string{m.Result, "id", "selector"}, strings.Fields(m.Arguments)...); !matches(types, want) {
			t.Errorf("the runtime has %s %s with the types %q; declared is %q", m.Type, m.Selector, types, want)
		}
	}
}

// matches compares an encoding of a method, such as "@32@0:8Q16Q24", with types of the table.
func matches(encoding string, kinds []string) bool {
	encoding = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || strings.ContainsRune("rnNoORV", c) {
			return -1
		}
		return c
	}, encoding)
	for _, kind := range kinds {
		known, found := encodings[kind]
		switch {
		case kind == "selector":
			known = []string{":"}
		case !found: // an enumeration
			known = encodings["NSUInteger"]
		}
		matched := false
		for _, k := range known {
			if rest, ok := strings.CutPrefix(encoding, k); ok && !matched {
				encoding, matched = rest, true
			}
		}
		if !matched {
			return false
		}
	}
	return encoding == ""
}

func TestMatches(t *testing.T) {
	for encoding, want := range map[string]bool{
		"@32@0:8Q16Q24": true, "@48@0:8^v16Q24Q32@?40": false, "@24@0:8Q16": false, "": false, "@40@0:8Q16Q24Q32": false,
	} {
		if matches(encoding, []string{"id", "id", "selector", "NSUInteger", "MTLResourceOptions"}) != want {
			t.Errorf("%q: not %v", encoding, want)
		}
	}
}

// TestMetalOfThisMac looks at every device, and at what its objects conform to.
func TestMetalOfThisMac(t *testing.T) {
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	devices := d.CopyDevices()
	if len(devices) == 0 {
		t.Fatal("Metal has no devices")
	}
	for _, device := range devices {
		info := d.Describe(device)
		t.Logf("%+v, %d bytes allocated", info, d.AllocatedSize(device))
		if info.Name == "" || info.MaxBufferLength == 0 || info.MaxThreads[0] == 0 || info.PageSize == 0 || !strings.HasPrefix(info.System, "macOS ") {
			t.Error("the device does not say what it is")
		}
		for p, object := range map[driver.Protocol]driver.ID{
			driver.ProtocolBuffer:      d.NewBuffer(device, 4096, driver.StorageShared),
			driver.ProtocolQueue:       d.NewCommandQueue(device, 64),
			driver.ProtocolSharedEvent: d.NewSharedEvent(device),
		} {
			if !d.Conforms(object, p) || d.Conforms(device, p) {
				t.Errorf("%s: Conforms is wrong for an object or for the device", p)
			}
			d.Release(object)
		}
		if _, err := d.NewLibrary(device, "this is no MSL"); err == nil || err.Text == "" || err.Domain == "" {
			t.Errorf("the compiler says %+v", err)
		}
		d.Release(device)
	}
}
