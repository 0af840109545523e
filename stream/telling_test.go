package stream

import (
	"errors"
	"testing"
)

// A chain of work keeps what is under way, and the errors, however long it gets.
func TestTellingKeepsWhatIsNotKnown(t *testing.T) {
	write, step := NewEvent(), NewEvent()
	e := tellingOf(step, write)
	for range 1000 {
		step.Complete(nil)
		step = NewEvent()
		e = tellingOf(step, e)
	}
	if n := len(e.(*telling).kept()); n != 1 {
		t.Errorf("%d events are kept, one is under way", n)
	}
	failed := errors.New("failed")
	write.Complete(failed)
	if done, err := e.Done(); done || err != nil {
		t.Errorf("before its work is done: %v, %v", done, err)
	}
	step.Complete(nil)
	if done, err := e.Done(); !done || !errors.Is(err, failed) {
		t.Errorf("after it: %v, %v", done, err)
	}
	if err := e.Wait(t.Context()); !errors.Is(err, failed) {
		t.Errorf("Wait: %v", err)
	}
	if e := tellingOf(step, step); e != step {
		t.Errorf("%T tells of work that went well", e)
	}
}
