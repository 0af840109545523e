package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// fileTensors is how many tensors the file of a case has.
const fileTensors = 4

// fileCases load files.
func (l *lister) fileCases(id core.DeviceID) {
	for _, way := range []struct {
		mode        tensorfile.ReadMode
		description string
	}{
		{tensorfile.ReadDirect, "past the page cache"},
		{tensorfile.ReadMap, "that is in the page cache, from the mapped file"},
		{tensorfile.ReadCUFile, "by the device itself (GPUDirect Storage)"},
	} {
		if way.mode == tensorfile.ReadCUFile && id == core.CPU {
			continue
		}
		for _, size := range l.buffer(id) {
			l.add(Case{
				Name:   "file_to_device/" + id.String() + "/" + string(way.mode) + size.name,
				Family: "file_to_device", Kind: Bandwidth, From: Ends{core.CPU}, To: Ends{id}, Size: size.bytes,
				Description: "tensorfile.Load of a .safetensors file " + way.description + ", into new memory, until all tensors may be read; their close is off the clock",
				setup:       func(e *env) (trial, error) { return e.loadFile(id, l.Dir, way.mode, e.bytes(size.bytes)) },
			}, l.extra(id))
		}
	}
}

// loadFile writes a file into a new folder in dir, and loads it.
func (e *env) loadFile(id core.DeviceID, dir string, mode tensorfile.ReadMode, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	if _, ok := core.As[core.FileReader](d); !ok && mode == tensorfile.ReadCUFile { // before a large file is written
		return trial{}, core.Errorf(core.ErrNotSupported, "benchmarks", "loadFile", "%v cannot read files into its memory", id)
	}
	dir, err = os.MkdirTemp(dir, "dlx-bench-")
	if err != nil {
		return trial{}, err
	}
	e.cleanup(func() { _ = os.RemoveAll(dir) })
	path, each := filepath.Join(dir, "tensors.safetensors"), max(1, size/fileTensors)
	if err := e.writeFile(path, each); err != nil {
		return trial{}, err
	}
	load := func() (*tensorfile.Loaded, error) {
		loaded, err := tensorfile.Load(e.ctx, path, d, tensorfile.LoadOptions{Read: mode, Writable: true}) // on the host, too, into memory of its own
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
	t := trial{bytes: fileTensors * each, way: string(first.Report.Files[0].Read)}
	if reason := first.Report.Files[0].Reason; t.way != string(mode) {
		t.notes = append(t.notes, reason)
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
	t.verify = func() (*Mismatch, error) {
		loaded, err := load()
		if err != nil {
			return nil, err
		}
		defer loaded.Close()
		for i := range uint64(fileTensors) {
			x := loaded.Tensors[fileTensor(i)]
			if x == nil {
				return nil, core.Errorf(core.ErrInvalid, "benchmarks", "loadFile", "%s was not loaded from %s", fileTensor(i), path)
			}
			if m, err := e.check(arrivedAt(d, x), sentSeed+i, beforeSeed); m != nil || err != nil {
				return m, err
			}
		}
		return nil, nil
	}
	return t, nil
}

func fileTensor(i uint64) string { return fmt.Sprintf("tensor%d", i) }

// writeFile writes a file of tensors of so many bytes each, whose contents are those of the seeds from sentSeed on.
func (e *env) writeFile(path string, each int64) error {
	host, err := e.device()
	if err != nil {
		return err
	}
	var list []tensorfile.Named
	for i := range uint64(fileTensors) {
		p, err := e.onDevice(host, core.AllocOptions{}, each, sentSeed+i)
		if err != nil {
			return err
		}
		list = append(list, tensorfile.Named{Name: fileTensor(i), Tensor: p.tensor})
	}
	return tensorfile.WriteFile(e.ctx, path, list, tensorfile.WriteOptions{})
}
