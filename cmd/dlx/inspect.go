package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// inspectResult is the result of `dlx inspect`.
type inspectResult struct {
	File     string            `json:"file"`
	Format   tensorfile.Format `json:"format"`
	Bytes    int64             `json:"bytes"` // of the file
	Metadata map[string]string `json:"metadata,omitempty"`
	Tensors  []tensorResult    `json:"tensors"`
}

// tensorResult is what a file says of one tensor.
type tensorResult struct {
	tensorfile.Info
	Order string `json:"order"` // row-major, column-major or strided; empty where the layout is not known
}

func newInspectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "List the tensors of a .npy, .npz or .safetensors file",
		Long: `List the tensors of a .npy, .npz or .safetensors file: their types, how they lie in
memory (strides count elements), and where in the file. Only the headers are read.

STORAGE tells what it takes to use a tensor: "in place" is the file's own memory,
"unaligned" is copied first, "compressed" is inflated first.

A name that a terminal would not show as it is stands there as a quoted Go string,
which dlx handoff --tensor takes, too.`,
		Example:           "  dlx inspect testdata/digits.safetensors",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		RunE: a.runE(func(_ *cobra.Command, args []string) (result, error) {
			r, err := inspect(args[0])
			if err != nil {
				return nil, err
			}
			return r, nil
		}),
	}
}

func inspect(path string) (inspectResult, error) {
	f, err := openFile(path)
	if err != nil {
		return inspectResult{}, err
	}
	defer f.Close()
	stat, err := os.Stat(path)
	if err != nil {
		return inspectResult{}, err
	}
	r := inspectResult{File: resultName(path), Format: f.Format(), Bytes: stat.Size(), Metadata: f.Metadata(), Tensors: []tensorResult{}}
	for _, info := range f.Tensors() {
		// A 0-d tensor has an empty shape, which is not null.
		info.Name = resultName(info.Name)
		info.Shape, info.Strides = append([]int64{}, info.Shape...), append([]int64{}, info.Strides...)
		r.Tensors = append(r.Tensors, tensorResult{info, order(info)})
	}
	return r, nil
}

// openFile opens a tensor file. Where the system cannot, its error says all: which file, and why.
func openFile(path string, opts ...tensorfile.OpenOption) (*tensorfile.File, error) {
	f, err := tensorfile.Open(path, opts...)
	var system *fs.PathError
	if errors.As(err, &system) {
		return nil, system
	}
	return f, err
}

// order names the order in which the elements lie.
func order(info tensorfile.Info) string {
	l, err := core.NewStridedLayout(info.Shape, info.Strides)
	if err != nil || info.Reason != "" {
		return ""
	}
	if l.IsContiguous() {
		return "row-major"
	}
	axes := make([]int, l.Rank())
	for i := range axes {
		axes[i] = len(axes) - 1 - i
	}
	if reversed, err := l.Permute(axes...); err == nil && reversed.IsContiguous() {
		return "column-major"
	}
	return "strided"
}

func (r inspectResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %s\n", shownName(r.File), r.Format, formatBytes(r.Bytes))
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		fmt.Fprintf(w, "%s = %s\n", printable(key), printable(r.Metadata[key]))
	}
	fmt.Fprintln(w)
	row(w, "NAME", "DTYPE", "SHAPE", "STRIDES", "ORDER", "BYTES", "OFFSET", "STORAGE")
	for _, t := range r.Tensors {
		if t.Reason != "" {
			row(w, shownName(t.Name), "-", "-", "-", "-", "-", fmt.Sprint(t.Offset), "no tensor: "+printable(t.Reason))
			continue
		}
		row(w, shownName(t.Name), t.DType.String(), fmt.Sprint(t.Shape), fmt.Sprint(t.Strides), t.Order, fmt.Sprint(t.Bytes), fmt.Sprint(t.Offset), t.storage())
	}
}

// storage tells what it takes to use the tensor.
func (t tensorResult) storage() string {
	switch {
	case t.Compressed:
		return "compressed"
	case t.InPlace:
		return "in place"
	default:
		return "unaligned"
	}
}
