package backendtest

import (
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/dlx-go/dlx/core"
)

var fileCases = []Case{
	{
		Name: "file/reads",
		Rule: "core.DeviceFile.ReadAt: the bytes of the file at the offset, also by several calls at once into one memory, after earlier work on that and before later work; a device that cannot read files says so by ErrNotSupported",
		run:  caseFileReads,
	},
	{
		Name: "file/refused",
		Rule: "backendkit.CheckFileRead: what ReadAt refuses; io.ErrUnexpectedEOF for a file that ends before",
		run:  caseFileRefused,
	},
	{
		Name: "file/close",
		Rule: "core.DeviceFile.Close: leaves the file open for its owner, and does nothing the second time; the device stays open until then; ReadAt then fails with ErrClosed",
		run:  caseFileClose,
	},
}

// openFile writes a file and opens it for the device. It returns nil if the device reads no files, or not this one, which
// depends on the file system: no capability says it.
func (e *env) openFile(content []byte) (core.DeviceFile, *os.File) {
	e.Helper()
	reader, ok := core.As[core.FileReader](e.dev)
	if !ok {
		return nil, nil
	}
	if err := reader.CanReadFiles(); err != nil {
		e.wantError(err, core.ErrNotSupported, "CanReadFiles")
	}
	path := filepath.Join(e.TempDir(), "file")
	e.check(os.WriteFile(path, content, 0o600), "a file")
	file, err := os.Open(path)
	e.check(err, "a file")
	e.Cleanup(func() { _ = file.Close() })
	f, err := reader.OpenFile(e.ctx, file)
	if err != nil {
		e.wantError(err, core.ErrNotSupported, "OpenFile")
		return nil, nil
	}
	e.Cleanup(func() { _ = f.Close() })
	return f, file
}

func caseFileReads(e *env) {
	content := e.pattern(100_000)
	f, _ := e.openFile(content)
	if f == nil {
		return
	}
	s, t := e.stream(), e.bytes(90_000)
	e.copy(s, t, e.hostBytes(e.pattern(90_000))) // which the reads overwrite
	var group sync.WaitGroup
	for i := range int64(3) {
		part, err := t.Slice(0, i*30_000, (i+1)*30_000, 1)
		e.check(err, "Slice")
		group.Go(func() {
			if err := f.ReadAt(e.ctx, part, 7+i*30_000); err != nil {
				e.Errorf("ReadAt: %v", err)
			}
			_ = part.Close()
		})
	}
	group.Wait()
	later := e.bytes(90_000)
	e.copy(s, later, t)
	e.synchronize(s)
	e.wantBytes(later, content[7:90_007], "a copy of what was read")
}

func caseFileRefused(e *env) {
	f, _ := e.openFile(e.pattern(1000))
	if f == nil {
		return
	}
	t := e.bytes(600)
	second, err := t.Slice(0, 0, 600, 2)
	e.check(err, "Slice")
	defer second.Close()
	e.wantError(f.ReadAt(e.ctx, nil, 0), core.ErrInvalid, "ReadAt into no tensor")
	e.wantError(f.ReadAt(e.ctx, t, -1), core.ErrInvalid, "ReadAt of a negative offset")
	e.wantError(f.ReadAt(e.ctx, second, 0), core.ErrLayout, "ReadAt into every second byte")
	e.wantError(f.ReadAt(e.ctx, e.hostBytes(e.pattern(10)), 0), core.ErrDevice, "ReadAt into memory of the host")
	e.wantError(f.ReadAt(e.ctx, t, 401), io.ErrUnexpectedEOF, "ReadAt past the end of the file")
	e.check(f.ReadAt(e.ctx, t, 400), "ReadAt up to the end of the file")
}

func caseFileClose(e *env) {
	f, file := e.openFile(e.pattern(1000))
	if f == nil {
		return
	}
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with a file open")
	for range 2 {
		e.check(f.Close(), "Close of a file")
	}
	t := e.bytes(100)
	e.wantError(f.ReadAt(e.ctx, t, 0), core.ErrClosed, "ReadAt after Close")
	_, err := file.ReadAt(make([]byte, 1), 0)
	e.check(err, "a read of the file by its owner")
}
