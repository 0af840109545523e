package hostcopy

import (
	"cmp"

	"github.com/dlx-go/dlx/internal/parallel"
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
	workers = parallel.Usual(total, minShare, workers)
	return cmp.Or(failed, parallel.Each(len(small), workers, func(i int) error { return small[i].Run(1) }))
}

// size returns about how many bytes the job copies.
func (j Job) size() int64 {
	if j.bits {
		return j.geometry.Size() / 8
	}
	return j.geometry.Size()
}
