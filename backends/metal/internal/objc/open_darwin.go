//go:build amd64 || arm64

package objc

import (
	"fmt"
	"syscall"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// The libraries, which stay open as long as the process. Those of the system lie in a cache and not in files. Without
// Core Graphics there is no default device (Apple, "MTLCreateSystemDefaultDevice").
const (
	runtimeLibrary    = "/usr/lib/libobjc.A.dylib"
	foundationLibrary = "/System/Library/Frameworks/Foundation.framework/Foundation"
	graphicsLibrary   = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"
	metalLibrary      = "/System/Library/Frameworks/Metal.framework/Metal"
)

// Open opens Metal. The error says why there is none. A Mac without a GPU for Metal has Metal, but no devices.
func Open() (driver.Driver, error) {
	for _, library := range []string{runtimeLibrary, foundationLibrary, graphicsLibrary, metalLibrary} {
		if _, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, fmt.Errorf("open %s: %w", library, err)
		}
	}
	m := &Metal{system: "macOS", newBlock: newBlock}
	if version, err := syscall.Sysctl("kern.osproductversion"); err == nil {
		m.system += " " + version
	}
	if err := m.load(func(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }); err != nil {
		return nil, err
	}
	return m, nil
}

// newBlock makes a block of the Objective-C runtime. It holds f until the last owner of the block releases it.
func newBlock(f func(commands driver.ID)) (block uintptr, release func()) {
	b := objc.NewBlock(func(_ objc.Block, commands objc.ID) { f(driver.ID(commands)) })
	return uintptr(b), b.Release
}
