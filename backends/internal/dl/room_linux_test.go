//go:build cgo && !race && !asan

package dl_test

import (
	"errors"
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// limitedVariable makes a process of the test binary limit its memory.
const limitedVariable = "DLX_TEST_LIMITED"

func TestRoom(t *testing.T) {
	if os.Getenv(limitedVariable) == "" {
		if err := (dl.Room{Threads: 2, Bytes: 1 << 40}).Check("test", "start"); err != nil {
			t.Errorf("without a limit: %v", err)
		}
		coretest.Child(t, t.Name(), limitedVariable+"=1")(t)
		return
	}
	for _, c := range []struct {
		rule  string
		limit int64
		room  dl.Room
		want  error
	}{
		{"room for all", 4 << 30, dl.Room{Threads: 8, Bytes: 8 << 20}, nil},
		{"room for threads only", 4 << 30, dl.Room{Threads: 8, Bytes: 8 << 30}, core.ErrOutOfMemory},
		{"no room for threads", 12 << 20, dl.Room{Threads: 8, Bytes: 4096}, core.ErrOutOfMemory},
		{"no room for threads, of which fewer will do", 12 << 20, dl.Room{Threads: 8, Fewer: true, Bytes: 4096}, nil},
	} {
		end := dltest.LimitMemory(t, c.limit)
		err := c.room.Check("test", "start")
		end()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.rule, err, c.want)
		}
	}
}
