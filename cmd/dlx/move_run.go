package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/tensorfile"
)

// move moves the tensors of a file along the route. If elements differ, the result is complete
// and the error wraps the [*move.MismatchError] of the first such tensor. With any other error
// the result has the trips that were made; its tensors are nil if there were none.
func (a *app) move(ctx context.Context, path string, f moveFlags) (result moveResult, err error) {
	if err := a.checkBuilt(f.via...); err != nil {
		return moveResult{}, err
	}
	if f.out != "" {
		if err := atomicfile.Check(f.out); err != nil {
			return moveResult{}, err
		}
	}
	file, err := a.open(ctx, path, tensorfile.OpenOptions{VerifyChecksums: f.verify, VoidAs: f.voids})
	if err != nil {
		return moveResult{}, err
	}
	defer file.Close()
	chosen, left, err := a.chooseTensors(path, file.File, f.tensors)
	result = moveResult{File: resultName(path), Copy: f.policy, Tensors: []move.Report{}, LeftOut: left}
	if err != nil {
		if len(left) == 0 {
			result = moveResult{}
		}
		return result, err
	}
	if err := f.checkTensors(chosen); err != nil {
		return moveResult{}, err
	}
	route, err := move.Open(ctx, a.registry, f.via)
	if err != nil {
		return moveResult{}, err
	}
	// After a failure, memory may not be freed yet, so that Close fails, too: return the first error.
	defer func() { err = firstError(err, route.Close()) }()
	var arrived []tensorfile.Named
	defer func() {
		for _, n := range arrived {
			n.Tensor.Close()
		}
	}()

	progress, done := a.progress(chosen, f)
	defer done()
	opts := move.Options{Policy: f.policy, Trips: f.repeat, Verify: f.verify, Progress: progress}
	damaged := 0
	var first error // the error of the first damaged tensor
	for _, info := range chosen {
		t, report, err := carry(ctx, route, file.File, info, opts, f.out != "")
		if err != nil && report.Mismatch == nil {
			if report.Trips > 0 {
				result.add(report)
			} else if len(result.Tensors) == 0 {
				return moveResult{}, err
			}
			result.Incomplete = &moveEnd{resultName(info.Name), min(report.Trips+1, f.repeat), f.repeat}
			return result, err
		}
		a.log.Debug().Str("tensor", resultName(info.Name)).Int("trips", report.Trips).Err(err).Msg("moved")
		result.add(report)
		if t != nil {
			arrived = append(arrived, tensorfile.Named{Name: info.Name, Tensor: t})
		}
		if err != nil {
			damaged++
			first = cmp.Or(first, err)
		}
	}
	if damaged > 0 {
		return result, fmt.Errorf("%d of %d tensors arrived damaged, the first of them: %w", damaged, len(chosen), first)
	}
	if f.out == "" {
		return result, nil
	}
	if err := writeFile(ctx, f.out, arrived, file.Metadata()); err != nil {
		return result, err
	}
	result.Out = resultName(f.out)
	return result, nil
}

// leftOut is a member of an archive that is not a tensor.
type leftOut struct {
	Member string `json:"member"`
	Reason string `json:"reason"`
}

// nothingRead returns the error for a file of which all members were left out.
func nothingRead(path string, members int, first leftOut) error {
	return core.Errorf(core.ErrNotSupported, "npz", "Tensor", "%s: none of its members can be read (%d), the first of them, %s: %s", path, members, first.Member, first.Reason)
}

// chooseTensors returns the tensors with the given names. If there are no names, it returns all tensors and the members of
// the archive that are none, with an error if there are only those.
func (a *app) chooseTensors(path string, file *tensorfile.File, names []string) (chosen []tensorfile.Info, left []leftOut, err error) {
	all := file.Tensors()
	if len(names) == 0 {
		for _, info := range all {
			if info.Reason == "" {
				chosen = append(chosen, info)
				continue
			}
			left = append(left, leftOut{resultName(info.Name), info.Reason})
			a.log.Warn().Str("member", resultName(info.Name)).Str("reason", info.Reason).Msg("left out: not a tensor")
		}
		if len(chosen) == 0 && len(left) > 0 {
			err = nothingRead(path, len(left), left[0])
		}
		return chosen, left, err
	}
	for _, name := range names {
		i := findTensor(all, name)
		if i < 0 {
			return nil, nil, core.Errorf(core.ErrInvalid, "move", "Tensor", "the file has no tensor %q; dlx inspect lists its tensors", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil, nil
}

// checkTensors returns an error for tensors that --copy never or the format of --out does not
// allow.
func (f *moveFlags) checkTensors(chosen []tensorfile.Info) error {
	for _, info := range chosen {
		if reason := loadReason(info); reason != "" && f.policy == move.Never {
			return core.Errorf(core.ErrNotSupported, "move", "Tensor",
				"tensor %q is %s in the file: it has to be copied, and --copy is never", info.Name, reason)
		}
	}
	if f.out == "" {
		return nil
	}
	format, err := tensorfile.FormatOf(f.out)
	if err != nil {
		return err
	}
	return tensorfile.CanWrite(format, chosen)
}

// loadReason returns why the elements of a tensor must be copied into memory before they can be
// used. It returns "" if they are used in place.
func loadReason(info tensorfile.Info) string {
	switch {
	case info.InPlace || info.Bytes == 0:
		return ""
	case info.Compressed:
		return "compressed"
	case info.Swapped:
		return "byte-swapped"
	default:
		return "unaligned"
	}
}

// findTensor returns the index of a tensor by its name, plain or as shown; -1 if there is none.
func findTensor(all []tensorfile.Info, name string) int {
	at := func(name string) int {
		return slices.IndexFunc(all, func(info tensorfile.Info) bool { return info.Name == name })
	}
	if whole, ok := realName(name); ok {
		if i := at(whole); i >= 0 {
			return i
		}
	}
	return at(name)
}

// carry moves one tensor along the route. If keep is set, it returns the tensor in host memory,
// and the caller closes it.
func carry(ctx context.Context, route *move.Route, file *tensorfile.File, info tensorfile.Info, opts move.Options, keep bool) (*core.Tensor, move.Report, error) {
	start := time.Now()
	t, err := file.Tensor(info.Name)
	if err != nil {
		return nil, move.Report{}, err
	}
	loaded := time.Since(start)
	defer t.Close()
	last, report, err := route.Carry(ctx, info.Name, t, opts)
	if reason := loadReason(info); reason != "" {
		report.SetLoad(move.Load{Reason: reason, BytesCopied: info.Bytes, Time: loaded})
	}
	if err != nil {
		return nil, report, err
	}
	defer last.Close()
	if !keep {
		return nil, report, nil
	}
	host, err := route.Fetch(ctx, last)
	return host, report, err
}

// add adds the report of a tensor to the result.
func (r *moveResult) add(report move.Report) {
	report.Tensor = resultName(report.Tensor)
	r.Tensors = append(r.Tensors, report)
	r.BytesCopied += report.BytesCopied
	r.Median += report.Median
	if report.Verified != nil {
		all := *report.Verified && (r.Verified == nil || *r.Verified)
		r.Verified = &all
	}
}

// writeFile writes tensors in host memory in the format of the path's extension. It also writes
// the metadata of the source file if the format has metadata.
func writeFile(ctx context.Context, path string, tensors []tensorfile.Named, metadata map[string]string) error {
	var options tensorfile.WriteOptions
	if format, err := tensorfile.FormatOf(path); err == nil && format == tensorfile.Safetensors {
		options.Metadata = metadata
	}
	return tensorfile.WriteFile(ctx, path, tensors, options)
}

// longWork is the number of bytes from which on a progress bar is shown.
const longWork = 256e6

// progress returns a function that advances a progress bar, and one that removes it. There is a
// bar only for long work, and only if standard error is a terminal.
func (a *app) progress(chosen []tensorfile.Info, f moveFlags) (advance func(bytes int64), done func()) {
	var total int64
	for _, info := range chosen {
		total += info.Bytes * int64(len(f.via)) * int64(f.repeat)
	}
	debugging := a.log.GetLevel() <= zerolog.DebugLevel // its lines would run into the bar
	if total < longWork || debugging || !isTerminal(a.stderr) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSetDescription("moved"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// Ignore errors: they must not stop the work.
	return func(bytes int64) { _ = bar.Add64(bytes) }, func() { _ = bar.Clear() }
}
