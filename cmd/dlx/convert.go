package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/internal/memfault"
	"github.com/dlx-go/dlx/tensorfile"
)

// convertResult is the result of `dlx convert`.
type convertResult struct {
	File    string            `json:"file"`
	Out     string            `json:"out"`    // "" if it was not written
	Format  tensorfile.Format `json:"format"` // of Out
	Tensors []convertedResult `json:"tensors"`
	LeftOut []leftOut         `json:"left_out,omitempty"`
}

// convertedResult is one tensor that was written.
type convertedResult struct {
	Name      string     `json:"name"`
	FromDType core.DType `json:"from_dtype"`
	DType     core.DType `json:"dtype"`
	Shape     []int64    `json:"shape"`
	Order     string     `json:"order"` // row-major or column-major
	Bytes     int64      `json:"bytes"`
}

// convertFlags are the flags of `dlx convert`.
type convertFlags struct {
	tensors    []string
	dtype      dtypeFlag
	voids      dtypesFlag
	contiguous bool
	metadata   textFlag
}

func newConvertCommand(a *app) *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Write the tensors of a file in another file format or element type",
		Long: `Read the tensors of an .npy, .npz or .safetensors file, of an index of several files
(model.safetensors.index.json), or of a folder with one or with .safetensors files, and
write them to another file. The extension of OUT determines its format. If IN is -, read
standard input. OUT appears when it is complete, and replaces an existing file.

Without --dtype, element types do not change. With it, numbers are rounded as NumPy
rounds them. From floating point to integers, they are truncated towards zero. A number
that the integer type cannot hold becomes the nearest one that it can, such as 127 in int8
for 300 and for infinity, and NaN becomes 0. An integer that does not fit into a smaller
integer type wraps around, such as 300 to 44 in int8. If the format of OUT lacks an element
type, the command fails before it writes anything: .npy and .npz have no bfloat16, and
.safetensors has no complex128. An .npy file holds one tensor; choose it with --tensor.

The metadata of a .safetensors file is kept if OUT is one, too. --metadata adds to it, and
replaces the text of a key that is there.

In .npy and .npz files, column-major tensors stay column-major unless --contiguous is
given. In .safetensors files, all tensors are row-major.`,
		Example: `  dlx convert images.npz images.safetensors
  dlx convert model.safetensors half.safetensors --dtype bfloat16
  dlx convert model.safetensors embedding.npy --tensor embedding --dtype float32
  dlx convert columns.npy rows.npy --contiguous
  dlx convert jax.npz model.safetensors --void-as bfloat16 --metadata format=np`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeConvert,
		PreRunE: func(_ *cobra.Command, args []string) error {
			format, err := tensorfile.FormatOf(args[1])
			if err == nil && f.metadata != nil && format != tensorfile.Safetensors {
				err = fmt.Errorf("--metadata is given, and .%s files have no metadata; .safetensors files have", format)
			}
			return err
		},
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			return a.convert(cmd.Context(), args[0], args[1], f)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.tensors, "tensor", nil, "convert only the tensor with this `name`, plain or as dlx inspect prints it; may be repeated")
	flags.Var(&f.dtype, "dtype", "convert the elements to this type: float32, bfloat16 or bf16, int8, ...")
	flags.Var(&f.voids, "void-as", voidHelp)
	flags.Var(&f.metadata, "metadata", "write this text for a key into the metadata of a .safetensors file; may be repeated")
	flags.BoolVar(&f.contiguous, "contiguous", false, "write every tensor in row-major order")
	completeFlag(cmd, "tensor", completeTensors)
	return cmd
}

// completeConvert completes IN and OUT.
func completeConvert(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return fileExtensions, cobra.ShellCompDirectiveFilterFileExt
	}
	return completeFile(cmd, args, begun)
}

// convert writes the tensors of one file to another.
func (a *app) convert(ctx context.Context, in, out string, f convertFlags) (_ result, err error) {
	format, err := tensorfile.FormatOf(out)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Check(out); err != nil {
		return nil, err
	}
	file, err := a.open(ctx, in, tensorfile.OpenOptions{VerifyChecksums: true, VoidAs: f.voids})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	chosen, left, err := a.chooseTensors(in, file.File, f.tensors)
	r := convertResult{File: resultName(in), Format: format, Tensors: []convertedResult{}, LeftOut: left}
	if err != nil {
		if len(left) == 0 {
			return nil, err
		}
		return r, err
	}
	wanted := make([]tensorfile.Info, len(chosen))
	for i, info := range chosen {
		wanted[i] = f.wanted(info)
	}
	if err := tensorfile.CanWrite(format, wanted); err != nil {
		return nil, err
	}
	host, err := a.registry.Open(ctx, core.CPU)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, host.Close()) }()
	var tensors []tensorfile.Named
	defer func() {
		for _, n := range tensors {
			n.Tensor.Close()
		}
	}()
	for i, info := range chosen {
		t, err := convertTensor(ctx, host, file.File, info, wanted[i])
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", info.Name, err)
		}
		tensors = append(tensors, tensorfile.Named{Name: info.Name, Tensor: t})
		r.add(info, wanted[i], t.NumBytes())
	}
	metadata := file.Metadata()
	if metadata == nil && f.metadata != nil {
		metadata = make(map[string]string, len(f.metadata))
	}
	maps.Copy(metadata, f.metadata)
	if err := writeFile(ctx, out, tensors, metadata); err != nil {
		return nil, err
	}
	r.Out = resultName(out)
	return r, nil
}

// wanted returns the description of a tensor after the conversion. Nil strides mean row-major.
func (f *convertFlags) wanted(info tensorfile.Info) tensorfile.Info {
	if f.dtype.given {
		info.DType = f.dtype.DType
	}
	if f.contiguous {
		info.Strides = nil // row-major
	}
	return info
}

// convertTensor returns a tensor of the file in host memory, converted to what wanted describes.
// The caller closes it.
func convertTensor(ctx context.Context, host core.Device, file *tensorfile.File, info, wanted tensorfile.Info) (*core.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	src, err := file.Tensor(info.Name)
	if err != nil {
		return nil, err
	}
	sameOrder := wanted.Strides != nil || src.Layout().IsContiguous()
	if wanted.DType == info.DType && sameOrder {
		return src, nil
	}
	defer src.Close()
	size, err := wanted.DType.Size(src.NumElements(), false)
	if err != nil {
		return nil, err
	}
	m, err := core.Alloc(ctx, host, size, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	dst, err := core.Wrap(m, core.Spec{DType: wanted.DType, Shape: info.Shape, Strides: wanted.Strides})
	if err != nil {
		m.Free()
		return nil, err
	}
	if wanted.DType == info.DType {
		err = host.Copy(ctx, nil, dst, src)
	} else {
		err = guarded(src, func() error { return core.Convert(ctx, dst, src) })
	}
	if err != nil {
		dst.Close()
		return nil, err
	}
	return dst, nil
}

// guarded calls work, which reads a tensor of a file, and returns an error if the file was
// truncated.
func guarded(src *core.Tensor, work func() error) error {
	b, err := src.Buffer()
	if err != nil {
		return err
	}
	m := b.Memory()
	gone := memfault.Guard(
		func(address uintptr) bool { return address-m.Handle < uintptr(m.Size) },
		func() { err = work() },
	)
	if gone != nil {
		return core.Errorf(core.ErrInvalid, "convert", "Convert", "its elements cannot be read: %v", gone)
	}
	return err
}

// add adds a tensor to the result.
func (r *convertResult) add(from, to tensorfile.Info, bytes int64) {
	written := "row-major"
	if order(from) == "column-major" && to.Strides != nil && r.Format != tensorfile.Safetensors {
		written = "column-major"
	}
	shape := append([]int64{}, from.Shape...) // [] for a scalar, not null
	r.Tensors = append(r.Tensors, convertedResult{resultName(from.Name), from.DType, to.DType, shape, written, bytes})
}

func (r convertResult) writeText(w io.Writer) {
	if r.Out == "" { // nothing was written, and the log has the reasons
		return
	}
	var total int64
	row(w, "TENSOR", "SHAPE", "FROM", "TO", "ORDER", "BYTES")
	for _, t := range r.Tensors {
		row(w, shownName(t.Name), fmt.Sprint(t.Shape), t.FromDType.String(), t.DType.String(), t.Order, fmt.Sprint(t.Bytes))
		total += t.Bytes
	}
	fmt.Fprintf(w, "\n%s: %s, tensors: %d, %s\n", shownName(r.Out), r.Format, len(r.Tensors), formatBytes(total))
}

// dtypeFlag is a flag that takes an element type.
type dtypeFlag struct {
	core.DType
	given bool
}

// String returns the name of the type, "" if it is not set.
func (d *dtypeFlag) String() string {
	if !d.given {
		return ""
	}
	return d.DType.String()
}

// otherNames are names of element types in other programs: PyTorch's, safetensors' and the usual short ones, in lower case.
var otherNames = map[string]core.DType{
	"f64": core.TypeFloat64, "fp64": core.TypeFloat64, "double": core.TypeFloat64,
	"f32": core.TypeFloat32, "fp32": core.TypeFloat32, "float": core.TypeFloat32,
	"f16": core.TypeFloat16, "fp16": core.TypeFloat16, "half": core.TypeFloat16,
	"bf16": core.TypeBFloat16,
	"i64":  core.TypeInt64, "i32": core.TypeInt32, "i16": core.TypeInt16, "i8": core.TypeInt8,
	"u64": core.TypeUint64, "u32": core.TypeUint32, "u16": core.TypeUint16, "u8": core.TypeUint8,
	"long": core.TypeInt64, "int": core.TypeInt32, "short": core.TypeInt16, "byte": core.TypeUint8,
	"c64": core.TypeComplex64, "c128": core.TypeComplex128,
	"f8_e4m3": core.TypeFloat8E4M3FN, "f8_e5m2": core.TypeFloat8E5M2,
}

// Set sets the type by its name, or by that of another program.
func (d *dtypeFlag) Set(s string) error {
	t, known := otherNames[strings.ToLower(s)]
	var err error
	if !known {
		t, err = core.ParseDType(s)
	}
	if err == nil {
		*d = dtypeFlag{t, true}
	}
	return err
}

// Type returns the name of the argument in the help text.
func (d *dtypeFlag) Type() string { return "type" }

// dtypesFlag is a flag that takes an element type, and may be repeated.
type dtypesFlag []core.DType

// voidHelp is the help text of the flag for the types of raw void.
const voidHelp = "read elements that an .npy or .npz stores as raw void, as NumPy does with bfloat16 and float8, as this `type` of their size; may be repeated"

// String returns the names of the types.
func (d *dtypesFlag) String() string {
	names := make([]string, len(*d))
	for i, t := range *d {
		names[i] = t.String()
	}
	return strings.Join(names, ",")
}

// Set adds a type by its name, or by that of another program.
func (d *dtypesFlag) Set(s string) error {
	var t dtypeFlag
	if err := t.Set(s); err != nil {
		return err
	}
	if !t.Valid() || t.Bits%8 != 0 {
		return fmt.Errorf("%v is not a whole number of bytes, as each element of raw void is", t.DType)
	}
	*d = append(*d, t.DType)
	return nil
}

// Type returns the name of the argument in the help text.
func (d *dtypesFlag) Type() string { return "type" }

// textFlag is a flag that takes a text for a key, as KEY=VALUE, and may be repeated.
type textFlag map[string]string

// String returns the keys with their texts.
func (f *textFlag) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(*f)) {
		pairs = append(pairs, key+"="+(*f)[key])
	}
	return strings.Join(pairs, " ")
}

// Set adds a key.
func (f *textFlag) Set(pair string) error {
	key, text, ok := strings.Cut(pair, "=")
	switch _, twice := (*f)[key]; {
	case !ok || key == "":
		return errors.New("must be KEY=VALUE, such as format=pt")
	case !utf8.ValidString(pair):
		return errors.New("must be UTF-8")
	case twice:
		return fmt.Errorf("the key %q was given before", key)
	}
	if *f == nil {
		*f = make(textFlag)
	}
	(*f)[key] = text
	return nil
}

// Type returns the name of the argument in the help text.
func (f *textFlag) Type() string { return "key=value" }
