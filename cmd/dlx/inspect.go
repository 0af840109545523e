package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// inspectResult is the result of `dlx inspect`.
type inspectResult struct {
	File     string             `json:"file"`
	Format   tensorfile.Format  `json:"format"`
	Bytes    int64              `json:"bytes"` // of the file, or of all files of an index or a folder
	Metadata map[string]string  `json:"metadata,omitempty"`
	Tensors  list[tensorResult] `json:"tensors"`
}

// inspectList is the result of `dlx inspect` for several files.
type inspectList struct {
	Files list[fileResult] `json:"files"`
}

// fileResult is one of several files, with its content or the error.
type fileResult struct {
	File           string       `json:"file"`
	*inspectResult              // nil after an error
	Error          *errorResult `json:"error,omitempty"`
}

// tensorResult describes a tensor of a file.
type tensorResult struct {
	tensorfile.Info
	Order string `json:"order"` // row-major, column-major or strided; empty if the layout is not known
}

func newInspectCommand(a *app) *cobra.Command {
	var voids dtypesFlag
	cmd := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "List the tensors of .npy, .npz and .safetensors files",
		Long: `List the tensors of .npy, .npz and .safetensors files with their types, shapes, strides
(in elements) and positions in the file. Only the headers are read. FILE may also be an
index of several files (model.safetensors.index.json), or a folder with one or with
.safetensors files; then the last column is the file of each tensor. If FILE is -, read all
of standard input. If a file cannot be read, the others are still listed, and the exit
code is 1.

STORAGE is how a tensor can be used: "in place" in the mapped file, or after a copy if it
is "unaligned", "compressed" or "byte-swapped", which means in the other byte order.

A name that a terminal cannot show is printed as a quoted Go string. The flag --tensor of
other commands accepts that form.`,
		Example: `  dlx inspect testdata/digits.safetensors
  dlx inspect testdata/*.np[yz]
  dlx inspect model.safetensors.index.json
  curl -s https://example.com/model.safetensors | dlx inspect -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.Index(args, standardInput) != lastIndex(args, standardInput) {
				return errors.New("- stands for standard input, which can be read once")
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		ValidArgsFunction: completeFiles,
		RunE: a.runE(func(cmd *cobra.Command, args []string) (result, error) {
			if len(args) > 1 {
				return a.inspectAll(cmd.Context(), args, voids)
			}
			r, err := a.inspect(cmd.Context(), args[0], voids)
			if err != nil {
				return nil, err
			}
			return r, nil
		}),
	}
	cmd.Flags().Var(&voids, "void-as", voidHelp)
	return cmd
}

// lastIndex returns the index of the last s in list, -1 if there is none.
func lastIndex(list []string, s string) int {
	for i, x := range slices.Backward(list) {
		if x == s {
			return i
		}
	}
	return -1
}

// inspectAll inspects several files.
func (a *app) inspectAll(ctx context.Context, paths []string, voids []core.DType) (result, error) {
	list := inspectList{Files: list[fileResult]{}}
	var errs []error
	for _, path := range paths {
		r, err := a.inspect(ctx, path, voids)
		if err != nil {
			list.Files = append(list.Files, fileResult{resultName(path), nil, newErrorResult(err, true)})
			errs = append(errs, named(path, err))
			continue
		}
		list.Files = append(list.Files, fileResult{r.File, r, nil})
	}
	return list, errors.Join(errs...)
}

// named adds the name of a file to an error that lacks it.
func named(path string, err error) error {
	if text := err.Error(); strings.Contains(text, path) || strings.Contains(text, strconv.Quote(path)) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (a *app) inspect(ctx context.Context, path string, voids []core.DType) (*inspectResult, error) {
	f, err := a.open(ctx, path, tensorfile.OpenOptions{VoidAs: voids})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &inspectResult{File: resultName(path), Format: f.Format(), Bytes: f.bytes, Metadata: f.Metadata()}
	tensors := f.Tensors()
	r.Tensors = make(list[tensorResult], len(tensors))
	for i, info := range tensors {
		info.Name, info.File = resultName(info.Name), resultName(info.File)
		if len(info.Shape) == 0 { // a 0-d tensor has an empty shape, which is not null
			info.Shape, info.Strides = []int64{}, []int64{}
		}
		r.Tensors[i] = tensorResult{info, order(info)}
	}
	return r, nil
}

func (r inspectResult) writeJSON(j *jsonWriter) {
	j.object(func() {
		j.field("file", r.File)
		r.writeContent(j)
	})
}

// writeContent writes the fields after the name of the file.
func (r inspectResult) writeContent(j *jsonWriter) {
	j.field("format", r.Format)
	j.field("bytes", r.Bytes)
	if len(r.Metadata) > 0 {
		j.field("metadata", r.Metadata)
	}
	j.field("tensors", r.Tensors)
}

func (l inspectList) writeJSON(j *jsonWriter) {
	j.object(func() { j.field("files", l.Files) })
}

func (f fileResult) writeJSON(j *jsonWriter) {
	j.object(func() {
		j.field("file", f.File)
		if f.inspectResult != nil {
			f.writeContent(j)
		}
		if f.Error != nil {
			j.field("error", f.Error)
		}
	})
}

// order returns the word for the order of the elements in memory.
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

func (l inspectList) writeText(w io.Writer) {
	for i, f := range l.Files {
		if i > 0 {
			row(w)
		}
		if f.Error != nil {
			row(w, shownName(f.File)+": not listed: "+printable(f.Error.Message))
			continue
		}
		f.writeText(w)
	}
}

func (r inspectResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %s\n", shownName(r.File), r.Format, formatBytes(r.Bytes))
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		fmt.Fprintf(w, "%s = %s\n", printable(key), printable(r.Metadata[key]))
	}
	fmt.Fprintln(w)
	several := slices.ContainsFunc(r.Tensors, func(t tensorResult) bool { return t.File != "" })
	cells := func(file string, cells ...string) {
		if several {
			cells = append(cells, file)
		}
		row(w, cells...)
	}
	cells("FILE", "NAME", "DTYPE", "SHAPE", "STRIDES", "ORDER", "BYTES", "OFFSET", "STORAGE")
	for _, t := range r.Tensors {
		if t.Reason != "" {
			cells(shownName(t.File), shownName(t.Name), "-", "-", "-", "-", "-", fmt.Sprint(t.Offset), "not a tensor: "+printable(t.Reason))
			continue
		}
		cells(shownName(t.File), shownName(t.Name), t.DType.String(), fmt.Sprint(t.Shape), fmt.Sprint(t.Strides), t.Order, fmt.Sprint(t.Bytes), fmt.Sprint(t.Offset), t.storage())
	}
}

// storage returns how the tensor can be used.
func (t tensorResult) storage() string {
	switch {
	case t.Compressed:
		return "compressed"
	case t.Swapped:
		return "byte-swapped"
	case t.InPlace:
		return "in place"
	default:
		return "unaligned"
	}
}
