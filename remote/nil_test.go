package remote_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/remote"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"Available": remote.Available, "Version": remote.Version, "Describe": remote.Describe, "Sum": remote.Sum, "NewSource": remote.NewSource, "nil Source": (*remote.Source)(nil), "zero Source": new(remote.Source), "ChangedError": new(remote.ChangedError), "nil ChangedError": (*remote.ChangedError)(nil), "Fetch": remote.Fetch, "Gather": remote.Gather, "GatherReport": remote.GatherReport{}, "nil Offer": (*remote.Offer)(nil), "zero Offer": new(remote.Offer), "Listen": remote.Listen, "ListenOn": remote.ListenOn, "Dial": remote.Dial, "PathOf": remote.PathOf,
		"nil Conn": (*remote.Conn)(nil), "zero Conn": new(remote.Conn), "nil Listener": (*remote.Listener)(nil), "zero Listener": new(remote.Listener),
		"Report": remote.Report{}, "ConnError": new(remote.ConnError), "nil ConnError": (*remote.ConnError)(nil),
	})
}
