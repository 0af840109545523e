package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// differsError is the error for a loaded tensor whose elements are not those of the file.
type differsError struct{ tensor string }

var _ error = differsError{}

// Error names the tensor.
func (e differsError) Error() string {
	return fmt.Sprintf("tensor %q differs from the file", e.tensor)
}

// load loads the tensors of a file as often as asked for. The result has the runs that were made also if there is an
// error.
func (a *app) load(ctx context.Context, path string, f loadFlags) (r loadResult, err error) {
	if err := a.checkBuilt(f.to...); err != nil {
		return r, err
	}
	device, err := a.registry.Open(ctx, f.to[0])
	if err != nil {
		return r, err
	}
	defer func() { err = firstError(err, device.Close()) }()
	r.File = resultName(path)
	load := func(o tensorfile.LoadOptions) (*tensorfile.Loaded, error) {
		l, err := tensorfile.Load(ctx, path, device, o)
		return l, plainError(err, path)
	}
	if isPeer(path) {
		s, conn, err := a.dialSource(ctx, path, &f.peer)
		if err != nil {
			return r, err
		}
		defer conn.Close()
		s.Verify = f.verify
		load = func(o tensorfile.LoadOptions) (*tensorfile.Loaded, error) {
			return tensorfile.LoadFrom(ctx, s, device, o)
		}
	}
	progress, done := a.loadProgress()
	defer done()
	for range f.repeat {
		if f.cold {
			files, err := tensorfile.LoadFiles(path)
			if err != nil {
				return r, err
			}
			if r.Cold, err = dropCache(files); err != nil {
				return r, err
			}
		}
		if err := a.loadOnce(ctx, &r, path, device, f, f.options(progress), load); err != nil {
			return r, err
		}
	}
	return r, nil
}

// loadOnce loads the tensors once, and adds the run to the result.
func (a *app) loadOnce(ctx context.Context, r *loadResult, path string, device core.Device, f loadFlags, options tensorfile.LoadOptions,
	load func(tensorfile.LoadOptions) (*tensorfile.Loaded, error),
) error {
	l, err := load(options)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	r.Report, r.Checksums = l.Report, nil
	r.Report.Files = slices.Clone(l.Report.Files)
	for i, file := range r.Report.Files {
		r.Report.Files[i].Path = resultName(file.Path)
	}
	for _, name := range l.Names {
		if sum, ok := l.Report.Checksums[name]; ok {
			r.Checksums = append(r.Checksums, loadSum{resultName(name), sum})
		}
	}
	r.Runs = append(r.Runs, loadRun{l.Report.Time, l.Report.Rate, cachedPart(l.Report.Files)})
	times := make([]loadRun, len(r.Runs))
	copy(times, r.Runs)
	slices.SortFunc(times, func(a, b loadRun) int { return cmp.Compare(a.Time, b.Time) })
	r.Median, r.Rate = times[(len(times)-1)/2].Time, times[(len(times)-1)/2].Rate
	if refused := l.Report.Refused; l.Report.Tensors == 0 && len(refused) > 0 {
		return nothingRead(path, len(refused), leftOut{resultName(refused[0].What), refused[0].Reason})
	}
	if !f.verify {
		return nil
	}
	if isPeer(path) { // the source has compared them
		same := true
		r.Verified = &same
		return nil
	}
	host, err := a.registry.Open(ctx, core.CPU)
	if err != nil {
		return err
	}
	defer host.Close()
	err = verifier{host, device, options}.verify(ctx, l)
	if same := err == nil; same || errors.As(err, new(differsError)) { // else they were not all compared
		r.Verified = &same
	}
	return err
}

// cachedPart returns the part of the files that was in the page cache, -1 if that is not known of one.
func cachedPart(files []tensorfile.LoadedFile) float64 {
	var cached, all float64
	for _, f := range files {
		if f.Tensors == 0 {
			continue
		}
		if f.Cached < 0 {
			return -1
		}
		cached += f.Cached * float64(f.Wanted)
		all += float64(f.Wanted)
	}
	if all == 0 {
		return -1
	}
	return cached / all
}

// verifier compares loaded tensors with those that package tensorfile reads in another way.
type verifier struct {
	host, device core.Device
	options      tensorfile.LoadOptions
}

// verify compares all tensors. It returns a differsError for the first one that differs.
func (v verifier) verify(ctx context.Context, l *tensorfile.Loaded) error {
	names := l.Names
	for _, file := range l.Report.Files {
		f, err := tensorfile.Open(file.Path, tensorfile.OpenOptions{VoidAs: v.options.VoidAs})
		if err != nil {
			return err
		}
		for _, name := range names[:file.Tensors] { // another file may have a tensor of that name, too
			if err == nil {
				err = v.compare(ctx, l.Tensors[name], f, name)
			}
		}
		names = names[file.Tensors:]
		_ = f.Close() // always nil
		if err != nil {
			return err
		}
	}
	return nil
}

// compare compares a loaded tensor with that of a file.
func (v verifier) compare(ctx context.Context, got *core.Tensor, f *tensorfile.File, name string) error {
	want, err := f.Tensor(name)
	if err != nil {
		return err
	}
	defer func() { want.Close() }()
	if part, ok := v.options.SliceOf(name); ok {
		from, to := part.Rows(want.Shape()[part.Axis])
		cut, err := want.Slice(part.Axis, from, to, 1)
		if err != nil {
			return err
		}
		want.Close()
		want = cut
	}
	if v.options.DType != (core.DType{}) && v.options.DType != want.DType() {
		var changed *core.Tensor
		err := guarded(want, func() (err error) {
			changed, err = want.AsType(ctx, v.options.DType)
			return err
		})
		if err != nil {
			return err
		}
		want.Close()
		want = changed
	}
	if !got.DeviceID().Type.HostAccessible() {
		host, err := core.Empty(ctx, v.host, got.DType(), got.Shape(), core.AllocOptions{})
		if err != nil {
			return err
		}
		defer func() { host.Close() }()
		if err := v.device.Copy(ctx, nil, host, got); err != nil {
			return err
		}
		got = host
	}
	same := false
	err = guarded(want, func() (err error) {
		same, err = core.EqualBits(ctx, got, want)
		return err
	})
	if err == nil && !same {
		err = differsError{name}
	}
	return err
}

// loadProgress returns a function for tensorfile.LoadOptions.Progress that shows a bar, nil if there is to be none, and one
// that removes the bar. There is a bar only for long work, and only if standard error is a terminal.
func (a *app) loadProgress() (report func(done, total int64), remove func()) {
	if a.log.GetLevel() <= zerolog.DebugLevel || !isTerminal(a.stderr) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	report = func(done, total int64) {
		if total < longWork {
			return
		}
		if bar == nil || bar.IsFinished() {
			bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(a.stderr),
				progressbar.OptionSetDescription("loaded"),
				progressbar.OptionShowBytes(true),
				progressbar.OptionShowCount(),
				progressbar.OptionSetRenderBlankState(true),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish(),
			)
		}
		_ = bar.Set64(done) // an error must not stop the work
	}
	return report, func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}
