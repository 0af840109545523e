package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/cmd/dlx/internal/handoff"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/tensorfile"
)

// handoffResult is the result of `dlx handoff`.
type handoffResult struct {
	File        string           `json:"file"`
	Copy        handoff.Policy   `json:"copy"`
	Tensors     []handoff.Report `json:"tensors"`
	BytesCopied int64            `json:"bytes_copied"`  // over all tensors, the load and one trip of each
	Median      time.Duration    `json:"median_ns"`     // sum of the tensors' medians
	Verified    *bool            `json:"verified"`      // all tensors arrived as they left; null if it was not asked for
	Out         string           `json:"out,omitempty"` // the file that was written
	// Incomplete says where an error or an interrupt ended the work; nil if nothing did.
	Incomplete *handoffEnd `json:"incomplete,omitempty"`
}

// handoffEnd is where the work ended before its time.
type handoffEnd struct {
	Tensor string `json:"tensor"`
	Trip   int    `json:"trip"` // counted from 1: the one that was not finished
	trips  int    // that were asked for
}

// maxRepeat bounds the memory for the times of all trips, which an exact median
// needs: 8 MB for every hop, and as much for the whole.
const maxRepeat = 1_000_000

// handoffFlags are the flags of `dlx handoff`.
type handoffFlags struct {
	tensors []string
	via     devices
	policy  handoff.Policy
	repeat  int
	verify  bool
	out     string
}

func newHandoffCommand(a *app) *cobra.Command {
	f := handoffFlags{policy: handoff.IfNeeded}
	policies := choice[handoff.Policy]{&f.policy, []handoff.Policy{handoff.Never, handoff.IfNeeded, handoff.Always}}
	cmd := &cobra.Command{
		Use:   "handoff FILE --via DEVICE[,DEVICE...]",
		Short: "Carry the tensors of a file along a route of devices",
		Long: `Carry the tensors of a file along a route of devices, and report for every hop how
it was made, what was copied, and how long that took. The FILE - is standard input.

A hop shares the memory (alias, map) or copies the elements (peer, direct, staged);
dlx plan --help tells what that means, and dlx plan why a hop goes one way. With --copy
if_needed it shares where it can, and memory for a copy is allocated so that the next device
can share it; always copies on every hop; never fails where a hop has to copy. Elements
that are compressed or unaligned in the file are copied into memory first, once; the row
"load" shows that copy, and --copy never refuses such a tensor.

The time of a hop counts until the elements may be read on its device, what is
allocated and opened for that included. A hop is cold if it opened the memory on its
device; that is kept for later trips. GB/s are 10^9 bytes copied in a second.

After an error or an interrupt the results up to there are printed all the same.

A device that this build does not know by name is an error in the command line, exit
code 2; one that it knows but that is not there is a failure, exit code 1.`,
		Example: `  dlx handoff testdata/digits.npy --via cpu,cpu --copy always --verify
  dlx handoff testdata/digits.npy --via cpu,vulkan:0,opencl:0,cpu --verify
  dlx handoff model.safetensors --tensor embedding --via cpu --repeat 10 --json
  dlx handoff images.npz --via cpu --copy always --out images.safetensors`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		PreRunE:           func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.handoff(cmd.Context(), args[0], f)
			if r.Tensors == nil {
				return nil, err
			}
			return r, err
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.tensors, "tensor", nil, "carry only the tensor of this `name`, as it is or as dlx inspect prints it; may be repeated")
	flags.Var(&f.via, "via", "the route, in the order of travel: cpu, cuda:1, ...")
	flags.Var(policies, "copy", "when a hop may copy")
	flags.IntVar(&f.repeat, "repeat", 1, "travel the route `N` times, a million at most, and report the shortest, median and longest time")
	flags.BoolVar(&f.verify, "verify", false, "compare the elements with those of the file after every hop, exit code 3 if some differ; of a .npz, compare them with its checksums first")
	flags.StringVar(&f.out, "out", "", "write the tensors at the end of the route to a .npy, .npz or .safetensors `file`")
	cobra.CheckErr(cmd.MarkFlagRequired("via"))
	completeFlag(cmd, "via", a.completeDevices)
	completeFlag(cmd, "copy", policies.complete)
	completeFlag(cmd, "tensor", completeTensors)
	completeFlag(cmd, "out", cobra.FixedCompletions(fileExtensions, cobra.ShellCompDirectiveFilterFileExt))
	return cmd
}

// check finds what is wrong with the flags before any work.
func (f *handoffFlags) check() error {
	if f.repeat < 1 || f.repeat > maxRepeat {
		return fmt.Errorf("invalid argument %d for --repeat: must be at least 1 and at most %d", f.repeat, maxRepeat)
	}
	if f.out == "" {
		return nil
	}
	_, err := tensorfile.FormatOf(f.out)
	return err
}

func (r handoffResult) writeText(w io.Writer) {
	times := func(c handoff.Cost) string { return formatDuration(c.Median) }
	timesHeader := "TIME"
	if r.repeated() {
		times = func(c handoff.Cost) string {
			return formatDuration(c.Min) + "\t" + formatDuration(c.Median) + "\t" + formatDuration(c.Max)
		}
		timesHeader = "MIN\tMEDIAN\tMAX"
	}
	row(w, "TENSOR", "HOP", "FROM", "TO", "MECHANISM", "COPIED", timesHeader, "GB/S", "WAIT", "VERIFIED")
	for _, t := range r.Tensors {
		label := fmt.Sprintf("%s %v%v", shownName(t.Tensor), t.DType, t.Shape)
		if l := t.Load; l != nil {
			once := times(handoff.Cost{Min: l.Time, Median: l.Time, Max: l.Time})
			row(w, label, "load", handoff.Origin, core.CPU.String(), "copy, "+l.Reason, formatBytes(l.BytesCopied), once, "", "", "")
			label = ""
		}
		for i, h := range t.Hops {
			row(w, label, strconv.Itoa(i+1), h.From, h.To, way(h, t.Trips), formatBytes(h.BytesCopied), times(h.Cost), formatRate(h.GBPerSecond), h.Wait, verdict(h.Verified))
			label = ""
		}
		row(w, "", "all", handoff.Origin, t.Hops[len(t.Hops)-1].To, "", formatBytes(t.BytesCopied), times(t.Cost), formatRate(t.GBPerSecond), "", verdict(t.Verified))
	}
	for _, t := range r.Tensors {
		if t.Mismatch != nil {
			fmt.Fprintf(w, "\n%v", t.Mismatch)
		}
	}
	if end := r.Incomplete; end != nil {
		fmt.Fprintf(w, "\nincomplete: ended with tensor %s on trip %d of %d", shownName(end.Tensor), end.Trip, end.trips)
	}
	fmt.Fprintf(w, "\ntensors: %d, copied: %s, time: %s, verified: %s\n", len(r.Tensors), formatBytes(r.BytesCopied), formatDuration(r.Median), verdict(r.Verified))
}

// way is the mechanism of a hop, "cold" if every trip mapped the memory anew.
func way(h handoff.Hop, trips int) string {
	if h.Mechanism == exchange.Map.String() && h.Cold == trips {
		return h.Mechanism + ", cold"
	}
	return h.Mechanism
}

// repeated reports whether some tensor made more than one trip.
func (r handoffResult) repeated() bool {
	return slices.ContainsFunc(r.Tensors, func(t handoff.Report) bool { return t.Trips > 1 })
}

// verdict puts the outcome of a comparison into a word.
func verdict(verified *bool) string {
	switch {
	case verified == nil:
		return "-"
	case *verified:
		return "yes"
	default:
		return "NO"
	}
}
