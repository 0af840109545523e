package flight

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"NewServer": NewServer, "NewClient": NewClient, "Server": (*Server)(nil), "Client": (*Client)(nil),
	})
}
