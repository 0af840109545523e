package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Job is what one process runs.
type Job struct {
	Seed   uint64        // of the first program; the next one's is one more
	Steps  int64         // to do, over all programs; 0 is one program
	Until  time.Duration // to go on for, at most; 0 is no bound
	Keep   []bool        // of the steps of the one program; nil is all
	Repeat int           // of the one program, until it goes wrong
	Traces string        // a folder for the program as Go
	Tight  bool          // descriptors or memory are short
}

// message is what a process says of its job, a line of JSON each.
type message struct {
	Program  *uint64 `json:",omitempty"` // begins
	Steps    int64   `json:",omitempty"` // were done so far
	Wrong    string  `json:",omitempty"`
	Coverage []count `json:",omitempty"`
	Table    string  `json:",omitempty"` // a line of the soak table
}

type count struct {
	combination
	N int64
}

// Run does the job on a world and says on out what came of it. It reports whether all went well.
func (j Job) Run(w *World, out io.Writer) bool {
	say := json.NewEncoder(out)
	start := time.Now()
	for seed := j.Seed; ; seed++ {
		_ = say.Encode(message{Program: &seed, Steps: w.Cover.Steps()})
		err := j.program(w, seed)
		if err != nil {
			_ = say.Encode(message{Wrong: err.Error(), Steps: w.Cover.Steps()})
			return false
		}
		if w.Cover.Steps() >= j.Steps || j.Until > 0 && time.Since(start) > j.Until {
			break
		}
	}
	done := message{Steps: w.Cover.Steps()}
	for k, n := range w.Cover.count {
		done.Coverage = append(done.Coverage, count{k, n})
	}
	_ = say.Encode(done)
	return true
}

// program runs the program of a seed.
func (j Job) program(w *World, seed uint64) error {
	for range max(1, j.Repeat) {
		p := draw(seed, w.Devices)
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

// Length is how many steps the program of a seed has.
func Length(seed uint64, devices []*Device) int { return len(draw(seed, devices).all()) }
