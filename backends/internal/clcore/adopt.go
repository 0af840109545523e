//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"sync"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
)

// adopted are the contexts of other libraries over which devices are opened. It owns a reference to each.
var adopted struct {
	sync.Mutex
	contexts map[place]driver.Context
}

type place struct {
	API
	device driver.Device
}

// Adopt makes Open use a cl_context of another library for a device; 0 ends that: see oneapi.Adopt.
func (a API) Adopt(context, deviceID uintptr) error {
	const call = "Adopt"
	var c driver.Context
	var err error
	if context == 0 {
		_, err = a.find(call, deviceID)
	} else {
		_, c, err = a.foreignContext(call, context, deviceID)
	}
	if err != nil {
		return err
	}
	at := place{a, driver.Device(deviceID)}
	adopted.Lock()
	before := adopted.contexts[at]
	if c == 0 {
		delete(adopted.contexts, at)
	} else {
		if adopted.contexts == nil {
			adopted.contexts = make(map[place]driver.Context)
		}
		adopted.contexts[at] = c
	}
	adopted.Unlock()
	if before != 0 {
		driver.ReleaseContext(before)
	}
	return nil
}

// newContext returns a reference to the context for a device that is being opened: the adopted one, or a new one.
func (l *location) newContext() (driver.Context, error) {
	adopted.Lock()
	defer adopted.Unlock() // nobody releases it meanwhile
	if c := adopted.contexts[place{l.API, l.handle}]; c != 0 {
		return c, l.check(driver.RetainContext(c), "clRetainContext", "%#x", uintptr(c))
	}
	c, s := driver.CreateContext(l.platform, l.handle)
	return c, l.check(s, "clCreateContext", "for %s", l.properties.Name)
}
