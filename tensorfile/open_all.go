package tensorfile

import (
	"maps"

	"github.com/dlx-go/dlx/core"
)

// openAll opens the files that an index or a folder names.
func openAll(path string, options OpenOptions) (_ *File, err error) {
	at := fault{format: "tensorfile", call: "Open"}
	list, err := resolve(path, at)
	if err != nil {
		return nil, err
	}
	if list.index == "" && len(list.files) == 1 {
		return openOne(list.files[0], options)
	}
	at.format = Safetensors
	f := &File{format: Safetensors}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	for _, file := range list.files {
		part, err := openOne(file, options)
		if err != nil {
			return nil, list.because(err)
		}
		f.parts = append(f.parts, part)
		if err := f.take(part, file, list.wanted[file], at); err != nil {
			return nil, named(err, list.index)
		}
	}
	f.index.entries = f.entries
	if name, repeats := f.index.build(); repeats {
		var both []string
		for _, e := range f.entries {
			if e.Name == name {
				both = append(both, e.file)
			}
		}
		return nil, inTwo(name, both[0], both[1], at)
	}
	f.metadata = common(f.parts)
	return f, nil
}

// take adds the tensors of a part: those that are wanted, or all if wanted is nil.
func (f *File) take(part *File, path string, wanted map[string]bool, at fault) error {
	usual := &more{part: part, file: path}
	for _, e := range part.entries {
		if wanted == nil || wanted[e.Name] {
			if e.more == nothingMore {
				e.more = usual
			} else {
				e.more = &more{err: e.err, member: e.member, part: part, file: path}
			}
			f.entries = append(f.entries, e)
		}
	}
	return checkWanted(path, wanted, &part.index, at)
}

// inTwo returns the error for a tensor that two files have.
func inTwo(name, one, other string, at fault) error {
	return at.errorf(core.ErrLayout, "tensor %s is in %s and in %s", quote(name), one, other)
}

// common returns the metadata on which the files agree, nil if there are none.
func common(files []*File) map[string]string {
	all := make(map[string]string)
	differs := make(map[string]bool)
	for _, f := range files {
		for key, text := range f.metadata {
			if before, ok := all[key]; ok && before != text {
				differs[key] = true
			}
			all[key] = text
		}
	}
	maps.DeleteFunc(all, func(key, _ string) bool { return differs[key] })
	if len(all) == 0 {
		return nil
	}
	return all
}
