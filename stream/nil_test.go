package stream_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	device := open(t, newBackend(t, coretest.Options{}), 0)
	coretest.CheckNils(t, map[string]any{
		"NewEvent": stream.NewEvent, "Handoff": stream.Handoff, "FromNone": stream.FromNone, "FromDLPack": stream.FromDLPack, "ToDLPack": stream.ToDLPack,
		"NewQueue": stream.NewQueue, "SubmitSame": stream.SubmitSame, "NewSharedSemaphore": stream.NewSharedSemaphore, "Submit": stream.Submit,
		"SubmitAndWait": stream.SubmitAndWait, "NewTimeline": stream.NewTimeline, "Do": stream.Do, "Acquire": stream.Acquire,
		"Number": stream.Number{}, "Uses": stream.Uses{},
	}, sound, newStream(t, device), device, []*core.Tensor{sound, nil}, func() error { return nil })
}
