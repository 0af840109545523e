package share_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/share"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"Listen": share.Listen, "Dial": share.Dial, "New": share.New, "AllowUsers": share.AllowUsers,
		"nil Conn": (*share.Conn)(nil), "zero Conn": new(share.Conn), "nil Listener": (*share.Listener)(nil), "zero Listener": new(share.Listener),
		"nil Publisher": (*share.Publisher)(nil), "zero Publisher": new(share.Publisher),
		"nil Subscription": (*share.Subscription)(nil), "zero Subscription": new(share.Subscription), "Frame": share.Frame{}, "Mode": share.Mode(0),
		"Report": share.Report{}, "Peer": share.Peer{}, "ConnError": new(share.ConnError), "nil ConnError": (*share.ConnError)(nil),
	})
}
