package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/cmd/dlx/internal/handoff"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// planResult is the result of `dlx plan`.
type planResult struct {
	Bytes   int64          `json:"bytes"` // of the tensors
	Copy    handoff.Policy `json:"copy"`
	Missing []absentResult `json:"missing,omitempty"` // what could not be planned for
	Pairs   []pairResult   `json:"pairs"`
	single  bool           // the ways are printed step by step
}

// absentResult is a backend or device that is not there.
type absentResult struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// pairResult are the ways from one device to another: one for the source's plain
// memory, or for that which was asked for; then, unless it was asked for, one for
// memory that is allocated so that the other device can share it, if there is such.
type pairResult struct {
	From core.DeviceID `json:"from"`
	To   core.DeviceID `json:"to"`
	Ways []wayResult   `json:"ways"`
}

// wayResult is the way that a tensor in one kind of memory takes.
type wayResult struct {
	Memory memoryKind   `json:"memory"`
	Handle string       `json:"handle,omitempty"` // what exported memory is named by
	Route  *routeResult `json:"route,omitempty"`
	Reason string       `json:"reason,omitempty"` // why nothing could be tried
	noRoom error        // the reason, if it is that the tensor could not be allocated
}

// routeResult is the way that was gone. Its mechanism is "none" where every way was refused.
type routeResult struct {
	Mechanism   string            `json:"mechanism"`
	BytesCopied int64             `json:"bytes_copied"`
	Steps       []exchange.Step   `json:"steps"`
	Refused     []handoff.Refusal `json:"refused,omitempty"`
	explanation string
}

// planFlags are the flags of `dlx plan`.
type planFlags struct {
	from, to devices
	bytes    size
	memory   memoryKind
	policy   handoff.Policy
}

func newPlanCommand(a *app) *cobra.Command {
	f := planFlags{bytes: 1 << 20, memory: anyMemory, policy: handoff.IfNeeded}
	memories := choice[memoryKind]{&f.memory, []memoryKind{anyMemory, plainMemory, hostVisible, exportable}}
	policies := choice[handoff.Policy]{&f.policy, []handoff.Policy{handoff.Never, handoff.IfNeeded, handoff.Always}}
	cmd := &cobra.Command{
		Use:   "plan [--from DEVICE] [--to DEVICE]",
		Short: "Show which way tensors go between devices, and why no better one",
		Long: `Show by which mechanism a row-major tensor goes from every device to every other one,
or, with --from and --to, step by step with every better way and why it is refused.
Every way is tried with a tensor of --bytes whose elements are not set, so that what a
driver refuses counts, too.

  alias   the same memory
  map     the same memory, made usable by the other device: host memory that is mapped,
          device memory that the host sees, or memory that one API exports to another
  peer    one copy from device to device
  direct  one copy by one of the two devices, which reaches the other's memory
  staged  two copies, by way of the host

Which way it is depends on how the memory of the source was allocated. It is plain
unless --memory says otherwise; what other memory would change stands in brackets.

Where devices are named by both --from and --to and there is no way from one to the
other, or where a tensor of the --bytes that were asked for cannot be allocated, the
plan says why and the command fails with exit code 1.

` + sizeHelp,
		Example: `  dlx plan
  dlx plan --from vulkan:0 --to opencl:0
  dlx plan --from cuda:0 --to cpu --bytes 2GiB
  dlx plan --from cpu --copy always --json`,
		Args: cobra.NoArgs,
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) {
			r, err := a.plan(cmd.Context(), f)
			if err != nil {
				return nil, err
			}
			return r, r.missingWays(len(f.from) > 0 && len(f.to) > 0, cmd.Flags().Changed("bytes"))
		}),
	}
	flags := cmd.Flags()
	flags.Var(&f.from, "from", "where the tensor is; all devices if left out")
	flags.Var(&f.to, "to", "where it is needed; all devices if left out")
	flags.Var(&f.bytes, "bytes", "try a tensor of this size")
	flags.Var(memories, "memory", "how the memory of the source is allocated")
	flags.Var(policies, "copy", "when it may be copied")
	completeFlag(cmd, "from", a.completeDevices)
	completeFlag(cmd, "to", a.completeDevices)
	completeFlag(cmd, "memory", memories.complete)
	completeFlag(cmd, "copy", policies.complete)
	return cmd
}

func (r planResult) writeText(w io.Writer) {
	if r.single {
		r.writeWays(w)
	} else {
		r.writeMatrix(w)
	}
	if len(r.Missing) > 0 {
		row(w)
	}
	for _, m := range r.Missing {
		row(w, m.Name, "not there: "+printable(m.Reason))
	}
}

// writeMatrix writes a table with a row for every source.
func (r planResult) writeMatrix(w io.Writer) {
	header := []string{"FROM \\ TO"}
	var lines [][]string
	for i, p := range r.Pairs {
		if i == 0 || p.From != r.Pairs[i-1].From {
			lines = append(lines, []string{p.From.String()})
		}
		if len(lines) == 1 {
			header = append(header, p.To.String())
		}
		last := &lines[len(lines)-1]
		*last = append(*last, p.summary())
	}
	for _, line := range slices.Insert(lines, 0, header) {
		row(w, line...)
	}
	r.writeReasons(w)
}

// writeReasons says below the matrix why a way could not even be tried, once for
// each reason.
func (r planResult) writeReasons(w io.Writer) {
	var reasons []string
	pairs := make(map[string][]string)
	for _, p := range r.Pairs {
		reason := p.Ways[0].Reason
		if reason == "" {
			continue
		}
		if pairs[reason] == nil {
			reasons = append(reasons, reason)
		}
		pairs[reason] = append(pairs[reason], fmt.Sprintf("%v -> %v", p.From, p.To))
	}
	if len(reasons) > 0 {
		row(w)
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "- %s: %s\n", strings.Join(pairs[reason], ", "), printable(reason))
	}
}

// summary is "staged (export: map)", or "map" if other memory changes nothing.
func (p pairResult) summary() string {
	s := p.Ways[0].mechanism()
	for _, other := range p.Ways[1:] {
		if m := other.mechanism(); m != s {
			return fmt.Sprintf("%s (%s: %s)", s, other.Memory, m)
		}
	}
	return s
}

// missingWays is an error that names pairs with no way at all, nil if there are none:
// all of them if the pairs were named on the command line; if only the size was, those
// whose tensor could not be allocated.
func (r planResult) missingWays(named, sized bool) error {
	var pairs []string
	var first error // why the first tensor could not be allocated
	for _, p := range r.Pairs {
		if slices.ContainsFunc(p.Ways, wayResult.leads) {
			continue
		}
		noRoom := p.Ways[0].noRoom
		if named || sized && noRoom != nil {
			pairs = append(pairs, fmt.Sprintf("%v -> %v", p.From, p.To))
			first = cmp.Or(first, noRoom)
		}
	}
	way := fmt.Sprintf("there is no way for %s %s", exactBytes(r.Bytes), strings.Join(pairs, ", "))
	switch {
	case len(pairs) == 0:
		return nil
	case first != nil:
		return fmt.Errorf("%s: %w", way, first)
	default:
		return fmt.Errorf("%s: the plan says why", way)
	}
}

// leads reports whether a tensor arrives.
func (v wayResult) leads() bool {
	return v.Route != nil && v.Route.Mechanism != exchange.Mechanism(0).String()
}

func (v wayResult) mechanism() string {
	if v.Route == nil {
		return "-"
	}
	return v.Route.Mechanism
}

// writeWays writes the steps of every way, and why each better one is refused.
// Memory that changes nothing is left out.
func (r planResult) writeWays(w io.Writer) {
	ways := r.Pairs[0].Ways
	for i, v := range ways {
		if i > 0 {
			if v.mechanism() == ways[0].mechanism() {
				continue
			}
			row(w)
		}
		handle := ""
		if v.Handle != "" {
			handle = " as " + v.Handle
		}
		fmt.Fprintf(w, "memory: %s%s, %s\n", v.Memory, handle, formatBytes(r.Bytes))
		if v.Route == nil {
			fmt.Fprintf(w, "%v -> %v: %s\n", r.Pairs[0].From, r.Pairs[0].To, printable(v.Reason))
			continue
		}
		fmt.Fprint(w, v.Route.explanation)
	}
}
