package benchmarks

import "github.com/dlx-go/dlx/core"

// fileCases load files.
func (l *lister) fileCases(id core.DeviceID) {}
