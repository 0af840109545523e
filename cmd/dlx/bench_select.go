package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// selectFlags say which cases there are, and which of them are measured.
type selectFlags struct {
	names     []string
	devices   []string
	pairs     []string
	transfers []string
	sizes     string
	buffer    string
}

// caseHelp describes the argument of --case.
const caseHelp = "measure only the cases of this `name`, or whose names begin with it up to a /, or match it as a glob, such as 'latency/*/vulkan:0/*', or that have this number in nvbandwidth; several with commas, or the flag again"

func (f *selectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.names, "case", "t", nil, caseHelp)
	flags.StringSliceVar(&f.devices, "device", nil, "measure only these devices, by `name` or UUID; dlx devices shows both")
	flags.StringArrayVar(&f.pairs, "pair", nil, "measure only from one device to another one, such as cuda:0,vulkan:0, by `names` or UUIDs; may be repeated")
	flags.StringArrayVar(&f.transfers, "transfer", nil, "measure a `chain` of moves, such as 'cpu->cuda:0->vulkan:0', or as TransferBench one copy by a certain device, '(source->device->destination)'; may be repeated")
	flags.Var((*filled)(&f.sizes), "sizes", "measure each `size` from one to another one, doubled each time, such as 1K:512M, or a list such as 4K,1M; K, M, G and KiB, MiB, GiB count in 1024s, kB, MB, GB in thousands")
	flags.VarP((*filled)(&f.buffer), "buffer", "b", "copy buffers of this `size`, in MiB or with a unit; by default 64 MiB, or 16 MiB where the CPU does all the work")
}

// selectionFlags are those of register, which a process that measures must have, too. It gets all cases, whatever their names.
var selectionFlags = []string{"device", "pair", "transfer", "sizes", "buffer"}

// selection returns what the flags say.
func (f *selectFlags) selection(ctx context.Context, a *app) (s benchmarks.Selection, err error) {
	s = benchmarks.Selection{Registry: a.registry, Transfers: f.transfers}
	for _, name := range f.devices {
		id, err := benchmarks.FindDevice(ctx, a.registry, name)
		if err != nil {
			return s, fmt.Errorf("invalid argument %q for --device: %w", name, err)
		}
		s.Devices = append(s.Devices, id)
	}
	for _, names := range f.pairs {
		p, err := benchmarks.FindPair(ctx, a.registry, names)
		if err != nil {
			return s, fmt.Errorf("invalid argument %q for --pair: %w", names, err)
		}
		s.Pairs = append(s.Pairs, p)
	}
	for _, chain := range f.transfers {
		if _, err := benchmarks.ParseTransfer(ctx, a.registry, chain); err != nil {
			return s, fmt.Errorf("invalid argument %q for --transfer: %w", chain, err)
		}
	}
	if s.Sizes, err = parseSizes(f.sizes); err != nil {
		return s, fmt.Errorf("invalid argument %q for --sizes: %w", f.sizes, err)
	}
	if f.buffer != "" {
		unit := ""
		if strings.Trim(f.buffer, "0123456789") == "" {
			unit = "MiB"
		}
		if s.Buffer, err = parseBuffer(f.buffer + unit); err != nil {
			return s, fmt.Errorf("invalid argument %q for --buffer: %w", f.buffer, err)
		}
	}
	return s, nil
}

// checkThere returns an error if a device that the flags name is not there.
func (a *app) checkThere(ctx context.Context, f selectFlags) error {
	s, err := f.selection(ctx, a)
	if err != nil {
		return err
	}
	named := s.Devices
	for _, p := range s.Pairs {
		named = append(named, p[:]...)
	}
	for _, chain := range s.Transfers {
		t, err := benchmarks.ParseTransfer(ctx, a.registry, chain)
		if err != nil {
			return err
		}
		named = append(named, t.Devices...)
	}
	if len(named) == 0 {
		return nil
	}
	if err := a.checkBuilt(named...); err != nil {
		return err
	}
	there, _ := a.registry.Devices(ctx) // what cannot be listed, Open tells of
	for _, id := range named {
		if slices.ContainsFunc(there, func(p core.Properties) bool { return p.ID == id }) {
			continue
		}
		d, err := a.registry.Open(ctx, id)
		if err != nil {
			return fmt.Errorf("%v cannot be measured: %w", id, err)
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	return nil
}

// checkEffect returns an error if a flag that says sizes has no effect on the cases.
func (f *selectFlags) checkEffect(cases []benchmarks.Case, s benchmarks.Selection) error {
	has := func(sizes ...int64) bool {
		return slices.ContainsFunc(cases, func(c benchmarks.Case) bool { return slices.Contains(sizes, c.Size) })
	}
	switch {
	case s.Buffer > 0 && len(s.Sizes) > 0:
		return fmt.Errorf("invalid argument %q for --buffer: --sizes has the sizes of all buffers; leave one of them out", f.buffer)
	case len(s.Sizes) > 0 && !has(s.Sizes...):
		return fmt.Errorf("invalid argument %q for --sizes: it has no effect, since the cases have sizes of their own, or none", f.sizes)
	case s.Buffer > 0 && !has(s.Buffer):
		return fmt.Errorf("invalid argument %q for --buffer: it has no effect, since the cases have sizes of their own, or none", f.buffer)
	}
	return nil
}

// list returns the cases that the flags select: those that are named, or else those of the overview. With all, it returns the
// others, too.
func (f *selectFlags) list(ctx context.Context, a *app, all bool) ([]benchmarks.Case, error) {
	s, err := f.selection(ctx, a)
	if err != nil {
		return nil, err
	}
	cases := benchmarks.List(ctx, s)
	if len(f.names) > 0 {
		cases, err = benchmarks.Select(cases, f.names...)
		if err != nil {
			if len(f.devices)+len(f.pairs)+len(f.transfers) > 0 {
				return nil, fmt.Errorf("invalid argument for --case: %w; --device, --pair and --transfer leave out the cases of others", err)
			}
			return nil, fmt.Errorf("invalid argument for --case: %w", err)
		}
	} else if !all {
		cases = slices.DeleteFunc(cases, func(c benchmarks.Case) bool { return c.Extra })
	}
	return cases, f.checkEffect(cases, s)
}

// isOverview reports whether the flags select nothing.
func (f *selectFlags) isOverview() bool {
	return len(f.names)+len(f.devices)+len(f.pairs)+len(f.transfers) == 0 && f.sizes == ""
}

// The most sizes of a sweep, and the largest one.
const (
	mostSizes   = 64
	largestSize = 1 << 40
)

// parseSizes parses "1K:512M", which are powers of two times the first size, or "4K,1M"; "" is nil.
func parseSizes(text string) (sizes []int64, err error) {
	if text == "" {
		return nil, nil
	}
	first, last, sweep := strings.Cut(text, ":")
	if !sweep {
		for part := range strings.SplitSeq(text, ",") {
			n, err := parseBuffer(part)
			if err != nil {
				return nil, err
			}
			sizes = append(sizes, n)
		}
		slices.Sort(sizes)
		if sizes = slices.Compact(sizes); len(sizes) > mostSizes {
			return nil, fmt.Errorf("%d sizes are too many: at most %d", len(sizes), mostSizes)
		}
		return sizes, nil
	}
	low, err := parseBuffer(first)
	if err != nil {
		return nil, err
	}
	high, err := parseBuffer(last)
	if err != nil {
		return nil, err
	}
	if low > high {
		return nil, errors.New("the first size is larger than the last one")
	}
	for n := low; n <= high; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// parseBuffer parses a size of a buffer.
func parseBuffer(s string) (int64, error) {
	n, err := parseSize(strings.TrimSpace(s))
	switch {
	case err != nil:
		return 0, err
	case n < 1:
		return 0, errors.New("a buffer has at least 1 byte")
	case n > largestSize:
		return 0, fmt.Errorf("%d bytes are more than a buffer may have, which is 1 TiB", n)
	}
	return n, nil
}

// completeCases completes the name of a case.
func (a *app) completeCases(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offers []cobra.Completion
	for _, c := range benchmarks.List(cmd.Context(), benchmarks.Selection{Registry: a.registry}) {
		if strings.HasPrefix(c.Name, begun) {
			offers = append(offers, cobra.CompletionWithDesc(c.Name, c.Description))
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}
