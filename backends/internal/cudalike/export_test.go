package cudalike

import "github.com/dlx-go/dlx/core"

// SubmitAround does what a copy on s does, without the copy, and calls between before the event of the copy is made.
func SubmitAround(s core.Stream, between func() error) (core.Event, error) {
	q := s.(*queue)
	err := q.enqueueUnchecked("Copy", func() error {
		s := q.withEvent(func(event uintptr) (bool, Status) {
			s := q.device.context.RecordEvent(event, q.raw)
			return s.OK(), s
		})
		return q.device.check(s, "a copy")
	})
	if err != nil {
		return nil, err
	}
	if err := between(); err != nil {
		return nil, err
	}
	return q.RecordSubmitted()
}
