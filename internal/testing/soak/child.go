package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// Job is what one process runs.
type Job struct {
	Seed   uint64        // of the first program; the next one's is one more
	Steps  int64         // to do, over all programs; 0 is one program
	Until  time.Duration // to go on for, at most; 0 is no bound
	Keep   []bool        // of the steps of the one program; nil is all
	Repeat int           // of the one program, until it goes wrong
	Traces string        // a folder for the program as Go
	Limits parts.Limits  // of the process, once the devices are open
	Sample time.Duration // between looks at what the process holds; 0 is never
}

// message is what a process says of its job, a line of JSON each.
type message struct {
	Program  *uint64 `json:",omitempty"` // begins
	Steps    int64   `json:",omitempty"` // were done so far
	Short    int64   `json:",omitempty"` // calls failed for want of descriptors or memory
	Wrong    string  `json:",omitempty"`
	Coverage []count `json:",omitempty"`
	Sample   *Sample `json:",omitempty"`
}

// Sample is what a process holds between two programs.
type Sample struct {
	After       time.Duration
	Steps       int64
	Resident    int64 // bytes of memory
	Heap        int64 // of those, objects of Go
	Descriptors int
	Goroutines  int
	Live        int64 // objects that are counted by core.Live
	Opened      int   // memories that exchange keeps open
	Kinds       map[string]int64
}

// take looks at the process when all was given back that is only kept for the next who
// asks: by pools of devices, by Go and by the C library. Memory that grows is memory that is held.
func (w *World) take(start time.Time) *Sample {
	dlpack.Flush()
	for _, d := range w.Devices {
		if p, ok := d.Device.(core.PoolController); ok {
			p.TrimPool()
		}
	}
	debug.FreeOSMemory() // after a collection
	parts.Trim()
	s := &Sample{After: time.Since(start), Steps: w.Cover.Steps(), Goroutines: runtime.NumGoroutine(), Descriptors: coretest.Descriptors()}
	s.Kinds = core.Live()
	s.Opened = int(s.Kinds["exchange.Opened"])
	for _, n := range s.Kinds {
		s.Live += n
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Heap = int64(m.HeapAlloc)
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages int64
		if _, err := fmt.Sscan(string(text), &size, &pages); err == nil {
			s.Resident = pages * int64(os.Getpagesize())
		}
	}
	return s
}

type count struct {
	combination
	N int64
}

// Run does the job on a world and says on out what came of it. It reports whether all went well.
func (j Job) Run(w *World, out io.Writer) bool {
	say := json.NewEncoder(out)
	start := time.Now()
	sampled := start
	for seed := j.Seed; ; seed++ {
		_ = say.Encode(message{Program: &seed, Steps: w.Cover.Steps()})
		err := j.program(w, seed)
		if err != nil {
			_ = say.Encode(message{Wrong: err.Error(), Steps: w.Cover.Steps()})
			return false
		}
		if j.Sample > 0 && time.Since(sampled) >= j.Sample {
			sampled = time.Now()
			_ = say.Encode(message{Sample: w.take(start)})
		}
		if w.Cover.Steps() >= j.Steps && (j.Steps > 0 || j.Until == 0) || j.Until > 0 && time.Since(start) > j.Until {
			break
		}
	}
	done := message{Steps: w.Cover.Steps(), Short: w.Cover.short}
	for k, n := range w.Cover.count {
		done.Coverage = append(done.Coverage, count{k, n})
	}
	_ = say.Encode(done)
	return true
}

// program runs the program of a seed.
func (j Job) program(w *World, seed uint64) error {
	for range max(1, j.Repeat) {
		p := draw(seed, w.Devices, j.largest())
		steps := p.all()
		if j.Keep != nil {
			if len(j.Keep) != len(steps) {
				return fmt.Errorf("program %d has %d steps here, not %d: the devices are others", seed, len(steps), len(j.Keep))
			}
			for i, keep := range j.Keep {
				if !keep {
					*steps[i] = nil
				}
			}
		}
		if err := w.run(p, j.Traces); err != nil {
			return err
		}
	}
	return nil
}

// largest is how many bytes a tensor has at most: enough to reach a limit.
func (j Job) largest() int64 { return max(1<<20, j.Limits.Memory/4) }

// Length is how many steps the program of the job's seed has.
func (j Job) Length(devices []*Device) int { return len(draw(j.Seed, devices, j.largest()).all()) }
