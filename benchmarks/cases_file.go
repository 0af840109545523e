package benchmarks

import (
	"os"
	"path/filepath"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// fileCases load a file to a device, or into new memory of the host.
func (l *lister) fileCases(id core.DeviceID) {
	for _, mode := range []tensorfile.ReadMode{tensorfile.ReadMap, tensorfile.ReadDirect} {
		for _, size := range l.buffer(id) {
			l.add(Case{
				Name:        "file_to_device/" + id.String() + "/" + string(mode) + size.name,
				Description: "tensorfile.Load of a .safetensors file with four tensors, until they may be read; their close is off the clock",
				Family:      "file_to_device", Kind: Bandwidth, From: Ends{core.CPU}, To: Ends{id}, Size: size.bytes,
				setup: func(e *env) (trial, error) { return e.fileTo(id, mode, l.Dir, e.bytes(size.bytes)) },
			}, l.extra(id))
		}
	}
}

// fileTensors is how many tensors the file has.
const fileTensors = 4

// fileTo makes a file and loads it.
func (e *env) fileTo(id core.DeviceID, mode tensorfile.ReadMode, dir string, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	folder, err := os.MkdirTemp(dir, "dlx-bench-")
	if err != nil {
		return trial{}, err
	}
	e.cleanup(func() { _ = os.RemoveAll(folder) }) // what is left there is temporary
	content := make([]byte, max(size, fileTensors))
	fill(content, sentSeed)
	part := int64(len(content)) / fileTensors
	var named []tensorfile.Named
	for i := range int64(fileTensors) {
		t, err := e.keep(core.FromSlice(content[i*part : (i+1)*part]))
		if err != nil {
			return trial{}, err
		}
		named = append(named, tensorfile.Named{Name: string(rune('a' + i)), Tensor: t})
	}
	path := filepath.Join(folder, "tensors.safetensors")
	if err := tensorfile.WriteFile(e.ctx, path, named); err != nil {
		return trial{}, err
	}
	// A mapping is the memory of the file itself: what is measured is a load into memory of its own.
	options := tensorfile.LoadOptions{Read: mode, Writable: true}
	load := func() (*tensorfile.Loaded, error) {
		loaded, err := tensorfile.Load(e.ctx, path, d, options)
		if err != nil {
			return nil, err
		}
		for _, t := range loaded.Tensors {
			if err := t.WaitReady(e.ctx); err != nil {
				_ = loaded.Close()
				return nil, err
			}
		}
		return loaded, nil
	}
	first, err := load()
	if err != nil {
		return trial{}, err
	}
	t := trial{bytes: fileTensors * part, notes: []string{"the pages of the file are in the page cache, which only a direct read passes by"}}
	for _, r := range first.Report.Refused {
		t.notes = append(t.notes, "not "+r.What+": "+r.Reason)
	}
	if err := first.Close(); err != nil {
		return trial{}, err
	}
	t.own = func(n int) (spent time.Duration, err error) {
		for range n {
			start := time.Now()
			loaded, err := load()
			spent += time.Since(start)
			if err == nil {
				err = loaded.Close()
			}
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}
	t.verify = func() (m *Mismatch, err error) {
		loaded, err := load()
		if err != nil {
			return nil, err
		}
		defer loaded.Close()
		for i, source := range named {
			at := place{device: d, tensor: loaded.Tensors[source.Name]}
			if at.tensor.DeviceID().Type.HostAccessible() {
				at.host = at.tensor
			}
			want := content[int64(i)*part : int64(i+1)*part]
			if m, err = e.checkBytes(at, func(got []byte) *Mismatch { return explain(want, got, nil) }); m != nil || err != nil {
				return m, err
			}
		}
		return nil, nil
	}
	return t, nil
}
