package backendtest

import (
	"errors"

	"github.com/dlx-go/dlx/core"
)

var peerCases = []Case{
	{
		Name:  "peer/copy",
		Rule:  "core.PeerCopier.CopyPeer: is Copy from a src on peer; types and shapes are equal, strides may be any",
		Needs: core.CapPeer,
		run:   casePeerCopy,
	},
	{
		Name:  "peer/order",
		Rule:  "core.PeerCopier.CopyPeer: waits for the last write of src on the peer, and for all work on dst",
		Needs: core.CapPeer,
		run:   casePeerOrder,
	},
	{
		Name:  "peer/errors",
		Rule:  "core.PeerCopier.CopyPeer: fails as backendkit.CheckCopy does, and for a peer that CanPeer refuses, before any work",
		Needs: core.CapPeer,
		run:   casePeerErrors,
	},
}

// peer opens the second device, and an env to work with it. An API need not copy between all
// devices of a machine.
func (e *env) peer() (core.PeerCopier, *env) {
	e.Helper()
	copier := as[core.PeerCopier](e)
	if e.cfg.Peer == nil {
		e.Fatalf("the device declares %v, but Run has no option Peer that opens one", core.CapPeer)
	}
	p := *e
	p.dev = e.open(e.cfg.Peer)
	p.props = p.dev.Properties()
	err := copier.CanPeer(p.dev)
	if errors.Is(err, core.ErrNotSupported) {
		e.Skipf("skipped: %v", err)
	}
	e.check(err, "CanPeer")
	return copier, &p
}

func casePeerCopy(e *env) {
	copier, peer := e.peer()
	for _, l := range []strided{
		{shape: []int64{1000}},
		{shape: []int64{0}},
		{shape: []int64{5, 7}, dst: []int64{1, 5}},
		{shape: []int64{5, 7}, src: []int64{-7, 2}},
	} {
		dst, src := e.newImage(core.TypeFloat32, 0, l.shape, l.dst, 0), e.newImage(core.TypeFloat32, 0, l.shape, l.src, 0)
		t, from := e.onDevice(dst), peer.onDevice(src)
		e.check(copier.CopyPeer(e.ctx, nil, t, from, peer.dev), "CopyPeer(%v <- %v)", t, from)
		if got, want := e.memoryOf(t), dst.copied(src); string(got) != string(want) {
			e.Errorf("%v <- %v of the peer: %s", t, from, difference(got, want))
		}
	}
}

func casePeerOrder(e *env) {
	copier, peer := e.peer()
	here, there := e.stream(), peer.stream()
	content := e.pattern(1000)
	src, dst := peer.upload(e.pattern(1000)), e.bytes(1000)
	release := func() {}
	if e.props.Capabilities.Has(core.CapAsync) {
		release, _ = peer.hold(there)
	}
	peer.copy(there, src, peer.hostBytes(content))
	err := e.whileHeld(release, func() error {
		return errors.Join(copier.CopyPeer(e.ctx, here, dst, src, peer.dev), here.Synchronize(e.ctx))
	})
	e.check(err, "CopyPeer of memory that is being written")
	_ = src.Close()
	e.wantBytes(dst, content, "what came from the peer")
}

func casePeerErrors(e *env) {
	copier, peer := e.peer()
	content := e.pattern(16)
	dst, src := e.upload(content), peer.upload(e.pattern(16))
	readOnly, err := dst.AsReadOnly()
	e.keep(readOnly, err)
	e.wantError(copier.CopyPeer(e.ctx, nil, readOnly, src, peer.dev), core.ErrReadOnly, "read-only dst")
	e.wantError(copier.CopyPeer(e.ctx, nil, dst, peer.upload(e.pattern(15)), peer.dev), core.ErrLayout, "other shapes")
	e.wantTyped(copier.CanPeer(nil), "CanPeer of no device")
	e.wantTyped(copier.CopyPeer(e.ctx, nil, dst, src, nil), "CopyPeer from no device")
	_ = src.Close()
	e.wantError(copier.CopyPeer(e.ctx, nil, dst, src, peer.dev), core.ErrClosed, "closed src")
	e.wantBytes(dst, content, "dst after the refused copies")
}
