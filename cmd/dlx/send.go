package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/share"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// sharedTensor is a tensor that was passed between two processes.
type sharedTensor struct {
	Tensor   string       `json:"tensor"` // its name
	DType    core.DType   `json:"dtype"`
	Shape    []int64      `json:"shape"`
	Checksum string       `json:"checksum,omitempty"` // of its elements, by the sender
	Verified *bool        `json:"verified"`           // null if they were not compared
	Report   share.Report `json:"report"`
}

// shareResult is the result of `dlx send` and `dlx receive`.
type shareResult struct {
	Socket      string         `json:"socket"`
	Peer        share.Peer     `json:"peer"`
	File        string         `json:"file,omitempty"` // that was sent
	Tensors     []sharedTensor `json:"tensors"`
	BytesCopied int64          `json:"bytes_copied"` // by this process
}

// add adds a tensor.
func (r *shareResult) add(t sharedTensor) {
	r.Tensors = append(r.Tensors, t)
	r.BytesCopied += t.Report.BytesCopied
}

func (r shareResult) writeText(w io.Writer) {
	row(w, "TENSOR", "FROM", "TO", "MECHANISM", "COPIED", "HANDLE", "TIME", "WAIT", "VERIFIED")
	for _, t := range r.Tensors {
		x := t.Report
		mechanism := x.Mechanism.String()
		if x.Opened {
			mechanism += ", cold"
		}
		row(w, fmt.Sprintf("%s %v%v", shownName(t.Tensor), t.DType, t.Shape), x.From.String(), x.To.String(), mechanism,
			formatBytes(x.BytesCopied), x.Handle.String(), formatDuration(x.Duration), x.Wait.String(), verdict(t.Verified))
	}
	for _, t := range r.Tensors {
		for _, f := range t.Report.Refused() {
			fmt.Fprintf(w, "\nnot %s: %s: %s: %s", refusedText(t.Report, f.Mechanism), shownName(t.Tensor), printable(f.What), printable(f.Reason))
		}
	}
	fmt.Fprintf(w, "\npeer: %v, tensors: %d, copied: %s\n", r.Peer, len(r.Tensors), formatBytes(r.BytesCopied))
}

// refusedText names the better way that was refused. If its mechanism is the one that was used,
// only the order is not the best one.
func refusedText(r share.Report, refused exchange.Mechanism) string {
	if refused == r.Mechanism {
		return stream.SemaphoreWait.String()
	}
	return refused.String()
}

// sendFlags are the flags of `dlx send`.
type sendFlags struct {
	to   string
	only only
	from devices
}

func newSendCommand(a *app) *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send FILE --to SOCKET",
		Short: "Pass the tensors of a file to another process, without a copy where possible",
		Long: `Pass the tensors of a file to the process that listens at a Unix socket, such as dlx
receive, and report how. FILE may also be an index of several files or a folder, as for dlx
inspect. The command ends when the other process has released all tensors.

The tensors are first loaded onto the device of --from, into memory that the device can
share. The other process opens this memory: it is passed as a descriptor, and nothing is
copied on the way. If the other process cannot open it, the elements are copied into memory
of the host, and the lines "not map" say why.

Both commands work on Linux.`,
		Example: `  dlx receive /tmp/dlx.sock --to cpu --verify                      # in one terminal
  dlx send testdata/digits.npz --to /tmp/dlx.sock                  # in another one
  dlx send model.safetensors --to /tmp/dlx.sock --from vulkan:0 --only "*.weight"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		PreRunE:           func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.send(cmd.Context(), args[0], f)
			if len(r.Tensors) == 0 && err != nil {
				return nil, err
			}
			return r, err
		}),
	}
	flags := cmd.Flags()
	flags.Var((*filled)(&f.to), "to", "the `socket` at which the other process listens")
	flags.StringArrayVar(&f.only.globs, "only", nil, "send only tensors whose name matches this `glob`; may be repeated")
	flags.Var(&f.from, "from", "the device from which the tensors are sent (default cpu)")
	cobra.CheckErr(cmd.MarkFlagRequired("to"))
	completeFlag(cmd, "from", a.completeDevices)
	completeFlag(cmd, "only", completeTensors)
	return cmd
}

// check returns an error if the flags are wrong.
func (f *sendFlags) check() error {
	if len(f.from) == 0 {
		f.from = devices{core.CPU}
	}
	return firstError(f.from.one("from"), f.only.check())
}

// send sends the tensors of a file. The result has those that were sent also if there is an error.
func (a *app) send(ctx context.Context, file string, f sendFlags) (r shareResult, err error) {
	if err := a.checkBuilt(f.from...); err != nil {
		return r, err
	}
	in, err := a.open(ctx, file, tensorfile.OpenOptions{})
	if err != nil {
		return r, err
	}
	defer in.Close()
	chosen, _, err := a.chooseTensors(file, in.File, nil)
	if err != nil {
		return r, err
	}
	chosen = slices.DeleteFunc(chosen, func(info tensorfile.Info) bool { return !f.only.match(info.Name) })
	if err := f.only.unused("send"); err != nil {
		return r, err
	}
	opened, err := a.openForSharing(ctx, f.from[0])
	if err != nil {
		return r, err
	}
	defer func() { err = firstError(err, opened.close()) }()
	c, err := share.Dial(ctx, f.to, share.Options{Devices: opened.devices, ReadOnly: true})
	if err != nil {
		return r, err
	}
	defer c.Close()
	r = shareResult{Socket: resultName(f.to), Peer: c.Peer(), File: resultName(file), Tensors: []sharedTensor{}}
	for _, info := range chosen {
		t, err := opened.send(ctx, c, in.File, info)
		if err != nil {
			return r, err
		}
		r.add(t)
	}
	return r, c.WaitReleased(ctx)
}

// firstError returns the first error that is not nil.
func firstError(err, later error) error {
	if err != nil {
		return err
	}
	return later
}

// sharing is what a process needs to share tensors.
type sharing struct {
	devices []core.Device // one, or one and that of the host
}

// openForSharing opens a device, and that of the host. The caller closes them.
func (a *app) openForSharing(ctx context.Context, id core.DeviceID) (s sharing, err error) {
	for _, id := range slices.Compact([]core.DeviceID{id, core.CPU}) {
		d, err := a.registry.Open(ctx, id)
		if err != nil {
			return sharing{}, firstError(err, s.close())
		}
		s.devices = append(s.devices, d)
	}
	return s, nil
}

// close closes the devices.
func (s sharing) close() (err error) {
	for _, d := range s.devices {
		err = firstError(err, d.Close())
	}
	return err
}

// send sends a tensor of a file from the first device.
func (s sharing) send(ctx context.Context, c *share.Conn, file *tensorfile.File, info tensorfile.Info) (sharedTensor, error) {
	t, err := file.Tensor(info.Name)
	if err != nil {
		return sharedTensor{}, err
	}
	defer t.Close()
	x := sharedTensor{Tensor: resultName(info.Name), DType: t.DType(), Shape: t.Shape(), Checksum: checksumOf(ctx, t)}
	device := s.devices[0]
	options := exchange.Options{Copy: exchange.Always}
	if e, ok := core.As[core.MemoryExporter](device); ok {
		if i := slices.IndexFunc(e.ExportTypes(), core.HandleType.IsFD); i >= 0 {
			options.Alloc.Export = e.ExportTypes()[i]
		}
	}
	loaded, _, err := exchange.To(ctx, t, device, options)
	if err != nil {
		return x, err
	}
	defer loaded.Close()
	if device.ID() == core.CPU { // the host has no semaphores: it would wait in SendLabeled, and the report would give reasons
		if err := loaded.WaitReady(ctx); err != nil {
			return x, err
		}
	}
	x.Report, err = c.SendLabeled(ctx, loaded, labelOf(x.Checksum, info.Name))
	return x, err
}

// labelOf returns the label of a tensor that dlx send sends: its checksum, or "-", a blank, and
// as much of its name as fits.
func labelOf(checksum, name string) string {
	if checksum == "" {
		checksum = "-"
	}
	return checksum + " " + name[:min(len(name), 1000)]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumOf returns a checksum of the type, the shape and the elements of a tensor, "" if they
// cannot be written.
func checksumOf(ctx context.Context, t *core.Tensor) string {
	for _, format := range []tensorfile.Format{tensorfile.Safetensors, tensorfile.NPY} {
		sum := crc32.New(castagnoli)
		if err := tensorfile.Write(ctx, sum, format, []tensorfile.Named{{Name: "x", Tensor: t}}, tensorfile.WriteOptions{}); err == nil {
			return fmt.Sprintf("crc32c:%08x", sum.Sum32())
		}
	}
	return ""
}
