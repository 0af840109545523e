package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

// places is a flag whose argument is a list of devices, or ucx://HOST:PORT/DEVICE for a device of another machine.
type places struct {
	*devices
	peer   *string // ucx://HOST:PORT; "" if there is none
	device *core.DeviceID
}

// Set adds devices to the list, or sets the peer.
func (p places) Set(s string) error {
	if !isPeer(s) {
		return p.devices.Set(s)
	}
	address, device, _ := strings.Cut(strings.TrimPrefix(s, peerScheme), "/")
	if _, err := peerAddress(address); err != nil || device == "" {
		return errors.New("must be ucx://HOST:PORT/DEVICE, such as ucx://10.0.0.7:7470/vulkan:0")
	}
	id, err := core.ParseDevice(device)
	if err != nil {
		return err
	}
	*p.peer, *p.device = peerScheme+address, id
	return nil
}

// origins is a flag whose argument is a list of devices, or a file of tensors.
type origins struct {
	*devices
	file *string // "" if there is none
}

// Set adds devices to the list, or sets the file. What names a device is one; "./cpu" is a file.
func (o origins) Set(s string) error {
	err := o.devices.Set(s)
	if err == nil {
		return nil
	}
	if _, missing := os.Stat(s); missing != nil {
		if strings.ContainsAny(s, "/.") {
			return missing
		}
		return fmt.Errorf("%w, and there is no such file", err)
	}
	if *o.file != "" {
		return fmt.Errorf("%s is another file: one is possible", s)
	}
	*o.file = s
	return nil
}

// peerPlan is the result of `dlx plan` to another machine.
type peerPlan struct {
	File       string        `json:"file,omitempty"`
	Tensors    int           `json:"tensors,omitempty"` // of the file
	From       core.DeviceID `json:"from"`
	Peer       string        `json:"peer"`
	To         core.DeviceID `json:"to"` // of the other machine
	Bytes      int64         `json:"bytes"`
	Transports []string      `json:"transports,omitempty"` // that UCX has chosen
	Reason     string        `json:"reason,omitempty"`     // why they are not known
	Steps      []peerStep    `json:"steps"`
}

// peerStep is a step of a move to another machine.
type peerStep struct {
	Where     string `json:"where"`               // "file", "here", "network" or "there"
	Mechanism string `json:"mechanism,omitempty"` // "direct" or "staged"; of a file "map" or "staged"; not of the network
	What      string `json:"what"`
	Reason    string `json:"reason,omitempty"` // why it is staged
	Copied    int64  `json:"bytes_copied"`
}

func (r peerPlan) writeText(w io.Writer) {
	if r.File != "" {
		fmt.Fprintf(w, "%s -> %s/%v, %d tensors, %s\n", printable(r.File), r.Peer, r.To, r.Tensors, formatBytes(r.Bytes))
	} else {
		fmt.Fprintf(w, "%v -> %s/%v, %s\n", r.From, r.Peer, r.To, formatBytes(r.Bytes))
	}
	for _, s := range r.Steps {
		fmt.Fprintf(w, "  %s: %s\n", s.Where, printable(s.What))
		better := "direct"
		if s.Where == "file" {
			better = "mapped"
		}
		if s.Reason != "" {
			fmt.Fprintf(w, "    not %s: %s\n", better, printable(s.Reason))
		}
	}
}

// checkPeer returns an error if the flags are wrong for a plan to another machine, or for one without.
func (f *planFlags) checkPeer(flags *pflag.FlagSet) error {
	if f.peerTo == "" && f.file != "" {
		return fmt.Errorf("invalid argument %q for --from: a file is for --to ucx://HOST:PORT/DEVICE; dlx load %s --to DEVICE reports how it gets onto a device of this machine", f.file, f.file)
	}
	if f.peerTo == "" {
		return noEffect(flags, "without --to ucx://HOST:PORT/DEVICE", f.peer.names()...)
	}
	if len(f.to) > 0 || len(f.from) > 1 {
		return errors.New("--to ucx://HOST:PORT/DEVICE is for one device of --from, and excludes other devices of --to")
	}
	if err := noEffect(flags, "with --to ucx://HOST:PORT/DEVICE", "memory", "copy", "html"); err != nil {
		return err
	}
	if f.file != "" {
		if len(f.from) > 0 {
			return errors.New("--from has a file and a device: choose one")
		}
		if err := noEffect(flags, "with a file for --from, whose tensors have their own size", "bytes"); err != nil {
			return err
		}
	}
	if len(f.from) == 0 {
		f.from = devices{core.CPU}
	}
	return f.peer.check()
}

// planPeer connects to the peer, if it answers, and returns the steps of a move.
func (a *app) planPeer(ctx context.Context, f planFlags) (peerPlan, error) {
	r := peerPlan{From: f.from[0], Peer: f.peerTo, To: f.peerDevice, Bytes: int64(f.bytes)}
	if err := a.checkBuilt(f.from...); err != nil {
		return r, err
	}
	device, err := a.registry.Open(ctx, r.From)
	if err != nil {
		return r, err
	}
	if err := device.Close(); err != nil {
		return r, err
	}
	if f.file != "" {
		step, err := a.planFile(ctx, f.file, &r)
		if err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, step)
	}
	options, err := f.peer.options(a)
	if err != nil {
		return r, err
	}
	address, err := peerAddress(r.Peer)
	if err != nil {
		return r, err
	}
	c, err := dial(ctx, address, options)
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	network := "UCX has not chosen a transport"
	if err != nil {
		r.Reason = "not connected: " + err.Error()
		network += ": " + r.Reason
	} else {
		r.Transports = c.Transports()
		network = "UCX sends pieces of up to 4 MiB by " + strings.Join(r.Transports, " and ")
		_ = c.Close()
	}
	r.Steps = append(r.Steps, side("here", r.From, r.Bytes), peerStep{Where: "network", What: network}, side("there", r.To, r.Bytes))
	return r, nil
}

// planFile counts the tensors of a file in r, and returns the step by which they get into memory of the host. Only the beginning
// of the file is read.
func (a *app) planFile(ctx context.Context, path string, r *peerPlan) (peerStep, error) {
	r.File, r.Bytes = path, 0
	s := peerStep{Where: "file"}
	in, err := a.open(ctx, path, tensorfile.OpenOptions{})
	if err != nil {
		return s, err
	}
	defer in.Close()
	chosen, _, err := a.chooseTensors(path, in.File, nil)
	if err != nil {
		return s, err
	}
	if len(chosen) == 0 {
		return s, core.Errorf(core.ErrInvalid, "dlx", "plan", "%s has no tensor: there is nothing to move", path)
	}
	copied := 0
	for _, info := range chosen {
		r.Tensors++
		r.Bytes += info.Bytes
		if !info.InPlace {
			copied++
			s.Copied += info.Bytes
		}
	}
	s.Mechanism, s.What = exchange.Map.String(), "the file is mapped: the system reads its pages when UCX reads the tensors"
	if copied > 0 {
		s.Mechanism = exchange.Staged.String()
		s.What += fmt.Sprintf("; %d of %d tensors are copied into memory of the host before", copied, r.Tensors)
		s.Reason = "their elements are compressed, or not as the processor needs them"
	}
	return s, nil
}

// side returns the step of one of the two sides. That of the other machine is what its step would be with the UCX of this one.
func side(where string, id core.DeviceID, bytes int64) peerStep {
	m, reason := remote.PathOf(id)
	s := peerStep{Where: where, Mechanism: m.String(), Reason: reason}
	read, wait := "read", "when the last write to the tensor is done, "
	if where == "there" {
		read, wait = "write", ""
	}
	switch {
	case m == exchange.Direct:
		s.What = fmt.Sprintf("%sUCX %ss the memory of the tensor on %v", wait, read, id)
	case where == "there":
		s.What = fmt.Sprintf("UCX writes memory of the host, while %v copies the piece before into the tensor", id)
	default:
		s.What = fmt.Sprintf("%v copies a piece into memory of the host, in the order of its work, while UCX reads the piece before", id)
	}
	if m != exchange.Direct {
		s.Copied = bytes
	}
	return s
}
