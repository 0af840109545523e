package tensorfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
)

// SaveOptions are the options of [Save].
type SaveOptions struct {
	// MaxShard is the largest number of bytes of elements in a .safetensors file. If there are more, they are
	// divided among several files with an index. A tensor is never divided. 0 means one file.
	MaxShard int64
	// Metadata are keys with texts, for each .safetensors file.
	Metadata map[string]string
	// Budget bounds the bytes of the buffers through which elements come from devices; 0 is 64 MiB.
	Budget int64
	// Progress, if not nil, is called with the bytes of elements that devices have delivered so far, and all that
	// they will. It should return soon.
	Progress func(done, total int64)
}

// Save writes tensors to a file in the format that the extension of path names; see [Write]. The tensors may lie on any
// opened device, and have any strides. Elements that the host cannot access come through two buffers of bounded size: the
// device fills one while the other is written.
//
// Like [WriteFile], Save replaces the file only when it is complete and on the disk. With SaveOptions.MaxShard, the tensors
// are divided by their names in order among files named model-00001-of-00003.safetensors, if path is
// model.safetensors, and the index model.safetensors.index.json is written last. The files get their names when all of
// them are on the disk, so that an older index keeps its own files if that fails. If Save fails, it leaves neither an
// index nor new files. If they all fit into one file, Save then removes an older index, which [Load] would take for the
// model, but not the files that the index named. Save returns the paths of the files, the index last.
//
// Save fails as WriteFile does, and with the errors of [core.Device.Copy]. It returns ErrDevice if a tensor lies where neither
// the host nor an opened device can access it, ErrInvalid if an option is out of range, and ErrNotSupported for MaxShard
// with another format.
func Save(ctx context.Context, path string, tensors map[string]*core.Tensor, options SaveOptions) (files []string, err error) {
	format, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	at := fault{format: format, call: "Save"}
	switch {
	case options.Budget != 0 && options.Budget < minBudget:
		return nil, at.tooSmall(options.Budget)
	case options.MaxShard < 0:
		return nil, at.errorf(core.ErrInvalid, "files of %d bytes", options.MaxShard)
	case options.MaxShard > 0 && format != Safetensors:
		return nil, at.errorf(core.ErrNotSupported, "the format has no index of several files; .safetensors has")
	}
	f := newFetcher(ctx, options)
	for _, t := range tensors {
		if !t.DeviceID().Type.HostAccessible() {
			f.total += t.NumBytes()
		}
	}
	defer func() {
		if err = errors.Join(err, f.close()); err == nil {
			countSaved(tensors)
		}
	}()
	parts := divide(tensors, options.MaxShard)
	if len(parts) == 1 {
		err := f.saveFile(path, parts[0], options)
		if err == nil && options.MaxShard > 0 {
			err = removeIndex(path, at)
		}
		return []string{path}, err
	}
	return f.saveShards(path, parts, options)
}

// divide sorts tensors by name and divides them into lists of at most limit bytes, if limit is not 0.
func divide(tensors map[string]*core.Tensor, limit int64) [][]Named {
	parts := [][]Named{nil}
	size := int64(0)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		n := tensors[name].NumBytes()
		last := len(parts) - 1
		if limit > 0 && size+n > limit && len(parts[last]) > 0 {
			parts, size, last = append(parts, nil), 0, last+1
		}
		parts[last] = append(parts[last], Named{name, tensors[name]})
		size += n
	}
	return parts
}

// saveFile writes one file, and makes its name durable.
func (f *fetcher) saveFile(path string, tensors []Named, options SaveOptions) error {
	if err := writeFile(f.ctx, path, tensors, f.writing(options)); err != nil {
		return err
	}
	syncFolder(path)
	return nil
}

func (f *fetcher) writing(options SaveOptions) writing {
	return writing{WriteOptions{Metadata: options.Metadata}, f}
}

// saveShards writes several files and an index.
func (f *fetcher) saveShards(path string, parts [][]Named, options SaveOptions) (files []string, err error) {
	base := strings.TrimSuffix(path, filepath.Ext(path))
	var pending []*atomicfile.Pending // files that have no name yet
	var made []string                 // files that were not there before
	defer func() {
		for _, p := range pending {
			p.Discard()
		}
		if err != nil {
			for _, file := range made {
				_ = os.Remove(file) // the error that led here says more
			}
			files = nil
		}
	}()
	begin := func(file string, fill func(io.Writer) error) error {
		p, err := atomicfile.Begin(f.ctx, file, fill)
		if err != nil {
			return notWritten("Save", Safetensors, file, err)
		}
		pending, files = append(pending, p), append(files, file)
		return nil
	}
	index := shardIndex{WeightMap: make(map[string]string)}
	for i, part := range parts {
		file := fmt.Sprintf("%s-%05d-of-%05d.safetensors", base, i+1, len(parts))
		err := begin(file, func(w io.Writer) error { return writeTo(f.ctx, w, Safetensors, part, f.writing(options)) })
		if err != nil {
			return nil, err
		}
		for _, t := range part {
			index.WeightMap[t.Name] = filepath.Base(file)
			index.Metadata.TotalSize += t.Tensor.NumBytes()
		}
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return nil, err
	}
	err = begin(indexOf(path), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		if i == len(files)-1 {
			syncFolder(file) // the files, before the index that names them
		}
		_, missing := os.Lstat(file)
		p := pending[0]
		pending = pending[1:]
		if err := p.Commit(); err != nil {
			return nil, notWritten("Save", Safetensors, file, err)
		}
		if missing != nil {
			made = append(made, file)
		}
	}
	syncFolder(path)
	return files, nil
}

// shardIndex is the JSON of an index.
type shardIndex struct {
	Metadata struct {
		TotalSize int64 `json:"total_size"`
	} `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

// indexOf returns the path of the index for the files that Save makes for path.
func indexOf(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + indexSuffix }

// removeIndex removes the index of a model of several files in whose place there is one file now.
func removeIndex(path string, at fault) error {
	switch err := os.Remove(indexOf(path)); {
	case err == nil:
		syncFolder(path)
	case !errors.Is(err, fs.ErrNotExist):
		return at.errorf(because(core.ErrInvalid, err), "%s is saved, but the older index beside it, which Load would take for the model, cannot be removed", path)
	}
	return nil
}

// syncFolder puts the name of a file onto the disk, where the system can.
func syncFolder(path string) {
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // some file systems refuse it; the file itself is on the disk
		_ = folder.Close()
	}
}
