package otel_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/otel"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{"NewTracer": otel.NewTracer, "NewRemoteTracer": otel.NewRemoteTracer})
}
