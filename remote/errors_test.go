package remote

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// The error of a side that is told why the other one has ended the connection is of its own view.
func TestErrorsOfAGoodbyeAreOfThisSidesView(t *testing.T) {
	for cause, want := range map[error]string{
		os.ErrDeadlineExceeded: "it heard no sign of life of this process for longer than its keep-alive",
		io.ErrUnexpectedEOF:    "it lost this process",
	} {
		var o Options
		err := o.told(farewell(o.lost(cause)))
		if !errors.Is(err, core.ErrClosed) || !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), ", since "+want) {
			t.Errorf("for %v: %v", cause, err)
		}
	}
}
