package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// receiveFlags are the flags of `dlx receive`.
type receiveFlags struct {
	to     devices
	count  int
	verify bool
}

func newReceiveCommand(a *app) *cobra.Command {
	var f receiveFlags
	cmd := &cobra.Command{
		Use:   "receive SOCKET --to DEVICE",
		Short: "Receive tensors of another process on a device, without a copy where possible",
		Long: `Listen at a Unix socket, receive the tensors of one process, such as dlx send, and report
how they arrived. The socket is for processes of the same user; it is removed at the end.

The memory of the sender is opened on the device, or opened on the host and mapped by the
device, and nothing is copied. If neither is possible, the elements are copied, and the lines
"not map" say why.

The command ends after --count tensors, or when the other process closes the connection. It
fails if that process ends in another way.

With --verify, it computes a checksum of the elements on the device and compares it with the one
that dlx send passes with each tensor; exit code 3 if they differ.`,
		Example: `  dlx receive /tmp/dlx.sock --to vulkan:0 --verify
  dlx receive /tmp/dlx.sock --to cpu --count 1 --json`,
		Args:    cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.receive(cmd.Context(), args[0], f)
			if len(r.Tensors) == 0 && err != nil {
				return nil, err
			}
			return r, err
		}),
	}
	flags := cmd.Flags()
	flags.Var(&f.to, "to", "the device on which the tensors are used: cpu, cuda:1, ...")
	flags.IntVar(&f.count, "count", 0, "end after `N` tensors; 0 waits until the other process closes the connection")
	flags.BoolVar(&f.verify, "verify", false, "compare the elements with the sender's checksums, exit code 3 if they differ")
	cobra.CheckErr(cmd.MarkFlagRequired("to"))
	completeFlag(cmd, "to", a.completeDevices)
	return cmd
}

// check returns an error if the flags are wrong.
func (f *receiveFlags) check() error {
	switch err := f.to.one("to"); {
	case len(f.to) == 0:
		return errors.New(`required flag(s) "to" not set: --to cpu receives in memory of the host; dlx devices lists the other devices`)
	case err != nil:
		return err
	case f.count < 0:
		return fmt.Errorf("invalid argument %d for --count: must be at least 0", f.count)
	}
	return nil
}

// receive receives tensors. The result has those that arrived also if there is an error.
func (a *app) receive(ctx context.Context, socket string, f receiveFlags) (r shareResult, err error) {
	if err := a.checkBuilt(f.to...); err != nil {
		return r, err
	}
	opened, err := a.openForSharing(ctx, f.to[0])
	if err != nil {
		return r, err
	}
	defer func() { err = firstError(err, opened.close()) }()
	l, err := share.Listen(socket, share.Options{Devices: opened.devices})
	if err != nil {
		return r, err
	}
	defer l.Close()
	a.log.Info().Str("socket", socket).Msg("waiting for a process that sends")
	c, err := l.Accept(ctx)
	if err == nil {
		defer c.Close()
		err = c.Handshake(ctx)
	}
	if err != nil {
		return r, err
	}
	r = shareResult{Socket: resultName(socket), Peer: c.Peer(), Tensors: []sharedTensor{}}
	var first error // of the first tensor that differs
	for f.count == 0 || len(r.Tensors) < f.count {
		t, report, err := a.receiveNext(ctx, c, opened.devices[0], len(r.Tensors))
		if errors.Is(err, io.EOF) && f.count == 0 { // the other process has closed the connection
			break
		}
		if err != nil {
			return r, firstError(first, err)
		}
		sum, name, _ := strings.Cut(report.Label, " ")
		if !strings.HasPrefix(sum, "crc32c:") {
			sum, name = "", report.Label
		}
		x := sharedTensor{Tensor: resultName(name), DType: t.DType(), Shape: t.Shape(), Checksum: sum, Report: report}
		x.Report.Label = "" // what it says stands in other fields
		if f.verify && sum != "" {
			same := checksumOf(ctx, t) == sum
			x.Verified = &same
			if !same && first == nil {
				first = differsError{name}
			}
		}
		t.Close()
		r.add(x)
	}
	return r, first
}

// quietFor is after what time dlx receive says that it waits. A test changes it.
var quietFor = time.Second

// receiveNext receives a tensor. If the first one does not come soon, it says what it waits for.
func (a *app) receiveNext(ctx context.Context, c *share.Conn, to core.Device, received int) (*core.Tensor, share.Report, error) {
	if received == 0 {
		said := make(chan struct{})
		notice := time.AfterFunc(quietFor, func() {
			defer close(said)
			a.log.Info().Int32("pid", c.Peer().PID).Msg("a process has connected, and has sent no tensor yet; the frames of a ring are for programs that subscribe to it")
		})
		defer func() {
			if !notice.Stop() {
				<-said
			}
		}()
	}
	return c.Receive(ctx, to)
}
