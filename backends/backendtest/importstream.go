package backendtest

import (
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var importStreamCases = []Case{
	{
		Name:  "import-stream/same-queue",
		Rule:  "core.StreamImporter: work runs on the queue native, in order with other work on that queue",
		Needs: core.CapImportStream,
		run:   caseImportStream,
	},
	{
		Name:  "import-stream/close",
		Rule:  "core.StreamImporter: Close waits for the work and leaves native open; a second Close does nothing, other calls fail with ErrClosed",
		Needs: core.CapImportStream,
		run:   caseImportStreamClose,
	},
	{
		Name:  "import-stream/failure",
		Rule:  "core.StreamImporter: native 0 fails with ErrInvalid, unless DLPack says that it is a stream of the device's API",
		Needs: core.CapImportStream,
		run:   caseImportStreamZero,
	},
}

// importStream imports the queue of a stream.
func (e *env) importStream(of core.Stream) core.Stream {
	e.Helper()
	if of.Native() == 0 {
		e.Fatalf("the device declares %v, but its streams have no Native handle to import", core.CapImportStream)
	}
	s, err := as[core.StreamImporter](e).ImportStream(e.ctx, of.Native())
	e.check(err, "ImportStream")
	e.Cleanup(func() {
		if err := s.Close(); err != nil {
			e.Errorf("Close of an imported stream: %v", err)
		}
	})
	return s
}

func caseImportStream(e *env) {
	origin := e.stream()
	s := e.importStream(origin)
	if s.Device() != e.dev || s.Native() != origin.Native() {
		e.Errorf("the import is of %v with handle %#x, want this device and %#x", s.Device(), s.Native(), origin.Native())
	}
	contents := [][]byte{e.pattern(4096), e.pattern(4096)}
	t := e.bytes(4096)
	results := make([]*core.Tensor, 10)
	for i := range results { // written by one, read by the other, in turn
		results[i] = e.bytes(4096)
		e.copy(s, t, e.hostBytes(contents[i%2]))
		e.copy(origin, results[i], t)
		s, origin = origin, s
	}
	e.synchronize(s)
	for i, r := range results {
		e.check(r.WaitReady(e.ctx), "WaitReady")
		e.wantBytes(r, contents[i%2], "result %d", i)
	}
	e.synchronize(origin)
}

func caseImportStreamClose(e *env) {
	origin := e.stream()
	s := e.importStream(origin)
	content := e.pattern(1 << 18)
	host := make([]byte, len(content))
	t := e.bytes(int64(len(content)))
	e.copy(s, t, e.hostBytes(content))
	e.copy(s, e.hostBytes(host), t)
	for range 2 {
		e.check(s.Close(), "Close")
	}
	if !slices.Equal(host, content) {
		e.Errorf("the copy is not done after Close: %s", difference(host, content))
	}
	_, err := s.Record()
	e.wantError(err, core.ErrClosed, "Record")
	e.wantError(e.dev.Copy(e.ctx, s, t, e.hostBytes(content)), core.ErrClosed, "Copy")
	next := e.pattern(int64(len(content)))
	e.copy(origin, t, e.hostBytes(next))
	e.synchronize(origin)
	e.wantBytes(t, next, "work on native after the import was closed")
}

func caseImportStreamZero(e *env) {
	s, err := as[core.StreamImporter](e).ImportStream(e.ctx, 0)
	if _, known := stream.FromDLPack(e.dev.ID().Type, 0); known == nil {
		e.check(err, "ImportStream(0)")
		content, t := e.pattern(100), e.bytes(100)
		e.copy(s, t, e.hostBytes(content))
		e.check(s.Close(), "Close")
		e.wantBytes(t, content, "a copy on the stream 0")
		return
	}
	e.wantError(err, core.ErrInvalid, "ImportStream(0)")
	if err == nil {
		_ = s.Close()
	}
}
