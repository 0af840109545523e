package export

import (
	"io"

	"github.com/dlx-go/dlx/core"
)

// checkWriter returns core.ErrInvalid if there is nothing to write to.
func checkWriter(call string, w io.Writer) error {
	if w == nil {
		return core.Errorf(core.ErrInvalid, "export", call, "the writer is nil")
	}
	return nil
}
