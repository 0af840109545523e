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
const caseHelp = "measure only the cases of this `name`, or whose names begin with it up to a /, or match it as a glob, such as 'latency/*/vulkan:0/*'; may be repeated"

func (f *selectFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.names, "case", "t", nil, caseHelp)
	flags.StringSliceVar(&f.devices, "device", nil, "measure only these devices, by `name` or UUID; dlx devices shows both")
	flags.StringArrayVar(&f.pairs, "pair", nil, "measure only from one device to another one, such as cuda:0,vulkan:0, by `names` or UUIDs; may be repeated")
	flags.StringArrayVar(&f.transfers, "transfer", nil, "measure a `chain` of moves, such as 'cpu->cuda:0->vulkan:0', or as TransferBench one copy by a certain device, '(source->device->destination)'; may be repeated")
	flags.StringVar(&f.sizes, "sizes", "", "measure each `size` from one to another one, doubled each time, such as 1K:512M, or a list such as 4K,1M; K, M, G count in 1024s")
	flags.StringVarP(&f.buffer, "buffer", "b", "", "copy buffers of this `size`, in MiB or with a unit; by default 64 MiB, or 16 MiB where the CPU does all the work")
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
		if s.Buffer, err = parseBinary(f.buffer + unit); err != nil {
			return s, fmt.Errorf("invalid argument %q for --buffer: %w", f.buffer, err)
		}
	}
	return s, nil
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
		return cases, nil
	}
	if all {
		return cases, nil
	}
	return slices.DeleteFunc(cases, func(c benchmarks.Case) bool { return c.Extra }), nil
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
			n, err := parseBinary(part)
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
	low, err := parseBinary(first)
	if err != nil {
		return nil, err
	}
	high, err := parseBinary(last)
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

// parseBinary parses a size of a buffer. Units count in 1024s, as in other benchmarks of transfers.
func parseBinary(s string) (int64, error) {
	s = strings.TrimSpace(s)
	for _, unit := range []string{"k", "m", "g"} {
		for _, suffix := range []string{"", "b"} {
			if number, ok := strings.CutSuffix(strings.ToLower(s), unit+suffix); ok {
				s = number + unit + "ib"
			}
		}
	}
	n, err := parseSize(s)
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
