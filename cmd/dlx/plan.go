package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// planResult is the result of `dlx plan`.
type planResult struct {
	Bytes   int64          `json:"bytes"` // of the tensors
	Copy    move.Policy    `json:"copy"`
	Missing []absentResult `json:"missing,omitempty"` // backends and devices that are not available
	Pairs   []pairResult   `json:"pairs"`
	single  bool           // there is one pair, which is printed step by step
}

// absentResult is a backend or device that is not available.
type absentResult struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// pairResult has the ways from one device to another. The first is for plain memory of the
// source, or for the memory that --memory names. Without --memory, a second one is for memory
// that the destination can share, if there is such memory.
type pairResult struct {
	From core.DeviceID `json:"from"`
	To   core.DeviceID `json:"to"`
	Ways []wayResult   `json:"ways"`
}

// wayResult is the way for a tensor in one kind of memory.
type wayResult struct {
	Memory memoryKind   `json:"memory"`
	Handle string       `json:"handle,omitempty"` // the handle type of exported memory
	Route  *routeResult `json:"route,omitempty"`
	Reason string       `json:"reason,omitempty"` // why nothing could be tried
	noRoom error        // the error, if the tensor could not be allocated
}

// routeResult is the route of a tensor. Its mechanism is "none" if no way is possible.
type routeResult struct {
	Mechanism   string          `json:"mechanism"`
	BytesCopied int64           `json:"bytes_copied"`
	Steps       []exchange.Step `json:"steps"`
	Refused     []move.Refusal  `json:"refused,omitempty"`
	explanation string
}

// planFlags are the flags of `dlx plan`.
type planFlags struct {
	from, to devices
	file     string // in place of from, for a peer
	bytes    size
	memory   memoryKind
	policy   move.Policy
	html     string

	peerTo     string        // ucx://HOST:PORT
	peerDevice core.DeviceID // of it
	peer       peerFlags
}

func newPlanCommand(a *app) *cobra.Command {
	f := planFlags{bytes: 1 << 20, memory: anyMemory, policy: move.IfNeeded}
	memories := choice[memoryKind]{&f.memory, []memoryKind{anyMemory, plainMemory, hostVisible, exportable}}
	policies := choice[move.Policy]{&f.policy, []move.Policy{move.Never, move.IfNeeded, move.Always}}
	cmd := &cobra.Command{
		Use:   "plan [--from DEVICE] [--to DEVICE]",
		Short: "Show how tensors move between devices, and why no better way is possible",
		Long: `Show the mechanism that moves a row-major tensor from each device to each other device.
With one device for --from and one for --to, show the steps of the move, and for every
better mechanism the reason why it is not possible. Every move is tried with a tensor of
--bytes uninitialized bytes, so that errors of drivers count, too.

  alias   use the memory as it is; nothing is opened or copied
  map     open the memory for the other device: map host memory into a device, map
          device memory into the host, or import memory that another API exports
  peer    copy between two devices of one API, without the host
  direct  one copy, which one device makes between its memory and host memory
  staged  two copies, through host memory

The mechanism depends on how the memory of the source is allocated. By default it is
plain memory; in parentheses is the mechanism for memory that the other device can share.
--memory selects one kind of memory.

Between processes, dlx doctor says which memory can be shared, and whether unfinished work
is ordered by a semaphore or on the host.

If --from and --to name devices and there is no way between them, or if a tensor of the
given --bytes cannot be allocated, the plan says why and the command fails
with exit code 1.

--to ucx://HOST:PORT/DEVICE shows the steps of a move to a device of another machine, and which
transport UCX has chosen if dlx serve or another process that uses package remote answers there.
It needs --token-file or other flags of dlx load. --from may then also be a file of tensors, as for
dlx serve. Nothing is moved.

` + sizeHelp,
		Example: `  dlx plan
  dlx plan --from vulkan:0 --to opencl:0
  dlx plan --from cuda:0 --to cpu --bytes 2GiB
  dlx plan --from cpu --copy always --json
  dlx plan --from vulkan:0 --to ucx://10.0.0.7:7470/cuda:0 --token-file token
  dlx plan --from model.safetensors --to ucx://10.0.0.7:7470/vulkan:0 --token-file token`,
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.checkPeer(cmd.Flags()) },
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) {
			if f.peerTo != "" {
				r, err := a.planPeer(cmd.Context(), f)
				if err != nil {
					return nil, err
				}
				return r, nil
			}
			if err := a.checkFile("html", f.html); err != nil {
				return nil, err
			}
			r, err := a.plan(cmd.Context(), f)
			if err != nil {
				return nil, err
			}
			if f.html != "" {
				if err := a.writePlanHTML(cmd.Context(), f.html, r); err != nil {
					return r, err
				}
			}
			return r, r.missingWays(len(f.from) > 0 && len(f.to) > 0, cmd.Flags().Changed("bytes"))
		}),
	}
	flags := cmd.Flags()
	flags.Var(origins{&f.from, &f.file}, "from", "the device that has the tensor; all devices by default. With ucx://, also a file")
	flags.Var(places{&f.to, &f.peerTo, &f.peerDevice}, "to", "the device that needs the tensor; all devices by default")
	flags.Var(&f.bytes, "bytes", "the size of the tensor")
	flags.Var(memories, "memory", "the kind of memory of the tensor")
	flags.Var(policies, "copy", "when the move copies")
	addHTML(cmd, &f.html, "plan")
	f.peer.add(cmd)
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
		row(w, m.Name, "not available: "+printable(m.Reason))
	}
}

// writeMatrix writes a table with a row for each source and a column for each destination.
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

// writeReasons writes below the table the pairs that could not be tried, grouped by the reason.
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

// summary returns the mechanism for the first kind of memory, such as "map". If another kind of
// memory changes it, summary adds that in parentheses, as in "staged (export: map)".
func (p pairResult) summary() string {
	s := p.Ways[0].mechanism()
	for _, other := range p.Ways[1:] {
		if m := other.mechanism(); m != s {
			return fmt.Sprintf("%s (%s: %s)", s, other.Memory, m)
		}
	}
	return s
}

// missingWays returns an error that names pairs without a way, nil if there are none. If the
// command line names the devices, it considers all pairs. If it only has the size, it considers
// pairs whose tensor could not be allocated.
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

// leads reports whether the way is possible.
func (v wayResult) leads() bool {
	return v.Route != nil && v.Route.Mechanism != exchange.Mechanism(0).String()
}

func (v wayResult) mechanism() string {
	if v.Route == nil {
		return "-"
	}
	return v.Route.Mechanism
}

// writeWays writes the steps of every way, with the reason why each better mechanism is not
// possible. It omits a kind of memory that has the same mechanism as the first.
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
