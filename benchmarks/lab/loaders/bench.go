//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// bench is a run of the program.
type bench struct {
	settings
	report  *report
	devices []core.Device
	peers   *peers // nil without Python
	cases   []*measure
}

// measure is what is measured again and again.
type measure struct {
	*caseResult
	paths []string // what is read, for dropping them from the page cache
	load  func(ctx context.Context) (time.Duration, error)
	gone  bool // it failed
}

// prepare writes the files, starts Python and lists the cases.
func (b *bench) prepare(ctx context.Context, folder string) error {
	registry := all.New()
	for name := range strings.SplitSeq(b.settings.devices, ",") {
		id, err := core.ParseDevice(name)
		if err != nil {
			return err
		}
		d, err := registry.Open(ctx, id)
		if err != nil {
			b.report.refuse("dlx to "+name, err)
			continue
		}
		b.devices = append(b.devices, d)
		b.report.Devices = append(b.report.Devices, fmt.Sprintf("%v: %s, %s", id, d.Properties().Name, d.Properties().Driver))
	}
	b.report.Versions["go"] = runtime.Version()
	b.report.Drop = "fsync and posix_fadvise(POSIX_FADV_DONTNEED) of the file"
	if b.dropAll {
		b.report.Drop = "sync and /proc/sys/vm/drop_caches (1)"
	}
	b.startPeers()
	files := []struct {
		name   string
		tensor size
		count  int
	}{
		{"small", b.smallTensor, int(b.smallFile / b.smallTensor)},
		{"large", b.largeTensor, b.largeCount},
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(folder, f.name+".safetensors")
		if err := write(ctx, path, int64(f.tensor), f.count); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		result := fileResult{Name: f.name, Tensors: f.count, TensorBytes: int64(f.tensor), Bytes: info.Size()}
		b.report.Files = append(b.report.Files, result)
		for _, state := range []string{cold, warm} {
			if err := b.addCases(ctx, result, path, state); err != nil {
				return err
			}
		}
	}
	return nil
}

// startPeers starts Python, if there is one.
func (b *bench) startPeers() {
	if b.python == "" {
		b.report.refuse("the loaders of other projects", errors.New("no --python was given: make bench-loaders installs them"))
		return
	}
	p, err := startPeers(b.python)
	if err == nil {
		var versions map[string]string
		if versions, err = p.versions(); err == nil {
			for name, v := range versions {
				b.report.Versions[name] = v
			}
			b.peers = p
			return
		}
		p.close()
	}
	b.report.refuse("the loaders of other projects", err)
}

// write writes a file of tensors with random elements.
func write(ctx context.Context, path string, size int64, count int) error {
	random := make([]uint64, (size+7)/8)
	source := rand.NewPCG(1, uint64(size))
	for i := range random {
		random[i] = source.Uint64()
	}
	t, err := core.FromSlice(random)
	if err != nil {
		return err
	}
	defer t.Close()
	named := make([]tensorfile.Named, count)
	for i := range named {
		named[i] = tensorfile.Named{Name: fmt.Sprintf("model.layers.%d.weight", i), Tensor: t}
	}
	return tensorfile.WriteFile(ctx, path, named, tensorfile.WriteOptions{})
}

// addCases adds all ways to read a file.
func (b *bench) addCases(ctx context.Context, f fileResult, path, state string) error {
	add := func(loader, device string, paths []string, load func(context.Context) (time.Duration, error)) {
		c := &caseResult{File: f.Name, State: state, Loader: loader, Device: device}
		b.report.Cases = append(b.report.Cases, c)
		b.cases = append(b.cases, &measure{caseResult: c, paths: paths, load: load})
	}
	raws, err := b.bestRaw(path, state)
	if err != nil {
		return err
	}
	for _, r := range raws {
		add(fmt.Sprintf("raw, %d threads, %d KiB", r.threads, r.block>>10), "", []string{path}, func(context.Context) (time.Duration, error) {
			return readRaw(path, f.Bytes, r.threads, r.block, state == cold)
		})
	}
	for _, d := range b.devices {
		for _, mode := range []tensorfile.ReadMode{tensorfile.ReadAuto, tensorfile.ReadDirect, tensorfile.ReadMap} {
			add("dlx "+string(mode), d.ID().String(), []string{path}, func(ctx context.Context) (time.Duration, error) {
				return loadDLX(ctx, path, d, mode, f)
			})
		}
	}
	if b.peers == nil {
		return nil
	}
	saved := strings.TrimSuffix(path, ".safetensors") + ".pt"
	if _, err := os.Stat(saved); err != nil {
		if err := b.peers.prepare(path, saved); err != nil {
			b.report.refuse("torch.save of the file "+f.Name, err)
			saved = ""
		}
	}
	for _, name := range peerLoaders {
		from := path
		if strings.HasPrefix(name, "torch.load") {
			if from = saved; saved == "" {
				continue
			}
		}
		add(name, "cpu", []string{from}, func(context.Context) (time.Duration, error) { return b.peers.load(name, from, f) })
	}
	return nil
}

// loadDLX loads a file with dlx and closes the tensors. Of a mapped file it touches each page, unless all were in the page
// cache: then Load has touched them.
func loadDLX(ctx context.Context, path string, d core.Device, mode tensorfile.ReadMode, f fileResult) (time.Duration, error) {
	start := time.Now()
	l, err := tensorfile.Load(ctx, path, d, tensorfile.LoadOptions{Read: mode})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if r := l.Report.Files[0]; r.Read == tensorfile.ReadMap && r.Cached < 1 && d.ID() == core.CPU {
		if err := touch(l); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	if len(l.Tensors) != f.Tensors || l.Report.Loaded != int64(f.Tensors)*f.TensorBytes {
		return 0, fmt.Errorf("%d tensors with %d bytes", len(l.Tensors), l.Report.Loaded)
	}
	if want := mode == tensorfile.ReadDirect; want && l.Report.Files[0].Read != tensorfile.ReadDirect {
		return 0, errors.New(l.Report.Files[0].Reason)
	}
	return took, nil
}

// touched has what touch reads, so that the compiler does not leave out the reading.
var touched atomic.Uint64

// touch reads a word of each page of tensors in a mapped file.
func touch(l *tensorfile.Loaded) error {
	const perPage = page / 8
	x := uint64(0)
	for _, name := range l.Names {
		words, err := core.Values[uint64](l.Tensors[name])
		if err != nil {
			return err
		}
		for i := 0; i < len(words); i += perPage {
			x ^= words[i]
		}
		if len(words) > 0 {
			x ^= words[len(words)-1]
		}
	}
	touched.Store(x)
	return nil
}

// round measures every case once, in another order in each round. First come the cases with an empty page cache, which is emptied before
// each. Then it is filled once, and all others find the same pages in it: how large these are, and so how fast they are
// mapped, differs from one filling to the next.
func (b *bench) round(ctx context.Context, n int) error {
	order := slices.Clone(b.cases)
	rand.New(rand.NewPCG(uint64(n), 2)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(a, b *measure) int { return strings.Compare(a.State, b.State) }) // cold, warm
	fmt.Fprintf(os.Stderr, "round %d of %d\n", n+1, b.rounds)
	filled := make(map[string]bool)
	for _, m := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.gone {
			continue
		}
		runtime.GC()
		if err := b.setCache(m, filled); err != nil {
			return err
		}
		took, err := m.load(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.gone, m.Error = true, err.Error()
			continue
		}
		m.Seconds = append(m.Seconds, took.Seconds())
	}
	return nil
}

// setCache empties the page cache for a case, or fills it, unless that was done and all is still there.
func (b *bench) setCache(m *measure, filled map[string]bool) error {
	for _, path := range m.paths {
		part, err := cachedPart(path)
		if err != nil {
			return err
		}
		if m.State == cold || part < 1 || !filled[path] {
			if err := b.set(m.State, path); err != nil {
				return err
			}
			filled[path] = m.State == warm
			if part, err = cachedPart(path); err != nil {
				return err
			}
		}
		m.Cached = append(m.Cached, part)
	}
	return nil
}

// close closes devices and ends Python.
func (b *bench) close() {
	for _, d := range b.devices {
		_ = d.Close()
	}
	if b.peers != nil {
		b.peers.close()
	}
}
