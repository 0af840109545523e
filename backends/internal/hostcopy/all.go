package hostcopy

import (
	"cmp"
	"sync/atomic"
)

// RunAll runs jobs with at most workers goroutines, including the caller's. The jobs may run in any order and at the
// same time: no job writes what another one reads or writes. RunAll runs all jobs even if some fail, and returns one of
// the errors, which are those of [Job.Run].
func RunAll(jobs []Job, workers int) error {
	var failed error
	small, total := make([]Job, 0, len(jobs)), int64(0)
	for _, j := range jobs {
		if n := j.size(); n < minRunShare {
			small, total = append(small, j), total+n
		} else {
			failed = cmp.Or(failed, j.Run(workers))
		}
	}
	workers = max(1, min(workers, int(total/minShare), len(small)))
	var next atomic.Int64
	return cmp.Or(failed, together(workers, func(int) (err error) {
		for i := next.Add(1) - 1; i < int64(len(small)); i = next.Add(1) - 1 {
			err = cmp.Or(err, small[i].Run(1))
		}
		return err
	}))
}

// size returns about how many bytes the job copies.
func (j Job) size() int64 {
	if j.bits {
		return j.geometry.Size() / 8
	}
	return j.geometry.Size()
}
