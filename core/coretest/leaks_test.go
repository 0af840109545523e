package coretest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

func TestMain(m *testing.M) { Main(m) }

// onPurpose names the mistake that TestMistake makes, in a process of its own.
const onPurpose = "DLX_CORETEST_MISTAKE"

func TestMistake(t *testing.T) {
	switch mistake := os.Getenv(onPurpose); mistake {
	case "":
		return // makes mistakes only for TestMainFindsMistakes
	case "open":
		releaseTimeout = 20 * time.Millisecond
		kept, _ = core.FromSlice([]int8{1})
	case "late":
		go func(x *core.Tensor, err error) {
			time.Sleep(200 * time.Millisecond)
			_ = x.Close()
		}(core.FromSlice([]int8{1}))
	case "lost", "lost as announced":
		lose()
		if mistake != "lost" {
			ExpectLeaks(lost)
		} else {
			releaseTimeout = 20 * time.Millisecond
		}
	}
}

// kept is reachable, so that only the counter can find it.
var kept *core.Tensor

// lost is how many tensors lose loses: enough for the collector to see that none
// of those allocated with them is in use.
const lost = 200

// lose makes tensors that nobody closes and waits for the collector to notice.
func lose() {
	before := core.ReadMetrics().LostTensors
	for range lost {
		_, _ = core.FromSlice([]int8{1})
	}
	for range 4000 { // core gives up what the last of them share with others
		x, _ := core.FromSlice([]int8{1})
		_ = x.Close()
	}
	for range 100 {
		if runtime.GC(); core.ReadMetrics().LostTensors-before == lost {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestMainFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		mistake, trace string
		fails          bool
		says           []string
	}{
		{mistake: "open", fails: true, says: []string{"left 1 of core.Tensor open", "left 1 of core.Buffer open", "set DLX_TRACE_OPEN=1"}},
		{mistake: "open", trace: "1", fails: true, says: []string{"TestMistake", "leaks_test.go"}},
		{mistake: "lost", fails: true, says: []string{fmt.Sprintf("lost %d tensors", lost)}},
		{mistake: "lost as announced"},
		{mistake: "late"},
		{mistake: "none"},
	} {
		t.Run(c.mistake+c.trace, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestMistake$")
			cmd.Env = append(os.Environ(), onPurpose+"="+c.mistake, "DLX_TRACE_OPEN="+c.trace)
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails {
				t.Errorf("the binary ends with %v:\n%s", err, out)
			}
			for _, text := range c.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("the output lacks %q:\n%s", text, out)
				}
			}
		})
	}
}

// recorder is a test that is watched.
type recorder struct {
	testing.TB
	cleanup func()
	failure string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(f func())  { r.cleanup = f }
func (r *recorder) Error(args ...any) { r.failure = fmt.Sprint(args...) }

func TestCheckNoLeaks(t *testing.T) {
	before, _ := core.FromSlice([]int8{1}) // open before, so not the test's
	defer before.Close()
	for _, leak := range []bool{false, true} {
		r := &recorder{TB: t}
		CheckNoLeaks(r)
		x, _ := core.FromSlice([]int8{1})
		whole := releaseTimeout
		if leak {
			releaseTimeout = 20 * time.Millisecond
		} else {
			_ = x.Close()
		}
		r.cleanup()
		releaseTimeout = whole
		wantEqual(t, strings.Contains(r.failure, "left 1 of core.Tensor open"), leak, "the check finds a leak")
		_ = x.Close()
	}
}
