package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// loadResult is the result of `dlx load`.
type loadResult struct {
	File     string                `json:"file"`
	Cold     string                `json:"cold,omitempty"` // how the page cache was emptied before each run
	Verified *bool                 `json:"verified"`       // null without --verify, or if not all were compared
	Runs     []loadRun             `json:"runs"`
	Median   time.Duration         `json:"median_ns"`
	Rate     float64               `json:"bytes_per_second"` // of the median run
	Report   tensorfile.LoadReport `json:"report"`           // of the last run
	// Checksums are in the order of the files; only with --checksum.
	Checksums []loadSum `json:"checksums,omitempty"`
}

// loadSum is the checksum of a tensor.
type loadSum struct {
	Tensor   string `json:"tensor"`
	Checksum string `json:"checksum"`
}

// loadRun is one load of all tensors.
type loadRun struct {
	Time   time.Duration `json:"time_ns"`
	Rate   float64       `json:"bytes_per_second"`
	Cached float64       `json:"cached"`
}

// loadFlags are the flags of `dlx load`.
type loadFlags struct {
	to       devices
	only     []string
	slices   sliceFlags
	read     tensorfile.ReadMode
	threads  int
	budget   size
	checksum tensorfile.Checksum
	dtype    dtypeFlag
	voids    dtypesFlag
	writable bool
	verify   bool
	repeat   int
	cold     bool
	peer     peerFlags
}

func newLoadCommand(a *app) *cobra.Command {
	f := loadFlags{read: tensorfile.ReadAuto, budget: 64 << 20}
	modes := choice[tensorfile.ReadMode]{&f.read, []tensorfile.ReadMode{tensorfile.ReadAuto, tensorfile.ReadMap, tensorfile.ReadDirect, tensorfile.ReadCUFile}}
	sums := choice[tensorfile.Checksum]{&f.checksum, []tensorfile.Checksum{tensorfile.CRC32C, tensorfile.SHA256}}
	cmd := &cobra.Command{
		Use:   "load FILE|ucx://ADDRESS --to DEVICE",
		Short: "Load the tensors of files or of another machine onto a device and measure it",
		Long: `Load the tensors of files into the memory of a device, and report how they were read, how
fast, and what was not possible. FILE is a .safetensors, .npy or .npz file, an index of
several files (model.safetensors.index.json), or a folder with one of them.

  --read map     read through the page cache. On the host, tensors are the mapped file itself
  --read direct  read past the page cache (O_DIRECT), by several threads, into buffers from
                 which the device copies, or into the memory of the device if the host can
                 access it
  --read cufile  the card reads the file by NVIDIA's cuFile (GPUDirect Storage), past the memory
                 of the host; what is converted or checksummed is read as by direct
  --read auto    map if at least 80 % of the wanted bytes are in the page cache, else cufile if
                 the kernel has the module nvidia-fs, else direct

Globs (--only, and before "=" in --slice): "*" matches any characters, "?" one, "[a-z]" one of
a range.

--slice 1:2/8 loads part 2 of 8, counted from 0, along axis 1 of every tensor, and
--slice "*.q_proj.weight=0:2/8" only of tensors with such names. Only the bytes of the part
are read, except that ranges less than 64 KiB apart are read as one. Part i of n has the rows
from i*rows/n up to, but not including, (i+1)*rows/n, rounded down. The flag may be repeated;
the first one that matches a tensor is used for it.

The time of a run is that from opening the files until all elements can be read on the device.
After --cold, all bytes come from the storage, as far as the system drops them from its page
cache: the column CACHED shows it.

ucx://HOST:PORT takes the tensors that dlx serve offers there, --threads of them at a time. Of a
slice along the first axis, only the part is sent. --verify compares with the checksums that the
other side computes, which come encrypted. ` + peerHelp + `

` + sizeHelp,
		Example: `  dlx load testdata/digits.safetensors --to cpu --verify
  dlx load model.safetensors --to vulkan:0 --only "model.layers.0.*" --checksum
  dlx load model.safetensors.index.json --to cuda:0 --slice "*.weight=0:0/2" --dtype bfloat16
  dlx load model.safetensors --to cpu --read direct --cold --repeat 5 --json
  dlx load ucx://10.0.0.7:7470 --to vulkan:0 --only "*.weight" --token-file token --verify`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		PreRunE:           func(cmd *cobra.Command, args []string) error { return f.check(cmd.Flags(), args[0]) },
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			r, err := a.load(cmd.Context(), args[0], f)
			if len(r.Runs) == 0 {
				return nil, err
			}
			return r, err
		}),
	}
	flags := cmd.Flags()
	flags.Var(&f.to, "to", "the device to load onto: cpu, cuda:1, ...")
	flags.StringArrayVar(&f.only, "only", nil, "load only tensors whose name matches this `glob`; may be repeated")
	flags.Var(&f.slices, "slice", "load only a part along an axis, as [GLOB=]AXIS:I/N; may be repeated")
	flags.Var(modes, "read", "how to read the files")
	flags.IntVar(&f.threads, "threads", 0, "the `number` of threads that read; 0 chooses it")
	flags.Var(&f.budget, "budget", "the size of all buffers together, at least 128KiB")
	flags.Var(sums, "checksum", "compute a checksum of each tensor, of its bytes in the file; without a value crc32c")
	flags.Lookup("checksum").NoOptDefVal = string(tensorfile.CRC32C)
	flags.Var(&f.dtype, "dtype", "convert all tensors to this element type, such as float16, as dlx convert does")
	flags.Var(&f.voids, "void-as", voidHelp)
	flags.BoolVar(&f.writable, "writable", false, "on the host, make tensors writable, by a copy if need be")
	flags.BoolVar(&f.verify, "verify", false, "compare the elements with those of the file, exit code 3 if they differ")
	flags.IntVar(&f.repeat, "repeat", 1, "load everything `N` times, and report the shortest, median and longest time")
	flags.BoolVar(&f.cold, "cold", false, "before each run, drop the files from the page cache")
	f.peer.add(cmd)
	cobra.CheckErr(cmd.MarkFlagRequired("to"))
	completeFlag(cmd, "to", a.completeDevices)
	completeFlag(cmd, "read", modes.complete)
	completeFlag(cmd, "checksum", sums.complete)
	completeFlag(cmd, "only", completeTensors)
	return cmd
}

// check returns an error if the flags are wrong, or have no effect for the argument.
func (f *loadFlags) check(flags *pflag.FlagSet, arg string) error {
	if isPeer(arg) {
		if _, err := peerAddress(arg); err != nil {
			return err
		}
		if err := noEffect(flags, "for tensors of another machine", "read", "budget", "void-as", "writable", "cold"); err != nil {
			return err
		}
		if err := f.peer.check(); err != nil {
			return err
		}
	} else if err := noEffect(flags, "for files: it is for ucx://HOST:PORT", f.peer.names()...); err != nil {
		return err
	}
	switch err := f.to.one("to"); {
	case err != nil:
		return err
	case f.repeat < 1 || f.repeat > maxRepeat:
		return fmt.Errorf("invalid argument %d for --repeat: must be at least 1 and at most %d", f.repeat, maxRepeat)
	case f.threads < 0 || f.threads > 256:
		return fmt.Errorf("invalid argument %d for --threads: must be at least 0 and at most 256", f.threads)
	case f.budget < 128<<10:
		return fmt.Errorf("invalid argument %v for --budget: must be at least 128KiB", f.budget.String())
	}
	return nil
}

// options returns the options of a load.
func (f *loadFlags) options(progress func(done, total int64)) tensorfile.LoadOptions {
	return tensorfile.LoadOptions{
		Only: f.only, Slices: f.slices, DType: f.dtype.DType, VoidAs: f.voids, Writable: f.writable, Read: f.read,
		Threads: f.threads, Budget: int64(f.budget), Checksum: f.checksum, Progress: progress,
	}
}

// sliceFlags is a flag whose argument is a part of tensors, such as "*.weight=0:1/4".
type sliceFlags []tensorfile.Slice

// String returns the parts.
func (f *sliceFlags) String() string {
	var parts []string
	for _, s := range *f {
		text := fmt.Sprintf("%d:%d/%d", s.Axis, s.Index, s.Count)
		if s.Name != "" {
			text = s.Name + "=" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// Set adds a part.
func (f *sliceFlags) Set(text string) error {
	s, part := tensorfile.Slice{}, text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		s.Name, part = text[:i], text[i+1:]
	}
	axis, rest, ok := strings.Cut(part, ":")
	index, count, also := strings.Cut(rest, "/")
	var errs [3]error
	s.Axis, errs[0] = strconv.Atoi(axis)
	s.Index, errs[1] = strconv.ParseInt(index, 10, 31)
	s.Count, errs[2] = strconv.ParseInt(count, 10, 31)
	if !ok || !also || errors.Join(errs[:]...) != nil || s.Axis < 0 || s.Axis >= core.MaxRank || s.Index < 0 || s.Index >= s.Count {
		return errors.New("must be [GLOB=]AXIS:I/N, such as 0:1/4 for the second of four parts along the first axis")
	}
	*f = append(*f, s)
	return nil
}

// Type returns the name of the argument in the help text.
func (f *sliceFlags) Type() string { return "part" }

func (r loadResult) writeText(w io.Writer) {
	if len(r.Checksums) > 0 {
		row(w, "TENSOR", "CHECKSUM")
		for _, s := range r.Checksums {
			row(w, shownName(s.Tensor), s.Checksum)
		}
		row(w)
	}
	row(w, "FILE", "BYTES", "TENSORS", "CACHED", "READ", "REASON")
	for _, f := range r.Report.Files {
		row(w, shownName(f.Path), formatBytes(f.Wanted), strconv.Itoa(f.Tensors), formatPart(f.Cached), string(f.Read), printable(f.Reason))
	}
	if len(r.Runs) > 1 {
		row(w, "\nRUN", "TIME", "GB/S", "CACHED")
		for i, run := range r.Runs {
			row(w, strconv.Itoa(i+1), formatDuration(run.Time), formatRate(run.Rate/1e9), formatPart(run.Cached))
		}
	}
	for _, x := range r.Report.Refused {
		fmt.Fprintf(w, "\nnot done: %s: %s", printable(x.What), printable(x.Reason))
	}
	if len(r.Report.Refused) > 0 {
		row(w)
	}
	p := r.Report
	fmt.Fprintf(w, "\n%v: tensors: %d, allocations: %d, loaded: %s, read: %s", p.Device, p.Tensors, p.Allocated, formatBytes(p.Loaded), formatBytes(p.Read))
	if p.ByDevice > 0 {
		fmt.Fprintf(w, ", by the device itself: %s", formatBytes(p.ByDevice))
	}
	if p.Swapped > 0 {
		fmt.Fprintf(w, ", from the other byte order: %d", p.Swapped)
	}
	if p.Buffers != "" {
		fmt.Fprintf(w, ", buffers: %s %s", formatBytes(p.Staged), p.Buffers)
	}
	fmt.Fprintf(w, "\nthreads: %d, time: %s, %s GB/s, verified: %s\n", p.Threads, formatDuration(r.Median), formatRate(r.Rate/1e9), verdict(r.Verified))
}

// formatPart formats a part of a whole as a percentage, "-" if it is negative, which means not known.
func formatPart(x float64) string {
	if x < 0 {
		return "-"
	}
	return strconv.FormatFloat(100*x, 'f', 0, 64) + " %"
}
