package cpu

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestSemaphoresStayInTheProcess(t *testing.T) {
	opened, err := New().Open(ctx, core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := core.As[core.SemaphoreExporter](opened); ok {
		t.Error("the host is a SemaphoreExporter")
	}
	creator := opened.(core.SemaphoreCreator)
	for _, h := range []core.HandleType{core.HandleOpaqueFD, core.HandleMemFD, 99} {
		if _, err := creator.NewSemaphore(ctx, h); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("a semaphore to be exported as %v: %v, want ErrNotSupported", h, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := creator.NewSemaphore(over, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := creator.NewSemaphore(ctx, 0); !errors.Is(err, core.ErrClosed) {
		t.Errorf("of a closed device: %v, want ErrClosed", err)
	}
}
