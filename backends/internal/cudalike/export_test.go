package cudalike

import "github.com/dlx-go/dlx/core"

// SubmitAround does what a copy on s does, without the copy, and calls between before the event of the copy is made.
func SubmitAround(s core.Stream, between func() error) (core.Event, error) {
	q := s.(*queue)
	if err := q.begin("Copy", false); err != nil {
		return nil, err
	}
	made := q.withEvent(func(event uintptr) (bool, Status) {
		s := q.device.context.RecordEvent(event, q.raw)
		return s.OK(), s
	})
	q.unlock()
	if err := q.device.check(made, "a copy"); err != nil {
		return nil, err
	}
	if err := between(); err != nil {
		return nil, err
	}
	return q.RecordSubmitted()
}
